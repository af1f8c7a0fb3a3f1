"""What the machine has free: memory and disk."""

import math
import os
import re
import shutil
from pathlib import Path


def free_memory_bytes() -> float:
    """What this machine, or the group of processes this one is in, has left; infinite if the system does not say."""
    found = [math.inf]
    try:
        text = Path("/proc/meminfo").read_text()
        kilobytes = {name: float(n) for name, n in re.findall(r"^(\w+):\s+(\d+) kB", text, re.MULTILINE)}
        found.append(1024 * (kilobytes["MemAvailable"] + kilobytes.get("SwapFree", 0.0)))
    except (OSError, KeyError):
        pass
    try:
        limit = Path("/sys/fs/cgroup/memory.max").read_text().strip()
        if limit != "max":
            found.append(float(limit) - float(Path("/sys/fs/cgroup/memory.current").read_text()))
    except (OSError, ValueError):
        pass
    return min(found)


def free_disk_bytes(folder: Path) -> float:
    """Where the folder is, or will be."""
    place = folder.absolute()
    while not place.exists():
        place = place.parent
    return float(shutil.disk_usage(place).free) if os.access(place, os.R_OK) else math.inf

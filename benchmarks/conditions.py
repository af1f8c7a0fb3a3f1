"""Under which conditions a benchmark ran."""

import os
import platform
import subprocess
import time


def conditions() -> dict[str, str]:
    """Machine, date and commit."""
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True).stdout.strip()
    return {
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "date": time.strftime("%Y-%m-%d"),
        "commit": commit or "unknown",
    }

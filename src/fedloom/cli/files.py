"""Names and files of the command line: names that stay in their folder, files that are whole or not there."""

import hashlib
import os
import re
from pathlib import Path

LONGEST = 100


def folder_name(text: str) -> str:
    """A name for one folder made of any text; texts that had to be changed get a mark of their own, so that none meet.

    >>> folder_name("fedprox:mu=0.1"), folder_name("cells-overlap")
    ('fedprox-mu=0.1', 'cells-overlap')
    >>> folder_name("../../x").startswith("x-"), folder_name("").startswith("unnamed-")
    (True, True)
    """
    plain = text.replace(":", "-")
    safe = re.sub(r"[^\w.,=+\[\]()-]+", "-", plain).lstrip(".-")[:LONGEST].rstrip(".-") or "unnamed"
    return safe if safe == plain else f"{safe}-{hashlib.sha256(text.encode('utf-8', 'replace')).hexdigest()[:8]}"


def write_whole(path: Path, content: bytes) -> None:
    """Write beside, flush to disk, rename: a reader, a kill or a full disk never sees half a file."""
    beside = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        with beside.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise

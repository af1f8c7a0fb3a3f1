"""Memory that a worker has used stays with it.

A step of a large model takes and gives back hundreds of megabytes. glibc maps large pieces one by one and unmaps them when they
are freed, so that the system clears the same pages again in every step: a wide dense network spent an eighth of its time there.
"""

import ctypes

_TRIM_THRESHOLD, _MMAP_MAX = -1, -4  # names of glibc's options, malloc.h


def keep_memory() -> None:
    """Serve all requests of this process from one heap that does not shrink; with another C library nothing happens."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_MMAP_MAX, 0)
        mallopt(_TRIM_THRESHOLD, 2**31 - 1)

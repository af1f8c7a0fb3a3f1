"""Limits of a command: wall time and memory, watched by a thread that ends the command when one is reached.

Memory is what the process and all its children have in use together, what they share counted once (PSS, Linux).
"""

import os
import re
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from fedloom.cli.ends import FAILED, Ended, swallowed

LOOK_S = 0.25
UNITS_S = {"s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
UNITS_B = {"kb": 1e3, "mb": 1e6, "gb": 1e9, "tb": 1e12, "kib": 2**10, "mib": 2**20, "gib": 2**30, "tib": 2**40}


def wall_seconds(text: str) -> float:
    """Seconds of --max-time.

    >>> wall_seconds("90s"), wall_seconds("10m"), wall_seconds("1.5h")
    (90.0, 600.0, 5400.0)
    """
    return _amount("--max-time", text, UNITS_S, "90s, 10m, 2h or 1d")


def memory_bytes(text: str) -> float:
    """Bytes of --max-memory.

    >>> memory_bytes("2GB"), memory_bytes("512 MiB")
    (2000000000.0, 536870912.0)
    """
    return _amount("--max-memory", text, UNITS_B, "500MB, 2GB or 1.5GiB")


def _amount(option: str, text: str, units: dict[str, float], example: str) -> float:
    found = re.fullmatch(r"(\d{1,12}(?:\.\d{1,12})?)\s*([a-z]+)", text.strip().lower())
    if found is None or found[2] not in units or not float(found[1]):
        raise ValueError(f"{option} must be a number above 0 with a unit, such as {example}; got {text[:40]!r}")
    return float(found[1]) * units[found[2]]


class Guard:
    """The limits of a command that is running. `reached`: which one is, if any; `heard`: the command is ending for it."""

    def __init__(self, max_time: str | None, max_memory: str | None) -> None:
        self._time_s = None if max_time is None else wall_seconds(max_time)
        self._bytes = None if max_memory is None else memory_bytes(max_memory)
        self._names = {"time": f"--max-time {max_time}", "memory": f"--max-memory {max_memory}"}
        self._started = time.monotonic()
        self._last_round: float | None = None
        self.reached: str | None = None
        self.heard, self.over = threading.Event(), threading.Event()

    @property
    def idle(self) -> bool:
        """Whether there is nothing to watch."""
        return self._time_s is None and self._bytes is None

    def look(self) -> str | None:
        """The limit that is reached now."""
        if self._time_s is not None and time.monotonic() - self._started >= self._time_s:
            return self._names["time"]
        if self._bytes is not None and used_bytes() > self._bytes:
            return self._names["memory"]
        return None

    def round_over(self, more: bool) -> None:
        """Call between cloud rounds, when everything is saved: ends the command if another round would not fit, by the last."""
        now = time.monotonic()
        round_s = 0.0 if self._last_round is None else now - self._last_round  # what comes before the first is no round
        self._last_round = now
        if not more:
            return
        if self.reached is None and self._time_s is not None and now + round_s - self._started > self._time_s:
            self.reached = self._names["time"]
        if self.reached is not None:
            self.heard.set()  # so that nobody ends it once more while it saves
            raise Ended(FAILED, self.reached)


@contextmanager
def guarded(max_time: str | None = None, max_memory: str | None = None) -> Iterator[Guard]:
    """Watch the limits while the block runs; raises Ended in it when one is reached."""
    guard = Guard(max_time, max_memory)
    main = threading.main_thread()
    if guard.idle or threading.current_thread() is not main:
        yield guard
        return

    def on_alarm(_: int, frame: FrameType | None) -> None:
        if not guard.over.is_set() and not guard.heard.is_set() and not swallowed(frame):
            guard.heard.set()
            raise Ended(FAILED, guard.reached or "a limit")

    def watch() -> None:
        while guard.reached is None and not guard.over.wait(LOOK_S):
            guard.reached = guard.look()
        while not guard.over.is_set() and main.ident is not None:
            signal.pthread_kill(main.ident, signal.SIGALRM)
            if guard.heard.wait(LOOK_S):
                return

    before = signal.signal(signal.SIGALRM, on_alarm)
    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield guard
    finally:
        guard.over.set()
        watcher.join()
        signal.signal(signal.SIGALRM, before)


def used_bytes() -> float:
    """Memory of this process and all below it; 0 where the system does not say."""
    return float(sum(_proportional_bytes(pid) for pid in _family(os.getpid())))


def _family(pid: int) -> list[int]:
    """A process, its children, their children, and so on."""
    parent_of = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parent_of[int(folder.name)] = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
        except (OSError, ValueError, IndexError):  # it has just ended
            continue
    found = [pid]
    for one in found:
        found += [child for child, parent in parent_of.items() if parent == one]
    return found


def _proportional_bytes(pid: int) -> int:
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except OSError:
        return 0
    found = re.search(r"^Pss:\s+(\d+) kB", text, re.MULTILINE)
    return 1024 * int(found[1]) if found else 0

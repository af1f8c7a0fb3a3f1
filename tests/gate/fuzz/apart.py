"""Inputs of a parser in a child process, so that one that kills or hangs it is counted like any other fault."""

import mmap
import os
import resource
import signal
import struct
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from .parsers import Parser
from .trial import input_of, tried

MOST_BYTES = 4 << 30  # of memory beyond what is there at the start
HANG_S = 120.0  # wall seconds for one input, on a machine that has other things to do
LOOK_S = 0.2
NOTE = struct.Struct("qqq")  # input under way, accepted, faults


@dataclass(kw_only=True)
class Count:
    """Of the inputs of one parser."""

    n: int
    accepted: int = 0
    faults: int = 0

    @property
    def refused(self) -> int:
        return self.n - self.accepted - self.faults


def try_all(parser: Parser, numbers: range, tell: Callable[[str], None]) -> Count:
    """Every input of these numbers; faults are told as they come."""
    count = Count(n=len(numbers))
    first = numbers.start
    while first < numbers.stop:
        note = mmap.mmap(-1, NOTE.size)
        note[:] = NOTE.pack(first, 0, 0)
        sys.stdout.flush()
        child = os.fork()
        if child == 0:
            _serve(parser, range(first, numbers.stop), note, tell)
        end = _watched(child, note)
        at, accepted, faults = NOTE.unpack(note[:])
        count.accepted, count.faults = count.accepted + accepted, count.faults + faults
        first = at + 1
        if end is not None:
            count.faults += 1
            tell(f"{parser.name} {at}: {end}")
    return count


def _serve(parser: Parser, numbers: range, note: mmap.mmap, tell: Callable[[str], None]) -> None:
    """The child: never returns."""
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + MOST_BYTES, used + MOST_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    accepted = faults = 0
    for number in numbers:
        note[:] = NOTE.pack(number, accepted, faults)
        data = input_of(parser, number)
        outcome = tried(parser, data)
        if outcome.fault is None:
            accepted += outcome.accepted
        else:
            faults += 1
            tell(f"{parser.name} {number}: {outcome.fault}\n  input: {data[:2000]!r}")
    note[:] = NOTE.pack(numbers.stop, accepted, faults)
    os._exit(0)


def _watched(child: int, note: mmap.mmap) -> str | None:
    """Wait for the child; what it died of, None if it is through."""
    last, since = -1, time.monotonic()
    while True:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            code = os.waitstatus_to_exitcode(status)
            return None if code == 0 else f"ended the interpreter with {_name(code)}"
        at = NOTE.unpack(note[:])[0]
        if at != last:
            last, since = at, time.monotonic()
        elif time.monotonic() - since > HANG_S:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return f"hung for {HANG_S:.0f} s"
        time.sleep(LOOK_S)


def _name(code: int) -> str:
    return signal.Signals(-code).name if code < 0 else f"code {code}"

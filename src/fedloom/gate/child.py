"""A process of its own for parsers in C that a damaged file can crash: the crash is then one line, not the end of the program.

The child is Python with one module, fed through its standard input and answering on its standard output; it has a time and a
memory limit, both also kept by itself, and ends with its parent, however that ends. Answers are JSON and raw numbers, never
pickles.

    request    8 bytes (length, big-endian), then the file
    answer     8 bytes (length), JSON {"error": text} or {"arrays": [{"name", "dtype", "shape"}, ...]}, then the arrays
"""

import contextlib
import json
import math
import os
import signal
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedloom.gate.files import MOST_BYTES
from fedloom.gate.words import Refused, one_line

SECONDS = 120.0  # for one file; the largest published one takes 2
DEFLATE_RATIO = 1032  # no deflated byte holds more
SPARE_BYTES = 256 << 20  # for an interpreter with its libraries at work

PR_SET_PDEATHSIG = 1  # of Linux: the signal that comes when the parent is gone

Arrays = dict[str, NDArray[Any]]


class Child:
    """A running parser; use it with `with`. One that has crashed is started anew for the next file."""

    def __init__(self, module: str, *, seconds: float = SECONDS) -> None:
        self.module, self.seconds = module, seconds
        self._process: subprocess.Popen[bytes] | None = None
        self._room = 0

    def __enter__(self) -> "Child":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def arrays(self, data: bytes, where: str, what: str) -> Arrays:
        """The arrays that the parser finds in a file. Refused: it found fault with it, crashed, or took too long."""
        room = SPARE_BYTES * (2 + 3 * min(MOST_BYTES, DEFLATE_RATIO * len(data)) // SPARE_BYTES)  # in whole steps
        process = self._started(room)
        late = threading.Event()

        def too_late() -> None:
            late.set()
            process.kill()

        timer = threading.Timer(self.seconds, too_late)
        timer.start()
        try:
            return self._asked(process, data, where, what)
        except Refused:
            raise
        except (EOFError, OSError):
            code = process.wait()
            self._end()
            if late.is_set():
                how = f"took more than {self.seconds:g} s"
            elif code < 0:
                how = f"made its reader crash ({signal.Signals(-code).name})"
            else:
                how = f"made its reader end with code {code}"
            raise Refused(
                f"{where}: cannot be read as {what} of {len(data):,} bytes: it {how}; the file is damaged, get it again"
            ) from None
        except (ValueError, KeyError, TypeError):
            self._end()
            raise Refused(
                f"{where}: cannot be read as {what}: its reader's answer made no sense; get it again"
            ) from None
        except BaseException:  # an interrupt in the middle of an answer
            self._end()
            raise
        finally:
            timer.cancel()

    def _asked(self, process: subprocess.Popen[bytes], data: bytes, where: str, what: str) -> Arrays:
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(struct.pack(">Q", len(data)))
        process.stdin.write(data)
        process.stdin.flush()
        answer: Mapping[str, Any] = json.loads(
            _exactly(process.stdout, *struct.unpack(">Q", _exactly(process.stdout, 8)))
        )
        if "error" in answer:
            raise Refused(
                f"{where}: cannot be read as {what} of {len(data):,} bytes ({one_line(answer['error'])}); get it again"
            )
        found: Arrays = {}
        for entry in answer["arrays"]:
            dtype = np.dtype(entry["dtype"])
            n_bytes = math.prod(entry["shape"]) * dtype.itemsize
            found[entry["name"]] = np.frombuffer(_exactly(process.stdout, n_bytes), dtype).reshape(entry["shape"])
        return found

    def _started(self, room: int) -> subprocess.Popen[bytes]:
        if self._process is not None and (self._process.poll() is not None or self._room < room):
            self._end()
        if self._process is None:
            root = str(Path(__file__).resolve().parents[2])
            path = os.pathsep.join([root, *filter(None, [os.environ.get("PYTHONPATH")])])
            self._room = room
            self._process = subprocess.Popen(
                [sys.executable, "-m", self.module, str(room), str(math.ceil(self.seconds) + 1)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=os.environ | {"PYTHONPATH": path, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
            )
        return self._process

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    with contextlib.suppress(OSError):
                        pipe.close()


def serve(parse: Callable[[bytes], Arrays]) -> None:
    """The child's side: answer requests until the parent closes the pipe. The limits come as arguments: bytes, seconds."""
    import ctypes
    import resource

    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL))
    room, seconds = int(sys.argv[1]), int(sys.argv[2])
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + room, used + room))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    requests, answers = sys.stdin.buffer, sys.stdout.buffer
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent is interrupted too, and ends us
    while head := requests.read(8):
        data = _exactly(requests, *struct.unpack(">Q", head))
        signal.alarm(seconds)
        try:
            found = {name: np.ascontiguousarray(array) for name, array in parse(data).items()}
            if any(array.dtype.kind not in "fiub" for array in found.values()):
                raise ValueError("expected arrays of real numbers")
            entries = [{"name": n, "dtype": a.dtype.str, "shape": a.shape} for n, a in found.items()]
            answer = json.dumps({"arrays": entries}).encode()
        except Exception as error:  # a damaged file makes a parser raise almost anything
            found, answer = {}, json.dumps({"error": str(error)[:200] or type(error).__name__}).encode()
        answers.write(struct.pack(">Q", len(answer)) + answer)
        for array in found.values():
            answers.write(array.tobytes())
        answers.flush()
        signal.alarm(0)


def _exactly(stream: Any, n_bytes: int) -> bytes:
    if n_bytes > MOST_BYTES:
        raise EOFError(f"{n_bytes} bytes in an answer")
    data: bytes = stream.read(n_bytes)
    if len(data) < n_bytes:
        raise EOFError
    return data

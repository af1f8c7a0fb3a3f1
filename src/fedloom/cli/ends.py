"""How a command ends: what to say, and with which exit code.

    0    done
    1    failed: training diverged, a full disk, too little memory, a limit that was set is reached
    2    bad input: a scenario, an option, a file or a folder that cannot be used
    130  stopped by Ctrl-C
    143  stopped by SIGTERM

What was stopped goes on later: after 130, 143 and a limit the last checkpoint is whole.
"""

import gc
import os
import signal
import sys
import threading
from collections.abc import Iterator
from types import FrameType

FAILED, BAD_INPUT, INTERRUPTED, TERMINATED = 1, 2, 130, 143
AGAIN_S = 0.05


class Ended(SystemExit):
    """The command is to end now, for a reason from outside; not caught by anybody who handles errors."""

    def __init__(self, code: int, why: str = "") -> None:
        super().__init__(code)
        self.why = why


class Said(SystemExit):
    """The command ends, and why has been said."""


def end_on_sigterm() -> None:
    """From now on SIGTERM ends the command like Ctrl-C, with exit code 143."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, _Terminate())


def end_at_once() -> None:
    """From now on Ctrl-C and SIGTERM end the process without a word: all is said, and only Python's own end is left."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


class _Terminate:
    """Ends the command. Where that would be lost, it insists: the signal is sent again until it is heard. Once is not enough: a
    signal that comes while another thread gives up the interpreter may go unnoticed until the next one."""

    def __init__(self) -> None:
        self._heard, self._insisting = threading.Event(), False

    def __call__(self, _: int, frame: FrameType | None) -> None:
        if not swallowed(frame):
            self._heard.set()
            raise Ended(TERMINATED)
        if not self._insisting:
            self._insisting = True
            threading.Thread(target=self._insist, daemon=True).start()

    def _insist(self) -> None:
        while not self._heard.wait(AGAIN_S):
            os.kill(os.getpid(), signal.SIGTERM)


def swallowed(frame: FrameType | None) -> bool:
    """Whether an exception raised in this frame would be lost: Python ignores those of finalisers and of the collector's
    callbacks."""
    callbacks = {getattr(callback, "__code__", None) for callback in gc.callbacks}
    while frame is not None:
        if frame.f_code.co_name == "__del__" or frame.f_code in callbacks:
            return True
        frame = frame.f_back
    return False


def exit_code(end: BaseException) -> int:
    """Of what stopped a command from outside: KeyboardInterrupt, or Ended."""
    return int(end.code or 0) if isinstance(end, SystemExit) else INTERRUPTED


def by_what(end: BaseException) -> str:
    """Such as " by --max-time 10m"; nothing for Ctrl-C and SIGTERM.

    >>> by_what(Ended(1, "--max-time 10m")), by_what(KeyboardInterrupt())
    (' by --max-time 10m', '')
    """
    why = end.why if isinstance(end, Ended) else ""
    return f" by {why}" if why else ""


def explained(error: BaseException) -> tuple[str, int] | None:
    """One clear message and the exit code of an error; None if it is a fault of the program, whose traceback is wanted."""
    from fedloom.record.files import NO_ROOM

    full = next((e for e in _chain(error) if isinstance(e, OSError) and e.errno in NO_ROOM), None)
    if full is not None:
        return (_full_disk(full) if error is full else str(error)), FAILED
    if isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and "can't allocate memory" in str(error)):
        details = str(error).splitlines()[0] if str(error) else ""
        shown = f" ({details[:200]})" if details and not isinstance(error, RuntimeError) else ""
        text = f"there is too little memory{shown}; use fewer devices, a smaller model or batch, or fewer --workers or --jobs"
        return text, FAILED
    if isinstance(error, RecursionError):
        return "the input is nested too deeply to be read; a scenario needs a handful of levels", BAD_INPUT
    if isinstance(error, OverflowError):
        text = f"a number became too large to compute with ({error}); look for very large or very small settings"
        return text, BAD_INPUT
    if isinstance(error, ValueError) and "null byte" in str(error):
        return "a path or name holds a null character; take it out", BAD_INPUT
    if isinstance(error, ValueError | FileNotFoundError | NotADirectoryError | PermissionError):
        return str(error), FAILED if _diverged(error) else BAD_INPUT
    if isinstance(error, OSError | RuntimeError):
        return str(error), FAILED
    return None


def _full_disk(error: OSError) -> str:
    place = f" where {error.filename} is" if error.filename else ""
    return f"the disk{place} is full ({error.strerror}); make room and go on with the same command"


def _diverged(error: BaseException) -> bool:
    """Whether training ran into NaN; what nobody has imported, nobody has raised."""
    engine = sys.modules.get("fedloom.training.engine")
    return engine is not None and isinstance(error, engine.NotFinite)


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """The error, and those it was raised because of."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__

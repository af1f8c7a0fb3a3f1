"""Those whom TLS refuses before any letter is read: no certificate, one of another authority, no TLS at all, too slow.

gRPC tells of a failed handshake in its own log alone, on standard error of the process. That is led into a file, which is read
here: of every refusal the address and the reason come into the role's log, and what was not gRPC's talk goes where it was to
go. Whose name stood in the certificate gRPC does not tell.
"""

import contextlib
import os
import re
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

from fedloom.deployment.logs import Log

LOOK_S = 0.5
TOLD_AGAIN_S = 60.0
MOST_SEEN = 1000  # addresses with a reason that are known at a time
MOST_BYTES = 1 << 20  # after which the file is emptied
MOST_READ = 1 << 24  # of what came between two looks
_BEGINS = re.compile(r"^(?=[IWEF]\d{4} [\d:.]+ +\d+ [\w.]+:\d+\] )", re.MULTILINE)
_GOES_ON = re.compile(r"=== Source Location|src/core/| shutdown=|\s*$")
_FAILED = re.compile(r"CallNextHandshakerLocked: error=(?!OK )([^\n]*)")
_PEER = re.compile(r"grpc\.internal\.endpoint_peer_address=([^,}\s]+)")
_OURS = "grpc.internal.server_credentials="  # it was made to us, not by us
ANOTHER = "its certificate is not signed by this federation's authority"
REASONS = {
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "it shows no certificate",
    "certificate signature failure": ANOTHER,
    "issuer certificate": ANOTHER,
    "self signed": ANOTHER,
    "self-signed": ANOTHER,
    "certificate has expired": "its certificate has expired",
    "certificate is not yet valid": "its certificate is not valid yet",
    "unsuitable certificate purpose": "its certificate is not made for calling",
    "HTTP_REQUEST": "it speaks no TLS",
    "WRONG_VERSION_NUMBER": "it speaks no TLS",
    "timed out": "it did not say in time who it is",
    "ALERT": "it does not believe our certificate",
    "read failed": "it left before it had said who it is",
}


def refusals(text: str) -> tuple[list[tuple[str, str]], str]:
    """From what gRPC and others wrote to standard error: (address, reason) of every handshake that failed here, and what is to be
    seen there: errors, and what is not gRPC's."""
    found, seen = [], []
    for piece in _BEGINS.split(text):
        if not _BEGINS.match(piece) or piece[0] in "EF":
            seen.append(piece)
        else:
            failed, peer = _FAILED.search(piece), _PEER.search(piece)
            if failed and peer and _OURS in piece:
                found.append((unquote(peer[1]), reason(failed[1])))
            seen += [line for line in piece.splitlines(keepends=True)[1:] if not _GOES_ON.match(line)]
    return found, "".join(seen)


def reason(error: str) -> str:
    """Why a handshake failed, in plain words where they are known.

    >>> reason("UNKNOWN: Ssl handshake failed: PEER_DID_NOT_RETURN_A_CERTIFICATE")
    'TLS: it shows no certificate'
    """
    return f"TLS: {next((words for mark, words in REASONS.items() if mark in error), error[:200])}"


class Refusals:
    """Tells of refusals: of an address with a reason the first at once, those after it together, once in a while, so that nobody
    can fill a disk with them."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._seen: dict[tuple[str, str], tuple[float, str, int]] = {}  # when told, who was last, how often since

    def note(self, who: str, why: str) -> None:
        key = who.rpartition(":")[0], why
        if key in self._seen:
            told_s, _, times = self._seen[key]
            self._seen[key] = told_s, who, times + 1
            return
        if len(self._seen) >= MOST_SEEN:
            self.tell(0.0)
        self._log("refused", who=who, why=why)
        self._seen[key] = time.monotonic(), who, 0

    def tell(self, after_s: float = TOLD_AGAIN_S) -> None:
        """Tell how often it has happened since, if that is so long ago."""
        for (host, why), (told_s, who, times) in list(self._seen.items()):
            if time.monotonic() - told_s >= after_s:
                del self._seen[host, why]
                if times:
                    self._log("refused", times=times, who=who, why=why)


@contextlib.contextmanager
def noticed(path: Path, log: Log) -> Iterator[None]:
    """Log those whom TLS refuses, by way of a file. gRPC must not be loaded yet; if it is, or somebody traces it, nothing is
    done."""
    if "grpc" in sys.modules or os.environ.get("GRPC_TRACE"):
        yield
        return
    os.environ |= {"GRPC_VERBOSITY": "INFO", "GRPC_TRACE": "handshaker"}
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o600)
    shown, before = os.dup(2), sys.stderr
    sys.stderr = os.fdopen(shown, "w", buffering=1, errors="backslashreplace", closefd=False)
    os.dup2(descriptor, 2)
    over, said = threading.Event(), Refusals(log)
    reading = threading.Thread(target=_read, args=(descriptor, shown, said, over), daemon=True, name="strangers")
    reading.start()
    try:
        yield
    finally:
        over.set()
        reading.join()
        os.dup2(shown, 2)
        sys.stderr = before
        os.close(descriptor)
        os.close(shown)


def _read(descriptor: int, shown: int, said: Refusals, over: threading.Event) -> None:
    """Read what is added to a file until it is over. What was added last is left to the next look, as it may not be whole."""
    at, last = 0, 0
    while True:
        ends = over.wait(LOOK_S)
        size = os.fstat(descriptor).st_size
        full = size > MOST_BYTES
        if size > at:
            text = os.pread(descriptor, MOST_READ, at).decode("latin-1")  # a character for every byte
            begins = [match.start() for match in _BEGINS.finditer(text)]
            whole = text if ends or full or size == last or not begins else text[: begins[-1]]
            found, seen = refusals(whole)
            for who, why in found:
                said.note(who, why)
            with contextlib.suppress(OSError):  # nobody looks
                os.write(shown, seen.encode("latin-1"))
            at += len(whole)
        if full:
            os.ftruncate(descriptor, 0)
            at = size = 0
        last = size
        said.tell(0.0 if ends else TOLD_AGAIN_S)
        if ends:
            return

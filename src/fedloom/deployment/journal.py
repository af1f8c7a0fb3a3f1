"""What has happened, in order, with its time: by it a cloud that was killed comes back to where it was, and a simulation can be
fed with the times of a deployed run.

One line each, with a checksum: a line that a kill cut short was not written yet. Lines are flushed to disk before anything that
follows from them leaves the cloud (`flush`), some together.
A damaged line with whole ones behind it is no kill: what follows from it cannot be told any more, and the file is refused.
"""

import contextlib
import errno
import json
import os
import threading
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from fedloom.deployment.store import NotThisRun
from fedloom.deployment.took import Took, numbered
from fedloom.gate import Refused
from fedloom.simulator.clock import Arrival, Back, Delivered, Happening, Left, Lost, Opening, Reporting, Waking


class Spent(NamedTuple):
    """It was so late when a group was told to begin."""


Noted = Happening | Spent

_KINDS: dict[str, type[Noted]] = {
    "opening": Opening,
    "waking": Waking,
    "arrival": Arrival,
    "reporting": Reporting,
    "delivered": Delivered,
    "left": Left,
    "lost": Lost,
    "back": Back,
    "spent": Spent,
}
_WORDS = {kind: word for word, kind in _KINDS.items()}


class Journal:
    """happened: what is told by the file, (seconds, what); confirmed: orders that are carried out, by their ids; took: by
    client and ticket, what it measured; carried: by caller and who was called, bytes (fedloom.deployment.took)."""

    def __init__(self, path: Path, identity: str) -> None:
        self.happened: list[tuple[float, Noted]] = []
        self.confirmed: set[str] = set()
        self.took: dict[tuple[int, int], Took] = {}
        self.carried: dict[tuple[str, str], list[int]] = {}
        self.moved: list[tuple[str, Took]] = []
        self._lock, self._flushing = threading.Lock(), threading.Lock()
        self._unflushed = bytearray()  # lines that may not be on disk yet
        path.parent.mkdir(parents=True, exist_ok=True)
        end = self._read(path, identity) if path.exists() else 0
        self._file = path.open("r+b" if path.exists() else "w+b", buffering=0)
        self._end = end
        self._cut()
        if end == 0:
            self._write({"identity": identity})

    def _read(self, path: Path, identity: str) -> int:
        """Take in all whole lines; where they end."""
        data, end = path.read_bytes(), 0
        while (stop := data.find(b"\n", end)) >= 0:
            line = _checked(data[end:stop])
            if line is None:
                _refuse_damage(data, end, path)
                break
            if "identity" in line and line["identity"] != identity:
                raise NotThisRun(f"{path} is of the run {line['identity']}, and this is {identity}; use another folder")
            if "what" in line:
                self.happened.append((line["s"], happening_of(line["what"])))
            self.confirmed.update(line.get("done", []))
            if "took" in line:
                client, ticket, *numbers = line["took"]
                self.took[client, ticket] = numbered(numbers)
            if "moved" in line:
                self.moved.append((line["moved"][0], numbered(line["moved"][1:])))
            if "carried" in line:
                self._add(*line["carried"])
            end = stop + 1
        return end

    def happens(self, at_s: float, what: Noted) -> None:
        self._write({"s": at_s, "what": plain(what)})

    def confirms(self, order: str) -> None:
        self._write({"done": [order]})
        self.confirmed.add(order)

    def measured(self, client: int, ticket: int, took: Took) -> None:
        """What a client has measured itself in a job."""
        self._write({"took": [client, ticket, *took.numbers()]})
        self.took[client, ticket] = took

    def moves(self, station: str, took: Took) -> None:
        """A station has got a model from the cloud, or sent one there; and what it carried, in the same line, so that both are
        written, once, or none."""
        told = _told(took.carried)
        self._write({"moved": [station, *took.numbers()]} | ({"carried": [station, told]} if told else {}))
        self.moved.append((station, took))
        self._add(station, told)

    def carries(self, node: str, carried: Mapping[str, Sequence[int]]) -> None:
        """What a node has sent to others and got from them since it told the last time."""
        if told := _told(carried):
            self._write({"carried": [node, told]})
            self._add(node, told)

    def _add(self, node: str, carried: Mapping[str, Sequence[int]]) -> None:
        for to, counts in carried.items():
            before = self.carried.get((node, to), [0, 0, 0, 0])
            self.carried[node, to] = [a + b for a, b in zip(before, counts)]

    def _write(self, line: dict[str, Any]) -> None:
        text = json.dumps(line, separators=(",", ":"), allow_nan=False).encode()
        whole = b"%08x %s\n" % (zlib.crc32(text), text)
        with self._lock:
            try:
                if self._file.write(whole) < len(whole):
                    raise OSError(errno.ENOSPC, "no room for a line of the journal")
            except OSError:
                self._cut()
                raise
            self._end += len(whole)
            self._unflushed += whole

    @property
    def unflushed(self) -> bool:
        """There are lines that may not be on disk yet."""
        return bool(self._unflushed)

    def flush(self) -> None:
        """All that was written is on disk when this returns; others may write meanwhile. If it raises, try again: a system may
        forget what it could not put on disk, so that the lines are then written anew, in their place."""
        with self._flushing:
            n_bytes = len(self._unflushed)
            if n_bytes == 0:
                return
            try:
                os.fsync(self._file.fileno())
            except OSError:
                with self._lock:
                    with contextlib.suppress(OSError):
                        self._file.seek(self._end - len(self._unflushed))
                        self._file.write(self._unflushed)
                    self._file.seek(self._end)
                raise
            with self._lock:
                del self._unflushed[:n_bytes]

    def _cut(self) -> None:
        """Nothing stands behind the last whole line."""
        self._file.truncate(self._end)
        self._file.seek(self._end)

    def close(self) -> None:
        with contextlib.suppress(OSError):  # nothing that follows from what is lost here has left the cloud
            self.flush()
        self._file.close()


def _told(carried: Mapping[str, Sequence[int]]) -> dict[str, list[int]]:
    return {to: list(counts) for to, counts in carried.items()}


def plain(what: Noted) -> list[Any]:
    """A happening as JSON.

    >>> plain(Waking(2, 5)), happening_of(["waking", 2, 5])
    (['waking', 2, 5], Waking(group=2, edge_round=5))
    """
    return [_WORDS[type(what)], *(list(v) if isinstance(v, tuple) else v for v in what)]


def happening_of(found: list[Any]) -> Noted:
    word, *values = found
    kind: Any = _KINDS[word]
    made: Noted = kind(*(tuple(v) if isinstance(v, list) else v for v in values))
    return made


def _refuse_damage(data: bytes, at: int, path: Path) -> None:
    """Refuse a file that goes on behind the line that begins at `at`, which is not whole."""
    if any(_checked(line) is not None for line in data[at:].split(b"\n")[1:]):
        number = data.count(b"\n", 0, at) + 1
        raise Refused(
            f"{path}: line {number} is damaged, and there are whole ones behind it; take the file back from a copy, or begin "
            f"anew with bundles of their own"
        )


def _checked(line: bytes) -> dict[str, Any] | None:
    """What a line says; None if it is not whole."""
    try:
        found = json.loads(line[9:])
        return found if int(line[:8], 16) == zlib.crc32(line[9:]) and isinstance(found, dict) else None
    except ValueError:
        return None

"""What has happened, in order, with its time: by it a cloud that was killed comes back to where it was, and a simulation can be
fed with the times of a deployed run.

One line each, flushed to disk before anything follows from it, with a checksum: a line that a kill cut short was not written yet.
A damaged line with whole ones behind it is no kill: what follows from it cannot be told any more, and the file is refused.
"""

import errno
import json
import os
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from fedloom.deployment.store import NotThisRun
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
    """happened: what is told by the file, (seconds, what); confirmed: orders that are carried out, by their ids; took_s: by
    client and ticket, what it measured."""

    def __init__(self, path: Path, identity: str) -> None:
        self.happened: list[tuple[float, Noted]] = []
        self.confirmed: set[str] = set()
        self.took_s: dict[tuple[int, int], tuple[float, ...]] = {}
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
                client, ticket, *seconds = line["took"]
                self.took_s[client, ticket] = tuple(seconds)
            end = stop + 1
        return end

    def happens(self, at_s: float, what: Noted) -> None:
        self._write({"s": at_s, "what": plain(what)})

    def confirms(self, order: str) -> None:
        self.confirmed.add(order)
        self._write({"done": [order]})

    def took(self, client: int, ticket: int, seconds: Sequence[float]) -> None:
        """What a client has measured itself in a job: seconds to fetch, to train and to send."""
        self.took_s[client, ticket] = tuple(seconds)
        self._write({"took": [client, ticket, *seconds]}, flush=False)

    def _write(self, line: dict[str, Any], flush: bool = True) -> None:
        text = json.dumps(line, separators=(",", ":"), allow_nan=False).encode()
        whole = b"%08x %s\n" % (zlib.crc32(text), text)
        try:
            if self._file.write(whole) < len(whole):
                raise OSError(errno.ENOSPC, "no room for a line of the journal")
            if flush:
                os.fsync(self._file.fileno())
        except OSError:
            self._cut()
            raise
        self._end += len(whole)

    def _cut(self) -> None:
        """Nothing stands behind the last whole line."""
        self._file.truncate(self._end)
        self._file.seek(self._end)

    def close(self) -> None:
        self._file.close()


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

"""What each client did when, for drawing: one line for every client that was sent to work.

Lines are kept in columns of CHUNK lines, to which they are written many Sents at a time. The first columns are in memory, so
that small runs touch no file; the others are maps of a file without a name, which is gone with the process: memory does not
grow with rounds. Where that file is, says TMPDIR, or else it is /var/tmp, which is on a disk where /tmp may be memory.
"""

import mmap
import os
import tempfile
import weakref
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Columns = dict[str, NDArray[Any]]
CHUNK = 65_536  # lines
WAITING = 4096  # lines that are not in columns yet, at most


@dataclass(eq=False)
class Sent:
    """m clients that were sent to work together, all arrays (m,).

    aggregator: the first of those the client reported to when it was sent. From start_s it fetches the model, computes,
    uploads (seconds with the air for itself: longer if it is shared), and has arrived at arrival_s; NaN until that is known.
    merged_s and merged_at (aggregator): NaN and -1 until it is merged. late: it missed its deadline; moved: it was merged on
    another host than it was sent from; times: how often it had been sent before in the same edge round.
    """

    cloud_round: int
    edge_round: int
    client: Ints
    aggregator: Ints
    start_s: float
    fetch_s: Floats
    compute_s: Floats
    upload_s: Floats
    arrival_s: Floats
    merged_s: Floats
    merged_at: Ints
    late: NDArray[np.bool_]
    moved: NDArray[np.bool_]
    times: Ints

    def again(self, cloud_round: int, edge_round: int, start_s: float, arrival_s: Floats, merged_s: float) -> "Sent":
        """The same clients at a later time, all of them merged where they were."""
        return Sent(
            cloud_round=cloud_round,
            edge_round=edge_round,
            client=self.client,
            aggregator=self.aggregator,
            start_s=start_s,
            fetch_s=self.fetch_s,
            compute_s=self.compute_s,
            upload_s=self.upload_s,
            arrival_s=arrival_s,
            merged_s=np.full(len(self.client), merged_s),
            merged_at=self.merged_at,
            late=self.late,
            moved=self.moved,
            times=self.times,
        )


COLUMNS = tuple(field.name for field in fields(Sent) if field.name != "times")  # of the table, in its order
TYPES: dict[str, Any] = dict.fromkeys(("cloud_round", "edge_round", "client", "aggregator", "merged_at"), np.int64)
TYPES |= {name: np.float64 for name in COLUMNS if name.endswith("_s")} | {"late": np.bool_, "moved": np.bool_}
STORED = TYPES | {"times": np.int64, "sent": np.int64}  # sent: the number of the Sent a line belongs to
CHANGING = (
    "merged_s",
    "merged_at",
    "moved",
    "arrival_s",
    "late",
)  # written when an update is here or merged, perhaps much later
SINGLE: dict[str, Any] = {"cloud_round": int, "edge_round": int, "start_s": float}  # one value for a whole Sent


@dataclass(eq=False)
class _Chunk:
    """n lines in columns with room for `size`; columns is None while nobody needs them in memory."""

    size: int
    columns: Columns | None
    offset: int = 0  # in the file
    n: int = 0


class Timeline:
    """Everything that was sent to work, in that order: iterate over Sents, or over tables of lines."""

    def __init__(self, chunk: int = CHUNK) -> None:
        self._chunk, self._n_sent = chunk, 0
        self._chunks: list[_Chunk] = []
        self._waiting: list[Sent] = []
        self._n_waiting = 0  # lines
        self._file: int | None = None  # its descriptor
        self._file_bytes = 0

    def append(self, sent: Sent) -> None:
        """Note it. Sooner or later the columns that change become views of what is stored here, so that nobody need tell."""
        self._waiting.append(sent)
        self._n_waiting += len(sent.client)
        self._n_sent += 1
        if self._n_waiting >= WAITING:
            self._store()

    def _store(self) -> None:
        """Write what waits into columns, as many Sents at a time as fit into a chunk."""
        waiting, self._waiting, self._n_waiting = self._waiting, [], 0
        number, i = self._n_sent - len(waiting), 0
        while i < len(waiting):
            chunk, m = self._chunk_for(len(waiting[i].client)), 0
            begun = i
            while i < len(waiting) and chunk.n + m + len(waiting[i].client) <= chunk.size:
                m += len(waiting[i].client)
                i += 1
            self._write(chunk, waiting[begun:i], number + begun)

    def _chunk_for(self, m: int) -> _Chunk:
        """The last chunk, or a new one if it has no room for m more lines."""
        last = self._chunks[-1] if self._chunks else None
        if last is not None and last.n + m <= last.size:
            return last
        if last is not None and last is not self._chunks[0]:
            last.columns = None  # unmapped as soon as no Sent under way refers to it
        return self._new_chunk(max(self._chunk, m))

    def _write(self, chunk: _Chunk, several: list[Sent], number: int) -> None:
        """Sents, the first of them of this number, into a chunk that has room for them."""
        columns, counts = chunk.columns, [len(sent.client) for sent in several]
        assert columns is not None
        first = chunk.n
        chunk.n += sum(counts)
        for name in STORED:
            values = columns[name][first : chunk.n]
            if name == "sent":
                values[:] = np.repeat(np.arange(number, number + len(several)), counts)
            elif name in SINGLE:
                values[:] = np.repeat([getattr(sent, name) for sent in several], counts)
            else:
                np.concatenate([getattr(sent, name) for sent in several], out=values)
        for sent, m in zip(several, counts):
            for name in CHANGING:
                setattr(sent, name, columns[name][first : first + m])
            first += m

    def __len__(self) -> int:
        return self._n_sent

    def __iter__(self) -> Iterator[Sent]:
        for columns in self._stored():
            edges = np.flatnonzero(np.diff(columns["sent"], prepend=-1, append=-1))
            for a, b in zip(edges[:-1].tolist(), edges[1:].tolist()):
                values = {f.name: columns[f.name][a:b] for f in fields(Sent)}
                yield Sent(**values | {name: kind(columns[name][a]) for name, kind in SINGLE.items()})

    def tables(self) -> Iterator[Columns]:
        """The lines, some at a time: COLUMNS, (n,) each."""
        for columns in self._stored():
            yield {name: columns[name] for name in COLUMNS}

    def of_round(self, cloud_round: int) -> Columns | None:
        """The lines of a cloud round; None if there are none. Quick for the last ones."""
        self._store()
        found: list[Columns] = []
        for chunk in reversed(self._chunks):
            columns = self._columns(chunk)
            mine = columns["cloud_round"] == cloud_round
            if mine.any():
                found.insert(0, {name: columns[name][mine] for name in COLUMNS})
            if len(mine) and columns["cloud_round"][0] < cloud_round:
                break
        return {name: np.concatenate([part[name] for part in found]) for name in COLUMNS} if found else None

    def _stored(self) -> Iterator[Columns]:
        self._store()
        for chunk in self._chunks:
            yield self._columns(chunk)

    def _columns(self, chunk: _Chunk) -> Columns:
        columns = self._mapped(chunk) if chunk.columns is None else chunk.columns
        return {name: column[: chunk.n] for name, column in columns.items()}

    def _new_chunk(self, size: int) -> _Chunk:
        if not self._chunks:
            chunk = _Chunk(size, {name: np.empty(size, dtype=kind) for name, kind in STORED.items()})
        else:
            if self._file is None:
                self._file = _nameless_file()
                weakref.finalize(self, os.close, self._file)
            chunk = _Chunk(size, None, self._file_bytes)
            n_bytes = sum(size * np.dtype(kind).itemsize for kind in STORED.values())
            self._file_bytes += -(-n_bytes // mmap.ALLOCATIONGRANULARITY) * mmap.ALLOCATIONGRANULARITY
            _reserve(self._file, chunk.offset, self._file_bytes - chunk.offset)
            chunk.columns = self._mapped(chunk)
        self._chunks.append(chunk)
        return chunk

    def _mapped(self, chunk: _Chunk) -> Columns:
        """The columns of a chunk, one after the other in the file; what is written to them is written there."""
        assert self._file is not None
        n_bytes = sum(chunk.size * np.dtype(kind).itemsize for kind in STORED.values())
        memory = mmap.mmap(self._file, n_bytes, offset=chunk.offset)
        columns, at = {}, 0
        for name, kind in STORED.items():
            columns[name] = np.frombuffer(memory, dtype=kind, count=chunk.size, offset=at)
            at += columns[name].nbytes
        return columns


def table(sent: "Iterable[Sent] | Timeline") -> Columns:
    """All lines, of one or more, in the order in which they were sent."""
    timeline = sent if isinstance(sent, Timeline) else Timeline()
    for one in () if timeline is sent else sent:
        timeline.append(one)
    parts = list(timeline.tables())
    return {name: np.concatenate([part[name] for part in parts]) for name in COLUMNS}


def _nameless_file() -> int:
    disk = Path("/var/tmp")
    place = disk if "TMPDIR" not in os.environ and os.access(disk, os.W_OK) else Path(tempfile.gettempdir())
    try:
        descriptor, name = tempfile.mkstemp(dir=place, prefix="fedloom-")
        Path(name).unlink()
        return descriptor
    except OSError as error:
        raise OSError(error.errno, f"{error.strerror}: the timeline is kept there; set TMPDIR", str(place)) from None


def _reserve(file: int, offset: int, n_bytes: int) -> None:
    """Make room in the file now: a map of a file that finds the disk full would end the process."""
    try:
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(file, offset, n_bytes)
        else:
            os.ftruncate(file, offset + n_bytes)
    except OSError as error:
        text = f"{error.strerror}: the timeline has no room in the folder for temporary files; set TMPDIR to another"
        raise OSError(error.errno, text) from None

"""The ledger: seconds on air, joules and bytes of every hop, and of computing.

Hops: device_edge (device and edge server), device_head (device and cluster head), device_cloud (a device or head with
the cloud directly), edge_cloud (edge server and cloud); each up (towards the cloud) and down. What a client is sent to
do is booked when it is sent: fetching the model, computing, returning the result. Models are counted per link (a client
that reports to two edge servers counts twice, unicast) and per client or aggregator that sends or receives (once).

Beside the sums, what belongs to whom: every entry is also noted under the aggregator of its link, computing in equal parts under
all aggregators of a client. `by_aggregator` gives these notes and begins new ones; they add up to the ledger.

Bills are kept and added up when somebody asks, or when they are many: one after the other as they came, in a few calls.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

NOBODY = -1  # the aggregator of what belongs to none: features that are collected before clients are grouped
HOPS = ("device_edge", "device_head", "device_cloud", "edge_cloud")
DIRECTIONS = ("up", "down")
NOTED = ("links", "bytes", "airtime_s", "energy_j")
KEPT = 4096  # bills that are not added up yet


@dataclass(frozen=True, kw_only=True, eq=False)
class Shares:
    """What belongs to whom: amounts (4, a) of NOTED at `place`, columns from 0 (NOBODY) on, the last of them `n_places` - 1."""

    place: NDArray[np.int64]
    n_places: int
    amounts: NDArray[np.float64]

    @classmethod
    def of(
        cls,
        aggregator: NDArray[np.int64],
        *,
        n_links: ArrayLike = 0,
        n_bytes: ArrayLike = 0,
        airtime_s: ArrayLike,
        energy_j: ArrayLike,
    ) -> Shares:
        """Of entries (l,) that belong to `aggregator` (l,); what is one number goes to every entry."""
        if len(aggregator) == 1:  # as where clients are booked one by one; the same in a twentieth of the time
            only = [[float(np.ravel(values)[0])] for values in (n_links, n_bytes, airtime_s, energy_j)]
            place = aggregator - NOBODY
            return cls(place=place, n_places=int(place[0]) + 1, amounts=np.array(only))
        who, at = np.unique(aggregator, return_inverse=True)
        amounts = np.empty((len(NOTED), len(who)))
        for row, values in zip(amounts, (n_links, n_bytes, airtime_s, energy_j)):
            spread = np.broadcast_to(np.asarray(values, dtype=np.float64), aggregator.shape)
            row[:] = np.bincount(at, weights=spread)
        place = who - NOBODY
        return cls(place=place, n_places=int(place.max(initial=-1)) + 1, amounts=amounts)


@dataclass(frozen=True, kw_only=True, eq=False)
class Bill:
    """What some messages over a hop cost: `n_parties` clients or aggregators send (up) or get (down) `n_bytes` in all."""

    hop: str
    direction: str
    n_links: int
    n_parties: int
    n_bytes: int
    airtime_s: float
    energy_j: float
    shares: Shares | None = None


class Note(NamedTuple):
    """Whose it is, of what is booked elsewhere: computing."""

    shares: Shares
    hop: str = "computing"
    direction: str = ""


class Stretch(Mapping[str, "list[str] | NDArray[np.generic]"]):
    """What was noted between two times, by columns; it is added up, with others, when somebody looks."""

    def __init__(self, add_up: Callable[[], None]) -> None:
        self._add_up: Callable[[], None] | None = add_up
        self._columns: dict[str, list[str] | NDArray[np.generic]] = {}

    def close(self, columns: dict[str, list[str] | NDArray[np.generic]]) -> None:
        """This is all."""
        self._columns, self._add_up = columns, None

    def __getitem__(self, name: str) -> list[str] | NDArray[np.generic]:
        return self._found()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._found())

    def __len__(self) -> int:
        return len(self._found())

    def _found(self) -> dict[str, list[str] | NDArray[np.generic]]:
        if self._add_up is not None:
            self._add_up()
        return self._columns


class Tape(NamedTuple):
    """What was booked meanwhile: bills and notes, and seconds and joules of computing."""

    entries: list[Bill | Note]
    computing: list[tuple[float, float]]


class Ledger:
    """Sums so far. airtime_s and energy_j (4 hops, 2 directions) float64; bytes, links and parties (4, 2) int64; compute_s and
    compute_j: of computing. feature_j: joules of all these that collecting features for grouping took. tape: if there is one,
    what is booked is noted there, too."""

    def __init__(self) -> None:
        self.compute_s = self.compute_j = self.feature_j = 0.0
        self._amounts = np.zeros((len(HOPS), len(DIRECTIONS), 2))  # airtime_s, energy_j
        self._counts = np.zeros((len(HOPS), len(DIRECTIONS), 3), dtype=np.int64)  # links, parties, bytes
        self._lines: dict[tuple[str, str], int] = {}  # of the notes, by hop and direction
        self._notes = np.zeros((0, len(NOTED), 0))  # (lines, 4, places), as in Shares
        self._entries: list[
            Bill | Note | Stretch
        ] = []  # those that are not added up yet; a stretch ends where it stands
        self.tape: Tape | None = None

    @property
    def airtime_s(self) -> NDArray[np.float64]:
        self._add_up()
        return self._amounts[..., 0]

    @property
    def energy_j(self) -> NDArray[np.float64]:
        self._add_up()
        return self._amounts[..., 1]

    @property
    def bytes(self) -> NDArray[np.int64]:
        self._add_up()
        return self._counts[..., 2]

    @property
    def links(self) -> NDArray[np.int64]:
        self._add_up()
        return self._counts[..., 0]

    @property
    def parties(self) -> NDArray[np.int64]:
        self._add_up()
        return self._counts[..., 1]

    def pay(self, entries: Sequence[Bill | Note]) -> None:
        """Book messages, and note what belongs to whom."""
        self._entries += entries
        if self.tape is not None:
            self.tape.entries.extend(entries)
        if len(self._entries) >= KEPT:
            self._add_up()

    def compute(self, seconds: float, joules: float) -> None:
        """Book device seconds of computing (summed over devices) and their energy."""
        self.compute_s += seconds
        self.compute_j += joules
        if self.tape is not None:
            self.tape.computing.append((seconds, joules))

    def play(self, tape: Tape) -> None:
        """Book all of it once more."""
        for seconds, joules in tape.computing:
            self.compute(seconds, joules)
        self.pay(tape.entries)

    def _add_up(self) -> None:
        entries, self._entries = self._entries, []
        bills = [entry for entry in entries if isinstance(entry, Bill)]
        if bills:
            at = [2 * HOPS.index(b.hop) + DIRECTIONS.index(b.direction) for b in bills]
            counts = [value for b in bills for value in (b.n_links, b.n_parties, b.n_bytes)]
            _add_each(self._counts, at, np.array(counts, dtype=np.int64))
            _add_each(self._amounts, at, np.array([value for b in bills for value in (b.airtime_s, b.energy_j)]))
        if len(entries) > len(bills) or any(b.shares is not None for b in bills):
            self._add_notes(entries)

    def _add_notes(self, entries: list[Bill | Note | Stretch]) -> None:
        """Add shares to the notes of their stretches, hops and directions, one after the other; stretches that are over get
        theirs."""
        over: list[Stretch] = []
        first = [0]  # of each stretch, its first line
        lines = {(0, *name): line for name, line in self._lines.items()}  # by stretch, hop and direction
        at: list[int] = []
        several: list[Shares] = []
        for entry in entries:
            if isinstance(entry, Stretch):
                over.append(entry)
                first.append(len(lines))
            elif entry.shares is not None:
                at.append(lines.setdefault((len(over), entry.hop, entry.direction), len(lines)))
                several.append(entry.shares)
        n_lines, _, width = self._notes.shape
        n_places = max([width, *(shares.n_places for shares in several)])
        notes = np.zeros((len(lines), len(NOTED), n_places))
        notes[:n_lines, :, :width] = self._notes
        if several:
            place = np.concatenate([shares.place for shares in several])
            amounts = np.concatenate([shares.amounts for shares in several], axis=1)
            place += np.repeat(at, [len(shares.place) for shares in several]) * (len(NOTED) * n_places)
            columns = np.arange(len(NOTED))[:, None] * n_places + place
            np.add.at(notes.reshape(-1), columns.reshape(-1), amounts.reshape(-1))
        names = [name for _, *name in lines]
        if over:
            _close(over, first, names, notes)
        self._lines = {(hop, direction): i for i, (hop, direction) in enumerate(names[first[-1] :])}
        self._notes = notes[first[-1] :]

    def by_aggregator(self) -> Stretch:
        """What was noted since the last time, a line for every aggregator, hop and direction that has some: columns
        aggregator, hop, direction, links, bytes, airtime_s (of computing: device seconds), energy_j."""
        stretch = Stretch(self._add_up)
        self._entries.append(stretch)
        return stretch

    @property
    def total_j(self) -> float:
        """All joules: every hop and computing."""
        return float(self.energy_j.sum() + self.compute_j)

    @property
    def total_bytes(self) -> int:
        """All bytes over all hops."""
        return int(self.bytes.sum())

    def client_models(self, uplink: str = "unicast") -> int:
        """Models sent between clients and their aggregators, both directions (HHFL, section V-B4 and Appendix F).

        unicast: one for every link; once: a client sends up once for all its aggregators to hear.
        """
        up, down = DIRECTIONS.index("up"), DIRECTIONS.index("down")
        client_hops = [i for i, hop in enumerate(HOPS) if hop != "edge_cloud"]
        counted_up = self.parties if uplink == "once" else self.links
        return int(counted_up[client_hops, up].sum() + self.links[client_hops, down].sum())

    def table(self) -> list[dict[str, str | float | int]]:
        """One row per hop and direction that was used, and one for computing."""
        rows: list[dict[str, str | float | int]] = [
            {
                "hop": hop,
                "direction": direction,
                "links": int(self.links[i, j]),
                "bytes": int(self.bytes[i, j]),
                "airtime_s": float(self.airtime_s[i, j]),
                "energy_j": float(self.energy_j[i, j]),
            }
            for i, hop in enumerate(HOPS)
            for j, direction in enumerate(DIRECTIONS)
            if self.bytes[i, j] or self.energy_j[i, j]
        ]
        computing = {"links": 0, "bytes": 0, "airtime_s": self.compute_s, "energy_j": self.compute_j}
        return [*rows, {"hop": "computing", "direction": "", **computing}]


def _close(over: list[Stretch], first: list[int], names: list[list[str]], notes: NDArray[np.float64]) -> None:
    """Give stretches that are over their lines. first: where those of each begin, and of the one that is not over; names:
    hop and direction of each line; notes (lines, 4, places)."""
    line, place = np.nonzero(notes[: first[-1]].any(axis=1))
    links, n_bytes, airtime_s, energy_j = notes.transpose(1, 0, 2)[:, line, place]
    columns = {
        "aggregator": place + NOBODY,
        "hop": [names[i][0] for i in line.tolist()],
        "direction": [names[i][1] for i in line.tolist()],
        "links": np.rint(links).astype(np.int64),
        "bytes": np.rint(n_bytes).astype(np.int64),
        "airtime_s": airtime_s,
        "energy_j": energy_j,
    }
    cuts = np.searchsorted(line, first).tolist()
    for stretch, low, high in zip(over, cuts, cuts[1:]):
        stretch.close({name: values[low:high] for name, values in columns.items()})


def _add_each(sums: NDArray[Any], at: list[int], values: NDArray[Any]) -> None:
    """Add values (m x n,), n at a time, to those of sums (4, 2, n) at the places `at` (m,), one after the other."""
    n = sums.shape[-1]
    np.add.at(sums.reshape(-1), np.ravel(n * np.array(at)[:, None] + np.arange(n)), values)

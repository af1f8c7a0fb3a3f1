"""The ledger: seconds on air, joules and bytes of every hop, and of computing.

Hops: device_edge (device and edge server), device_head (device and cluster head), device_cloud (a device or head with
the cloud directly), edge_cloud (edge server and cloud); each up (towards the cloud) and down. What a client is sent to
do is booked when it is sent: fetching the model, computing, returning the result. Models are counted per link (a client
that reports to two edge servers counts twice, unicast) and per client or aggregator that sends or receives (once).

Beside the sums, what belongs to whom: every entry is also noted under the aggregator of its link, computing in equal parts under
all aggregators of a client. `by_aggregator` gives these notes and begins new ones; they add up to the ledger.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray

NOBODY = -1  # the aggregator of what belongs to none: features that are collected before clients are grouped
HOPS = ("device_edge", "device_head", "device_cloud", "edge_cloud")
DIRECTIONS = ("up", "down")
NOTED = ("links", "bytes", "airtime_s", "energy_j")


@dataclass(frozen=True, kw_only=True, eq=False)
class Shares:
    """What belongs to whom: amounts (4, a) of NOTED at `place`, columns from 0 (NOBODY) on, the last of them `n_places` - 1."""

    place: NDArray[np.int64] | slice
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
        who, at = np.unique(aggregator, return_inverse=True)
        amounts = np.empty((len(NOTED), len(who)))
        for row, values in zip(amounts, (n_links, n_bytes, airtime_s, energy_j)):
            spread = np.broadcast_to(np.asarray(values, dtype=np.float64), aggregator.shape)
            row[:] = np.bincount(at, weights=spread)
        place = who - NOBODY
        n_places = int(place[-1]) + 1 if len(place) else 0
        if len(place) and n_places - int(place[0]) == len(place):  # mostly one aggregator: a slice is quicker
            return cls(place=slice(int(place[0]), n_places), n_places=n_places, amounts=amounts)
        return cls(place=place, n_places=n_places, amounts=amounts)


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


@dataclass(kw_only=True)
class Ledger:
    """Sums so far. airtime_s and energy_j (4 hops, 2 directions) float64; bytes, links and parties (4, 2) int64.
    feature_j: joules of all these that collecting features for grouping took."""

    airtime_s: NDArray[np.float64] = field(default_factory=lambda: np.zeros((4, 2)))
    energy_j: NDArray[np.float64] = field(default_factory=lambda: np.zeros((4, 2)))
    bytes: NDArray[np.int64] = field(default_factory=lambda: np.zeros((4, 2), dtype=np.int64))
    links: NDArray[np.int64] = field(default_factory=lambda: np.zeros((4, 2), dtype=np.int64))
    parties: NDArray[np.int64] = field(default_factory=lambda: np.zeros((4, 2), dtype=np.int64))
    compute_s: float = 0.0
    compute_j: float = 0.0
    feature_j: float = 0.0
    _notes: dict[tuple[str, str], NDArray[np.float64]] = field(default_factory=dict, repr=False)

    def pay(self, bill: Bill) -> None:
        """Book messages."""
        at = HOPS.index(bill.hop), DIRECTIONS.index(bill.direction)
        self.links[at] += bill.n_links
        self.parties[at] += bill.n_parties
        self.bytes[at] += bill.n_bytes
        self.airtime_s[at] += bill.airtime_s
        self.energy_j[at] += bill.energy_j
        if bill.shares is not None:
            self.note(bill.hop, bill.direction, bill.shares)

    def compute(self, seconds: float, joules: float) -> None:
        """Book device seconds of computing (summed over devices) and their energy."""
        self.compute_s += seconds
        self.compute_j += joules

    def note(self, hop: str, direction: str, shares: Shares) -> None:
        """Whose it is."""
        before = self._notes.get((hop, direction))
        if before is None or before.shape[1] < shares.n_places:
            whole = np.zeros((len(NOTED), shares.n_places))
            if before is not None:
                whole[:, : before.shape[1]] = before
            self._notes[hop, direction] = before = whole
        before[:, shares.place] += shares.amounts

    def by_aggregator(self) -> dict[str, list[str] | NDArray[np.generic]]:
        """What was noted since the last time, a line for every aggregator, hop and direction that has some: columns
        aggregator, hop, direction, links, bytes, airtime_s (of computing: device seconds), energy_j."""
        found = []
        for (hop, direction), values in self._notes.items():
            used = np.flatnonzero(values.any(axis=0))
            found.append((hop, direction, used + NOBODY, values[:, used]))
        self._notes = {}
        values = np.concatenate([np.zeros((len(NOTED), 0)), *(v for *_, v in found)], axis=1)
        links, n_bytes, airtime_s, energy_j = values
        return {
            "aggregator": np.concatenate([np.zeros(0, np.int64), *(who for _, _, who, _ in found)]),
            "hop": [hop for hop, _, who, _ in found for _ in who],
            "direction": [direction for _, direction, who, _ in found for _ in who],
            "links": np.rint(links).astype(np.int64),
            "bytes": np.rint(n_bytes).astype(np.int64),
            "airtime_s": airtime_s,
            "energy_j": energy_j,
        }

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

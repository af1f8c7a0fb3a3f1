"""The ledger: seconds on air, joules and bytes of every hop, and of computing.

Hops: device_edge (device and edge server), device_head (device and cluster head), device_cloud (a device or head with
the cloud directly), edge_cloud (edge server and cloud); each up (towards the cloud) and down. What a client is sent to
do is booked when it is sent: fetching the model, computing, returning the result. Models are counted per link (a client
that reports to two edge servers counts twice, unicast) and per client or aggregator that sends or receives (once).
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

HOPS = ("device_edge", "device_head", "device_cloud", "edge_cloud")
DIRECTIONS = ("up", "down")


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

    def send(
        self,
        hop: str,
        direction: str,
        *,
        n_links: int,
        n_parties: int,
        n_bytes: int,
        airtime_s: float,
        energy_j: float,
    ) -> None:
        """Book the models that `n_parties` clients or aggregators send (up) or get (down), `n_bytes` in all."""
        at = HOPS.index(hop), DIRECTIONS.index(direction)
        self.links[at] += n_links
        self.parties[at] += n_parties
        self.bytes[at] += n_bytes
        self.airtime_s[at] += airtime_s
        self.energy_j[at] += energy_j

    def compute(self, seconds: float, joules: float) -> None:
        """Book device seconds of computing (summed over devices) and their energy."""
        self.compute_s += seconds
        self.compute_j += joules

    @property
    def total_j(self) -> float:
        """All joules: every hop and computing."""
        return float(self.energy_j.sum() + self.compute_j)

    @property
    def total_bytes(self) -> int:
        """All bytes over all hops."""
        return int(self.bytes.sum())

    def client_models(self, uplink: str = "unicast") -> int:
        """Models sent between clients and their aggregators, both directions (HHFL, section 4).

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

"""What each client did when, for drawing: one line for every client that was sent to work."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(eq=False)
class Sent:
    """m clients that were sent to work together, all arrays (m,).

    aggregator: the first of those the client reported to when it was sent. From start_s it fetches the model, computes,
    uploads (when its turn comes, if clients share the air), and has arrived at arrival_s. merged_s and merged_at
    (aggregator): NaN and -1 until it is merged. late: it missed its deadline; moved: it was merged on another host than
    it was sent from; times: how often it had been sent before in the same edge round.
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

    def columns(self) -> dict[str, NDArray[np.generic]]:
        """The table's columns, (m,) each."""
        m = len(self.client)
        return {
            "cloud_round": np.full(m, self.cloud_round),
            "edge_round": np.full(m, self.edge_round),
            "client": self.client,
            "aggregator": self.aggregator,
            "start_s": np.full(m, self.start_s),
            "fetch_s": self.fetch_s,
            "compute_s": self.compute_s,
            "upload_s": self.upload_s,
            "arrival_s": self.arrival_s,
            "merged_s": self.merged_s,
            "merged_at": self.merged_at,
            "late": self.late,
            "moved": self.moved,
        }


def table(sent: list[Sent]) -> dict[str, NDArray[np.generic]]:
    """All of them, one or more, in the order in which they were sent."""
    columns = [s.columns() for s in sent]
    return {name: np.concatenate([c[name] for c in columns]) for name in columns[0]}

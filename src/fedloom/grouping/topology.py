"""Who aggregates with whom: a cover matrix, and where each aggregator stands."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from fedloom import _check

KINDS = ("edge", "head", "cloud")


@dataclass(frozen=True, kw_only=True, eq=False)
class Topology:
    """N aggregators over K clients.

    cover (N, K) bool: client k reports to aggregator n (a client may report to several, or to none and stay idle).
    kind: "edge" servers in cells, "head" devices, or the "cloud" itself. host (N,): the cell of an edge server, the
    device of a head, 0 for the cloud. Aggregators on one host open and close their edge rounds together. notes: figures
    the grouping wants recorded, one number each or one for every aggregator.
    """

    cover: NDArray[np.bool_]
    kind: str
    host: NDArray[np.int64]
    notes: Mapping[str, float | NDArray[np.float64]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        _check.one_of("kind of aggregators", self.kind, KINDS)
        if self.cover.ndim != 2 or self.cover.dtype != np.bool_ or self.host.shape != (len(self.cover),):
            raise ValueError(
                f"cover must be bool of shape (N, K) and host of shape (N,), "
                f"got {self.cover.dtype} {self.cover.shape} and {self.host.shape}"
            )
        if not self.cover.any():
            raise ValueError("cover connects no client to any aggregator; nobody could train")
        if self.kind == "head":
            n_clients = self.cover.shape[1]
            outside = [n for n, k in enumerate(self.host.tolist()) if not (0 <= k < n_clients and self.cover[n, k])]
            if outside:
                raise ValueError(f"the heads of clusters {outside} must be members of their own clusters")

    @classmethod
    def of_heads(
        cls,
        clusters: Sequence[NDArray[np.integer]],
        heads: NDArray[np.integer],
        n_clients: int,
        notes: Mapping[str, float | NDArray[np.float64]] | None = None,
    ) -> "Topology":
        """Clusters of clients, each around one of its members, out of `n_clients`."""
        cover = np.zeros((len(clusters), n_clients), dtype=np.bool_)
        for row, members in zip(cover, clusters):
            row[members] = True
        return cls(cover=cover, kind="head", host=np.asarray(heads, dtype=np.int64), notes=notes or {})

    @property
    def n_aggregators(self) -> int:
        return len(self.cover)

    @property
    def n_reached(self) -> NDArray[np.int64]:
        """|S_k|: how many aggregators each client reports to, (K,)."""
        return np.asarray(self.cover.sum(axis=0))

    def pace_groups(self) -> list[NDArray[np.int64]]:
        """Aggregators whose edge rounds run together: on one host, or linked by a shared client. Sorted index arrays."""
        n = self.n_aggregators
        together = (self.cover.astype(np.int32) @ self.cover.T.astype(np.int32)) > 0
        together |= self.host[:, None] == self.host[None, :]
        n_groups, label = connected_components(csr_array(together), directed=False)
        return (
            [np.flatnonzero(label == g) for g in range(n_groups)] if n_groups < n else [np.array([i]) for i in range(n)]
        )

"""Who aggregates with whom: a cover matrix, and where each aggregator stands."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from fedloom import _check

KINDS = ("edge", "head", "cloud")


@dataclass(frozen=True, kw_only=True, eq=False)
class Topology:
    """N aggregators over K clients.

    cover (N, K) bool: client k reports to aggregator n (a client may report to several, or to none and stay idle).
    kind: "edge" servers in cells, "head" devices, or the "cloud" itself. host (N,): the cell of an edge server, the
    device of a head, any number for the cloud. Aggregators on one host open and close their edge rounds together. notes:
    figures the grouping wants recorded, one number each or one for every aggregator.

    cluster (N,): aggregators on several hosts that work for one cluster have the same number, and their models meet in the
    cluster's model at the cloud; by default each is a cluster of its own. follow: a client that changes cells goes to the
    aggregator of its new home that stands at the same place among those of its host. squad (K,): clients of an aggregator
    with the same number work together where aggregators do not wait for all (edge="async"); by default each by itself.
    """

    cover: NDArray[np.bool_]
    kind: str
    host: NDArray[np.int64]
    notes: Mapping[str, float | NDArray[np.float64]] = field(default_factory=dict)
    cluster: NDArray[np.int64] | None = None
    follow: bool = False
    squad: NDArray[np.int64] | None = None

    def __post_init__(self) -> None:
        _check.one_of("kind of aggregators", self.kind, KINDS)
        if self.cover.ndim != 2 or self.cover.dtype != np.bool_ or self.host.shape != (len(self.cover),):
            raise ValueError(
                f"cover must be bool of shape (N, K) and host of shape (N,), "
                f"got {self.cover.dtype} {self.cover.shape} and {self.host.shape}"
            )
        for name, length in (("cluster", len(self.cover)), ("squad", self.cover.shape[1])):
            value = getattr(self, name)
            if value is not None and value.shape != (length,):
                raise ValueError(f"{name} must have shape ({length},), got {value.shape}")
        if self.follow and (self.kind != "edge" or self.n_reached.max() > 1 or len(set(self._per_host)) > 1):
            raise ValueError(
                "clients can follow their homes between edge servers that have the same number of aggregators each, with "
                f"one aggregator a client; got kind {self.kind}, {self._per_host} aggregators per host, and clients with "
                f"up to {self.n_reached.max()}"
            )
        if self.kind == "head":
            n_clients = self.cover.shape[1]
            outside = [
                n
                for n, k in enumerate(self.host.tolist())
                if self.cover[n].any() and not (0 <= k < n_clients and self.cover[n, k])
            ]
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

    @property
    def clusters(self) -> NDArray[np.int64]:
        """(N,) the cluster of each aggregator."""
        return np.arange(self.n_aggregators) if self.cluster is None else self.cluster

    @property
    def cluster_cover(self) -> NDArray[np.bool_]:
        """(N, K): client k belongs to the cluster that aggregator n works for, here or on another host."""
        return np.asarray((self.clusters[:, None] == self.clusters[None, :]).astype(np.int32) @ self.cover > 0)

    def at_home(self, home: NDArray[np.int64]) -> "Topology":
        """The same aggregators with every client at its home (K,), if clients follow theirs; -1: nowhere. Who was nowhere when
        groups were made has no cluster, and is idle where a host has several aggregators."""
        rank = np.array([np.count_nonzero(self.host[:n] == h) for n, h in enumerate(self.host)])
        place = np.where(self.cover.any(axis=0) | (rank.max() == 0), rank[self.cover.argmax(axis=0)], -1)
        cover = (self.host[:, None] == home[None, :]) & (rank[:, None] == place[None, :])
        return replace(self, cover=cover)

    def without(self, hosts: NDArray[np.int64]) -> "Topology":
        """The same aggregators, and nobody reports to those on these hosts: who has no other stays idle. If nobody were left,
        all is as it was."""
        cover = self.cover & ~np.isin(self.host, hosts)[:, None]
        return replace(self, cover=cover) if cover.any() and not np.array_equal(cover, self.cover) else self

    def of_those(self, here: NDArray[np.bool_], in_reach: NDArray[np.bool_]) -> "Topology":
        """The same aggregators with those clients that are here (K,) and, at edge servers, in reach of the cell (cells, K). A
        head that is not here has nobody."""
        cover = self.cover & here
        if self.kind == "edge":
            cover &= in_reach[self.host]
        if self.kind == "head":
            cover &= here[self.host, None]
        return self if np.array_equal(cover, self.cover) else replace(self, cover=cover)

    @property
    def _per_host(self) -> list[int]:
        return [int(n) for n in np.unique(self.host, return_counts=True)[1]]

    def pace_groups(self) -> list[NDArray[np.int64]]:
        """Aggregators whose edge rounds run together: on one host, or linked by a shared client. Sorted index arrays."""
        n = self.n_aggregators
        together = (self.cover.astype(np.int32) @ self.cover.T.astype(np.int32)) > 0
        together |= self.host[:, None] == self.host[None, :]
        groups = []
        alone = np.ones(n, dtype=np.bool_)  # not in a group yet
        for first in range(n):
            if alone[first]:
                found, size = together[first], 0
                while found.sum() > size:
                    size, found = int(found.sum()), together[found].any(axis=0)
                groups.append(np.flatnonzero(found))
                alone &= ~found
        return groups

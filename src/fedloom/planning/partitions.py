"""The clusters of a few devices whose labels are the most alike, of all there are.

How far labels are off is a sum over clusters, so the best of a set of devices is its best first cluster, beside the best of
those who are left:

    least(0 clusters, {}) = 0,    least(c, S) = min over A in S that hold its first device of off(A) + least(c - 1, S - A)

A cluster needs a head with room for it. 3^K / 2 pairs of sets are looked at. K devices; sets of them are numbers of K bits.
"""

import numpy as np
from numpy.typing import NDArray

from fedloom.planning.costs import Prices

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

MOST = 10  # devices


def most_alike(prices: Prices, n_min: int, n_max: int) -> Ints | None:
    """Heads (K,) of from n_min to n_max clusters; None of a fleet that is larger, or has no labels. A head is the member with
    room for its cluster that reaches the server at least joules."""
    devices = prices.devices
    if devices.n > MOST or not devices.off_labels.any():
        return None
    member = (np.arange(2**devices.n)[:, None] >> np.arange(devices.n) & 1).astype(bool)  # (2^K, K)
    size = member.sum(axis=1)
    able = member & devices.candidate & (devices.capacity >= size[:, None])
    off = np.where(able.any(axis=1), np.abs(member @ devices.off_labels).sum(axis=1), np.inf)
    least, first = _best_first_clusters(off, n_max)
    whole = 2**devices.n - 1
    n = n_min + int(least[n_min:, whole].argmin())
    if not np.isfinite(least[n, whole]):
        return None
    head, rest = np.empty(devices.n, dtype=np.int64), whole
    for c in range(n, 0, -1):
        cluster = int(first[c, rest])
        head[member[cluster]] = np.where(able[cluster], prices.cloud_j, np.inf).argmin()
        rest ^= cluster
    return head


def _best_first_clusters(off: Floats, n_max: int) -> tuple[Floats, Ints]:
    """least (n_max + 1, 2^K) and the cluster of the first device in it; off (2^K,)."""
    least, first = np.full((n_max + 1, len(off)), np.inf), np.zeros((n_max + 1, len(off)), dtype=np.int64)
    least[0, 0] = 0.0
    for some in range(1, len(off)):
        one = some & -some
        clusters = one | _subsets(some ^ one)
        found = off[clusters] + least[:-1, some ^ clusters]  # (n_max, subsets)
        best = found.argmin(axis=1)
        least[1:, some] = found[np.arange(n_max), best]
        first[1:, some] = clusters[best]
    return least, first


def _subsets(some: int) -> Ints:
    """
    >>> _subsets(0b101).tolist()
    [0, 1, 4, 5]
    """
    out = np.zeros(1, dtype=np.int64)
    while some:
        one = some & -some
        out = np.concatenate([out, out | one])
        some ^= one
    return np.sort(out)

"""Simple clusters with heads drawn by chance: the baselines that DDC is compared with.

    geographic    k-means on positions; DDC's "random": only its heads are random
    similarity    devices of similar labels together, by k-means on label shares or by average linkage on the Hellinger
                  distance H(p, q)^2 = 1 - sum_c sqrt(p_c q_c); where they are does not matter
    random        a partition by chance, sizes differing by at most one

A head is drawn uniformly inside each cluster. Without capacity, clusters are as large as they come. With one, clusters that are
too large give away the devices that lose least by it, to the nearest cluster with room (distance to the mean of its first
members, in the space of the clustering). The published text has the first two without capacities; the rest is ours.

U devices, k clusters, C classes.
"""

import warnings
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedloom import _check
from fedloom.grouping.association import fill_by_regret
from fedloom.grouping.local_search import check_count, random_clusters
from fedloom.radio import distances

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

HOW = ("k_means", "linkage")
STARTS = 10  # of k-means


@dataclass(frozen=True, kw_only=True, eq=False)
class HeadedClusters:
    """clusters: k sorted arrays of devices, in the order of their lowest; heads (k,); assign (U,): the head of each device."""

    clusters: list[Ints]
    heads: Ints
    assign: Ints


def geographic_clusters(
    position_m: ArrayLike,
    *,
    n_clusters: int,
    capacity: int | None = None,
    n_starts: int = STARTS,
    rng: np.random.Generator,
) -> HeadedClusters:
    """Clusters of neighbours. position_m (U, D), metres; capacity: most devices in a cluster; n_starts: of k-means."""
    position = _check.array("position_m", position_m, (None, None))
    _check_sizes(len(position), n_clusters, capacity)
    return _headed(_limited(position, _k_means(position, n_clusters, rng, n_starts), capacity), rng)


def similarity_clusters(
    label_counts: ArrayLike,
    *,
    n_clusters: int,
    how: str = "k_means",
    capacity: int | None = None,
    rng: np.random.Generator,
) -> HeadedClusters:
    """Clusters of devices whose labels are alike. label_counts (U, C) samples; capacity: most devices in a cluster."""
    _check.one_of("how", how, HOW)
    counts = _check.array("label_counts", label_counts, (None, None))
    _check.positive("label_counts", counts, zero=True)
    empty = np.flatnonzero(~counts.any(axis=1))
    if len(empty):
        raise ValueError(f"every device needs samples to be compared by its labels; {empty[:10].tolist()} have none")
    _check_sizes(len(counts), n_clusters, capacity)
    share = counts / counts.sum(axis=1, keepdims=True)
    if how == "k_means":
        return _headed(_limited(share, _k_means(share, n_clusters, rng), capacity), rng)
    root = np.sqrt(share)  # |root_u - root_v|^2 = 2 H^2
    return _headed(_limited(root, _average_linkage(root, n_clusters), capacity), rng)


def random_headed_clusters(
    n_devices: int, *, n_clusters: int, capacity: int | None = None, rng: np.random.Generator
) -> HeadedClusters:
    """Clusters by chance; their sizes differ by at most one, so a capacity only has to be large enough."""
    _check.whole("n_devices", n_devices)
    _check_sizes(n_devices, n_clusters, capacity)
    label = np.empty(n_devices, dtype=np.int64)
    for c, members in enumerate(random_clusters(n_devices, n_clusters, rng)):
        label[members] = c
    return _headed(label, rng)


def _k_means(points: Floats, k: int, rng: np.random.Generator, n_starts: int = STARTS) -> Ints:
    """Labels (U,) in 0..k-1, all of them used; best of some starts. One number is drawn from rng."""
    from sklearn.cluster import KMeans  # takes long to import
    from sklearn.exceptions import ConvergenceWarning
    from threadpoolctl import threadpool_limits

    seed = int(rng.integers(2**31))
    with (
        warnings.catch_warnings(),
        threadpool_limits(limits=1),
    ):  # waiting for threads takes longer than such small sums
        warnings.simplefilter("ignore", ConvergenceWarning)  # fewer different points than clusters
        label = KMeans(k, n_init=n_starts, random_state=seed).fit_predict(points)
    return _all_used(np.asarray(label, dtype=np.int64), k)


def _average_linkage(points: Floats, k: int) -> Ints:
    """Labels (U,) in 0..k-1, all of them used."""
    from scipy.cluster.hierarchy import cut_tree, linkage  # takes long to import

    if len(points) == 1:
        return np.zeros(1, dtype=np.int64)
    return np.asarray(cut_tree(linkage(points, "average"), n_clusters=k)[:, 0], dtype=np.int64)


def _all_used(label: Ints, k: int) -> Ints:
    """The same labels, but those without devices take one from the largest cluster each."""
    for c in np.setdiff1d(np.arange(k), label).tolist():
        label[np.flatnonzero(label == np.bincount(label).argmax())[-1]] = c
    return label


def _limited(points: Floats, label: Ints, capacity: int | None) -> Ints:
    """Labels (U,) of clusters of at most `capacity` devices."""
    size = np.bincount(label)
    if capacity is None or size.max() <= capacity:
        return label
    centre = np.stack([points[label == c].mean(axis=0) for c in range(len(size))])
    far = distances(points, centre)  # (U, k)
    here = np.arange(len(label)), label
    away = far.copy()
    away[here] = np.inf
    regret = away.min(axis=1) - far[here]
    out = label.copy()
    for c in np.flatnonzero(size > capacity).tolist():
        members = np.flatnonzero(label == c)
        out[members[np.argsort(regret[members], kind="stable")[: size[c] - capacity]]] = -1
    return fill_by_regret(far, out, np.full(len(size), capacity))


def _headed(label: Ints, rng: np.random.Generator) -> HeadedClusters:
    groups = [np.flatnonzero(label == c) for c in range(int(label.max()) + 1)]
    clusters = sorted(groups, key=lambda members: int(members[0]))
    heads = np.array([rng.choice(members) for members in clusters], dtype=np.int64)
    assign = np.empty(len(label), dtype=np.int64)
    for head, members in zip(heads, clusters):
        assign[members] = head
    return HeadedClusters(clusters=clusters, heads=heads, assign=assign)


def _check_sizes(n: int, n_clusters: int, capacity: int | None) -> None:
    check_count(n, n_clusters)
    if capacity is None:
        return
    _check.whole("capacity", capacity)
    if capacity * n_clusters < n:
        raise ValueError(
            f"{n_clusters} clusters of at most {capacity} devices have no room for {n}; "
            f"take more clusters or a capacity of at least {-(-n // n_clusters)}"
        )

"""Clusters by spectral clustering: similar clients together, or complementary ones (Benchmarks A and A+ of LTC).

    cos_ij = phi_i phi_j / (|phi_i| |phi_j|),   f_i = (cos_i1, ..., cos_iK)
    A      G_ij = exp(-|(t_i, f_i) - (t_j, f_j)| / (2 sigma^2))
    A+     G_ij = exp(-|t_i - t_j| / (2 sigma_t^2)) + exp(+|f_i - f_j| / (2 sigma_ft^2))

phi_i (d,): a client's direction; t_i: an estimate of its round time, `device_round_s` (LTC, sections 5.4.1 and 5.4.2). A
puts together clients of like direction and time, so that clusters differ; A+ those of like time and unlike direction, so
that every cluster is like the whole, and is a start for `swap_search` too. Then spectral clustering on G: normalised
Laplacian, k-means with ten starts. Sizes are as they come, and empty groups are dropped. K clients.

As published the kernels take the norm, not its square; `squared` is for comparison. Our choices: times are divided by
the largest ("max"), because whole seconds would drown the cosines ("raw"); a client without direction has cosine 0 with
all others; time is no part of f_i in A+, where it has its own kernel.
"""

import warnings

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedloom import _check
from fedloom.grouping.directions import gram_matrix

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

T_SCALES = ("max", "raw")
TIMES = ("auto", "round", "computing")
LEAST_WIDTH, MOST_WIDTH = 1e-3, 1e3
MOST_CLIENTS = 5000  # 4,000 in 800 clusters take two minutes, and time grows with the cube


def check_width(name: str, sigma: float) -> None:
    """A kernel's width: neither so narrow nor so wide that all affinities are the same."""
    _check.positive(name, sigma)
    if not LEAST_WIDTH <= sigma <= MOST_WIDTH:
        raise ValueError(f"{name} must be between {LEAST_WIDTH:g} and {MOST_WIDTH:g}, got {sigma:g}")


def device_round_s(compute_s: ArrayLike, exchange_s: ArrayLike, time: str = "auto") -> Floats:
    """t (K,), s: what a client's round will take before it is known who its head is.

    compute_s (K,): its work; exchange_s (K, K): what links take in a round, infinite where they are down. time "round": its work
    and its links' median of those that are up; "computing": its work alone. "auto", as published: with the links where all are
    alike, so that it does not matter who the head is (Set 1a), and computing alone where they differ (Set 1b). The median is
    our choice; a client without a link counts as if it had the slowest.

    >>> device_round_s([4.0, 6.0], [[0, 5], [5, 0]]).tolist(), device_round_s([4.0, 6.0], [[0, 5], [5, 0]], "computing").tolist()
    ([9.0, 11.0], [4.0, 6.0])
    """
    _check.one_of("time", time, TIMES)
    compute = _check.array("compute_s", compute_s, (None,))
    n = len(compute)
    link = _check.array("exchange_s", exchange_s, (n, n), finite=False)
    pairs = link[~np.eye(n, dtype=np.bool_)]
    up = pairs[np.isfinite(pairs)]
    alike = len(up) == len(pairs) and np.allclose(up, up[:1], rtol=1e-9, atol=0)
    if time == "computing" or not len(up) or (time == "auto" and not alike):
        return compute
    others = link[~np.eye(n, dtype=np.bool_)].reshape(n, n - 1)
    usual = [float(np.median(row[np.isfinite(row)])) if np.isfinite(row).any() else float(up.max()) for row in others]
    return np.asarray(compute + np.array(usual))


def similar_clusters(
    features: ArrayLike,
    t_s: ArrayLike,
    *,
    n_clusters: int,
    sigma: float,
    t_scale: str = "max",
    squared: bool = False,
    rng: np.random.Generator,
) -> list[Ints]:
    """Benchmark A: sorted clusters of clients of like direction, features (K, d), and like time, t_s (K,)."""
    affinity = similar_affinity(features, t_s, sigma=sigma, t_scale=t_scale, squared=squared)
    return _spectral_clusters(affinity, n_clusters, rng)


def complementary_clusters(
    features: ArrayLike,
    t_s: ArrayLike,
    *,
    n_clusters: int,
    sigma_t: float,
    sigma_ft: float,
    t_scale: str = "max",
    squared: bool = False,
    rng: np.random.Generator,
) -> list[Ints]:
    """Benchmark A+: sorted clusters of clients of unlike direction, features (K, d), and like time, t_s (K,)."""
    affinity = complementary_affinity(
        features, t_s, sigma_t=sigma_t, sigma_ft=sigma_ft, t_scale=t_scale, squared=squared
    )
    return _spectral_clusters(affinity, n_clusters, rng)


def similar_affinity(
    features: ArrayLike, t_s: ArrayLike, *, sigma: float, t_scale: str = "max", squared: bool = False
) -> Floats:
    """G of A (K, K), in (0, 1]."""
    check_width("sigma", sigma)
    cosines, t = _cosines_and_times(features, t_s, t_scale)
    return np.exp(-_distances(np.column_stack([t, cosines]), squared) / (2 * sigma**2))


def complementary_affinity(
    features: ArrayLike,
    t_s: ArrayLike,
    *,
    sigma_t: float,
    sigma_ft: float,
    t_scale: str = "max",
    squared: bool = False,
) -> Floats:
    """G of A+ (K, K), at least 1; 2 on the diagonal, and larger where directions differ."""
    check_width("sigma_t", sigma_t)
    check_width("sigma_ft", sigma_ft)
    cosines, t = _cosines_and_times(features, t_s, t_scale)
    power = _distances(cosines, squared) / (2 * sigma_ft**2)
    if power.max() > 600:  # exp(709) is the end
        raise ValueError(
            f"sigma_ft {sigma_ft:g} is too small: the largest affinity would be exp({power.max():.0f}); "
            f"take at least {sigma_ft * np.sqrt(power.max() / 600):.2g}"
        )
    return np.exp(-_distances(t[:, None], squared) / (2 * sigma_t**2)) + np.exp(power)


def _cosines_and_times(features: ArrayLike, t_s: ArrayLike, t_scale: str) -> tuple[Floats, Floats]:
    """Cosines (K, K) and scaled times (K,)."""
    _check.one_of("t_scale", t_scale, T_SCALES)
    t = _check.array("t_s", t_s, (None,))
    _check.positive("t_s", t, zero=True)
    gram = gram_matrix(features, np.ones(len(t)))
    length = np.sqrt(gram.diagonal())
    length = np.where(length > 0, length, 1.0)
    return gram / length / length[:, None], t / (t.max() or 1.0) if t_scale == "max" else t


def _distances(points: Floats, squared: bool) -> Floats:
    """(K, d) -> (K, K)"""
    from scipy.spatial.distance import pdist, squareform  # takes long to import

    return np.asarray(squareform(pdist(points, "sqeuclidean" if squared else "euclidean")))


def _spectral_clusters(affinity: Floats, n_clusters: int, rng: np.random.Generator) -> list[Ints]:
    """Sorted clusters in the order of their lowest clients. One number is drawn from rng, whatever comes of it."""
    from sklearn.cluster import SpectralClustering  # takes long to import
    from sklearn.exceptions import ConvergenceWarning

    n = len(affinity)
    _check.whole("n_clusters", n_clusters)
    if n_clusters > n:
        raise ValueError(f"n_clusters must be at most the number of clients, {n}; got {n_clusters}")
    seed = int(rng.integers(2**31))
    if n_clusters in (1, n):
        return [np.array(g) for g in np.split(np.arange(n), n_clusters)]
    model = SpectralClustering(n_clusters, affinity="precomputed", n_init=10, random_state=seed)
    with warnings.catch_warnings():  # fewer points than groups: the empty ones are dropped below
        warnings.simplefilter("ignore", ConvergenceWarning)
        label = model.fit_predict(np.maximum(affinity, np.finfo(np.float64).tiny))  # 0 would take the graph apart
    groups = [np.flatnonzero(label == g) for g in range(n_clusters)]
    return sorted((g for g in groups if len(g)), key=lambda g: int(g[0]))

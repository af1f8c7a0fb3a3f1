"""The constants of the bound, measured (CAMU, section III-C, assumptions A1 to A4).

How they are measured is ours.

    delta_c^2 = sum_k G_k |grad F_k|^2 / |sum_k G_k grad F_k|^2          members of c; clusters alike for delta; at least 1
    L         largest eigenvalue of the Hessian, by power iteration, or from differences of gradients along a run
    mu        min_t |grad F(w_t)|^2 / (2 (F(w_t) - F*)),  F* = 0.9 of the lowest loss seen

A network is not strongly convex: mu is the Polyak-Lojasiewicz constant that the proof needs. It scales what every
cluster adds alike, so the best allocation for ever does not depend on it, and on L hardly. Gradients are full-batch, of
one mode of normalisation layers, at a few models of a noise-free run. K clients, N clusters, T models, P parameters.
"""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedloom import _check

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]

SHORT = 0.1  # of the first gradient: near a stationary point ratios explode
RANGE = (1.0, 10.0)
LEAST_MU = 1e-4
LOWEST = 0.9  # of the lowest loss seen


def dissimilarity(gradients: ArrayLike, weights: ArrayLike) -> float:
    """Root mean square length of gradients (n, P) over the length of their mean, both by weights (n,): at least 1.

    >>> print(round(dissimilarity([[3, 0], [1, 2]], [0.5, 0.5]), 6))
    1.183216
    """
    rows = _check.array("gradients", gradients, (None, None))
    w = _check.array("weights", weights, (len(rows),))
    _check.positive("weights", w, zero=True)
    if not w.any():
        raise ValueError("weights must have a positive sum, got zeros only")
    w = w / w.sum()
    mean = w @ rows
    square = float(mean @ mean)
    if square == 0:
        raise ValueError("the mean gradient is 0: this is a stationary point, where gradients cannot be compared")
    return max(1.0, float(np.sqrt(w @ (rows**2).sum(axis=1) / square)))


def dissimilarities(
    probes: Sequence[ArrayLike], cover: Mask, n_samples: ArrayLike, cluster_weight: ArrayLike
) -> tuple[float, Floats]:
    """delta and delta_c (N,): medians over probes, in [1, 10].

    probes: gradients (K, P) of all clients, one array for each model; those whose mean is shorter than a tenth of the
    first's are left out. cover (N, K) bool, n_samples (K,): weights inside clusters; cluster_weight (N,): between them.
    """
    size = _check.array("n_samples", n_samples, (cover.shape[1],))
    weight = _check.array("cluster_weight", cluster_weight, (len(cover),))
    inside = cover * size
    inside = inside / inside.sum(axis=1, keepdims=True)  # (N, K)
    if not len(probes):
        raise ValueError("at least one probe is needed")
    between, within, first = [], [], 0.0
    for probe in probes:
        rows = _check.array("probes", probe, (len(size), None))
        of_cluster = inside @ rows
        length = float(np.linalg.norm(weight @ of_cluster))
        first = first or length
        if length < SHORT * first:
            continue
        between.append(dissimilarity(of_cluster, weight))
        within.append([dissimilarity(rows[members], size[members]) for members in cover])
    return float(np.clip(np.median(between), *RANGE)), np.clip(np.median(within, axis=0), *RANGE)


def smoothness(
    gradient: Callable[[Floats], Floats],
    model: ArrayLike,
    *,
    n_iterations: int = 15,
    step: float = 1e-3,
    rng: np.random.Generator,
) -> float:
    """L at a model (P,): largest eigenvalue of the Hessian by absolute value, by power iteration on differences of
    gradients.

    gradient: (P,) -> (P,), full-batch. It is called twice in each iteration.
    """
    _check.whole("n_iterations", n_iterations)
    _check.positive("step", step)
    w = _check.array("model", model, (None,))
    v = rng.standard_normal(len(w))
    value = 0.0
    for _ in range(n_iterations):
        v = v / np.linalg.norm(v)
        bent = (np.asarray(gradient(w + step * v)) - np.asarray(gradient(w - step * v))) / (2 * step)
        value = float(np.linalg.norm(bent))
        if value == 0:
            return 0.0
        v = bent
    return value


def smoothness_along(models: ArrayLike, gradients: ArrayLike) -> float:
    """L from a run: 90th percentile of |grad(w_t+1) - grad(w_t)| / |w_t+1 - w_t|; models and gradients (T, P), T >= 2."""
    w = _check.array("models", models, (None, None))
    g = _check.array("gradients", gradients, w.shape)
    moved = np.linalg.norm(np.diff(w, axis=0), axis=1)
    turned = np.linalg.norm(np.diff(g, axis=0), axis=1)
    if not (moved > 0).any():
        raise ValueError(f"models must differ to compare their gradients; got {len(w)} that do not")
    return float(np.quantile(turned[moved > 0] / moved[moved > 0], 0.9))


def convexity(gradient_norms: ArrayLike, losses: ArrayLike, smooth: float) -> float:
    """mu from a run, in [1e-4, L]: gradient_norms (T,) of the mean gradient, losses (T,) above 0, smooth: L."""
    _check.positive("smooth", smooth)
    loss = _check.array("losses", losses, (None,))
    norm = _check.array("gradient_norms", gradient_norms, loss.shape)
    _check.positive("losses", loss)
    mu = (norm**2 / (2 * (loss - LOWEST * loss.min()))).min()
    return float(np.clip(mu, min(LEAST_MU, smooth), smooth))

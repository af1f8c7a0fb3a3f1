"""Clusters count more the closer their labels are to everybody's.

    W_c     = min over couplings of the cost between the labels of c and all labels          (CAMU, eq. 3)
              "index"     cost |i - j|:  sum_l |CDF_c(l) - CDF(l)|
              "discrete"  cost 0 or 1:   1/2 sum_l |p_c(l) - p(l)|, the total variation
    ln v_c  = ln |D_c| + 1 / max(W_c, floor)                                                   contribution (CAMU, eq. 14)
    G_c     = v_c / sum_j v_j                                                                  weights (CAMU, eq. 4)

e^{1/W} has no limit as W goes to 0, and for clusters that all look like the whole W is sampling noise: without a floor
one of them would get nearly all the weight. With the default floor of 0.25 such clusters fall back to weights by size.
As printed there is no floor; 1e-3 comes close and stays finite. The cost |i - j| depends on the order of the labels,
which means nothing for most of them; it is the default because the published thresholds fit it only. N clusters, C
labels.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedloom import _check

Floats = NDArray[np.float64]

METRICS = ("index", "discrete")
FLOOR = 0.25
LARGEST = float(np.log(np.finfo(np.float64).max))


def label_transport(label_counts: ArrayLike, everybody: ArrayLike | None = None, *, metric: str = "index") -> Floats:
    """W (N,): cost to turn the labels of each cluster into everybody's.

    label_counts (N, C): pooled samples of each cluster and label; everybody (C,): samples of all, by default their sum.
    In [0, C - 1] with the metric "index", in [0, 1] with "discrete".

    >>> label_transport([[60, 30, 10, 0], [0, 20, 30, 50], [10, 40, 60, 90]]).round(3).tolist()
    [1.275, 0.525, 0.375]
    """
    _check.one_of("metric", metric, METRICS)
    counts = _check.array("label_counts", label_counts, (None, None))
    whole = counts.sum(axis=0) if everybody is None else _check.array("everybody", everybody, (counts.shape[1],))
    for name, value in (("label_counts", counts), ("everybody", whole)):
        _check.positive(name, value, zero=True)
    empty = np.flatnonzero(counts.sum(axis=1) == 0)
    if len(empty) or not whole.any():
        raise ValueError(f"clusters {empty.tolist()} have no samples, so no labels to compare; leave them out")
    apart = counts / counts.sum(axis=1, keepdims=True) - whole / whole.sum()  # (N, C)
    if metric == "discrete":
        return np.asarray(np.abs(apart).sum(axis=1) / 2)
    return np.asarray(np.abs(apart.cumsum(axis=1)[:, :-1]).sum(axis=1))


def log_contribution(n_samples: ArrayLike, transport: ArrayLike, *, floor: float = FLOOR) -> Floats:
    """ln v (N,) of clusters of n_samples (N,) at a distance `transport` (N,) from everybody's labels."""
    _check.positive("floor", floor)
    w = _check.array("transport", transport, (None,))
    _check.positive("transport", w, zero=True)
    size = _check.array("n_samples", n_samples, w.shape)
    _check.positive("n_samples", size)
    return np.asarray(np.log(size) + 1 / np.maximum(w, floor))


def contribution(log_values: ArrayLike) -> Floats:
    """v (N,) from ln v, to be shown; numbers too large for float64 are the largest one. Compare ln v instead."""
    return np.exp(np.minimum(_check.array("log_values", log_values, (None,)), LARGEST))


def contribution_weights(log_values: ArrayLike) -> Floats:
    """G (N,), sum 1, from ln v (N,): finite whatever the distances.

    >>> contribution_weights([1000.0, 1000.0 + np.log(3)]).round(6).tolist()
    [0.25, 0.75]
    """
    values = _check.array("log_values", log_values, (None,))
    if not len(values):
        raise ValueError("there are no clusters to weigh")
    relative = np.exp(values - values.max())
    return np.asarray(relative / relative.sum())

"""How far aggregators differ in labels, and clients in models: what to watch where a bound does not see the topology.

    TV_n = 1/2 sum_c |q_nc - q_c|                 labels of aggregator n against all labels     (ours)
    D    = sum_k p_k |w_k - mean|^2               mean = sum_k p_k w_k                          (HHFL, Lemma 3)

N aggregators, K clients, C classes, P parameters.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedloom import _check
from fedloom.grouping import start_matrix

Floats = NDArray[np.float64]

COLUMNS_AT_ONCE = 1 << 16  # a wide block of models is measured in float64 piece by piece


def label_distance(cover: NDArray[np.bool_], label_counts: ArrayLike, split: bool = True) -> Floats:
    """Total variation TV (N,) in [0, 1] from each aggregator's labels to those of all clients that report to anybody.

    cover (N, K) bool, label_counts (K, C) samples. With `split` a client's samples are shared out over the aggregators
    it reports to (1/|S_k|), as in HHFL's averages; without, they count in full at each. NaN for an aggregator whose
    clients have no samples.

    >>> disjoint = np.array([[True, True, False], [False, False, True]])
    >>> label_distance(disjoint, [[4, 0], [2, 2], [0, 8]]).tolist()  # all: 6/16, first: 6/8, second: 0
    [0.375, 0.375]
    """
    start = start_matrix(cover)
    counts = _check.array("label_counts", label_counts, (len(start), None))
    _check.positive("label_counts", counts, zero=True)
    everyone = counts[cover.any(axis=0)].sum(axis=0)
    if not everyone.any():
        raise ValueError("no client that reports to an aggregator has samples; there are no labels to compare")
    held = (start.T if split else cover) @ counts  # (N, C)
    total = held.sum(axis=1, keepdims=True)
    share = np.divide(held, total, out=np.full_like(held, np.nan), where=total > 0)
    return np.asarray(np.abs(share - everyone / everyone.sum()).sum(axis=1) / 2)


def drift(rows: NDArray[np.floating], weights: ArrayLike) -> float:
    """D: mean squared distance of models from their mean. rows (K, P), weights (K,) are scaled to sum 1."""
    if rows.ndim != 2:
        raise ValueError(f"rows must have shape (K, P), got {rows.shape}")
    p = _check.array("weights", weights, (len(rows),))
    _check.positive("weights", p, zero=True)
    if not p.any():
        raise ValueError("weights must have a positive sum, got zeros only")
    p = p / p.sum()
    total = 0.0
    for first in range(0, rows.shape[1], COLUMNS_AT_ONCE):
        block = rows[:, first : first + COLUMNS_AT_ONCE].astype(np.float64)
        total += float(p @ ((block - p @ block) ** 2).sum(axis=1))
    return total

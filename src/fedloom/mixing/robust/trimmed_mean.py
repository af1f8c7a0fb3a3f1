"""The mean of every coordinate without its smallest and largest values.

    w_p = sum_{i in U_p} a_i v_ip / sum_{i in U_p} a_i,     U_p: all but the b smallest and the b largest of v_1p ... v_mp,
    b   = floor(share m)

D. Yin, Y. Chen, K. Ramchandran, P. Bartlett, "Byzantine-Robust Distributed Learning: Towards Optimal Statistical Rates", 2018
(ICML), in which all weights are equal. Up to b hostile models cannot carry a coordinate beyond the values of the others.

Where several models have the very value at which the cut falls, each gives the same part of its weight, so that it does not
matter in which order they came. Few models: share m < 1 trims nothing, and this is the weighted mean; no defence, so choose a
share of at least 1 / m. At least one value is always left. m models, P values.
"""

import numpy as np
from numpy.typing import NDArray

from fedloom.mixing.order import Rows, sorted_columns
from fedloom.mixing.robust.votes import Rule, Votes
from fedloom.mixing.weights import Floats

BLOCK = 1 << 12  # columns that are looked at together: what is counted of them stays in the cache
ALMOST = 1e-9  # 0.29 * 100 is 28.999999999999996


def trimmed_mean(share: float = 0.1) -> Rule:
    """share: of the models, so many are left out at either end; from 0, the plain mean, to below 0.5."""
    if not 0 <= share < 0.5:
        raise ValueError(f"share is cut at either end and must be from 0 to below 0.5, got {share:g}")

    def rule(votes: Votes) -> NDArray[np.floating]:
        b = n_trimmed(len(votes.rows), share)
        return votes.mean() if b == 0 else trimmed(votes.rows, votes.weights, b)

    return rule


def n_trimmed(m: int, share: float) -> int:
    """b of m models; fewer than half of them."""
    return min(int(share * m + ALMOST), (m - 1) // 2)


def trimmed(rows: Rows, weights: Floats, b: int) -> Floats:
    """(P,) of rows (m, P) with weights (m,), without b values at either end of a column, 0 <= b < m / 2.

    >>> trimmed(np.array([[1], [2], [4], [9]], dtype=np.float32), np.array([1.0, 1.0, 3.0, 1.0]), 1).tolist()  # (2 + 3 * 4) / 4
    [3.5]
    """
    if not 0 <= 2 * b < len(rows):
        raise ValueError(f"b must be below half of the {len(rows)} models, got {b}")
    ordered = sorted_columns(rows)
    first = np.full(rows.shape[1], b)
    return mean_between(rows, weights, ordered[b], ordered[-1 - b], first, len(rows) - 2 * b)


def mean_between(rows: Rows, weights: Floats, low: Rows, high: Rows, first: NDArray[np.int64], size: int) -> Floats:
    """The weighted mean (P,) of `size` values of every column, those after the `first` (P,) smallest: from low (P,) to high (P,).

    Of several values that equal low, or high, some may be outside: then each of them counts in part.
    """
    parts = (slice(at, at + BLOCK) for at in range(0, len(low), BLOCK))
    return np.concatenate([_mean_of(rows[:, p], weights, low[p], high[p], first[p], size) for p in parts])


def _mean_of(rows: Rows, weights: Floats, low: Rows, high: Rows, first: NDArray[np.int64], size: int) -> Floats:
    """The same of some columns."""
    total, weight = np.zeros(len(low)), np.zeros(len(low))  # of what lies between
    at_low, at_high = np.zeros((2, len(low))), np.zeros((2, len(low)))  # how many there are, and their weight
    n_below, n_above = np.zeros(len(low), dtype=np.int64), np.zeros(len(low), dtype=np.int64)
    for row, a in zip(rows, weights.tolist()):
        between = (row > low) & (row < high)
        total += np.where(between, a * row.astype(np.float64), 0.0)
        weight += a * between
        at_low += np.where(row == low, [[1.0], [a]], 0.0)
        at_high += np.where(row == high, [[1.0], [a]], 0.0)
        n_below += row < low
        n_above += row > high
    n_last = len(rows) - first - size  # outside at the upper end
    part_low = at_low[1] * (1 - (first - n_below) / at_low[0])
    part_high = at_high[1] * (1 - (n_last - n_above) / at_high[0])
    mean = (total + part_low * low + part_high * high) / (weight + part_low + part_high)
    return np.asarray(np.where(low == high, low, mean))

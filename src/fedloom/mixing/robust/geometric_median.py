"""The point with the least weighted sum of distances to the models.

    w = argmin_z sum_i a_i ||z - v_i||                                                    the geometric median
    b_i = a_i / max(nu, ||z - v_i||),     z <- sum_i b_i v_i / sum_i b_i                  Weiszfeld's step, smoothed by nu

K. Pillutla, S. Kakade, Z. Harchaoui, "Robust Aggregation for Federated Learning", 2022 (IEEE Transactions on Signal Processing;
first 2019), from the weighted mean. Fewer than half of the weight cannot carry it off. nu -> infinity is the mean by samples.

Steps end when the sum of distances falls by less than 1e-6 of itself, or after `most`: what is reached by then is taken, and is
never worse than the mean. One model is taken as it is; of two with equal weights it is their mean. m models, P values.
"""

import numpy as np

from fedloom import _check
from fedloom._sums import weighted_sum
from fedloom.mixing.order import Rows
from fedloom.mixing.robust.votes import Rule, Sum, Votes
from fedloom.mixing.weights import Floats

ENOUGH = 1e-6


def geometric_median(smoothing: float = 1e-6, most: int = 100) -> Rule:
    """smoothing: nu, a distance between models below which they are one; most: steps."""
    _check.positive("smoothing", smoothing)
    _check.whole("most", most)

    def rule(votes: Votes) -> Floats:
        return weiszfeld(votes.rows, votes.weights, smoothing, most, votes.add)

    return rule


def weiszfeld(rows: Rows, weights: Floats, smoothing: float = 1e-6, most: int = 100, add: Sum = weighted_sum) -> Floats:
    """(P,) of rows (m, P) with weights (m,), sum 1.

    >>> corners = np.array([[0, 0], [3, 0], [0, 3], [100, 100]], dtype=np.float32)  # the median of four is where lines cross
    >>> weiszfeld(corners, np.full(4, 0.25)).round(1).tolist()
    [1.5, 1.5]
    """
    z = add(rows, weights)
    distance = _distances(rows, z)
    for _ in range(most):
        if (distance <= smoothing).all():
            break  # all within nu of z: the step is the mean
        b = weights / np.maximum(smoothing, distance)
        z_next = add(rows, b / b.sum())
        distance_next = _distances(rows, z_next)
        gain = 1 - float(weights @ distance_next) / float(weights @ distance)
        if gain < 0:
            break
        z, distance = z_next, distance_next
        if gain < ENOUGH:
            break
    return z


def _distances(rows: Rows, z: Floats) -> Floats:
    """(m,), in double precision."""
    return np.array([np.linalg.norm(row - z) for row in rows])

"""No model moves the old one by more than a given length.

    w <- w + sum_i a_i min(1, tau / ||v_i - w||) (v_i - w)

Z. Sun, P. Kairouz, A. T. Suresh, H. B. McMahan, "Can You Really Backdoor Federated Learning?", 2019: norm thresholding of
updates, without its noise. tau is a length in the space of models: honest changes should stay below it, so it goes with
learning rate, local steps and the size of the model. tau = infinity is the mean by weights, to the bit, and so is any tau that
no model passes.

It takes any number of models. m models, P values.
"""

import numpy as np

from fedloom import _check
from fedloom._sums import weighted_sum
from fedloom.mixing.order import Rows
from fedloom.mixing.robust.votes import Rule, Sum, Votes
from fedloom.mixing.weights import Floats


def norm_clipping(norm: float) -> Rule:
    """norm: tau, how far from the old model one may lie."""
    _check.positive("norm", norm)

    def rule(votes: Votes) -> Floats:
        return clipped_step(votes.rows, votes.weights, votes.old.astype(np.float64), norm, votes.add)

    return rule


def clipped_step(rows: Rows, weights: Floats, centre: Floats, norm: float, add: Sum = weighted_sum) -> Floats:
    """(P,): the centre (P,) moved towards rows (m, P) by weights (m,), sum 1, each by at most `norm`.

    >>> clipped_step(np.array([[3, 4], [0, 50]], dtype=np.float32), np.array([0.5, 0.5]), np.zeros(2), 10.0).tolist()
    [1.5, 7.0]
    """
    length = np.array([np.linalg.norm(row - centre) for row in rows])
    if (length <= norm).all():
        return add(rows, weights)
    part = weights * (norm / np.maximum(length, norm))
    return np.asarray((1.0 - part.sum()) * centre + add(rows, part))

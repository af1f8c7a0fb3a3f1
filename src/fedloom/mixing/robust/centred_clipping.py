"""Clipping around a centre that is itself improved: some steps of norm clipping, from the old model.

    c_0 = w_old,     c_{l+1} = c_l + sum_i a_i min(1, tau / ||v_i - c_l||) (v_i - c_l),     w = c_L

S. P. Karimireddy, L. He, M. Jaggi, "Learning from History for Byzantine Robust Optimization", 2021 (ICML), with the old model
as the start, here of models in the place of momenta, and weights in the place of 1 / m. L = 1 is norm clipping
(`norm_clipping`). tau is the length of an honest change, and more; tau = infinity is the mean by weights, to the bit.

It takes any number of models; in one step a model moves the centre by at most a_i tau. m models, P values.
"""

import numpy as np

from fedloom import _check
from fedloom._sums import weighted_sum
from fedloom.mixing.order import Rows
from fedloom.mixing.robust.norm_clipping import clipped_step
from fedloom.mixing.robust.votes import Rule, Sum, Votes
from fedloom.mixing.weights import Floats


def centred_clipping(radius: float, steps: int = 3) -> Rule:
    """radius: tau; steps: L, our default three."""
    _check.positive("radius", radius)
    _check.whole("steps", steps)

    def rule(votes: Votes) -> Floats:
        return clipped_around(votes.rows, votes.weights, votes.old.astype(np.float64), radius, steps, votes.add)

    return rule


def clipped_around(
    rows: Rows, weights: Floats, centre: Floats, radius: float, steps: int, add: Sum = weighted_sum
) -> Floats:
    """(P,) of rows (m, P) with weights (m,), sum 1, from centre (P,)."""
    for _ in range(steps):
        centre = clipped_step(rows, weights, centre, radius, add)
    return centre

"""The median of every coordinate.

    w_p = median(v_1p, ..., v_mp)          half the sum of the two in the middle where m is even

D. Yin, Y. Chen, K. Ramchandran, P. Bartlett, "Byzantine-Robust Distributed Learning: Towards Optimal Statistical Rates", 2018
(ICML), here of models in the place of gradients. Fewer than half of the models cannot carry a coordinate beyond the values of
the others. Samples do not count: every model has one vote. Where clients have different labels a median is not near the mean,
and learning suffers.

One model is taken as it is; of two it is the plain mean. m models, P values.
"""

from fedloom.mixing.order import Rows, column_median
from fedloom.mixing.robust.votes import Rule, Votes


def coordinate_median() -> Rule:
    """The rule; `fedloom.mixing.order.column_median` is the function of arrays, (m, P) -> (P,)."""

    def rule(votes: Votes) -> Rows:
        return column_median(votes.rows)

    return rule

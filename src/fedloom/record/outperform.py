"""Which of two methods is sooner at a target if what they ask of clients before grouping takes different time
(LTC, section 5.5.3).

    time     = R (t_feature + t_global + t_sync)                                  of R cloud rounds
    R        = min{k : PCHIP(k) = target}                                         through the accuracies after k cloud rounds
    t_max    = R_reference / R (t_feature + t_global + t_sync) - (t_global + t_sync)
    t_never  = (R / R_reference - 1) (t_global + t_sync)

t_feature is the reference's. A contender that needs R rounds wins if its own feature time is below t_max; and if the
reference's is below t_never then t_max is negative and there is no feature time with which the contender wins. All times
are in one unit, whichever; the defaults are those of LTC's Tables 11 and 12, in simulated steps.
"""

import math

import numpy as np
from numpy.typing import ArrayLike

from fedloom import _check


def rounds_to(accuracies: ArrayLike, target: float, *, lower_is_better: bool = False) -> float:
    """R: cloud rounds, with a fraction, until the curve first reaches `target`; infinite if it never does.

    accuracies (k+1,): after 0, 1, ..., k cloud rounds, the first of the initial model, averaged over seeds; for a measure
    such as an error, `lower_is_better`. 0 if the initial model is there already.

    The interpolation (PCHIP) rises or falls throughout between two points, so that it first crosses before the first point
    that reaches the target, and nowhere else before.

    >>> round(rounds_to([10, 22, 31, 30, 38, 41], target=35), 6)
    3.640678
    """
    from scipy.interpolate import PchipInterpolator
    from scipy.optimize import brentq

    curve = _check.array("accuracies", accuracies, (None,))
    if not len(curve):
        raise ValueError("accuracies must have at least one value, that of the initial model, got none")
    if not math.isfinite(target):
        raise ValueError(f"target must be finite, got {target}")
    sign = -1.0 if lower_is_better else 1.0
    above = sign * (curve - target)
    reached = np.flatnonzero(above >= 0)
    if not len(reached):
        return math.inf
    k = int(reached[0])
    if above[k] == 0 or k == 0:
        return float(k)
    return float(brentq(PchipInterpolator(np.arange(len(above)), above), k - 1, k, xtol=1e-12))


def largest_feature_time(
    rounds: float, *, rounds_reference: float = 16, t_feature: float = 50, t_global: float = 100, t_sync: float = 30
) -> float:
    """t_max, below which a contender's feature time must be for it to win; negative if it cannot, whatever it asks.

    >>> largest_feature_time(20)
    14.0
    """
    _check_times(rounds, rounds_reference, t_feature, t_global, t_sync)
    other = t_global + t_sync
    return rounds_reference / rounds * (t_feature + other) - other


def never_limit(rounds: float, *, rounds_reference: float = 16, t_global: float = 100, t_sync: float = 30) -> float:
    """t_never: with a feature time of the reference below this the contender cannot win, whatever it asks.

    Negative if the contender needs fewer rounds than the reference: then it wins with no features in any case.

    >>> never_limit(20)
    32.5
    """
    _check_times(rounds, rounds_reference, 0, t_global, t_sync)
    return (rounds / rounds_reference - 1) * (t_global + t_sync)


def threshold_text(t_max: float) -> str:
    """A threshold as the published tables print it, "/" for none.

    >>> threshold_text(largest_feature_time(17.354)), threshold_text(largest_feature_time(22.326))
    ('36.0', '/')
    """
    return f"{t_max:.1f}" if t_max >= 0 else "/"


def _check_times(rounds: float, rounds_reference: float, t_feature: float, t_global: float, t_sync: float) -> None:
    for name, value in (("rounds", rounds), ("rounds_reference", rounds_reference)):
        _check.positive(name, value)
    for name, value in (("t_feature", t_feature), ("t_global", t_global), ("t_sync", t_sync)):
        _check.positive(name, value, zero=True)
    if math.isinf(rounds_reference):
        raise ValueError("rounds_reference must be finite: the reference sets the target, so it reaches it")

"""Whether a curve can be believed: does it zigzag, and does it end far below its best?

A rate that is too large makes a model overshoot and come back, so that a value depends on whether it was read after an odd
or an even number of rounds. Over the last 20 evaluations, and over the last 10, where the start of a short run does not hide it,

    v_k = a + b k + z (-1)^k + noise

is fitted by least squares. The curve oscillates if z differs from zero by more than one chance in a thousand (Student's t),
its differences change their sign at least three times out of four (for noise it is two out of three), and the swing 2 |z| is
at least 2 % of the level. A zigzag that starts anew with another phase every few evaluations, as where aggregators are reset
every odd number of edge rounds, is not seen: read such a method between the same cloud rounds.

A final value is far below the best if the fall is at least a tenth of all the curve's range, 2 % of the best, and more than
noise explains (half as much noise is asked for if more than half of a large gain is lost); noise is read from how far values
lie from the middle of their neighbours. Errors, where lower is better, are judged by their logarithms.
"""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

WINDOWS = (20, 10)  # last evaluations looked at for a zigzag
LEAST = 8  # below so many nothing is called a zigzag
CHANCE = 1e-3  # two-sided
TURNS = 0.75  # share of the differences after which the next goes the other way
SWING = 0.02  # of the level: less does not matter
FALL = 0.1  # of the curve's range
LEAST_FALL = 0.02  # of the best value
NOISES = 6.0  # standard deviations that the best of many and the last may be apart by chance

Floats = NDArray[np.float64]


def curve_warnings(values: Sequence[float], higher_is_better: bool = True) -> list[str]:
    """What a reader of the curve must know, a sentence each; [] for a sound one.

    values (n,): a measure at every evaluation, oldest first; what is not finite is left out.

    >>> curve_warnings([0.1, 0.5, 0.6, 0.65, 0.68, 0.7, 0.7, 0.71])
    []
    """
    known = _finite(values)
    return [*_zigzag(known), *_fall(known, higher_is_better)]


def oscillates(values: Sequence[float]) -> bool:
    """Whether the last evaluations go up and down in turn, by more than chance and by enough to matter.

    >>> oscillates([52.5, 63.9, 52.4, 66.0, 52.6, 67.3, 51.7, 66.4, 54.1])
    True
    """
    return bool(_zigzag(_finite(values)))


def _finite(values: Sequence[float]) -> Floats:
    known = np.array([math.nan if v is None else v for v in values], dtype=np.float64)
    return known[np.isfinite(known)]


def _zigzag(values: Floats) -> list[str]:
    for n in WINDOWS:
        last = values[-n:]
        swing = _swing(last) if len(last) >= LEAST else 0.0
        if swing:
            return [
                f"its curve oscillates: the last {len(last)} evaluations go up and down in turn by {swing:.0%} of their level, "
                f"so that a value depends on the round it is read at; try a smaller training.lr or less momentum"
            ]
    return []


def _swing(values: Floats) -> float:
    """From odd to even evaluations, as a share of the level; 0 if that may be chance or does not matter. values (n,)"""
    n = len(values)
    design = np.stack([np.ones(n), np.linspace(-1.0, 1.0, n), (-1.0) ** np.arange(n)], axis=1)  # (n, 3)
    found, *_ = np.linalg.lstsq(design, values, rcond=None)
    rest = values - design @ found
    variance = float(rest @ rest) / (n - 3) * float(np.linalg.inv(design.T @ design)[2, 2])
    z, level = abs(float(found[2])), float(np.abs(values).mean())
    if level == 0 or 2 * z < SWING * level:
        return 0.0
    from scipy.special import stdtr  # takes long to import, and few curves swing so much

    chance = 2 * float(stdtr(n - 3, -z / math.sqrt(variance))) if variance > 0 else 0.0
    rises = np.diff(values)
    turns = float((rises[1:] * rises[:-1] < 0).mean())
    return 2 * z / level if chance <= CHANCE and turns >= TURNS else 0.0


def _fall(values: Floats, higher_is_better: bool) -> list[str]:
    n = len(values)
    if n < 4:
        return []
    judged = values
    if not higher_is_better:
        judged = -np.log(values) if (values > 0).all() else -values
    best = int(judged.argmax())
    fall, span = float(judged[best] - judged[-1]), float(np.ptp(judged))
    level = 1.0 if judged is not values and (values > 0).all() else abs(float(judged[best]))
    collapsed = fall > span / 2 > level / 4
    by_chance = NOISES * _noise(judged) / (2 if collapsed else 1)
    if fall < FALL * span or fall <= LEAST_FALL * level or fall <= by_chance:
        return []
    ago = n - 1 - best
    evaluations = "evaluation" if ago == 1 else "evaluations"
    worse = "below" if higher_is_better else "above"
    return [
        f"its final value is far {worse} its best: {values[-1]:.3g} at the end, {values[best]:.3g} {ago} {evaluations} before; "
        f"judge it by neither alone"
    ]


def _noise(values: Floats) -> float:
    """Standard deviation of what neighbours do not explain; more for few values, of which little is known.

    v_k - (v_{k-1} + v_{k+1}) / 2 of independent noise has a variance of 3/2 sigma^2; the median of its size is robust
    against the fall itself.
    """
    off = np.abs(values[1:-1] - (values[:-2] + values[2:]) / 2)
    return float(np.median(off)) * 1.4826 / math.sqrt(1.5) * (1 + 4 / len(values))

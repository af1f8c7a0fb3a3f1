"""Verdicts on claims, from the 95 % interval of the mean over seeds.

A claim about a number holds if the interval (Student's t over seeds, `fedloom.record.statistics`) lies within the claim, does not
hold if it lies outside, and is undecided otherwise. Fewer than three seeds, or a number that a run did not yield, decide nothing.
Comparisons of two curves use the difference (or ratio) of runs with the same seed.

Three more states are shown and not counted: BUILT, a claim that could not have come out otherwise, OTHER_SCALE, a published
figure beside runs of another size than the published ones, and FEW, what fewer than three seeds leave undecided.
"""

import itertools
import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from fedloom.record.statistics import LEAST, interval

HOLDS, FAILS, OPEN = "holds", "does not hold", "undecided"
BUILT, OTHER_SCALE, FEW = "by construction", "not tested at this scale", "too few seeds"


@dataclass(frozen=True)
class Beyond:
    """A value that is only known to be larger (side 1) or smaller (side -1) than `value`: a run that ended too early to tell."""

    value: float
    side: int = 1


Value = float | Beyond | None
Values = Sequence[Value]


@dataclass(frozen=True)
class Verdict:
    """state: one of those above; measured: the number it rests on, as text; n: seeds that yielded it."""

    state: str
    measured: str
    n: int = 0


def at_least(values: Values, bar: float, unit: str = "") -> Verdict:
    """Is the value at least `bar`?"""
    return within(values, bar, math.inf, unit)


def at_most(values: Values, bar: float, unit: str = "") -> Verdict:
    """Is the value at most `bar`?"""
    return within(values, -math.inf, bar, unit)


def within(values: Values, low: float, high: float, unit: str = "") -> Verdict:
    """Is the value in low..high?

    Values that lie beyond what is known count as what is known, where that can only weaken the verdict; else it is undecided.

    >>> within([1.0, 1.1, 0.9], 0.7, 1.3)
    Verdict(state='holds', measured='1.00 [0.75, 1.25]', n=3)
    >>> within([2.0, 2.2, 2.1], 0.7, 1.3).state, within([1.2, 1.2], 0.7, 1.3).state
    ('does not hold', 'undecided')
    """
    text = span(values) + (f" {unit}" if unit else "")
    numbers = [number_of(v) for v in values if v is not None]
    n = len(numbers)
    if n < len(values) or n < LEAST:
        return Verdict(OPEN, text, n)
    found = interval(numbers)
    larger, smaller = (any(isinstance(v, Beyond) and v.side == side for v in values) for side in (1, -1))
    if found.inside(low, high) and not (larger and high < math.inf) and not (smaller and low > -math.inf):
        return Verdict(HOLDS, text, n)
    if found.outside(low, high) and not (smaller if found.low > high else larger):
        return Verdict(FAILS, text, n)
    return Verdict(OPEN, text, n)


def rising(groups: Sequence[Values], slack: float = 0.0) -> Verdict:
    """Do the values grow along the sweep: the last above the first, and no step down by more than `slack`?"""
    text = " → ".join(spread(values) for values in groups)
    n = min(len(_known(values)) for values in groups)
    steps = [within(apart(a, b), -slack, math.inf) for a, b in itertools.pairwise(groups)]
    whole = at_least(apart(groups[0], groups[-1]), 1e-12)
    return Verdict(worst(*steps, whole), text, n)


def worst(*verdicts: Verdict) -> str:
    """The state of a claim that holds only if all of its parts do."""
    states = {v.state for v in verdicts}
    return FAILS if FAILS in states else OPEN if OPEN in states else HOLDS


def agreed(*verdicts: Verdict) -> str:
    """The state of a claim judged in several readings: what all of them say, else undecided."""
    states = {v.state for v in verdicts}
    return states.pop() if len(states) == 1 else OPEN


def apart(a: Values, b: Values) -> list[Value]:
    """b - a, seed by seed; None where one is missing or both are unknown beyond a bound.

    >>> apart([1.0, Beyond(5.0), None], [Beyond(3.0), 2.0, 1.0])
    [Beyond(value=2.0, side=1), Beyond(value=-3.0, side=-1), None]
    """
    found: list[Value] = []
    for x, y in zip(a, b, strict=True):
        if x is None or y is None or (isinstance(x, Beyond) and isinstance(y, Beyond)):
            found.append(None)
        elif isinstance(y, Beyond):
            found.append(Beyond(y.value - number_of(x), y.side))
        elif isinstance(x, Beyond):
            found.append(Beyond(y - x.value, -x.side))
        else:
            found.append(y - x)
    return found


def ratios(a: Values, b: Values) -> list[Value]:
    """b / a, seed by seed; None where one is missing, only known beyond a bound, or a is 0."""
    return [
        None if x is None or y is None or isinstance(x, Beyond) or isinstance(y, Beyond) or x == 0 else y / x
        for x, y in zip(a, b, strict=True)
    ]


def number_of(value: float | Beyond) -> float:
    """The number, or the bound that it is beyond."""
    return value.value if isinstance(value, Beyond) else value


def mean(values: Values) -> float:
    """Of the values that are known; nan if none is."""
    known = _known(values)
    return statistics.fmean(known) if known else math.nan


def span(values: Values) -> str:
    """Mean and 95 % interval; without enough values the mean alone, or how many runs yielded one.

    >>> span([1.0, 1.1, 1.2]), span([3.0]), span([1.0, None, 2.0]), span([1.0, 1.0, Beyond(1.0)]), span([None])
    ('1.10 [0.85, 1.35]', '3.00', '1.50 (2 of 3 seeds)', 'more than 1.00 [1.00, 1.00]', '–')
    """
    numbers = [number_of(v) for v in values if v is not None]
    if not numbers:
        return "–"
    sides = {v.side for v in values if isinstance(v, Beyond)}
    sign = {(): "", (1,): "more than ", (-1,): "less than "}.get(tuple(sides), "about ")
    found = interval(numbers)
    form = _form(found.mean, found.half)
    if len(numbers) < len(values):
        return f"{sign}{form(found.mean)} ({len(numbers)} of {len(values)} seeds)"
    if not found.decides:
        return f"{sign}{form(found.mean)}"
    return f"{sign}{form(found.mean)} [{form(found.low)}, {form(found.high)}]"


def spread(values: Values) -> str:
    """Mean ± half of the 95 % interval; with fewer than three seeds the mean alone, or how many runs yielded a value.

    >>> spread([1.0, 1.1, 1.2]), spread([3.0]), spread([1.0, None]), spread([1.0, Beyond(9.0)]), spread([None])
    ('1.10 ± 0.25', '3.00', '1.00 (1 of 2 seeds)', '1.00 (1 of 2 seeds)', '–')
    """
    known = _known(values)
    if not known:
        return "–"
    found = interval(known)
    form = _form(found.mean, found.half)
    if len(known) < len(values):
        return f"{form(found.mean)} ({len(known)} of {len(values)} seeds)"
    return form(found.mean) + (f" ± {form(found.half)}" if found.decides else "")


def _form(mean_value: float, half: float) -> Callable[[float], str]:
    """Digits that matter for a mean with such an uncertainty."""
    size = max(abs(mean_value), half if math.isfinite(half) else 0.0)
    decimals = 0 if size >= 100 else 1 if size >= 20 else 2 if size >= 0.1 or size == 0 else 4
    return lambda value: f"{value + 0.0:,.{decimals}f}"


def _known(values: Values) -> list[float]:
    return [v for v in values if v is not None and not isinstance(v, Beyond)]

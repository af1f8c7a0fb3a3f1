"""Verdicts on claims, from the means of seeds and their spread.

A claim about a number holds if mean - s and mean + s both satisfy it, s being the sample standard deviation over seeds; it
does not hold if neither does; otherwise it is undecided. One seed alone, or a number that a run did not yield, decides
nothing. Comparisons of two curves use the difference (or ratio) of runs with the same seed.
"""

import itertools
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

HOLDS, FAILS, OPEN = "holds", "does not hold", "undecided"
Values = Sequence[float | None]


@dataclass(frozen=True)
class Verdict:
    """state: one of the three; measured: the number it rests on, as text."""

    state: str
    measured: str


def at_least(values: Values, bar: float, unit: str = "") -> Verdict:
    """Is the value at least `bar`?"""
    return within(values, bar, float("inf"), unit)


def at_most(values: Values, bar: float, unit: str = "") -> Verdict:
    """Is the value at most `bar`?"""
    return within(values, float("-inf"), bar, unit)


def within(values: Values, low: float, high: float, unit: str = "") -> Verdict:
    """Is the value in low..high?

    >>> within([1.0, 1.1, 0.9], 0.8, 1.2), within([2.0, 2.2, 2.1], 0.8, 1.2).state, within([1.2], 0.8, 1.2).state
    (Verdict(state='holds', measured='1.00 ± 0.10'), 'does not hold', 'undecided')
    """
    known = [v for v in values if v is not None]
    text = spread(values) + (f" {unit}" if unit else "")
    if len(known) < len(values) or len(known) < 2:
        return Verdict(OPEN, text)
    mean, s = statistics.fmean(known), statistics.stdev(known)
    inside = [low <= edge <= high for edge in (mean - s, mean + s)]
    wrong_side = mean + s < low or mean - s > high
    return Verdict(HOLDS if all(inside) else FAILS if wrong_side else OPEN, text)


def rising(groups: Sequence[Values], slack: float = 0.0) -> Verdict:
    """Do the values grow along the sweep: the last above the first, and no step down by more than `slack`?"""
    text = " → ".join(spread(values) for values in groups)
    if any(v is None for values in groups for v in values):
        return Verdict(OPEN, text)
    steps = [within(_differences(a, b), -slack, float("inf")) for a, b in itertools.pairwise(groups)]
    whole = at_least(_differences(groups[0], groups[-1]), 1e-12)
    return Verdict(worst(*steps, whole), text)


def worst(*verdicts: Verdict) -> str:
    """The state of a claim that holds only if all of its parts do."""
    states = {v.state for v in verdicts}
    return FAILS if FAILS in states else OPEN if OPEN in states else HOLDS


def spread(values: Values) -> str:
    """Mean ± standard deviation, or how many runs yielded a value.

    >>> spread([1.0, 1.2]), spread([3.0]), spread([1.0, None]), spread([None])
    ('1.10 ± 0.14', '3.00', '1.00 (1 of 2 seeds)', '–')
    """
    known = [v for v in values if v is not None]
    if not known:
        return "–"
    mean = statistics.fmean(known)
    decimals = 0 if abs(mean) >= 100 else 1 if abs(mean) >= 20 else 2 if abs(mean) >= 0.1 or mean == 0 else 4
    if len(known) < len(values):
        return f"{mean:,.{decimals}f} ({len(known)} of {len(values)} seeds)"
    if len(known) == 1:
        return f"{mean:,.{decimals}f}"
    return f"{mean:,.{decimals}f} ± {statistics.stdev(known):,.{decimals}f}"


def _differences(a: Values, b: Values) -> Values:
    """b - a, seed by seed."""
    return [None if x is None or y is None else y - x for x, y in zip(a, b)]

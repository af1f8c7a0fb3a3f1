"""Who is better: a method whose lead over every other, seed by seed, is more than chance.

The one rule that tables, answers and JSON all take: the 95 % interval of the differences to every other method excludes zero, on
three or more seeds that both were run with.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import dataclass

from fedloom.record.statistics import LEAST, Interval, interval, paired


@dataclass(frozen=True)
class Verdict:
    """Who is better than every other method, by the differences seed by seed.

    winner: None where nobody is. order: the methods that have all their values, best mean first. lead: of the first over the
    second, positive if it is better; None without a common seed. open: rivals to which the first's lead may be chance; alike:
    those of them with the same value for every common seed. n: the fewest seeds that the first shares with a rival (with one
    method, its own). missing: methods with a run that has no value.
    """

    winner: str | None
    order: tuple[str, ...]
    lead: Interval | None
    open: tuple[str, ...]
    alike: tuple[str, ...]
    n: int
    missing: tuple[str, ...]


def verdict(values: Mapping[str, Mapping[int, float | None]], higher: bool = True) -> Verdict:
    """Of values by method and seed. The best mean wins if its lead over every other method is more than chance: the 95 %
    interval of the differences over their common seeds excludes zero, on LEAST or more of them; a rival that has a value with
    none of at least so many common seeds (it never gets there, or diverged) is beaten, one that has some stays open.

    >>> ahead = verdict({"a": {0: 0.75, 1: 0.5, 2: 0.625}, "b": {0: 0.5, 1: 0.25, 2: 0.375}})
    >>> ahead.winner, ahead.lead.mean, ahead.n
    ('a', 0.25, 3)
    """
    sign = 1.0 if higher else -1.0
    whole = {
        m: {s: v for s, v in by_seed.items() if v is not None}
        for m, by_seed in values.items()
        if by_seed and None not in by_seed.values()
    }
    missing = tuple(m for m in values if m not in whole)
    order = tuple(sorted(whole, key=lambda m: -sign * statistics.fmean(whole[m].values())))
    if not order:
        return Verdict(None, (), None, (), (), 0, missing)
    first = order[0]
    pairs = {m: _differences_of(whole[first], whole[m], sign) for m in order[1:]}
    leads = {m: interval(differences) for m, differences in pairs.items() if differences}
    common = {m: len(whole[first].keys() & values[m].keys()) for m in values if m != first}
    still_open = [m for m in pairs if m not in leads or not leads[m].excludes() or leads[m].mean < 0]
    still_open += [m for m in missing if common[m] < LEAST or any(v is not None for v in values[m].values())]
    return Verdict(
        winner=first if common and not still_open else None,
        order=order,
        lead=leads.get(order[1]) if len(order) > 1 else None,
        open=tuple(still_open),
        alike=tuple(m for m, differences in pairs.items() if differences and not any(differences)),
        n=min(common.values(), default=len(whole[first])),
        missing=missing,
    )


def _differences_of(first: Mapping[int, float], second: Mapping[int, float], sign: float) -> list[float]:
    """By how much the first is better, for every common seed; rounding is no difference."""
    size = max(map(abs, [*first.values(), *second.values()]))
    return [0.0 if abs(d) <= 1e-12 * size else sign * d for d in paired(first, second)]

"""What a comparison says, in one sentence for each question.

Two kinds of questions: how good after equal steps, seconds, joules or bytes; and how many seconds, joules or bytes until
a target. The answer names the winner and its margin over the second, mean ± sample standard deviation over seeds: of
the differences seed by seed where both were run with the same seeds (same placement, data and batches, so that what both
have in common cancels), else of the difference of two independent means. A margin that is not larger than its own
deviation is no win.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from fedloom.record.comparison import AXES, Comparison, first_at, score_text, value_at
from fedloom.record.runs import Run, by_method

QUESTIONS = {
    "steps": "after equal steps",
    "seconds": "in equal time",
    "joules": "for equal energy",
    "bytes": "for equal traffic",
}
COSTS = {"seconds": "Time", "joules": "Energy", "bytes": "Traffic"}


@dataclass(frozen=True)
class Headline:
    """A question, the answer in a sentence, and the winner; None where no method is clearly ahead."""

    question: str
    answer: str
    winner: str | None


@dataclass(frozen=True)
class Margin:
    """By how much the first is ahead of the second: mean, and sample standard deviation (None without seeds to tell)."""

    mean: float
    std: float | None

    @property
    def clear(self) -> bool:
        return self.mean > (self.std or 0.0)


def headlines(runs: Sequence[Run], comparisons: dict[str, Comparison]) -> list[Headline]:
    """The answers of `runs`; comparisons: by axis, all with the same target."""
    found = [_score_line(runs, comparison) for comparison in comparisons.values()]
    return found + [_cost_line(runs, comparisons[x]) for x in COSTS if comparisons[x].target is not None]


def margin(first: dict[int, float], second: dict[int, float], sign: float = 1.0) -> Margin:
    """Of values by seed; sign -1 if smaller is better.

    >>> margin({0: 0.75, 1: 1.0}, {0: 0.5, 1: 0.75})
    Margin(mean=0.25, std=0.0)
    """
    mean = sign * (statistics.fmean(first.values()) - statistics.fmean(second.values()))
    if len(first) < 2 or len(second) < 2:
        return Margin(mean, None)
    if first.keys() == second.keys():
        return Margin(mean, statistics.stdev(first[seed] - second[seed] for seed in first))
    return Margin(mean, math.hypot(statistics.stdev(first.values()), statistics.stdev(second.values())))


def _score_line(runs: Sequence[Run], comparison: Comparison) -> Headline:
    measure, x, budget = comparison.measure, comparison.x, comparison.budget
    higher = comparison.higher_is_better
    name = measure if measure != "rmse" else "RMSE"
    spent = AXES[x].text(budget) + (" local steps" if x == "steps" else "")

    def text(value: float, std: float | None) -> str:
        return score_text(measure, value, std)

    def ahead(by: Margin) -> str:
        if measure == "accuracy":
            spread = "" if by.std is None else f" ± {100 * by.std:.1f}"
            return f"{100 * by.mean:.1f}{spread} points above"
        return f"{score_text(measure, by.mean, by.std)} below"

    return _line(
        f"{name[0].upper()}{name[1:]} {QUESTIONS[x]}",
        _by_seed(runs, lambda run: value_at(run, x, budget)),
        1.0 if higher else -1.0,
        text,
        ahead,
        before=f"With {spent} each, ",
        verb="is best at",
        alone="is at",
    )


def _cost_line(runs: Sequence[Run], comparison: Comparison) -> Headline:
    axis, target, higher = AXES[comparison.x], comparison.target, comparison.higher_is_better
    assert target is not None
    goal = score_text(comparison.measure, target) + (f" {comparison.measure}" if higher else "")

    def ahead(by: Margin) -> str:
        return f"{axis.text(by.mean, by.std)} less than"

    return _line(
        f"{COSTS[comparison.x]} to {goal}",
        _by_seed(runs, lambda run: first_at(run, comparison.x, target, higher)),
        -1.0,
        axis.text,
        ahead,
        before="",
        verb="gets there first, with" if comparison.x == "seconds" else "gets there with least,",
        alone="gets there with",
    )


def _line(
    question: str,
    values: dict[str, dict[int, float] | None],
    sign: float,
    text: Callable[[float, float | None], str],
    ahead: Callable[[Margin], str],
    *,
    before: str,
    verb: str,
    alone: str,
) -> Headline:
    """One sentence out of the values of each method by seed (None: a run of it has no value)."""

    def shown(method: str) -> str:
        known = list(values[method].values())  # type: ignore[union-attr]
        return text(statistics.fmean(known), statistics.stdev(known) if len(known) > 1 else None)

    there = {method: v for method, v in values.items() if v}
    missing = [method for method, v in values.items() if not v]
    lost = f" Not all runs of {_listed(missing)} get there." if missing else ""
    if not there:
        return Headline(question, _capital(f"{before}no method gets there with all its runs."), None)
    order = sorted(there, key=lambda m: -sign * statistics.fmean(there[m].values()))
    first = order[0]
    if len(order) == 1:
        return Headline(
            question, _capital(f"{before}{first} {alone} {shown(first)}.{lost}"), first if missing else None
        )
    by = margin(there[first], there[order[1]], sign)
    if math.isclose(by.mean, 0.0, abs_tol=1e-12):
        alike = [m for m in order if math.isclose(margin(there[first], there[m], sign).mean, 0.0, abs_tol=1e-12)]
        who = "all methods are alike" if len(alike) == len(values) else f"{_listed(alike)} are alike"
        return Headline(question, _capital(f"{before}{who}: {shown(first)}.{lost}"), None)
    if not by.clear:
        close = f"{first} ({shown(first)}) and {order[1]} ({shown(order[1])}) differ by less than seeds do"
        return Headline(question, _capital(f"{before}there is no clear winner: {close}.{lost}"), None)
    one = "" if by.std is not None else " (one seed: no spread known)"
    sentence = f"{before}{first} {verb} {shown(first)}, {ahead(by)} {order[1]}{one}.{lost}"
    return Headline(question, _capital(sentence), first)


def _by_seed(runs: Sequence[Run], value: Callable[[Run], float | None]) -> dict[str, dict[int, float] | None]:
    """Of every method its values by seed (of a seed that is there twice, the mean), or None if one is missing."""
    found: dict[str, dict[int, float] | None] = {}
    for method, same in by_method(runs).items():
        by_seed: dict[int, list[float | None]] = {}
        for run in same:
            by_seed.setdefault(run.seed, []).append(value(run))
        whole = {seed: [v for v in values if v is not None] for seed, values in by_seed.items()}
        complete = all(len(whole[seed]) == len(values) for seed, values in by_seed.items())
        found[method] = {seed: statistics.fmean(v) for seed, v in whole.items()} if complete else None
    return found


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _capital(sentence: str) -> str:
    """Sentences begin with a method's name as it is written, or with a capital letter."""
    return sentence[0].upper() + sentence[1:] if sentence.startswith(("with ", "there ", "all ", "no ")) else sentence

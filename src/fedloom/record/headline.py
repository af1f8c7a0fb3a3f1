"""What a comparison says, in one sentence for each question.

Two kinds of questions: how good after equal steps, seconds, joules or bytes; and how many seconds, joules or bytes until
a target. The answers are those of the tables (`Comparison.verdict`): a winner and its lead over the second, mean ± half of the
95 % interval of the differences seed by seed; "no clear winner" where a lead may be chance; and no winner at all below three
common seeds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from fedloom.record.axes import AXES, score_text
from fedloom.record.comparison import Comparison
from fedloom.record.measures import SHARES
from fedloom.record.statistics import LEAST, Interval
from fedloom.record.verdict import Verdict

QUESTIONS = {
    "steps": "after equal steps",
    "seconds": "in equal time",
    "joules": "for equal energy",
    "bytes": "for equal traffic",
}
COSTS = {"seconds": "Time", "joules": "Energy", "bytes": "Traffic"}
MOST_NAMED = 5  # methods whose values are in a sentence without a winner


@dataclass(frozen=True)
class Headline:
    """A question, the answer in a sentence, and the winner; None where no method is clearly ahead."""

    question: str
    answer: str
    winner: str | None


def headlines(comparisons: dict[str, Comparison]) -> list[Headline]:
    """The answers; comparisons: by axis, all of the same runs and with the same target."""
    found = [_score_line(comparison) for comparison in comparisons.values()]
    return found + [_cost_line(comparisons[x]) for x in COSTS if comparisons[x].target is not None]


def _score_line(comparison: Comparison) -> Headline:
    measure, x = comparison.measure, comparison.x
    name = measure if measure != "rmse" else "RMSE"
    spent = AXES[x].text(comparison.budget) + (" local steps" if x == "steps" else "")

    def apart(lead: Interval) -> str:
        """Points are what lies between two percentages."""
        return score_text(measure, lead.mean, _half(lead)).replace(" %", " points" if measure in SHARES else "")

    return _line(
        f"{name[0].upper()}{name[1:]} {QUESTIONS[x]}",
        comparison,
        "at_budget",
        lambda mean, half: score_text(measure, mean, half),
        apart,
        before=f"With {spent} each, ",
        verb="is best at",
        than="above" if comparison.higher_is_better else "below",
        alone="is at",
    )


def _cost_line(comparison: Comparison) -> Headline:
    axis, target = AXES[comparison.x], comparison.target
    assert target is not None
    goal = score_text(comparison.measure, target) + (f" {comparison.measure}" if comparison.higher_is_better else "")
    return _line(
        f"{COSTS[comparison.x]} to {goal}",
        comparison,
        "to_target",
        axis.text,
        lambda lead: axis.text(lead.mean, _half(lead)),
        before="",
        verb="gets there first, with" if comparison.x == "seconds" else "gets there with least,",
        than="less than",
        alone="gets there with",
    )


def _line(
    question: str,
    comparison: Comparison,
    column: str,
    text: Callable[[float, float | None], str],
    apart: Callable[[Interval], str],
    *,
    before: str,
    verb: str,
    than: str,
    alone: str,
) -> Headline:
    """One sentence about a column of the comparison."""
    found = comparison.verdict(column)
    spreads = {row.method: getattr(row, column) for row in comparison.rows}

    def shown(method: str) -> str:
        return text(spreads[method].mean, spreads[method].half)

    lost = f" Not all runs of {_listed(found.missing)} get there." if found.missing else ""
    if not found.order:
        return Headline(question, _capital(f"{before}no method gets there with all its runs."), None)
    first, *rivals = found.order
    seeds = _seeds(found.n)
    if found.winner is not None:
        ahead = f", {apart(found.lead)} {than} {rivals[0]}" if found.lead is not None else ""
        return Headline(question, _capital(f"{before}{first} {verb} {shown(first)}{ahead} ({seeds}).{lost}"), first)
    if not rivals:
        return Headline(question, _capital(f"{before}{first} {alone} {shown(first)} ({seeds}).{lost}"), None)
    if rivals[0] in found.alike:
        alike = [first, *(m for m in rivals if m in found.alike)]
        who = "all methods are alike" if len(alike) == len(spreads) else f"{_listed(alike)} are alike"
        return Headline(question, _capital(f"{before}{who}: {shown(first)} ({seeds}).{lost}"), None)
    if found.n < LEAST:
        return Headline(question, _capital(f"{before}{_too_few(found, shown)}{lost}"), None)
    return Headline(question, _capital(f"{before}{_unclear(found, shown, apart)}{lost}"), None)


def _too_few(found: Verdict, shown: Callable[[str], str]) -> str:
    values = ", ".join(f"{m} {shown(m)}" for m in found.order[:MOST_NAMED])
    more = ", ..." if len(found.order) > MOST_NAMED else ""
    return f"no winner is called from {_seeds(found.n)}, {LEAST} are needed (such as --seeds 5); so far {values}{more}."


def _unclear(found: Verdict, shown: Callable[[str], str], apart: Callable[[Interval], str]) -> str:
    first, second = found.order[:2]
    if second in found.open and found.lead is not None:
        return (
            f"there is no clear winner: {first} ({shown(first)}) and {second} ({shown(second)}) differ by "
            f"{apart(found.lead)}, which may be chance ({_seeds(found.n)})."
        )
    rest = [f"{m} ({shown(m)})" if m in found.order else m for m in found.open]
    return (
        f"there is no clear winner: {first} ({shown(first)}) may be ahead of {_listed(rest)} by chance only "
        f"({_seeds(found.n)})."
    )


def _half(lead: Interval) -> float | None:
    """None where seeds decide nothing or make no difference but for rounding."""
    return lead.half if lead.decides and lead.half > 1e-9 * abs(lead.mean) else None


def _seeds(n: int) -> str:
    """
    >>> _seeds(1), _seeds(3), _seeds(0)
    ('1 seed', '3 seeds', 'no common seed')
    """
    return "no common seed" if not n else f"{n} seed{'s' if n > 1 else ''}"


def _listed(names: tuple[str, ...] | list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _capital(sentence: str) -> str:
    """Sentences begin with a method's name as it is written, or with a capital letter."""
    return sentence[0].upper() + sentence[1:] if sentence.startswith(("with ", "there ", "all ", "no ")) else sentence

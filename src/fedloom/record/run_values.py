"""The values of one run: scores at its evaluations, the last, the best, at a budget, to a target, and what it cost."""

from __future__ import annotations

import math

from fedloom.record.axes import AXES
from fedloom.record.runs import Run


def scores_of(run: Run) -> list[float | None]:
    """The measure at every evaluation; None where it is not finite (training diverged)."""
    return [float(v) if v is not None and math.isfinite(v) else None for v in run.metrics[run.measure]]


def has_measure(run: Run, measure: str) -> bool:
    """Whether it was ever measured."""
    return measure in run.metrics.columns and run.metrics[measure].drop_nulls().len() > 0


def last_of(run: Run, measure: str) -> float | None:
    """The last value of another measure; None if it was never measured or is not finite."""
    if not has_measure(run, measure):
        return None
    value = float(run.metrics[measure].drop_nulls()[-1])
    return value if math.isfinite(value) else None


def final_of(run: Run) -> float | None:
    """The last score."""
    return scores_of(run)[-1]


def best_of(run: Run, higher: bool) -> float | None:
    """Over all evaluations."""
    known = [value for value in scores_of(run) if value is not None]
    return (max if higher else min)(known, default=None)


def largest_of(run: Run, x: str) -> float:
    """What the whole run cost in x, a key of AXES."""
    return float(run.metrics[AXES[x].column].max())  # type: ignore[arg-type]


def value_at(run: Run, x: str, budget: float) -> float | None:
    """The last value at or before `budget`, None if the first evaluation came later."""
    within = [value for at, value in zip(run.metrics[AXES[x].column], scores_of(run)) if at <= budget]
    return within[-1] if within else None


def first_at(run: Run, x: str, target: float | None, higher: bool) -> float | None:
    """x of the first evaluation that reaches `target`, None if none does."""
    if target is None:
        return None
    for at, value in zip(run.metrics[AXES[x].column], scores_of(run)):
        if value is not None and (value >= target if higher else value <= target):
            return float(at)
    return None

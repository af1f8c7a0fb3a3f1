"""Methods side by side: how good, and for how many steps, seconds, joules and bytes.

    final            of each run
    best             over the evaluations of each run: chosen on test data, so never a reason to call a method better
    at the budget    last value at or before the common budget: the smallest of the runs' largest x
    to the target    x at the first evaluation that reaches the target
    others           final values of other measures, such as accuracy on the clients' own labels

"Good" is accuracy (higher is better) or, for regression, rmse (lower is better). Everything is the mean over seeds ±
half of its 95 % interval, without it below three seeds or where seeds make no difference. A method is called better by
`fedloom.record.verdict`: where the 95 % interval of its differences seed by seed to every other method excludes zero, on three
or more seeds that both were run with.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any

from fedloom.record.axes import AXES
from fedloom.record.measures import TABLES, measure_meaning
from fedloom.record.run_values import best_of, final_of, first_at, has_measure, largest_of, last_of, value_at
from fedloom.record.run_warnings import comparison_warnings
from fedloom.record.runs import Run, by_method, common_measure
from fedloom.record.statistics import interval
from fedloom.record.verdict import Verdict, verdict


@dataclass(frozen=True)
class Spread:
    """One value for each of `n` seeds (None: that run has none; of a seed that is there twice, the mean).

    mean: None if a value is missing. half: of the 95 % interval of the mean; None below three seeds, 0 where all are equal.
    """

    mean: float | None
    half: float | None
    n: int
    by_seed: dict[int, float | None] = field(default_factory=dict)


@dataclass(frozen=True)
class Row:
    """One method. to_target has a mean only if every run got there; n_reached says how many did. others: by measure, those
    that any run of the comparison has."""

    method: str
    seeds: tuple[int, ...]
    final: Spread
    best: Spread
    at_budget: Spread
    to_target: Spread
    n_reached: int
    totals: dict[str, Spread]
    others: dict[str, Spread]

    @property
    def n_seeds(self) -> int:
        return len(self.seeds)


@dataclass(frozen=True)
class Comparison:
    """The rows in the order of the runs given. measure: "accuracy" or "rmse"; x: a key of AXES."""

    rows: tuple[Row, ...]
    measure: str
    x: str
    budget: float
    target: float | None
    warnings: tuple[str, ...]

    @property
    def higher_is_better(self) -> bool:
        return self.measure == "accuracy"

    @property
    def others(self) -> tuple[str, ...]:
        """The other measures that there are."""
        return tuple(self.rows[0].others)

    def verdict(self, column: str) -> Verdict:
        """Who is better in a column: "final", "at_budget", "to_target", a cost of whole runs (a key of AXES), or one of
        `others`."""
        if column in AXES:
            return verdict({row.method: row.totals[column].by_seed for row in self.rows}, higher=False)
        if column in self.others:  # a method without this measure is no rival in it
            found = {row.method: row.others[column].by_seed for row in self.rows}
            return verdict({m: values for m, values in found.items() if any(v is not None for v in values.values())})
        higher = self.higher_is_better and column != "to_target"
        return verdict({row.method: getattr(row, column).by_seed for row in self.rows}, higher)

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, strings, lists and None, for JSON. winners: by column, None where nobody is better."""
        rows = [asdict(row) | {"seeds": list(row.seeds), "n_seeds": row.n_seeds} for row in self.rows]
        columns = ("final", "at_budget", "to_target", *AXES, *self.others)
        return asdict(self) | {
            "rows": rows,
            "warnings": list(self.warnings),
            "higher_is_better": self.higher_is_better,
            "winners": {column: self.verdict(column).winner for column in columns},
            "others": {name: measure_meaning(name) for name in self.others},
        }


def compare(runs: Sequence[Run], x: str = "steps", target: float | None = None) -> Comparison:
    """Compare the methods of `runs`.

    x: "steps", "seconds", "joules" or "bytes". target: the accuracy (0 to 1) or rmse to reach; by default the
    worst final value of any run, the strictest level that all of them are sure to reach.
    """
    measure = common_measure(runs)
    if x not in AXES:
        raise ValueError(f"x must be one of {', '.join(AXES)}, got {x!r}")
    if target is not None and not math.isfinite(target):
        raise ValueError(f"target must be a finite {measure}, got {target}")
    higher = measure == "accuracy"
    if target is None:
        finals = [value for run in runs if (value := final_of(run)) is not None]
        target = (min if higher else max)(finals, default=None)
    budget = min(largest_of(run, x) for run in runs)
    others = [
        name for name in (m for table in TABLES.values() for m in table) if any(has_measure(run, name) for run in runs)
    ]
    rows = []
    for method, same in by_method(runs).items():
        to_target = _spread(same, lambda run: first_at(run, x, target, higher))
        rows.append(
            Row(
                method=method,
                seeds=tuple(sorted({run.seed for run in same})),
                final=_spread(same, final_of),
                best=_spread(same, lambda run: best_of(run, higher)),
                at_budget=_spread(same, lambda run: value_at(run, x, budget)),
                to_target=to_target,
                n_reached=sum(value is not None for value in to_target.by_seed.values()),
                totals={name: _spread(same, partial(largest_of, x=name)) for name in AXES},
                others={name: _spread(same, partial(last_of, measure=name)) for name in others},
            )
        )
    return Comparison(tuple(rows), measure, x, budget, target, comparison_warnings(runs))


def _spread(runs: Sequence[Run], value: Callable[[Run], float | None]) -> Spread:
    """Of the runs of one method."""
    found: dict[int, list[float | None]] = {}
    for run in runs:
        found.setdefault(run.seed, []).append(value(run))
    by_seed = {seed: _mean(values) for seed, values in sorted(found.items())}
    known = [v for v in by_seed.values() if v is not None]
    if len(known) < len(by_seed):
        return Spread(None, None, len(by_seed), by_seed)
    whole = interval(known)
    alike = max(known) - min(known) <= 1e-12 * abs(whole.mean)  # sums may round
    return Spread(whole.mean, (0.0 if alike else whole.half) if whole.decides else None, whole.n, by_seed)


def _mean(values: Iterable[float | None]) -> float | None:
    values = list(values)
    known = [v for v in values if v is not None]
    return statistics.fmean(known) if len(known) == len(values) else None

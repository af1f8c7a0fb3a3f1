"""Methods side by side: how good, and for how many steps, seconds, joules and bytes.

    final, best      of each run, mean ± sample standard deviation over seeds
    at the budget    last value at or before the common budget: the smallest of the runs' largest x
    to the target    x at the first evaluation that reaches the target

"Good" is accuracy (higher is better) or, for regression, rmse (lower is better).
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from fedloom.record.runs import Run, by_method, common_measure

if TYPE_CHECKING:
    from rich.table import Table


@dataclass(frozen=True)
class Axis:
    """A cost to measure a method against. units: (how many of the basic unit, name), ascending."""

    column: str
    name: str
    label: str
    units: tuple[tuple[float, str], ...]

    def unit(self, value: float) -> tuple[float, str]:
        """The largest unit that is not larger than `value`."""
        return next(((size, name) for size, name in reversed(self.units) if abs(value) >= size), self.units[0])

    def text(self, mean: float, std: float | None = None) -> str:
        """In a unit that fits; without the deviation if it is exactly 0, as where no chance is involved.

        >>> AXES["seconds"].text(90.0, 6.0), AXES["bytes"].text(703503360), AXES["steps"].text(1500.0)
        ('1.50 ± 0.10 min', '704 MB', '1,500')
        """
        size, name = self.unit(mean)
        return f"{_number(mean / size, std / size if std else None, whole=not name)} {name}".rstrip()


AXES = {
    "steps": Axis("local_steps", "steps", "local steps", ((1.0, ""),)),
    "seconds": Axis("time_s", "time", "simulated time", ((1.0, "s"), (60.0, "min"), (3600.0, "h"), (86400.0, "d"))),
    "joules": Axis("energy_j", "energy", "energy", ((1.0, "J"), (1e3, "kJ"), (1e6, "MJ"), (1e9, "GJ"))),
    "bytes": Axis("bytes", "traffic", "traffic", ((1.0, "B"), (1e3, "kB"), (1e6, "MB"), (1e9, "GB"), (1e12, "TB"))),
}
NEVER = "–"


@dataclass(frozen=True)
class Spread:
    """Mean (None if a run has no value) and sample standard deviation (None for one run) of `n` runs."""

    mean: float | None
    std: float | None
    n: int


@dataclass(frozen=True)
class Row:
    """One method. to_target has a mean only if every run got there; n_reached says how many did."""

    method: str
    seeds: tuple[int, ...]
    final: Spread
    best: Spread
    at_budget: Spread
    to_target: Spread
    n_reached: int
    totals: dict[str, Spread]

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

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, strings, lists and None, for JSON."""
        rows = [asdict(row) | {"seeds": list(row.seeds), "n_seeds": row.n_seeds} for row in self.rows]
        return asdict(self) | {
            "rows": rows,
            "warnings": list(self.warnings),
            "higher_is_better": self.higher_is_better,
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
        finals = [value for run in runs if (value := _final(run)) is not None]
        target = (min if higher else max)(finals, default=None)
    budget = min(_largest(run, x) for run in runs)
    rows = []
    for method, same in by_method(runs).items():
        reached = [first_at(run, x, target, higher) for run in same]
        rows.append(
            Row(
                method=method,
                seeds=tuple(sorted({run.seed for run in same})),
                final=_spread(_final(run) for run in same),
                best=_spread(_best(run, higher) for run in same),
                at_budget=_spread(value_at(run, x, budget) for run in same),
                to_target=_spread(reached),
                n_reached=sum(value is not None for value in reached),
                totals={name: _spread(_largest(run, name) for run in same) for name in AXES},
            )
        )
    return Comparison(tuple(rows), measure, x, budget, target, _warnings(runs))


def rich_tables(comparison: Comparison) -> list[Table]:
    """The comparison for a terminal of 80 columns: scores, then what whole runs cost; the best of each column in bold."""
    axis, measure = AXES[comparison.x], comparison.measure
    target = NEVER if comparison.target is None else score_text(measure, comparison.target)
    of_steps = " steps" if comparison.x == "steps" else ""
    good = {
        "seeds": [(str(row.n_seeds), False) for row in comparison.rows],
        f"final {measure}": scores(comparison, "final"),
        "best": scores(comparison, "best"),
        f"at {axis.text(comparison.budget)}{of_steps}": scores(comparison, "at_budget"),
        f"{axis.name} to {target}": costs_to_target(comparison),
    }
    costs = {f"{axis.name} in all": totals(comparison, name) for name, axis in AXES.items()}
    return [_rich(comparison, good), _rich(comparison, costs)]


def _rich(comparison: Comparison, columns: dict[str, Column]) -> Table:
    from rich.box import SIMPLE_HEAD
    from rich.markup import escape
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False)
    table.add_column("method", overflow="fold", min_width=max(len(row.method) for row in comparison.rows))
    for title in columns:
        table.add_column(title, justify="right")
    for i, row in enumerate(comparison.rows):
        cells = [f"[bold]{text}[/bold]" if best else text for text, best in (column[i] for column in columns.values())]
        table.add_row(escape(row.method), *cells)
    return table


Column = list[tuple[str, bool]]  # of each row: the text, and whether it is the best


def scores(comparison: Comparison, name: str) -> Column:
    """Column of `name`: "final", "best" or "at_budget"."""
    spreads: list[Spread] = [getattr(row, name) for row in comparison.rows]
    best = _winners(spreads, comparison.higher_is_better)
    texts = [NEVER if s.mean is None else score_text(comparison.measure, s.mean, s.std) for s in spreads]
    return list(zip(texts, best))


def costs_to_target(comparison: Comparison) -> Column:
    """Column of the costs until the target; a dash, and how many runs got there, if not all did."""
    axis = AXES[comparison.x]
    texts = [
        axis.text(row.to_target.mean, row.to_target.std)
        if row.to_target.mean is not None
        else f"{NEVER} ({row.n_reached} of {row.to_target.n})"
        if row.n_reached
        else NEVER
        for row in comparison.rows
    ]
    return list(zip(texts, _winners([row.to_target for row in comparison.rows], higher=False)))


def totals(comparison: Comparison, name: str) -> Column:
    """Column of what whole runs cost in `name`, a key of AXES."""
    spreads = [row.totals[name] for row in comparison.rows]
    texts = [NEVER if s.mean is None else AXES[name].text(s.mean, s.std) for s in spreads]
    return list(zip(texts, _winners(spreads, higher=False)))


def score_text(measure: str, mean: float, std: float | None = None) -> str:
    """Percent for accuracy, three significant digits for rmse.

    >>> score_text("accuracy", 0.7285, 0.0021), score_text("rmse", 0.01234)
    ('72.9 ± 0.2 %', '0.0123')
    """
    if measure == "accuracy":
        return f"{100 * mean:.1f} %" if std is None else f"{100 * mean:.1f} ± {100 * std:.1f} %"
    return _number(mean, std)


def _number(mean: float, std: float | None, whole: bool = False) -> str:
    """Three significant digits, and as many decimals for the deviation."""
    if whole and (mean >= 1000 or (float(mean).is_integer() and not std)):
        decimals = 0
    else:
        decimals = min(max(0, 2 - math.floor(math.log10(abs(mean)))), 9) if mean else 0
    return f"{mean:,.{decimals}f}" if std is None else f"{mean:,.{decimals}f} ± {std:,.{decimals}f}"


def _winners(spreads: Sequence[Spread], higher: bool) -> list[bool]:
    """Which have the best mean; none if there is nothing to choose between."""
    means = [spread.mean for spread in spreads]
    known = [mean for mean in means if mean is not None]
    if not known:
        return [False] * len(means)
    best = max(known) if higher else min(known)
    wins = [mean is not None and math.isclose(mean, best, rel_tol=1e-9) for mean in means]  # sums may round
    return [False] * len(means) if all(wins) else wins


def _spread(values: Iterable[float | None]) -> Spread:
    values = list(values)
    known = [value for value in values if value is not None]
    if len(known) < len(values):
        return Spread(None, None, len(values))
    return Spread(statistics.fmean(known), statistics.stdev(known) if len(known) > 1 else None, len(known))


def _scores(run: Run) -> list[float | None]:
    """The measure at every evaluation; None where it is not finite (training diverged)."""
    return [float(v) if v is not None and math.isfinite(v) else None for v in run.metrics[run.measure]]


def _final(run: Run) -> float | None:
    return _scores(run)[-1]


def _best(run: Run, higher: bool) -> float | None:
    known = [value for value in _scores(run) if value is not None]
    return (max if higher else min)(known, default=None)


def _largest(run: Run, x: str) -> float:
    return float(run.metrics[AXES[x].column].max())  # type: ignore[arg-type]


def value_at(run: Run, x: str, budget: float) -> float | None:
    """The last value at or before `budget`, None if the first evaluation came later."""
    within = [value for at, value in zip(run.metrics[AXES[x].column], _scores(run)) if at <= budget]
    return within[-1] if within else None


def first_at(run: Run, x: str, target: float | None, higher: bool) -> float | None:
    """x of the first evaluation that reaches `target`, None if none does."""
    if target is None:
        return None
    for at, value in zip(run.metrics[AXES[x].column], _scores(run)):
        if value is not None and (value >= target if higher else value <= target):
            return float(at)
    return None


def _warnings(runs: Sequence[Run]) -> tuple[str, ...]:
    """What a reader must know before believing the table."""
    found = []
    methods = by_method(runs)
    seeds = {method: sorted(run.seed for run in same) for method, same in methods.items()}
    if len({tuple(dict.fromkeys(s)) for s in seeds.values()}) > 1:
        shown = "; ".join(f"{method}: {', '.join(map(str, dict.fromkeys(s)))}" for method, s in seeds.items())
        found.append(f"the methods were run with different seeds ({shown})")
    for method, s in seeds.items():
        twice = sorted({seed for seed in s if s.count(seed) > 1})
        found += [f"{method} with seed {seed} is there {s.count(seed)} times; each counts" for seed in twice]
    for run in runs:
        name = f"{run.method} with seed {run.seed}"
        if not run.finished:
            last = run.scenario.get("training", {}).get("cloud_rounds")
            done = int(run.metrics["cloud_round"][-1])
            of = f" of {last}" if last else ""
            found.append(f"{name} is unfinished: evaluated up to cloud round {done}{of}")
        if _final(run) is None:
            found.append(f"{name} diverged: its last {run.measure} is not a finite number")
    different = sorted({key for run in runs for key in _differences(run.scenario, runs[0].scenario)})
    if different:
        more = f" and {len(different) - 4} more" if len(different) > 4 else ""
        found.append(f"the runs are of different scenarios; they differ in {', '.join(different[:4])}{more}")
    return tuple(found)


def _differences(a: Any, b: Any, at: str = "") -> list[str]:
    """Dotted names of the settings in which two scenarios differ."""
    if isinstance(a, dict) and isinstance(b, dict):
        keys = dict.fromkeys([*a, *b])
        return [name for k in keys for name in _differences(a.get(k), b.get(k), f"{at}.{k}" if at else str(k))]
    return [] if a == b else [at]

"""Methods side by side: how good, and for how many steps, seconds, joules and bytes.

    final            of each run
    best             over the evaluations of each run: chosen on test data, so never a reason to call a method better
    at the budget    last value at or before the common budget: the smallest of the runs' largest x
    to the target    x at the first evaluation that reaches the target
    others           final values of other measures, such as accuracy on the clients' own labels

"Good" is accuracy (higher is better) or, for regression, rmse (lower is better). Everything is shown as the mean over seeds ±
half of its 95 % interval, without it below three seeds or where seeds make no difference. A method is called better where
the 95 % interval of its differences seed by seed to every other method excludes zero, on three or more seeds that both were
run with (`verdict`); tables, answers and JSON all take that one rule.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from fedloom.record.curve_health import curve_warnings
from fedloom.record.measures import SHARES, TABLES, measure_meaning
from fedloom.record.runs import Run, by_method, common_measure
from fedloom.record.statistics import LEAST, Interval, interval, paired

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

    def text(self, mean: float, half: float | None = None) -> str:
        """In a unit that fits; without half of the interval if it is exactly 0, as where no chance is involved.

        >>> AXES["seconds"].text(90.0, 6.0), AXES["bytes"].text(703503360), AXES["steps"].text(1500.0)
        ('1.50 ± 0.10 min', '704 MB', '1,500')
        """
        size, name = self.unit(mean)
        return f"{_number(mean / size, half / size if half else None, whole=not name)} {name}".rstrip()


AXES = {
    "steps": Axis("local_steps", "steps", "local steps", ((1.0, ""),)),
    "seconds": Axis("time_s", "time", "simulated time", ((1.0, "s"), (60.0, "min"), (3600.0, "h"), (86400.0, "d"))),
    "joules": Axis("energy_j", "energy", "energy", ((1.0, "J"), (1e3, "kJ"), (1e6, "MJ"), (1e9, "GJ"))),
    "bytes": Axis("bytes", "traffic", "traffic", ((1.0, "B"), (1e3, "kB"), (1e6, "MB"), (1e9, "GB"), (1e12, "TB"))),
}
NEVER = "–"


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
    others = [name for name in (m for table in TABLES.values() for m in table) if any(_has(run, name) for run in runs)]
    rows = []
    for method, same in by_method(runs).items():
        to_target = _spread(same, lambda run: first_at(run, x, target, higher))
        rows.append(
            Row(
                method=method,
                seeds=tuple(sorted({run.seed for run in same})),
                final=_spread(same, _final),
                best=_spread(same, lambda run: _best(run, higher)),
                at_budget=_spread(same, lambda run: value_at(run, x, budget)),
                to_target=to_target,
                n_reached=sum(value is not None for value in to_target.by_seed.values()),
                totals={name: _spread(same, partial(_largest, x=name)) for name in AXES},
                others={name: _spread(same, partial(_last, measure=name)) for name in others},
            )
        )
    return Comparison(tuple(rows), measure, x, budget, target, _warnings(runs))


CAPTION = (
    "mean over seeds ± half of its 95 % interval (none below 3 seeds, or where seeds make no difference); bold: better than "
    "every other method, the 95 % interval of the differences seed by seed excludes zero"
)
BEST = "best of all rounds, chosen on test data"


def rich_tables(comparison: Comparison) -> list[Table]:
    """The comparison for a terminal of 80 columns: scores, what whole runs cost, and other measures; winners in bold."""
    axis, measure = AXES[comparison.x], comparison.measure
    target = NEVER if comparison.target is None else score_text(measure, comparison.target)
    of_steps = " steps" if comparison.x == "steps" else ""
    good = {
        f"final {measure}": scores(comparison, "final"),
        BEST: scores(comparison, "best"),
        f"at {axis.text(comparison.budget)}{of_steps}": scores(comparison, "at_budget"),
        f"{axis.name} to {target}": costs_to_target(comparison),
    }
    costs = {f"{axis.name} in all": totals(comparison, name) for name, axis in AXES.items()}
    tables = [_rich(comparison, good), _rich(comparison, costs)]
    for title, names in TABLES.items():
        columns = {words: other_scores(comparison, name) for name, words in names.items() if name in comparison.others}
        if columns:
            tables.append(_rich(comparison, columns, f"{title}, final accuracy by"))
    return tables


def _rich(comparison: Comparison, columns: dict[str, Column], title: str | None = None) -> Table:
    from rich.box import SIMPLE_HEAD
    from rich.markup import escape
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False, title=title, title_justify="left", title_style="")
    table.add_column("method", overflow="fold", min_width=max(len(row.method) for row in comparison.rows))
    table.add_column("seeds", justify="right")
    for name in columns:
        table.add_column(name, justify="right")
    for i, row in enumerate(comparison.rows):
        cells = [f"[bold]{text}[/bold]" if wins else text for text, wins in (column[i] for column in columns.values())]
        table.add_row(escape(row.method), str(row.n_seeds), *cells)
    return table


Column = list[tuple[str, bool]]  # of each row: the text, and whether it is better than every other


def scores(comparison: Comparison, name: str) -> Column:
    """Column of `name`: "final", "at_budget", or "best", which wins nothing."""
    winner = None if name == "best" else comparison.verdict(name).winner
    return [(_score(comparison.measure, getattr(row, name)), row.method == winner) for row in comparison.rows]


def other_scores(comparison: Comparison, measure: str) -> Column:
    """Column of the final values of another measure, one of `comparison.others`."""
    winner = comparison.verdict(measure).winner
    return [(_score(measure, row.others[measure]), row.method == winner) for row in comparison.rows]


def _score(measure: str, spread: Spread) -> str:
    return NEVER if spread.mean is None else score_text(measure, spread.mean, spread.half)


def costs_to_target(comparison: Comparison) -> Column:
    """Column of the costs until the target; a dash, and how many runs got there, if not all did."""
    axis, winner = AXES[comparison.x], comparison.verdict("to_target").winner
    texts = [
        axis.text(row.to_target.mean, row.to_target.half)
        if row.to_target.mean is not None
        else f"{NEVER} ({row.n_reached} of {row.to_target.n})"
        if row.n_reached
        else NEVER
        for row in comparison.rows
    ]
    return [(text, row.method == winner) for text, row in zip(texts, comparison.rows)]


def totals(comparison: Comparison, name: str) -> Column:
    """Column of what whole runs cost in `name`, a key of AXES."""
    winner = comparison.verdict(name).winner
    spreads = [row.totals[name] for row in comparison.rows]
    texts = [NEVER if s.mean is None else AXES[name].text(s.mean, s.half) for s in spreads]
    return [(text, row.method == winner) for text, row in zip(texts, comparison.rows)]


def score_text(measure: str, mean: float, half: float | None = None) -> str:
    """Percent for accuracy, three significant digits for rmse.

    >>> score_text("accuracy", 0.7285, 0.0021), score_text("rmse", 0.01234)
    ('72.9 ± 0.2 %', '0.0123')
    """
    if measure in SHARES:
        return f"{100 * mean:.1f} %" if not half else f"{100 * mean:.1f} ± {100 * half:.1f} %"
    return _number(mean, half or None)


def _number(mean: float, half: float | None, whole: bool = False) -> str:
    """Three significant digits, and as many decimals for half of the interval."""
    if whole and (mean >= 1000 or (float(mean).is_integer() and not half)):
        decimals = 0
    else:
        decimals = min(max(0, 2 - math.floor(math.log10(abs(mean)))), 9) if mean else 0
    return f"{mean:,.{decimals}f}" if half is None else f"{mean:,.{decimals}f} ± {half:,.{decimals}f}"


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


def _scores(run: Run) -> list[float | None]:
    """The measure at every evaluation; None where it is not finite (training diverged)."""
    return [float(v) if v is not None and math.isfinite(v) else None for v in run.metrics[run.measure]]


def _has(run: Run, measure: str) -> bool:
    return measure in run.metrics.columns and run.metrics[measure].drop_nulls().len() > 0


def _last(run: Run, measure: str) -> float | None:
    """The last value of another measure; None if it was never measured or is not finite."""
    if not _has(run, measure):
        return None
    value = float(run.metrics[measure].drop_nulls()[-1])
    return value if math.isfinite(value) else None


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
    if len(methods) > 1:
        n = len(set.intersection(*(set(s) for s in seeds.values())))
        if n < LEAST:
            found.append(
                f"{'no seed is' if not n else '1 seed is' if n == 1 else f'{n} seeds are'} common to all methods: nobody is "
                f"called better below {LEAST} (for instance --seeds 5)"
            )
    for method, s in seeds.items():
        twice = sorted({seed for seed in s if s.count(seed) > 1})
        found += [f"{method} with seed {seed} is there {s.count(seed)} times; their mean counts" for seed in twice]
    for run in runs:
        name = f"{run.method} with seed {run.seed}"
        if not run.finished:
            last = run.scenario.get("training", {}).get("cloud_rounds")
            done = int(run.metrics["cloud_round"][-1])
            of = f" of {last}" if last else ""
            found.append(f"{name} is unfinished: evaluated up to cloud round {done}{of}")
        if _final(run) is None:
            found.append(f"{name} diverged: its last {run.measure} is not a finite number")
    for method, same in methods.items():
        found += [f"{method}{words}" for words in _curve_words(same)]
    different = sorted({key for run in runs for key in _differences(run.scenario, runs[0].scenario)})
    if different:
        more = f" and {len(different) - 4} more" if len(different) > 4 else ""
        found.append(f"the runs are of different scenarios; they differ in {', '.join(different[:4])}{more}")
    return tuple(found)


def _curve_words(runs: Sequence[Run]) -> list[str]:
    """Warnings of the curves of one method; of the same kind once, with the other seeds that have it."""
    kinds: dict[str, list[tuple[int, str]]] = {}
    for run in runs:
        for sentence in run_warnings(run):
            kinds.setdefault(sentence.split(":")[0], []).append((run.seed, sentence))
    words = []
    for (seed, sentence), *more in kinds.values():
        also = f" (so with seed{'s' if len(more) > 1 else ''} {', '.join(str(s) for s, _ in more)})" if more else ""
        words.append(f" with seed {seed}: {sentence}{also}")
    return words


def run_warnings(run: Run) -> list[str]:
    """What the run itself warned of, and whether its curve can be believed (`fedloom.record.curve_health`)."""
    said = list((run.summary or {}).get("warnings") or [])
    return said + curve_warnings([v for v in _scores(run) if v is not None], run.measure == "accuracy")


def _differences(a: Any, b: Any, at: str = "") -> list[str]:
    """Dotted names of the settings in which two scenarios differ."""
    if isinstance(a, dict) and isinstance(b, dict):
        keys = dict.fromkeys([*a, *b])
        return [name for k in keys for name in _differences(a.get(k), b.get(k), f"{at}.{k}" if at else str(k))]
    return [] if a == b else [at]

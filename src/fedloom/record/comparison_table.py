"""A comparison as tables: columns of texts, with who is better than every other, and tables for a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedloom.record.axes import AXES, NEVER, score_text
from fedloom.record.comparison import Comparison, Spread
from fedloom.record.measures import SHARES, TABLES
from fedloom.record.statistics import interval, paired

if TYPE_CHECKING:
    from rich.table import Table

CAPTION = (
    "mean over seeds ± half of its 95 % interval (none below 3 seeds, or where seeds make no difference); bold: better than "
    "every other method, the 95 % interval of the differences seed by seed excludes zero"
)
WHOLE, FOLDED = (
    20,
    12,
)  # characters: names up to the first stay whole; of longer ones at least the second stand in a line
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
    if len(comparison.rows) > 1:
        tables.append(_rich(comparison, against_first(comparison), f"Against {comparison.rows[0].method}"))
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
    longest = max(len(row.method) for row in comparison.rows)
    table.add_column("method", overflow="fold", min_width=longest if longest <= WHOLE else FOLDED)
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


def against_first(comparison: Comparison) -> dict[str, Column]:
    """Columns of what whole runs have more or less than the first method's with the same seeds: of costs but steps the share, and
    of the final measure the difference; a dash for the first itself, and where a value is missing."""
    first, measure = comparison.rows[0], comparison.measure
    found: dict[str, Column] = {}
    for name in [name for name in AXES if name != "steps"]:
        base, means = first.totals[name].mean, [row.totals[name].mean for row in comparison.rows]
        shares = [NEVER if mean is None or not base else f"{100 * (mean / base - 1):+.1f} %" for mean in means]
        found[AXES[name].name] = [(text if i else NEVER, False) for i, text in enumerate(shares)]
    found[measure] = [
        (NEVER if row is first else _difference(measure, row.final, first.final), False) for row in comparison.rows
    ]
    return found


def _difference(measure: str, one: Spread, other: Spread) -> str:
    """Of the seeds that both have, ± half of its interval if they are enough."""
    both = {seed: v for seed, v in one.by_seed.items() if v is not None and other.by_seed.get(seed) is not None}
    differences = paired(both, {seed: v for seed, v in other.by_seed.items() if v is not None})
    if not differences:
        return NEVER
    whole = interval(differences)
    size, unit, digits = (100.0, " points", 1) if measure in SHARES else (1.0, "", 4)
    half = f" ± {size * whole.half:.{digits}f}" if whole.decides else ""
    return f"{size * whole.mean:+.{digits}f}{half}{unit}"


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

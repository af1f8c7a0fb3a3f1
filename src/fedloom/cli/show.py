"""What the commands have in common in the terminal: messages, progress, numbers with units."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeElapsedColumn,
)
from rich.text import Text

out = Console()
notes = Console(stderr=True)


def complain(message: str) -> None:
    """An error, on standard error."""
    notes.print("[bold red]fedloom:[/]", end=" ")
    notes.print(message, markup=False, highlight=False, soft_wrap=True)


class Left(ProgressColumn):
    """How long it may still take; nothing before that is known, and nothing at the end."""

    max_refresh = 0.5

    def render(self, task: Task) -> Text:
        """Such as "0:01:30 left"."""
        if task.finished or task.time_remaining is None:
            return Text()
        minutes, rest = divmod(int(task.time_remaining), 60)
        return Text(f"{minutes // 60}:{minutes % 60:02}:{rest:02} left")


@contextmanager
def progress(quiet: bool) -> Iterator[Progress]:
    """A bar with a place for the figures that matter; nothing if quiet."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=30),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        Left(),
        TextColumn("{task.fields[figures]}"),
    )
    with Progress(*columns, console=notes, disable=quiet) as bar:
        try:
            yield bar
        except BaseException:
            bar.live.transient = True  # an error stands alone
            raise


def figures(measures: dict[str, float | int]) -> str:
    """The figures of a progress bar: how good, after how long, at what cost."""
    parts = []
    if "accuracy" in measures:
        parts.append(f"accuracy {measures['accuracy']:.1%}")
    elif "rmse" in measures:
        parts.append(f"rmse {measures['rmse']:.4g}")
    parts.append(
        f"after {seconds(measures['time_s'])}, {amount(measures['energy_j'], 'J')}, {amount(measures['bytes'], 'B')}"
    )
    return " ".join(parts)


def seconds(value: float) -> str:
    """Simulated time with a unit that suits it.

    >>> seconds(0.5), seconds(90), seconds(7200)
    ('0.5 s', '1.5 min', '2 h')
    """
    for size, unit in ((86400 * 3, "d"), (5400, "h"), (90, "min")):
        if value >= size:
            return f"{value / {'d': 86400, 'h': 3600, 'min': 60}[unit]:.3g} {unit}"
    return f"{value:.3g} s"


def amount(value: float, unit: str) -> str:
    """Joules or bytes with a decimal prefix.

    >>> amount(1234, "J"), amount(2.5e9, "B"), amount(0, "J")
    ('1.23 kJ', '2.5 GB', '0 J')
    """
    for size, prefix in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:.3g} {prefix}{unit}"
    return f"{value:.3g} {unit}"


def show_comparison(comparison: Any, report: Path) -> None:
    """Tables, captions, warnings, and where the report is."""
    from fedloom.record.comparison_table import CAPTION, rich_tables
    from fedloom.record.measures import EXISTING, OWN_LABELS, measure_meaning

    for table in rich_tables(comparison):
        out.print(table)
        out.print()
    out.print(CAPTION, highlight=False)
    words = OWN_LABELS | EXISTING
    for name in comparison.others:
        out.print(f"{words[name]} ({name}): {measure_meaning(name)}", highlight=False)
    for warning in comparison.warnings:
        notes.print(f"note: {warning}", highlight=False)
    out.print(f"report: {report}", highlight=False, soft_wrap=True)

"""The records that a paper's file is made of."""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fedloom.record.runs import Run
from fedloom.reproduce.verdicts import Verdict

Setups = Mapping[Any, "Setup"]
Runs = Mapping[Any, Sequence[Run]]  # label -> the runs of this setup, by ascending seed


@dataclass(frozen=True, kw_only=True, eq=False)
class Setup:
    """One curve: a scenario, as a mapping, and a method; there is a run for every seed."""

    scenario: Mapping[str, Any]
    method: str

    def key(self) -> str:
        """A hash of what decides the results but the seed: settings other than the defaults, and the method.

        So runs stay valid when settings are added later; whether a default has changed is seen in the folder.
        """
        from fedloom.simulator import scenario

        content = scenario(self.scenario).model_dump(
            mode="json", exclude={"name", "description"}, exclude_defaults=True
        )
        return hashlib.sha256(json.dumps([content, self.method], sort_keys=True).encode()).hexdigest()[:16]


@dataclass(frozen=True, kw_only=True)
class Claim:
    """What the paper says (text), what we measured, and the verdict."""

    text: str
    verdict: Verdict


@dataclass(frozen=True, kw_only=True)
class Table:
    """Rows of texts under columns; the first column names the row."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, kw_only=True)
class Series:
    """One line or one kind of bar: x and y of equal length; low, high: a band around y, or empty."""

    label: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()
    dashed: bool = False
    colour: int = 0


@dataclass(frozen=True, kw_only=True)
class Plot:
    """One picture. kind "lines" or "bars" (x counts the groups, which `ticks` name). level: a horizontal line."""

    key: str
    caption: str
    x_label: str
    y_label: str
    series: tuple[Series, ...]
    kind: str = "lines"
    ticks: tuple[str, ...] = ()
    level: float | None = None


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What an item came to."""

    claims: tuple[Claim, ...]
    tables: tuple[Table, ...] = ()
    plots: tuple[Plot, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Item:
    """A figure or table: its setups by label at a scale ("laptop" or "paper"), and what their runs say."""

    key: str
    title: str
    published: str
    setups: Callable[[str], Setups]
    judge: Callable[[Runs], Outcome]


@dataclass(frozen=True, kw_only=True)
class Paper:
    """A paper: notes are for the head of its page, seeds the number of seeds by default."""

    key: str
    title: str
    notes: str
    items: tuple[Item, ...]
    seeds: int = 3
    scales: tuple[str, ...] = field(default=("laptop", "paper"))

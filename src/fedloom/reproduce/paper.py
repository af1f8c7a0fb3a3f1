"""The records that a paper is made of."""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from fedloom.data.sources import OWN
from fedloom.numbers import NUMBERS
from fedloom.record.runs import Run
from fedloom.record.statistics import LEAST
from fedloom.reproduce.verdicts import BUILT, FAILS, FEW, OPEN, OTHER_SCALE, Verdict

Setups = Mapping[Any, "Setup"]
Runs = Mapping[Any, Sequence[Run]]  # label -> the runs of this setup, by ascending seed
LAPTOP, PAPER = "laptop", "paper"
SEEDS = {LAPTOP: 5, PAPER: 3}


@dataclass(frozen=True, kw_only=True, eq=False)
class Setup:
    """One curve: a scenario, as a mapping, and a method; there is a run for every seed. beside_s: seconds of a run beside
    training and evaluation, where they are many and known, for what it may take."""

    scenario: Mapping[str, Any]
    method: str
    beside_s: float = 0.0

    def with_own_data(self, names: Sequence[str]) -> "Setup":
        """The same with files of these datasets that need not be the published ones."""
        task = self.scenario["task"]
        if task.get("dataset") not in names:
            return self
        return replace(self, scenario={**self.scenario, "task": {**task, "dataset": task["dataset"] + OWN}})

    def with_theory(self) -> "Setup":
        """The same, with what bounds are made of measured."""
        return replace(self, scenario={**self.scenario, "evaluation": {**self.scenario["evaluation"], "theory": True}})

    def key(self, numbers: int = NUMBERS) -> str:
        """A hash of what decides the results but the seed: settings other than the defaults, the method, and the version
        of the numbers that the code computes.

        So runs stay valid when settings are added later, and only for the code that made them; whether a default has changed
        is seen in the folder.
        """
        from fedloom.simulator import scenario

        content = scenario(self.scenario).model_dump(
            mode="json", exclude={"name", "description"}, exclude_defaults=True
        )
        decisive = [numbers, content, self.method]
        return hashlib.sha256(json.dumps(decisive, sort_keys=True).encode()).hexdigest()[:16]


@dataclass(frozen=True, kw_only=True)
class Claim:
    """What the paper says (text), what we measured, and the verdict.

    Shown and not counted are claims that could not have come out otherwise (because: why; if one does not hold all the same, it
    counts), that are another item's again
    (repeats: which), and questions of our own that the paper does not answer (own). absolute: about a published figure, which
    only runs of the published size can meet.
    """

    text: str
    verdict: Verdict
    because: str = ""
    repeats: str = ""
    own: bool = False
    absolute: bool = False

    def at(self, scale: str, n_seeds: int) -> "Claim":
        """With the state that it has at this scale, of runs with so many seeds."""
        state = self.verdict.state
        if self.because and state != FAILS:
            state = BUILT
        elif self.absolute and scale != PAPER:
            state = OTHER_SCALE
        elif state == OPEN and n_seeds < LEAST:
            state = FEW
        return replace(self, verdict=replace(self.verdict, state=state))


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
    """One picture. kind "lines" or "bars" (x counts the groups, which `ticks` name). level: a horizontal line. log: y by
    powers of ten."""

    key: str
    caption: str
    x_label: str
    y_label: str
    series: tuple[Series, ...]
    kind: str = "lines"
    ticks: tuple[str, ...] = ()
    level: float | None = None
    log: bool = False


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What an item came to. ours: in one line, for beside the published."""

    claims: tuple[Claim, ...]
    tables: tuple[Table, ...] = ()
    plots: tuple[Plot, ...] = ()
    ours: str = ""


@dataclass(frozen=True, kw_only=True)
class Item:
    """A figure or table: its setups by label at a scale ("laptop" or "paper"), and what their runs say.

    scales: those at which it is something else than another item. seeds: by scale, where it is not the usual number.
    first_seed: by scale, where it is not 0, as others were used when choices were made.
    """

    key: str
    title: str
    published: str
    setups: Callable[[str], Setups]
    judge: Callable[[Runs], Outcome]
    scales: tuple[str, ...] = (LAPTOP, PAPER)
    seeds: Mapping[str, int] = field(default_factory=dict)
    first_seed: Mapping[str, int] = field(default_factory=dict)

    def outcome(self, runs: Runs, scale: str) -> Outcome:
        """What the runs say, the claims with their states at this scale."""
        found, n_seeds = self.judge(runs), min(map(len, runs.values()), default=LEAST)
        return replace(found, claims=tuple(claim.at(scale, n_seeds) for claim in found.claims))

    def n_seeds(self, scale: str) -> int:
        """Seeds by default: five at laptop scale, three at the paper's, unless the item says otherwise."""
        return self.seeds.get(scale, SEEDS[scale])

    def seeds_at(self, scale: str, n: int | None = None) -> range:
        """Those of its runs, by default as many as above."""
        first = self.first_seed.get(scale, 0)
        return range(first, first + (n or self.n_seeds(scale)))


@dataclass(frozen=True, kw_only=True)
class Reading:
    """A way to read what the paper leaves open that was tried: of what, which, and what came of it."""

    of: str
    tried: str
    outcome: str


@dataclass(frozen=True, kw_only=True)
class Paper:
    """A paper, by its own title, surnames of its authors, and where it stands; notes are for its page, readings those tried."""

    key: str
    name: str
    title: str
    authors: tuple[str, ...]
    where: str
    notes: str
    items: tuple[Item, ...]
    readings: tuple[Reading, ...] = ()
    scales: tuple[str, ...] = (LAPTOP, PAPER)

    @property
    def citation(self) -> str:
        """Authors, title, where."""
        return f"{', '.join(self.authors)}: “{self.title}”, {self.where}"

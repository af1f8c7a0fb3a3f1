"""What aggregators did since the cloud handed them their models, for those who check them (fedloom.mixing.audit).

Of every aggregator in order: the merges, and what it claimed its model to be when it showed it to members or reported it. What
members hold of it is kept until it is checked: the updates that they sent, and what they were shown.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from fedloom.protocol.messages import Part
from fedloom.simulator.book import Model
from fedloom.simulator.sick import Update


class Claim(NamedTuple):
    """What an aggregator sent as its model, and what that should have been. noise_std: of the link, on every value. clients: to
    whom, if not to the cloud."""

    sent: Model
    true: Model
    noise_std: float = 0.0
    clients: tuple[int, ...] = ()


class Merged(NamedTuple):
    """A merge, with the m updates as they came and, if they count, what they began with; without, if nobody asks for these."""

    part: Part
    updates: Sequence[Model] = ()
    starts: Sequence[Model] = ()


@dataclass(eq=False)
class Trail:
    """given: what the cloud handed down. steps: what followed. held: by client, how many models it has of it that are checked;
    shown: how many of them it was shown. drawn: where checks are by lot, which of the claims before the report are checked; None:
    nor is that."""

    given: Model
    steps: list[Claim | Merged] = field(default_factory=list)
    held: Counter[int] = field(default_factory=Counter)
    shown: Counter[int] = field(default_factory=Counter)
    drawn: list[int] | None = None

    @property
    def last_merge(self) -> int:
        """How many updates are in it; 0 if there was none."""
        sizes = [len(step.part.arrivals.client) for step in self.steps if isinstance(step, Merged)]
        return sizes[-1] if sizes else 0

    @property
    def claims(self) -> list[tuple[Claim, int]]:
        """All claims, and how many updates are in the merge before each; 0 if there was none."""
        found, m = [], 0
        for step in self.steps:
            if isinstance(step, Merged):
                m = len(step.part.arrivals.client)
            else:
                found.append((step, m))
        return found

    def models(self) -> Iterator[Model]:
        """All that it refers to."""
        yield self.given
        for step in self.steps:
            yield from (step.sent, step.true) if isinstance(step, Claim) else (*step.updates, *step.starts)


class Case(NamedTuple):
    """A report that is to be checked, with the trail that it ends."""

    aggregator: int
    report: Update
    trail: Trail


class Verdict(NamedTuple):
    """On the report of an aggregator: so many updates were handed over as it was suspected, and whether it was found to lie."""

    aggregator: int
    opened: int
    found: bool


class Trails:
    """keeps: whether updates are kept. due: reports that are to be checked."""

    def __init__(self, *, keeps: bool) -> None:
        self._keeps = keeps
        self._of: dict[int, Trail] = {}
        self.due: list[Case] = []

    @property
    def live(self) -> list[Model]:
        """What checks may refer to, in a fixed order."""
        trails = [*(case.trail for case in self.due), *(self._of[n] for n in sorted(self._of))]
        return [model for trail in trails for model in trail.models()]

    def begin(self, n: int, given: Model) -> None:
        """The cloud has handed aggregator n its model."""
        self._of[n] = Trail(given)

    def forget(self) -> None:
        """There are other aggregators."""
        self._of = {}

    def of(self, n: int) -> Trail | None:
        """Since aggregator n was last handed a model."""
        return self._of.get(n)

    def merged(self, part: Part) -> None:
        """An aggregator has merged updates."""
        trail = self._of.get(part.aggregator)
        if trail is None:
            return
        if not self._keeps:
            trail.steps.append(Merged(part))
            return
        jobs = [(flight.load, int(j)) for flight in part.flights for j in flight.at]
        with_starts = part.weights is not None and part.weights.start is not None
        starts = [load.dispatch.starts[load.dispatch.start[j]] for load, j in jobs] if with_starts else []
        trail.steps.append(Merged(part, [load.result(j) for load, j in jobs], starts))
        for client in part.arrivals.client.tolist():
            trail.held[client] += 1 + with_starts

    def shown(self, n: int, claim: Claim) -> None:
        """Aggregator n has shown its model to members."""
        trail = self._of.get(n)
        if trail is None or not claim.clients:
            return
        trail.steps.append(claim)
        trail.held.update(claim.clients)
        trail.shown.update(claim.clients)

    def told(self, n: int, report: Update, claim: Claim) -> None:
        """The report of aggregator n is at the cloud."""
        trail = self._of.get(n)
        if trail is not None:
            self.due.append(Case(n, report, replace(trail, steps=[*trail.steps, claim])))

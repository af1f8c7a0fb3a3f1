"""One edge server or head, or several that share clients or a host and open and close their rounds together: a group.

    Begin --> Ready --> Open --> Send, Wake --> Arrived | Due --> Merge, RoundOver --> Ready ... or Report

What a round waits for is the mode's to say (Rounds, TimeBox, Async: an object each, in files of their own). What they have in
common is here: staleness is the number of rounds (async: merges) since a client left; nothing is merged twice.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from fedloom.mixing import Arrivals
from fedloom.mixing.merges import MergeEdge
from fedloom.pacing import Offer
from fedloom.pacing.periods import EdgeRounds
from fedloom.pacing.time_sharing import Share
from fedloom.protocol.flight import Flight
from fedloom.protocol.messages import (
    Action,
    Arrived,
    Asleep,
    Begin,
    Due,
    EdgeEvent,
    Gone,
    Lost,
    Merge,
    Moved,
    OnTheWay,
    Open,
    Part,
    Ready,
    Report,
    RoundOver,
)
from fedloom.protocol.roster import Roster
from fedloom.protocol.terms import TIE, Attendance, Terms

Ints = NDArray[np.int64]
NONE = np.zeros(0, dtype=np.int64)


class EdgeMode(Protocol):
    """When an edge opens, closes and reports. Answers to events; see `Edge.handle`. at_once: moves of clients count at once, and
    not from the next round on. in_step: all clients do the work that is asked for. box_s: seconds after which it reports though a
    client never comes back; None: it waits for ever. waits_for_all: no deadline, so that what a round takes follows from what is
    known before."""

    at_once: ClassVar[bool]
    in_step: ClassVar[bool]

    @property
    def lost_on_move(self) -> bool: ...
    @property
    def rounds(self) -> EdgeRounds: ...
    @property
    def uplink(self) -> Share | None: ...
    @property
    def box_s(self) -> float | None: ...
    @property
    def waits_for_all(self) -> bool: ...

    def begin(self, edge: "Edge", event: Begin) -> list[Action]: ...
    def open(self, edge: "Edge", event: Open) -> list[Action]: ...
    def on_the_way(self, edge: "Edge", event: OnTheWay) -> list[Action]: ...
    def arrived(self, edge: "Edge", event: Arrived) -> list[Action]: ...
    def due(self, edge: "Edge", event: Due) -> list[Action]: ...
    def moved(self, edge: "Edge", event: Moved) -> list[Action]: ...
    def gone(self, edge: "Edge", event: Gone) -> list[Action]: ...
    def count(self, edge: "Edge") -> int: ...


@dataclass(eq=False)
class Edge:
    """group: its number; aggregators (a,) and members (m,) of it. n_rounds, n_merges: edge rounds and merged arrivals since the
    start of the run. index: of the round that is open, or was last, by the count that all groups share. on_time: those who are
    waited for. contributed (a, K): whose updates are in the models since the last cloud merge; contributed_last: in the last
    round. may_sleep: with nobody there it sleeps, as nobody waits for it; else it goes on without. ticket: of the cloud's last
    order. first_comer: all members are busy, and the round closes when the first of them is not.
    """

    group: int
    aggregators: Ints
    members: Ints
    mode: EdgeMode
    merge: MergeEdge
    terms: Terms
    roster: Roster
    attendance: Attendance | None = None
    may_sleep: bool = False
    may_be_empty: bool = False
    n_groups: int = 1
    n_rounds: int = 0
    n_merges: int = 0
    merges_before: int = 0  # of n_merges, those before the round that is open
    merges_left: int = 0
    rounds_left: int = 0
    begun_at: int = 0  # n_rounds when it began
    units: int = 0
    steps_left: int | None = None
    index: int = 0
    report_at_s: float = np.inf
    slack_s: float = TIE
    from_own: bool = False
    asleep: bool = False
    deadline_s: float = np.inf
    early_close: bool = True
    on_time: Flight | None = None
    ticket: int | None = None
    first_comer: bool = False
    _first: tuple[Ints | None, Ints] = field(default=(None, NONE), init=False, repr=False)
    _offered: tuple[Attendance, int, Offer] | None = field(default=None, init=False, repr=False)  # last
    _totals: dict[int, float] = field(
        default_factory=dict, init=False, repr=False
    )  # as long as the attendance is the same
    contributed: NDArray[np.bool_] = field(init=False, repr=False)
    contributed_last: NDArray[np.bool_] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self.contributed = np.zeros((len(self.aggregators), len(self.terms.n_samples)), dtype=np.bool_)
        self.contributed_last = self.contributed.copy()

    def handle(self, event: EdgeEvent) -> list[Action]:
        """What to do now."""
        match event:
            case Begin():
                return [] if self._is_copy(event) else self.mode.begin(self, event)
            case Open():
                return self.mode.open(self, event)
            case OnTheWay():
                return self.mode.on_the_way(self, event)
            case Arrived():
                return self.mode.arrived(self, event)
            case Due():
                return self.mode.due(self, event)
            case Moved():
                return self.mode.moved(self, event)
            case Gone():
                return self.mode.gone(self, event)
            case Lost():
                return self._lost(event)

    def _is_copy(self, event: Begin) -> bool:
        """An order that was carried out before, or one that another has overtaken."""
        if event.ticket is None or self.ticket is None or event.ticket > self.ticket:
            self.ticket = event.ticket
            return False
        return True

    def _lost(self, event: Lost) -> list[Action]:
        """Aggregators are not waited for any more. With others of the group left it goes on with them; else the rounds that were
        to come are over, and it reports what it was handed down, or sleeps if nobody waits for it."""
        gone = np.isin(self.aggregators, event.aggregators)
        self.contributed[gone] = self.contributed_last[gone] = False
        if self.on_time is not None:
            self.on_time = self.on_time.pick(~np.isin(self.on_time.client, event.client))
        if not gone.all() and self.rounds_left > 0:
            return self.mode.gone(self, Gone(event.at_s, event.client))
        self.n_rounds += self.rounds_left > 0  # so that an alarm of this round is not one of the next
        self.rounds_left = self.merges_left = 0
        self.on_time, self.first_comer = None, False
        if gone.all() and self.may_sleep:
            self.asleep = True
            return [Asleep(self.group)]
        return [self.report(event.at_s)._replace(aggregators=NONE)]

    def anew(self) -> "Edge":
        """After the loss of its state: the same group with the same number of rounds, which others count by."""
        return Edge(
            group=self.group,
            aggregators=self.aggregators,
            members=self.members,
            mode=self.mode,
            merge=self.merge,
            terms=self.terms,
            roster=self.roster,
            attendance=self.attendance,
            may_sleep=self.may_sleep,
            may_be_empty=self.may_be_empty,
            n_groups=self.n_groups,
            n_rounds=self.n_rounds,
            n_merges=self.n_merges,
            index=self.index,
        )

    @property
    def here(self) -> Attendance:
        """Who was where when the round that is open, or was last, opened."""
        assert self.attendance is not None
        return self.attendance

    @property
    def count(self) -> int:
        """What staleness is counted in."""
        return self.mode.count(self)

    def attend(self, attendance: Attendance) -> None:
        """Clients have come or gone."""
        if attendance is not self.attendance:
            self._totals = {}
        self.attendance, self.members = attendance, attendance.members(self.group)
        self._first = (None, self.members)

    def begun(self, event: Begin, rounds: int) -> list[Action]:
        """The cloud's model is here, with so many rounds to go. If it overtakes an order, what the open round has is late."""
        actions: list[Action] = []
        self.roster.late += [self.on_time] if self.on_time is not None else []
        self.on_time, self.first_comer = None, False
        self.from_own = event.progress is not None
        if event.progress is not None:
            actions = self.merged([event.progress.pick(np.isin(event.progress.client, self.members))], 0, n_updates=0)
        self.rounds_left, self.units = rounds, event.units
        self.steps_left, self.begun_at = event.steps_left, self.n_rounds
        return [*actions, Ready(self.group, event.at_s) if rounds else self.report(event.at_s)]

    @property
    def units_now(self) -> int:
        """Local work of the round that opens: fewer steps in the very last, if the run has a number of steps."""
        if self.steps_left is None:
            return self.units
        return max(1, min(self.units, self.steps_left - (self.n_rounds - self.begun_at) * self.units))

    def offer(self, clients: Ints) -> Offer:
        """What clients (m,) are asked to do, as predicted."""
        here, units, last = self.here, self.units_now, self._offered
        if last is not None and last[0] is here and last[1] == units and last[2].client is clients:
            return last[2]
        unit_steps = self.terms.unit_steps[clients]
        offer = Offer(
            client=clients,
            full_steps=unit_steps * units,
            unit_steps=unit_steps,
            step_s=here.step_s[clients],
            link_s=here.links_s(clients, unit_steps * units),
            cluster=self.reports_to(clients),
        )
        self._offered = (here, units, offer)
        return offer

    def reports_to(self, clients: Ints) -> Ints:
        """The first aggregator of each of the clients (m,)."""
        for_whom, found = self._first
        if for_whom is not clients:  # of those who are sent it is asked three times
            found = np.asarray(self.here.topology.cover[:, clients].argmax(axis=0))
            self._first = (clients, found)
        return found

    def leave(self, clients: Ints, left_at: int, steps: Ints) -> Flight:
        """Clients (m,) go to work for steps (m,)."""
        return self.roster.leave(clients, left_at, self.here.topology.host[self.reports_to(clients)], steps)

    @property
    def n_wanted(self) -> int:
        """How many members are sampled for a round."""
        return self.terms.wanted(self.here.topology, self.aggregators, len(self.members), self.n_groups)

    def sample(self, idle: Ints, wanted: int) -> Ints:
        """At most `wanted` of the idle members (m,), uniformly without replacement, sorted."""
        return self.terms.drawn(idle, wanted, self.n_rounds, self.n_merges - self.merges_before)

    def of_this_host(self, flight: Flight) -> Flight:
        """What of the updates counts here: all, or if moving loses them, those of clients that were sent from here."""
        if not self.mode.lost_on_move:
            return flight
        return flight.pick(np.isin(flight.host, self.here.topology.host[self.aggregators]))

    def merged(self, flights: Sequence[Flight], now: int, n_updates: int | None = None) -> list[Action]:
        """Merge updates at every aggregator that has some; staleness is counted from `now`."""
        parts = []
        for row, n in enumerate(self.aggregators.tolist() if flights else []):
            mine = [f.pick(self.here.topology.cover[n, f.client]) for f in flights]
            mine = [f for f in mine if len(f)]
            if mine:
                parts.append(self._part(row, n, mine, now, n_updates == 0))
        total = sum(map(len, flights)) if n_updates is None else n_updates
        return [Merge(self.group, parts, total)] if flights else []

    def _part(self, row: int, n: int, flights: list[Flight], now: int, before: bool) -> Part:
        """before: of what members trained before the first round."""
        here, n_samples = self.here, self.terms.n_samples
        client, left_at, steps = flights[0].client, flights[0].left_at, flights[0].steps
        if len(flights) > 1:
            columns = zip(*((f.client, f.left_at, f.steps) for f in flights))
            client, left_at, steps = (np.concatenate(c) for c in columns)
        arrivals = Arrivals(
            client=client,
            n_samples=n_samples[client],
            n_reached=here.n_reached[client],
            staleness=now - left_at,
            steps=steps,
            total=self._total(n),
            occasion=(self.terms.seed, n, self.n_rounds, self.n_merges, before),
        )
        self.contributed[row, client] = True
        self.contributed_last[row, client] = True
        return Part(n, flights, arrivals, self.merge.weights(arrivals))

    def _total(self, n: int) -> float:
        """Samples of all clients of an aggregator."""
        if n not in self._totals:
            self._totals[n] = float(self.terms.n_samples[self.here.topology.cover[n]].sum())
        return self._totals[n]

    def end_round(self, at_s: float) -> list[Action]:
        """A round is over: the next one, or the report."""
        self.n_rounds += 1
        self.rounds_left -= 1
        if at_s >= self.report_at_s - self.slack_s:  # jitter has used up the time box: no round fits any more
            self.rounds_left = 0
        over = RoundOver(self.group, self.n_rounds)
        return [over, Ready(self.group, at_s)] if self.rounds_left > 0 else [over, self.report(at_s)]

    def repeated(self, before: int, n_rounds: int) -> None:
        """It has had so many edge rounds after the first `before`, all like those of the last cloud round."""
        self.begun_at, self.n_rounds = before, before + n_rounds
        self.index = self.n_rounds - 1

    def report(self, at_s: float) -> Report:
        """Of several aggregators on a host only those with news report. A time box is waited for."""
        at_s = max(at_s, self.report_at_s) if np.isfinite(self.report_at_s) else at_s
        if len(self.aggregators) == 1:
            return Report(self.group, at_s, self.aggregators, self.ticket)
        host = self.here.topology.host[self.aggregators]
        several = np.array([np.count_nonzero(host == h) > 1 for h in host])
        news = self.contributed.any(axis=1)
        return Report(self.group, at_s, self.aggregators[~several | news], self.ticket)

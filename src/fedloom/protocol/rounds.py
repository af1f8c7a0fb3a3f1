"""Edge rounds: clients are sent to work together, and who is back when the round closes is merged.

The pace says how much each does and how long the edge waits: for everybody (lockstep), or until a deadline; who is late is
merged in the round that is open, where its client is then, when the update is here.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedloom.pacing import Offer, Pace, lockstep
from fedloom.pacing.periods import EdgeRounds, check_edge_rounds
from fedloom.pacing.time_sharing import Share
from fedloom.protocol.edge import Edge
from fedloom.protocol.flight import Flight
from fedloom.protocol.messages import (
    Action,
    Arrived,
    Asleep,
    Begin,
    Due,
    Gone,
    Moved,
    OnTheWay,
    Open,
    Ready,
    Send,
    Wake,
)
from fedloom.protocol.terms import TIE


class Together:
    """Rules of rounds for which clients are sent to work together, and which close when all are back or it is time."""

    at_once: ClassVar[bool] = False

    def count(self, edge: Edge) -> int:
        return edge.n_rounds

    def opened(self, edge: Edge, event: Open, pace_of: Callable[[Offer], Pace]) -> list[Action]:
        """Send idle clients to work, and decide when the round closes: as the pace says, but not after the report is due."""
        edge.attend(event.attendance)
        edge.index = event.number
        sampled = edge.sample(edge.roster.idle(edge.members, event.at_s), edge.n_wanted)
        if len(sampled):
            pace = pace_of(edge.offer(sampled))
            edge.deadline_s, edge.early_close = min(pace.close_s, edge.report_at_s - event.at_s), pace.early_close
            flight = edge.leave(sampled, edge.index, pace.steps)
            from_own, edge.from_own = edge.from_own, False
            return [Send(edge.group, sampled, pace.steps, [flight], edge.deadline_s + edge.slack_s, from_own)]
        busy = edge.roster.at_work(edge.members, event.at_s)
        if len(busy):  # close when the first of them is not
            first_s = min(float(edge.roster.busy_until[busy].min()), edge.report_at_s)
            edge.first_comer = True
            return [Wake(edge.group, max(event.at_s, first_s), edge.n_rounds)] if np.isfinite(first_s) else []
        return self._with_nobody(edge, event.at_s)

    def _with_nobody(self, edge: Edge, at_s: float) -> list[Action]:
        """All members are down, or there are none. If a cloud waits for this group, its round is over at once; if nobody at all
        is there, it is opened again when somebody may be."""
        if edge.may_sleep or not (edge.may_be_empty or len(edge.members)):
            edge.asleep = True
            return [Asleep(edge.group)]
        back_s = edge.roster.nobody_until_s
        if back_s > at_s and edge.report_at_s > at_s:
            return (
                [Ready(edge.group, min(back_s, edge.report_at_s))] if np.isfinite(min(back_s, edge.report_at_s)) else []
            )
        return [Wake(edge.group, at_s, edge.n_rounds)]

    def on_the_way(self, edge: Edge, event: OnTheWay) -> list[Action]:
        """Who is known to come too late is not waited for, and the round is open until its deadline for it."""
        edge.roster.busy_until[event.flight.client] = event.flight.arrives_s
        edge.on_time, late = event.flight.split(~event.late)
        edge.roster.late += [late] if len(late) else []
        edge.early_close &= not event.late.any()
        all_back_s = float(event.takes_s.max())
        close_s = all_back_s if edge.early_close and np.isfinite(all_back_s) else edge.deadline_s
        return [Wake(edge.group, event.at_s + close_s, edge.n_rounds)] if np.isfinite(close_s) else []

    def arrived(self, edge: Edge, event: Arrived) -> list[Action]:
        """For drivers that learn of arrivals when they happen: close when all are there who were waited for. Copies, and what
        nobody waits for, change nothing."""
        tickets = np.full(len(edge.roster.busy_until), -1)
        tickets[event.flight.client] = event.flight.ticket
        awaited = [edge.on_time] if edge.on_time is not None else []
        news = False
        for flight in [*awaited, *edge.roster.late]:
            here = flight.missing(tickets)
            flight.arrives_s = np.where(here, event.at_s, flight.arrives_s)
            edge.roster.busy_until[flight.client[here]] = event.at_s
            news |= bool(here.any())
        news |= edge.first_comer and len(edge.roster.idle(edge.members, event.at_s)) > 0
        return self._close_if_nobody_is_missing(edge, event.at_s) if news else []

    def due(self, edge: Edge, event: Due) -> list[Action]:
        return self._close(edge, event.at_s) if event.edge_round == edge.n_rounds and edge.rounds_left > 0 else []

    def moved(self, edge: Edge, event: Moved) -> list[Action]:
        """Whoever the round waits for may have been taken from it."""
        return [] if edge.roster.foreseen else self._close_if_nobody_is_missing(edge, event.at_s)

    def gone(self, edge: Edge, event: Gone) -> list[Action]:
        if edge.on_time is not None:
            edge.on_time = edge.on_time.pick(
                ~(np.isin(edge.on_time.client, event.client) & np.isinf(edge.on_time.arrives_s))
            )
        return self._close_if_nobody_is_missing(edge, event.at_s)

    def _close_if_nobody_is_missing(self, edge: Edge, at_s: float) -> list[Action]:
        """Nobody that the round waited for; if it waited for whoever comes first, somebody has, or nobody will. Where it is
        foreseen when the others are back, it closes then."""
        if edge.first_comer:
            over = len(edge.roster.at_work(edge.members, at_s)) < len(edge.members) or not len(edge.members)
            return self._close(edge, at_s) if over else []
        if edge.on_time is None or not edge.early_close:
            return []
        last_s = float(edge.on_time.arrives_s.max(initial=at_s))
        if last_s > at_s + TIE:
            return [Wake(edge.group, last_s, edge.n_rounds)] if np.isfinite(last_s) else []
        return self._close(edge, at_s)

    def _close(self, edge: Edge, at_s: float) -> list[Action]:
        """Merge who is on time and who has arrived late; go on or report."""
        flights: list[Flight] = []
        if edge.on_time is not None:
            back, away = edge.on_time.split(~np.isinf(edge.on_time.arrives_s))
            flights += [back] if len(back) else []
            edge.roster.late += [away] if len(away) else []
        edge.on_time, edge.first_comer = None, False
        for flight in edge.roster.take_late(edge.group, edge.here, edge.index, at_s):
            counted = edge.of_this_host(flight)
            flights += [counted] if len(counted) else []
        edge.contributed_last[:] = False
        return [*edge.merged(flights, edge.index), *edge.end_round(at_s)]


@dataclass(frozen=True, kw_only=True)
class Rounds(Together):
    """Edge rounds that close when everybody is back, or at a deadline."""

    pace: Callable[[Offer], Pace] = lockstep
    """How much work each sampled client gets, and how long the edge waits."""
    rounds: EdgeRounds = None
    """Edge rounds from one report to the next, or local work and edge rounds by the progress of training; by default the
    scenario's. With a cloud that does not wait, fewer edge rounds make more reports in a cloud round."""
    uplink: Share | None = None
    """When uploads that share the air are over, from when computing ends (m,) and what an upload takes (m,); else each has a link
    of its own. It is asked for every cell, head or server by itself, with all that is sent in its air: second links too. It is
    not asked where the fleet's air is shared."""
    lost_on_move: bool = False
    """Updates of clients that have meanwhile moved to another host are lost, not merged there."""

    in_step: ClassVar[bool] = True
    box_s: ClassVar[float | None] = None

    def __post_init__(self) -> None:
        check_edge_rounds(self.rounds)

    @property
    def waits_for_all(self) -> bool:
        return self.pace is lockstep

    def begin(self, edge: Edge, event: Begin) -> list[Action]:
        return edge.begun(event, event.rounds)

    def open(self, edge: Edge, event: Open) -> list[Action]:
        return self.opened(edge, event, self.pace)

"""No rounds to wait for: every arrival is merged at once, and its client, or another, is sent to work in its place.

Where the grouping has squads, whole squads are sent and merged together. An edge round is over after as many merges as a round in
lockstep would have clients (or squads).
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from fedloom.pacing import lockstep
from fedloom.pacing.periods import EdgeRounds, check_edge_rounds
from fedloom.pacing.time_sharing import Share
from fedloom.protocol.edge import Edge
from fedloom.protocol.messages import (
    Action,
    Again,
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
)

Ints = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class Async:
    """Merge every arrival at once."""

    rounds: EdgeRounds = None
    """Edge rounds from one report to the next, as for `Rounds`."""
    uplink: Share | None = None
    """When uploads that share the air are over, as for `Rounds`."""
    lost_on_move: bool = False
    """Updates of clients that have meanwhile moved to another host are lost, not merged there."""

    at_once: ClassVar[bool] = True
    in_step: ClassVar[bool] = False
    box_s: ClassVar[float | None] = None
    waits_for_all: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_edge_rounds(self.rounds)

    def count(self, edge: Edge) -> int:
        return edge.n_merges

    def begin(self, edge: Edge, event: Begin) -> list[Action]:
        return edge.begun(event, event.rounds)

    def open(self, edge: Edge, event: Open) -> list[Action]:
        edge.attend(event.attendance)
        edge.index = event.number
        edge.merges_left, edge.merges_before = self._n_wanted(edge), edge.n_merges
        return [*self._staff(edge, event.at_s), *self._unless_deserted(edge, event.at_s)]

    def on_the_way(self, edge: Edge, event: OnTheWay) -> list[Action]:
        return []

    def arrived(self, edge: Edge, event: Arrived) -> list[Action]:
        """Merge the update of a client (or squad) and send somebody idle in its place. If no round is open, the update waits for
        the next one, and so does the client."""
        at_s, everybody, flight = event.at_s, event.flight.client, edge.of_this_host(event.flight)
        if not len(flight):
            edge.roster.busy_until[everybody] = at_s
            return self.moved(edge, Moved(at_s, edge.here))
        if edge.merges_left == 0:
            edge.roster.late.append(flight)
            return []
        edge.roster.busy_until[everybody] = at_s
        edge.contributed_last[:] = False
        merged = edge.merged([flight], edge.n_merges)
        edge.n_merges += 1
        edge.merges_left -= event.counts
        if edge.merges_left > 0:
            return [*merged, *self._send(edge, at_s, 1), *self._unless_deserted(edge, at_s)]
        return [*merged, *edge.end_round(at_s)]

    def due(self, edge: Edge, event: Due) -> list[Action]:
        return []

    def moved(self, edge: Edge, event: Moved) -> list[Action]:
        """Replace who has gone, if a round is open."""
        if edge.merges_left == 0:
            return []
        return [*self._staff(edge, event.at_s), *self._unless_deserted(edge, event.at_s)]

    def gone(self, edge: Edge, event: Gone) -> list[Action]:
        return self.moved(edge, Moved(event.at_s, edge.here))

    def _staff(self, edge: Edge, at_s: float) -> list[Action]:
        """Take in what waits here, and send as many clients (or squads) to work as merges are missing."""
        again: list[Action] = [Again(edge.group, lead) for lead in edge.roster.release(edge.group)]
        missing = edge.merges_left - edge.roster.n_working(edge.group)
        return [*again, *self._send(edge, at_s, missing)]

    def _send(self, edge: Edge, at_s: float, wanted: int) -> list[Action]:
        """Send at most `wanted` idle clients (or squads) to work; each is merged by itself."""
        actions: list[Action] = []
        squads = edge.here.topology.squad is not None
        for crew in self._crews(edge, at_s, wanted):
            steps = lockstep(edge.offer(crew)).steps
            flight = edge.leave(crew, edge.n_merges, steps)
            parts = [flight] if squads else [flight.pick(np.array([j])) for j in range(len(crew))]
            for part in parts:
                edge.roster.working[int(part.client[0])] = part
            from_own, edge.from_own = edge.from_own, False
            actions.append(Send(edge.group, crew, steps, parts, np.inf, from_own))
        return actions

    def _crews(self, edge: Edge, at_s: float, wanted: int) -> list[Ints]:
        """At most `wanted` idle clients to send out, or whole squads of them."""
        squad, members = edge.here.topology.squad, edge.members
        idle = edge.roster.idle(members, at_s)
        if squad is None:
            sampled = edge.sample(idle, wanted)
            return [sampled] if len(sampled) else []
        busy = np.setdiff1d(members, idle)
        crews = []
        for number in np.setdiff1d(squad[members], squad[busy])[: max(wanted, 0)]:
            crew = members[squad[members] == number]
            crews.append(edge.sample(crew, edge.terms.share(len(crew))))
        return crews

    def _n_wanted(self, edge: Edge) -> int:
        """Merges that make a round: clients that are sampled, or squads."""
        squad = edge.here.topology.squad
        return edge.n_wanted if squad is None else max(1, len(np.unique(squad[edge.members])))

    def _unless_deserted(self, edge: Edge, at_s: float) -> list[Action]:
        """Nobody works for this group any more and nobody could be sent: its round ends with what it has. If nobody at all is
        there, it is opened again when somebody may be."""
        lasting = edge.roster.lasting and not edge.roster.wander  # all come back, and nobody leaves before they do
        if lasting or edge.roster.n_working(edge.group):
            return []
        nothing_yet, edge.merges_left = edge.n_merges == edge.merges_before, 0
        if edge.may_sleep:
            edge.asleep = True
            return [Asleep(edge.group)]
        back_s = edge.roster.nobody_until_s
        if nothing_yet and back_s > at_s:
            return [Ready(edge.group, back_s)] if np.isfinite(back_s) else []
        return edge.end_round(at_s)

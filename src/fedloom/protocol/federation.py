"""The machines of one federation: a cloud, edges, devices and the roster, and what regrouping and moving do to them.

It has no clock, no models and no random state. A driver tells it what has happened, and does what it answers.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from fedloom.grouping import Topology
from fedloom.mixing.merges import MergeCloud, MergeEdge
from fedloom.protocol.cloud import Cloud, CloudMode
from fedloom.protocol.device import Devices
from fedloom.protocol.edge import Edge, EdgeMode
from fedloom.protocol.flight import Flight
from fedloom.protocol.messages import Action, Again, Arrived, Gone, Lost
from fedloom.protocol.roster import Roster
from fedloom.protocol.terms import TIE, Attendance, Terms

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


class Federation:
    """K clients. edges: a machine for every group of aggregators that share clients or a host. wander, foreseen, returns,
    failing: see `Roster`."""

    def __init__(
        self,
        terms: Terms,
        edge: EdgeMode,
        cloud: CloudMode,
        merge_edge: MergeEdge,
        merge_cloud: MergeCloud,
        *,
        wander: bool = False,
        foreseen: bool = True,
        returns: bool = False,
        failing: bool = False,
    ) -> None:
        self.terms, self.edge_mode, self._merge_edge = terms, edge, merge_edge
        self.roster = Roster(len(terms.n_samples), wander, foreseen, returns, failing=failing)
        self.devices = Devices(len(terms.n_samples))
        self.cloud = Cloud(cloud, merge_cloud, terms, self.roster)
        self.edges: list[Edge] = []
        self.topology: Topology

    def __repr__(self) -> str:
        edges = ", ".join(f"{e.group}: round {e.n_rounds}, {e.rounds_left} left" for e in self.edges)
        return f"Federation({self.cloud}, edges=[{edges}], {self.roster})"

    def may_be_empty(self, topology: Topology) -> bool:
        """Groups without clients take part, as some may come in a later edge round."""
        return self.roster.wander and (topology.follow or topology.kind == "cloud") and self.cloud.mode.waits

    def regroup(self, topology: Topology, groups: Sequence[Ints] | None = None) -> bool:
        """Take over a topology. Where the cloud does not wait, the groups stay and go on with their rounds; whether they do.
        groups: aggregators that open and close together, if they are more than the topology says: some are silent."""
        edges = self._new_edges(topology, topology.pace_groups() if groups is None else groups)
        before = self._counts() if self.edges else None
        stay = bool(self.edges) and not self.cloud.mode.waits
        if stay:
            self._move_between(edges)
        else:
            for edge in edges:
                edge.n_rounds = max((old.n_rounds for old in self.edges), default=0)
                edge.n_merges = max((old.n_merges for old in self.edges), default=0)
            self.edges = edges
            self.cloud.regroup(edges, topology.n_aggregators)
        self.topology = topology
        group_of = np.full(topology.cover.shape[1], -1)
        for edge in self.edges:
            group_of[edge.members] = edge.group
        self.roster.group_of = group_of
        if before is not None:
            self._keep_age(before)
        return stay

    def enter(self, attendance: Attendance) -> None:
        """A cloud round is entered with clients at these places."""
        before = self._counts()
        self.see(attendance)
        if self.edge_mode.at_once:
            self._keep_age(before)
        for edge in self.edges:
            edge.attend(attendance)

    def move(self, attendance: Attendance) -> bool:
        """Clients are at other places in the middle of a cloud round. Groups that merge at once go by it now, the others when
        they open their next round; whether the first is so."""
        before = self._counts()
        self.see(attendance)
        if not self.edge_mode.at_once:
            return False
        for edge in self.edges:
            edge.attend(attendance)
        self._keep_age(before)
        return True

    def see_absent(self, absent: NDArray[np.bool_], nobody_until_s: float) -> None:
        """Who is down now (K,). nobody_until_s: if nobody at all is there, nor at work, when somebody may be again."""
        self.roster.absent, self.roster.nobody_until_s = absent, nobody_until_s

    def see(self, attendance: Attendance) -> None:
        """Who is where now."""
        self.roster.see(attendance)
        self.cloud.see(attendance)

    def begin(self, n_reports_of_each: int) -> list[Action]:
        """A cloud round begins: the groups' counts of rounds are the same again, if the cloud waits for all."""
        if self.cloud.mode.waits or not self.cloud.begun:
            before, most = self._counts(), max(edge.n_rounds for edge in self.edges)
            for edge in self.edges:
                edge.n_rounds = most
            self._keep_age(before)
        n_reporting = sum(len(edge.members) > 0 or edge.may_be_empty for edge in self.edges)
        return self.cloud.begin(n_reporting * n_reports_of_each)

    def repeated(self, rounds: Sequence[int], clients: Ints, steps: Ints, times: Ints, back_s: Floats) -> None:
        """A cloud round was the last one again: with so many edge rounds of each group, in which clients (m,) were sent to work
        `times` (m,), did steps (m,) in all, and were back from the last at back_s (m,)."""
        most = max([edge.n_rounds for edge in self.edges])
        for edge, n_rounds in zip(self.edges, rounds):
            edge.repeated(most, n_rounds)
        self.devices.repeated(clients, steps, most + times - 1)
        self.roster.repeated(clients, times, back_s)
        self.cloud.repeated()

    def next_index(self, group: int | None = None) -> int:
        """The running edge round, from 1, that a group (by default: the first) opens next.

        Where the cloud does not wait and clients wander, edge rounds of all groups together count, divided by the groups.
        """
        if not self.edges:
            return 1
        if self.roster.wander and not self.cloud.mode.waits:
            return sum(edge.n_rounds for edge in self.edges) // len(self.edges) + 1
        return 1 + (max(e.n_rounds for e in self.edges) if group is None else self.edges[group].n_rounds)

    def woken(self, attendance: Attendance, among: Sequence[Edge] | None = None) -> list[Edge]:
        """Groups that had nobody and now have somebody: they go on."""
        found = []
        for edge in self.edges if among is None else among:
            if edge.asleep and len(self.roster.present(attendance.members(edge.group))):
                edge.asleep = False
                edge.attend(attendance)
                found.append(edge)
        return found

    def arrived(self, lead: int, at_s: float) -> list[tuple[Edge, Arrived]]:
        """What was sent to be merged by itself is back: to which groups it goes, in parts if its clients have parted. Who is
        nowhere keeps its update: where clients wander, until it is back, else for ever. Nothing if it was lost meanwhile."""
        found: list[tuple[Edge, Arrived]] = []
        if self.ready_s(lead) > at_s + TIE:
            return found
        for group, flight, largest in self.roster.parted(lead):
            if group >= 0:
                found.append((self.edges[group], Arrived(at_s, flight, bool(largest))))
            elif self.roster.wander:
                self.roster.late.append(flight)
            else:
                self.roster.busy_until[flight.client] = at_s
        return found

    def ready_s(self, lead: int) -> float:
        """When what was sent to be merged by itself is here, all of it, as far as that is known; infinite if there is nothing."""
        flight = self.roster.working.get(lead)
        return np.inf if flight is None else float(flight.arrives_s.max())

    def delivered(self, clients: Ints, tickets: Ints, at_s: float) -> list[tuple[Edge, Arrived]]:
        """Updates (m,) are here, for drivers that learn of arrivals when they happen: which groups are to be told. What is a
        copy, or was sent for by a life that is forgotten, is nobody's."""
        newest = np.full(len(self.roster.busy_until), -1)
        np.maximum.at(newest, clients, tickets)  # a client has one job at a time: older ones are copies
        found = [
            (edge, Arrived(at_s, edge.on_time.pick(here)))
            for edge in self.edges
            if edge.on_time is not None and (here := edge.on_time.missing(newest)).any()
        ]
        for flight in self.roster.late:
            here = flight.missing(newest)
            for group in np.unique(self.roster.group_of[flight.client[here]]).tolist():
                mine = here & (self.roster.group_of[flight.client] == group)
                if group >= 0:
                    found.append((self.edges[group], Arrived(at_s, flight.pick(mine))))
                else:  # it waits for its client, who is nowhere
                    flight.arrives_s = np.where(mine, at_s, flight.arrives_s)
                    self.roster.busy_until[flight.client[mine]] = at_s
        if len(free := self.roster.take_dropped(clients, tickets, at_s)):
            nothing = Arrived(
                at_s, Flight.of(free, np.full(len(free), -1), 0, free, np.zeros(len(free), dtype=np.int64))
            )
            found += [(e, nothing) for e in self.edges if e.first_comer and np.isin(free, e.members).any()]
        if any(edge.first_comer for edge in self.edges):
            found += self._first_comers(found)
        for lead, flight in list(self.roster.working.items()):
            if (here := flight.missing(newest)).any():
                flight.arrives_s = np.where(here, at_s, flight.arrives_s)
                if not np.isinf(flight.arrives_s).any():
                    found += self.arrived(lead, at_s)
        return found

    def _first_comers(self, found: Sequence[tuple[Edge, Arrived]]) -> list[tuple[Edge, Arrived]]:
        """Groups that wait for whoever comes first, and whose members come back to other groups, which had sent them."""
        return [
            (edge, event)
            for other, event in found
            for edge in self.edges
            if edge.first_comer and edge is not other and np.isin(event.flight.client, edge.members).any()
        ]

    def missing(self, clients: Ints, tickets: Ints | None = None) -> list[Flight]:
        """What clients (m,) are at work on and is not here yet; of the jobs with these tickets (m,), if they are given."""
        found = []
        for flight in self.flights():
            here = np.isin(flight.client, clients) & np.isinf(flight.arrives_s)
            if tickets is not None:
                of = np.full(len(self.roster.busy_until), -1)
                of[clients] = tickets
                here &= flight.missing(of)
            found += [flight.pick(here)] if here.any() else []
        return found

    def gone(self, clients: Ints, at_s: float) -> tuple[list[tuple[Edge, Gone]], list[Action]]:
        """Clients (m,) will not bring back what they are at work on. Which groups are to be told, and what to do."""
        complete = self._again(self.roster.forget(clients, at_s))
        return [(edge, Gone(at_s, clients)) for edge in self.edges], complete

    def lost(
        self, aggregators: Ints, clients: Ints, at_s: float
    ) -> tuple[list[tuple[Edge, Lost | Gone]], list[Action]]:
        """Aggregators have fallen silent and are not waited for any more. What clients (m,), and those who were sent from there,
        are at work on or have brought is forgotten with them. A group whose report is here already stands by it. Which groups are
        to be told what, and what to do."""
        theirs = [clients, *(f.client[np.isin(f.host, self.topology.host[aggregators])] for f in self.flights())]
        for edge in self.edges:
            if edge.on_time is not None:
                mine = edge.aggregators[np.isin(edge.aggregators, aggregators)]
                theirs.append(edge.on_time.client[edge.here.topology.cover[mine][:, edge.on_time.client].any(axis=0)])
        found = np.unique(np.concatenate(theirs))
        complete = self._again(self.roster.forget(found, at_s, lost=True))
        told: list[tuple[Edge, Lost | Gone]] = []
        for edge in self.edges:
            mine = edge.aggregators[np.isin(edge.aggregators, aggregators)]
            if len(mine) and self.cloud.gives_up(edge.group, all_of_it=len(mine) == len(edge.aggregators)):
                told.append((edge, Lost(at_s, mine, found)))
            else:
                told.append((edge, Gone(at_s, found)))
        return told, complete

    def _again(self, leads: Sequence[int]) -> list[Action]:
        """What these clients lead is complete now that others have been taken from it: it is delivered, when it is here."""
        return [Again(int(self.roster.group_of[lead]), lead) for lead in leads]

    def restarted(self, group: int, at_s: float) -> tuple[list[tuple[Edge, Gone]], list[Action]]:
        """A group has lost its state. It keeps its number of rounds, which others count by; what it had, what it waited for and
        what it had sent clients to do is forgotten, and it begins again if the cloud waits for its report. Which groups are to be
        told what, and what to do."""
        old, roster = self.edges[group], self.roster
        hosts, flights = self.topology.host[old.aggregators], roster.flights([])
        had = [] if old.on_time is None else [old.on_time.client]
        had += [f.client[roster.group_of[f.client] == group] for f in flights]
        sent = [f.client[np.isin(f.host, hosts) & np.isinf(f.arrives_s)] for f in flights]
        nobody = np.zeros(0, dtype=np.int64)
        lost = np.unique(np.concatenate([nobody, *had]))
        others = np.setdiff1d(np.concatenate([nobody, *sent]), lost)
        complete = [*roster.forget(lost, at_s, lost=True), *roster.forget(others, at_s)]
        self.edges[group] = old.anew()
        free = np.union1d(lost, others)
        told = [(edge, Gone(at_s, free)) for edge in self.edges if len(free) and edge.group != group]
        return told, [*self._again(complete), *self.cloud.restarted(group)]

    def flights(self) -> list[Flight]:
        """All updates under way."""
        return self.roster.flights(self._on_time())

    def _on_time(self) -> Sequence[Flight]:
        return [edge.on_time for edge in self.edges if edge.on_time]

    def _new_edges(self, topology: Topology, groups: Sequence[Ints]) -> list[Edge]:
        found = [(a, np.flatnonzero(topology.cover[a].any(axis=0))) for a in groups]
        may_be_empty = self.may_be_empty(topology)
        if self.cloud.mode.waits and not may_be_empty:  # else clients may still come
            found = [(aggregators, members) for aggregators, members in found if len(members)]
        return [
            Edge(
                group=i,
                aggregators=aggregators,
                members=members,
                mode=self.edge_mode,
                merge=self._merge_edge,
                terms=self.terms,
                roster=self.roster,
                may_sleep=not self.cloud.mode.waits,
                may_be_empty=may_be_empty,
                n_groups=len(found),
            )
            for i, (aggregators, members) in enumerate(found)
        ]

    def _move_between(self, fresh: list[Edge]) -> None:
        """Clients changed groups while rounds are open: their updates are merged where they are now."""
        old, new = ([edge.aggregators.tolist() for edge in edges] for edges in (self.edges, fresh))
        if old != new:
            raise ValueError(
                f"with a cloud that does not wait the same aggregators must work together all the time: they were {old} and "
                f"would now be {new}; use a cloud that waits for all (Barrier)"
            )
        for edge, now in zip(self.edges, fresh):
            edge.members = now.members
            if edge.on_time is not None:
                edge.on_time, left = edge.on_time.split(np.isin(edge.on_time.client, edge.members))
                self.roster.late += [left] if len(left) else []

    def _counts(self) -> Ints:
        """(K,) what staleness is counted in, so far at each client's group; 0 for clients without one."""
        return np.asarray(np.array([*(edge.count for edge in self.edges), 0])[self.roster.group_of])

    def _keep_age(self, before: Ints) -> None:
        """Updates under way keep their age though the counts of their groups were `before` (K,) and are others now."""
        self.roster.keep_age(self._on_time(), self._counts() - before)

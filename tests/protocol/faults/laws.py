"""What must hold after every event, whatever is lost, doubled, late or broken."""

from typing import TYPE_CHECKING

import numpy as np

from fedloom.protocol.messages import CloudMerge, Merge

if TYPE_CHECKING:
    from .driver import Run

Name = tuple[int, int]  # (client, ticket)
CLOSE = 1e-12


class Broken(AssertionError):
    """A law does not hold."""


def must(run: "Run", holds: bool, otherwise: str) -> None:
    """Broken, with when it was, if a law does not hold."""
    if not holds:
        raise Broken(f"{otherwise} (at {run.net.now_s:.3f} s, event {run.n_events})")


class Laws:
    """accepted: updates that edges took while they were awaited; merged: those in a model; excused: those that were lost with who
    had them, left with their client or were dropped as the method says; in_time: by group, those that its open round has."""

    def __init__(self, run: "Run") -> None:
        self.run = run
        self.sent_from: dict[Name, int] = {}
        self.accepted: set[Name] = set()
        self.merged: set[Name] = set()
        self.excused: set[Name] = set()
        self.strayed: set[Name] = set()  # under way while their clients were with another host
        self.in_time: dict[int, set[Name]] = {}
        self.n_merges = self.n_cloud_merges = 0
        self._version = 0
        self._counts: list[tuple[int, int]] = []
        self._changed = False
        self._within: dict[int, set[tuple[int, int]]] = {
            0: set()
        }  # by model of the cloud: (group, ticket) of reports in it
        self._taken: set[tuple[int, int]] = set()  # reports that wait for the cloud to merge them

    def held(self) -> set[Name]:
        """All updates that somebody waits for or has and has not merged."""
        return {name for flight in self.run.federation.flights() for name in flight.names}

    def sent(self, hosts: dict[Name, int]) -> None:
        """Clients go to work, each job under a name of its own."""
        twice = hosts.keys() & self.sent_from.keys()
        self._must(not twice, f"jobs {sorted(twice)} were given twice")
        self.sent_from |= hosts

    def arrived(self, name: Name) -> None:
        """An update is here."""
        self._changed = True
        federation, (client, ticket) = self.run.federation, name
        tickets = np.full(len(federation.roster.busy_until), -1)
        tickets[client] = ticket
        if any(flight.missing(tickets).any() for flight in federation.flights()):
            self.accepted.add(name)
        for edge in federation.edges:
            if edge.on_time is not None and edge.on_time.missing(tickets).any():
                self.in_time.setdefault(edge.group, set()).add(name)

    def merging(self, action: Merge) -> None:
        """No update twice, none that did not arrive, weights that sum to one, ages that are not negative."""
        self._changed = True
        together: set[Name] = set()
        for part in action.parts:
            names = [name for flight in part.flights for name in flight.names]
            self._must(len(names) == len(set(names)), f"aggregator {part.aggregator} merges one of {names} twice")
            together |= set(names)
            weights = part.weights
            total = weights.own + weights.model.sum() + (0.0 if weights.start is None else weights.start.sum())
            self._must(abs(total - 1) < CLOSE, f"weights at aggregator {part.aggregator} sum to {total}")
            self._must(bool((part.arrivals.staleness >= 0).all()), f"ages {part.arrivals.staleness.tolist()}")
        self._must(not together & self.merged, f"{sorted(together & self.merged)} are merged twice")
        self._must(together <= self.accepted, f"{sorted(together - self.accepted)} are merged and never arrived")
        self.merged |= together
        self.n_merges += 1
        for names in self.in_time.values():
            names -= together

    def round_over(self, group: int) -> None:
        """Who was in time is in the model."""
        left = self.in_time.pop(group, set()) - self.excused
        self._must(not left, f"{sorted(left)} arrived in time at group {group} and were not merged")

    def reported(self, group: int, ticket: int) -> None:
        """No report twice in the model that the cloud has."""
        report, model = (group, ticket), self.run.model
        self._must(report not in self._within[model] | self._taken, f"report {report} is taken twice")
        self._taken.add(report)

    def lost_reports(self) -> None:
        """The cloud has lost what it had not merged."""
        self._taken = set()

    def new_model(self, old: int, new: int) -> None:
        """The cloud has merged what it had taken."""
        self._within[new], self._taken = self._within[old] | self._taken, set()

    def merging_cloud(self, action: CloudMerge) -> None:
        total = action.weights.own + action.weights.edge.sum()
        self._must(abs(total - 1) < CLOSE, f"weights at the cloud sum to {total}")
        self._must(
            bool((action.reports.staleness >= 0).all()), f"ages {action.reports.staleness.tolist()} at the cloud"
        )
        self.n_cloud_merges += 1

    def excuse(self, names: set[Name]) -> None:
        """These are not merged, and it is known why."""
        self.excused |= set(names)

    def restarted(self, group: int, before: set[Name]) -> None:
        """A group has lost what it had."""
        self.excuse(before - self.held())
        self.in_time.pop(group, None)

    def regrouped(self, stays: bool) -> None:
        """Groups are others, or have other clients: whose update waits elsewhere now is not due in the round that is open."""
        now = {e.group: set(e.on_time.names) for e in self.run.federation.edges if e.on_time is not None}
        self.in_time = {i: self.in_time.get(i, set()) & names for i, names in now.items()}
        if not stays:
            most = max((n for n, _ in self._counts), default=0)
            fewer = [e.group for e in self.run.federation.edges if e.n_rounds < most]
            self._must(not fewer, f"the new groups {fewer} have fewer rounds than the old ones")
            self._counts = []

    def moved(self) -> None:
        """Clients are elsewhere."""
        federation = self.run.federation
        for name in self.held():
            group = int(federation.roster.group_of[name[0]])
            hosts = [] if group < 0 else federation.topology.host[federation.edges[group].aggregators].tolist()
            if self.sent_from[name] not in hosts:
                self.strayed.add(name)

    def recovered(self, memos: list) -> None:
        """A cloud that had lost its state has the newest that anybody knows."""
        newest = max((memo.version for memo in memos if memo is not None), default=0)
        self._must(self.run.cloud.version == newest, f"version {self.run.cloud.version}, and version {newest} is known")
        self._version = newest

    def check(self) -> None:
        """After every event."""
        run = self.run
        counts = [(edge.n_rounds, edge.n_merges) for edge in run.federation.edges]
        if len(counts) == len(self._counts):
            back = [(old, new) for old, new in zip(self._counts, counts) if new[0] < old[0] or new[1] < old[1]]
            self._must(not back, f"counts went back: {back}")
        self._counts = counts
        if run.told is None:
            self._must(run.cloud.version >= self._version, f"version {run.cloud.version} after {self._version}")
            self._version = run.cloud.version
        if self._changed:
            self._changed = False
            self._nothing_is_lost()

    def check_end(self) -> None:
        self._nothing_is_lost()
        self._must(self.run.cloud.version >= self.run.plan.versions, "it ended too early")

    def _nothing_is_lost(self) -> None:
        """Every update that was taken is merged, waits, or is excused."""
        lost = self.accepted - self.merged - self.excused
        lost -= self.held() if lost else set()
        self.excuse({name for name in lost if self._may_be_lost(name)})
        lost -= self.excused
        self._must(not lost, f"{sorted(lost)} arrived and were lost")

    def _may_be_lost(self, name: Name) -> bool:
        """Its client has left, or moved and the method says that this loses the update."""
        federation = self.run.federation
        if federation.roster.group_of[name[0]] < 0:
            return True
        return self.run.plan.edge.lost_on_move and name in self.strayed

    def _must(self, holds: bool, otherwise: str) -> None:
        must(self.run, holds, otherwise)

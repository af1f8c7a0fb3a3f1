"""The cloud: takes reports, merges, and hands models down again.

Whether it waits for all aggregators, merges each report when it comes, or is not there at all is the mode's to say (Barrier,
Immediate, NoCloud: an object each). What the cloud knows of the aggregators when it merges is here.
"""

from collections.abc import Collection, Sequence
from typing import ClassVar, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from fedloom.grouping import Topology
from fedloom.mixing import Reports
from fedloom.mixing.merges import MergeCloud
from fedloom.pacing import StalenessBound
from fedloom.pacing.time_sharing import Share
from fedloom.protocol.edge import Edge
from fedloom.protocol.messages import Action, CloudMerge, Down
from fedloom.protocol.roster import Roster
from fedloom.protocol.terms import Attendance, Terms

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


class Said(NamedTuple):
    """What a report says beside its models: whose updates are in them (a, K), and whose of the last edge round."""

    contributed: NDArray[np.bool_]
    contributed_last: NDArray[np.bool_]


class Memo(NamedTuple):
    """What goes down with a model, so that a cloud that has lost its state learns it again from the aggregators: the order's
    ticket, how many cloud merges are in the model, and the last order of every group whose report is in it; reports (N,) so far.
    """

    ticket: int
    version: int
    settled: dict[int, int]
    n_reports: Ints


class CloudMode(Protocol):
    """What the cloud waits for. `reports_of_each`: reports of a group that make a cloud round. Answers: `begin` a cloud round,
    a report of a group has come, all due reports have, a group `fell_asleep`, a group is `idle` (it slept or has lost its state,
    and needs an order), an accuracy is known, a lost state is `recovered` and these groups are idle."""

    exists: ClassVar[bool]
    waits: ClassVar[bool]

    @property
    def bound(self) -> StalenessBound | None: ...
    @property
    def cluster_share(self) -> float: ...
    @property
    def warmup(self) -> int: ...
    @property
    def uplink(self) -> Share | None: ...

    def reports_of_each(self, rounds: int | None, of_scenario: int) -> int: ...
    def begin(self, cloud: "Cloud") -> list[Action]: ...
    def reported(self, cloud: "Cloud", group: int, at_s: float) -> list[Action]: ...
    def finish(self, cloud: "Cloud") -> list[Action]: ...
    def fell_asleep(self, cloud: "Cloud") -> list[Action]: ...
    def idle(self, cloud: "Cloud", group: int) -> list[Action]: ...
    def scored(self, cloud: "Cloud", version: int, accuracy: float, at_s: float) -> list[Action]: ...
    def recovered(self, cloud: "Cloud", idle: Sequence[int]) -> list[Action]: ...


class Cloud:
    """version: cloud merges so far. fetched (N,): the version that each aggregator works on; n_reports (N,). waiting: groups that
    have reported, or lost their order, and may not go on yet. due: reports until the cloud round is over. out: by group, the
    ticket of the order that it has not reported on yet; settled: by group, that of the last whose report is merged."""

    def __init__(self, mode: CloudMode, merge: MergeCloud, terms: Terms, roster: Roster) -> None:
        self.mode, self.merge, self.terms, self.roster, self.bound = mode, merge, terms, roster, mode.bound
        self.begun = False
        self.version = self.due = 0
        self.waiting: list[int] = []
        self.n_orders = 0
        self.out: dict[int, int] = {}
        self.settled: dict[int, int] = {}
        self._here: dict[int, int] = {}  # by group: the order whose report is here and not merged yet
        self._said: dict[int, Said] = {}  # by group: what that says
        self.edges: Sequence[Edge] = []
        self.fetched = self.n_reports = np.zeros(0, dtype=np.int64)
        self._labels: tuple[Topology, Ints] | None = None  # of the clusters of a topology
        self._samples: tuple[Attendance, Floats, Floats] | None = None  # see _samples_of
        self.window = (0.0, 0.0)  # when the last adaption of the bound was, and the accuracy then

    def __repr__(self) -> str:
        return f"Cloud(version={self.version}, due={self.due}, waiting={self.waiting}, fetched={self.fetched.tolist()})"

    def regroup(self, edges: Sequence[Edge], n_aggregators: int) -> None:
        """New aggregators, which hold the model of now."""
        self.edges = edges
        self.out, self.settled, self._here, self._said = {}, {}, {}, {}
        self.fetched = np.full(n_aggregators, self.version)
        self.n_reports = np.zeros(n_aggregators, dtype=np.int64)

    def begin(self, n_reports: int) -> list[Action]:
        """A cloud round begins, which so many reports make."""
        self.due += n_reports
        actions = self.mode.begin(self)
        self.begun = True
        return actions

    def down(self, group: int) -> list[Action]:
        """Hand the group its models."""
        if self.mode.exists:
            self.fetched[self.edges[group].aggregators] = self.version
        self.n_orders += 1
        self.out[group] = self.n_orders
        return [Down(group, self.n_orders)]

    def reported(self, group: int, at_s: float, ticket: int | None = None, said: Said | None = None) -> list[Action]:
        """The report of a group is here. If it names its ticket, a copy changes nothing. said: what it says; by default what the
        edge would say now."""
        if ticket is not None and self.out.get(group) != ticket:
            return []
        self._here[group] = self.out.pop(group)
        if said is not None:
            self._said[group] = said
        self.due -= 1
        self.n_reports[self.edges[group].aggregators] += 1
        return self.mode.reported(self, group, at_s)

    def merged(self, groups: Sequence[int]) -> list[Action]:
        """Merge what these groups have reported."""
        fresh = self.fresh(groups)
        reports = self.reports(self.attendance, fresh)
        self.version += 1
        self.settled |= {i: self._here.pop(i) for i in groups if i in self._here}
        self._said = {i: said for i, said in self._said.items() if i not in groups}
        for edge in self.edges:
            edge.contributed[fresh[edge.aggregators]] = False
        return [CloudMerge(reports, self.merge.weights(reports))]

    def repeated(self) -> None:
        """All groups were handed their models and have reported, as in the last cloud round, and it was merged."""
        for edge in self.edges:
            self.n_orders += 1
            self.settled[edge.group] = self.n_orders
            self.n_reports[edge.aggregators] += 1
            if self.mode.exists:
                self.fetched[edge.aggregators] = self.version
        self.version += 1

    def woken(self, group: int) -> list[Action]:
        """A group that slept has clients again, and nothing that it could report: it needs an order."""
        return self.mode.idle(self, group)

    def restarted(self, group: int) -> list[Action]:
        """A group has lost its state: if it had an order, it needs a new one, under a new ticket."""
        return self.mode.idle(self, group) if group in self.out else []

    def gives_up(self, group: int, *, all_of_it: bool) -> bool:
        """Aggregators of a group, or all of them, have fallen silent: whether that changes what it reports. A cloud that does not
        wait has no report of a group of which nobody is left."""
        awaited = group in self.out
        if all_of_it and not self.mode.waits:
            self.out.pop(group, None)
        return awaited

    def memo(self, group: int) -> Memo:
        """What goes down to the group with its models."""
        return Memo(self.out[group], self.version, dict(self.settled), self.n_reports.copy())

    def forget(self) -> None:
        """This cloud has lost its state: for all it knows, every group is at work."""
        self.version = self.n_orders = self.due = 0
        self.waiting, self.settled, self._here, self._said = [], {}, {}, {}
        self.out = dict.fromkeys(range(len(self.edges)), 0)
        self.fetched, self.n_reports = np.zeros_like(self.fetched), np.zeros_like(self.n_reports)
        self.bound, self.window, self.begun = self.mode.bound, (0.0, 0.0), True

    def recover(self, memos: Sequence[Memo | None], woken: Collection[int] = ()) -> list[Action]:
        """Take up, after a loss, the newest that a group knows: memos of what each group was last sent; None for a group that has
        lost its state, too. woken: groups that slept and wait for an order since. The version is that of the newest memo, and so
        must the driver's model be."""
        known = [memo for memo in memos if memo is not None]
        self.n_orders = max((memo.ticket for memo in known), default=0)
        if known:
            newest = max(known, key=lambda memo: memo.version)
            self.version, self.settled, self.n_reports = newest.version, dict(newest.settled), newest.n_reports.copy()
        self.fetched, self.out, idle = np.full(len(self.fetched), self.version), {}, []
        for group, memo in enumerate(memos):
            if memo is None or group in woken or memo.ticket <= self.settled.get(group, 0):
                idle.append(group)
            else:
                self.out[group] = memo.ticket
                self.fetched[self.edges[group].aggregators] = memo.version
        return self.mode.recovered(self, idle)

    def see(self, attendance: Attendance) -> None:
        """Who is where now."""
        self.attendance = attendance

    def fresh(self, groups: Sequence[int]) -> NDArray[np.bool_]:
        """(N,) the aggregators of these groups."""
        mask = np.zeros(len(self.fetched), dtype=np.bool_)
        for i in groups:
            mask[self.edges[i].aggregators] = True
        return mask

    def reports(self, attendance: Attendance, fresh: NDArray[np.bool_]) -> Reports:
        """What the cloud knows of the aggregators; fresh (N,): those that report now."""
        (samples, total), topology = self._samples_of(attendance), attendance.topology
        contributed, contributed_last = self._contributors()
        if not topology.cover.any():  # nobody is anywhere now: of those who contributed, and if nobody did, all alike
            total = contributed @ samples if contributed.any() else np.ones(len(total))
        return Reports(
            total=total,
            reported=(contributed @ samples) * fresh,
            staleness=self.version - self.fetched,
            fresh=fresh,
            reported_last=(contributed_last @ samples) * fresh,
            n_reports=self.n_reports.copy(),
            cluster=topology.clusters
            if topology.cluster is None
            else np.unique(topology.clusters, return_inverse=True)[1],
            label_counts=self._labels_of_clusters(topology, contributed),
        )

    def _samples_of(self, attendance: Attendance) -> tuple[Floats, Floats]:
        """(K,) samples of each client for one of its aggregators, and (N,) of all clients of each: the same as long as nobody
        moves."""
        if self._samples is None or self._samples[0] is not attendance:
            samples = self.terms.n_samples / attendance.n_reached
            self._samples = (attendance, samples, attendance.topology.cover @ samples)
        return self._samples[1:]

    def _contributors(self) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """(N, K) whose updates are in each aggregator's model since its last report, and of the last edge round."""
        since = np.zeros((len(self.fetched), len(self.terms.n_samples)), dtype=np.bool_)
        last = since.copy()
        for edge in self.edges:
            said = self._said.get(edge.group, edge)
            since[edge.aggregators], last[edge.aggregators] = said.contributed, said.contributed_last
        return since, last

    def _labels_of_clusters(self, topology: Topology, contributed: NDArray[np.bool_]) -> Ints:
        """(clusters, C) samples of each class: of all clients of a cluster, or, if all have left, of who contributed."""
        if self._labels is not None and self._labels[0] is topology:
            return self._labels[1]
        found, of_clients = [], True
        for c in np.unique(topology.clusters):
            members = topology.cover[topology.clusters == c].any(axis=0)
            if not members.any():
                of_clients = False
                members = contributed[topology.clusters == c].any(axis=0)
            found.append(self.terms.label_counts[members].sum(axis=0))
        counts = np.array(found, dtype=np.int64)
        self._labels = (topology, counts) if of_clients else None
        return counts

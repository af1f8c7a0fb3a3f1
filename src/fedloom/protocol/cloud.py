"""The cloud: takes reports, merges, and hands models down again.

Whether it waits for all aggregators, merges each report when it comes, or is not there at all is the mode's to say (Barrier,
Immediate, NoCloud: an object each). What the cloud knows of the aggregators when it merges is here.
"""

from collections.abc import Sequence
from typing import ClassVar, Protocol

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


class CloudMode(Protocol):
    """What the cloud waits for. `reports_of_each`: reports of a group that make a cloud round. Answers: `begin` a cloud round,
    a report of a group has come, all due reports have, a group `fell_asleep`, an accuracy is known."""

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
    def scored(self, cloud: "Cloud", version: int, accuracy: float, at_s: float) -> list[Action]: ...


class Cloud:
    """version: cloud merges so far. fetched (N,): the version that each aggregator works on; n_reports (N,). waiting: groups that
    have reported and may not go on yet. due: reports until the cloud round is over."""

    def __init__(self, mode: CloudMode, merge: MergeCloud, terms: Terms, roster: Roster) -> None:
        self.mode, self.merge, self.terms, self.roster, self.bound = mode, merge, terms, roster, mode.bound
        self.begun = False
        self.version = self.due = 0
        self.waiting: list[int] = []
        self.edges: Sequence[Edge] = []
        self.fetched = self.n_reports = np.zeros(0, dtype=np.int64)
        self.window = (0.0, 0.0)  # when the last adaption of the bound was, and the accuracy then

    def __repr__(self) -> str:
        return f"Cloud(version={self.version}, due={self.due}, waiting={self.waiting}, fetched={self.fetched.tolist()})"

    def regroup(self, edges: Sequence[Edge], n_aggregators: int) -> None:
        """New aggregators, which hold the model of now."""
        self.edges = edges
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
        return [Down(group)]

    def reported(self, group: int, at_s: float) -> list[Action]:
        """The report of a group is here."""
        self.due -= 1
        self.n_reports[self.edges[group].aggregators] += 1
        return self.mode.reported(self, group, at_s)

    def merged(self, groups: Sequence[int]) -> list[Action]:
        """Merge what these groups have reported."""
        fresh = self.fresh(groups)
        reports = self.reports(self.attendance, fresh)
        self.version += 1
        for edge in self.edges:
            edge.contributed[fresh[edge.aggregators]] = False
        return [CloudMerge(reports, self.merge.weights(reports))]

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
        samples, topology = self.terms.n_samples / attendance.n_reached, attendance.topology
        return Reports(
            total=topology.cover @ samples,
            reported=self._of_contributors("contributed", samples) * fresh,
            staleness=self.version - self.fetched,
            fresh=fresh,
            reported_last=self._of_contributors("contributed_last", samples) * fresh,
            n_reports=self.n_reports.copy(),
            cluster=np.unique(topology.clusters, return_inverse=True)[1],
            label_counts=self._labels_of_clusters(topology),
        )

    def _of_contributors(self, which: str, samples: NDArray[np.float64]) -> NDArray[np.float64]:
        """(N,) samples of the clients whose updates are in each aggregator's model."""
        return np.asarray(self._contributed(which) @ samples)

    def _contributed(self, which: str) -> NDArray[np.bool_]:
        found = np.zeros((len(self.fetched), len(self.terms.n_samples)), dtype=np.bool_)
        for edge in self.edges:
            found[edge.aggregators] = getattr(edge, which)
        return found

    def _labels_of_clusters(self, topology: Topology) -> Ints:
        """(clusters, C) samples of each class: of all clients of a cluster, or, if all have left, of who contributed."""
        found, contributed = [], None
        for c in np.unique(topology.clusters):
            members = topology.cover[topology.clusters == c].any(axis=0)
            if not members.any():
                contributed = self._contributed("contributed") if contributed is None else contributed
                members = contributed[topology.clusters == c].any(axis=0)
            found.append(self.terms.label_counts[members].sum(axis=0))
        return np.array(found, dtype=np.int64)

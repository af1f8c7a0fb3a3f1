"""What happened in a cloud round, as a script by which the next ones can be written down (fedloom.simulator.steady)."""

from collections import defaultdict
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from operator import eq

import numpy as np
from numpy.typing import NDArray

from fedloom.methods import Method
from fedloom.mixing import CloudLinear, EdgeWeights, Linear
from fedloom.protocol import Edge
from fedloom.protocol.flight import Flight
from fedloom.protocol.messages import (
    Action,
    Begin,
    CloudMerge,
    Down,
    Due,
    EdgeEvent,
    Merge,
    OnTheWay,
    Open,
    Part,
    Ready,
    Report,
    RoundOver,
    Send,
    Wake,
)
from fedloom.simulator.backhaul import Backhaul
from fedloom.simulator.clock import Happening, Opening, Reporting, Waking
from fedloom.simulator.held import Errand
from fedloom.simulator.ledger import Tape
from fedloom.simulator.scene import Scene
from fedloom.simulator.timeline import Sent

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Noted = Happening | EdgeEvent | Action
PLAIN = (Opening, Waking, Reporting, Begin, Open, OnTheWay, Due, Down, Ready, Send, Wake, Merge, RoundOver, Report)


@dataclass(frozen=True, kw_only=True, eq=False)
class Course:
    """What a group does in a cloud round: m clients go to work in each of n_rounds edge rounds, for steps (m,), from the
    mixtures `kinds`, start (m,) of them, and are back after takes_s (m,). Seconds: fetch_s and report_s of models from the cloud
    and to it, round_s of an edge round. parts: the merges of an edge round, without what was merged. sent: the lines of the
    timeline."""

    aggregators: Ints
    n_rounds: int
    client: Ints
    steps: Ints
    kinds: list[int]
    start: Ints
    takes_s: Floats
    fetch_s: float
    round_s: float
    report_s: float
    parts: Sequence[Part]
    sent: Sent

    def times_s(self, now_s: float) -> list[float]:
        """When its edge rounds open and close, in turn, and when its report is there, if the cloud round begins now."""
        at_s, found = now_s + self.fetch_s, []
        for _ in range(self.n_rounds):
            found += [at_s, at_s + self.round_s]
            at_s = at_s + self.round_s
        return [*found, at_s + self.report_s]


@dataclass(frozen=True, kw_only=True, eq=False)
class Script:
    """A cloud round: the courses of the groups; what happened in which order (group, and which of its times), at the same time as
    the one before or not; what the cloud merged, and what was booked."""

    courses: list[Course]
    order: list[tuple[int, int]]
    ties: list[bool]
    merge: CloudMerge
    tape: Tape

    def times_s(self, now_s: float) -> list[list[float]] | None:
        """Of each course, if the cloud round begins now; None if things would happen in another order."""
        found = [course.times_s(now_s) for course in self.courses]
        in_turn = [found[i][k] for i, k in self.order]
        same = in_turn == sorted(in_turn) and list(map(eq, in_turn, in_turn[1:])) == self.ties
        return found if same else None

    @cached_property
    def aggregators(self) -> Ints:
        """Of all groups."""
        return np.concatenate([course.aggregators for course in self.courses])

    @cached_property
    def rounds(self) -> list[int]:
        """Edge rounds, by group."""
        return [course.n_rounds for course in self.courses]

    @cached_property
    def n_clients(self) -> list[int]:
        """By group."""
        return [len(course.client) for course in self.courses]

    @cached_property
    def clients(self) -> tuple[Ints, Ints, Ints, Floats]:
        """(m,) of all groups, one after the other, with how often each is sent, its steps in all, and what it takes (m,)."""
        times = np.repeat(self.rounds, self.n_clients)
        client, steps, takes_s = (
            np.concatenate(c) for c in zip(*((c.client, c.steps, c.takes_s) for c in self.courses))
        )
        return client, times, times * steps, takes_s


@dataclass(eq=False)
class Notes:
    """Of a cloud round that began at begun_s: what happened, by group and when, what groups did, and what was booked. others: so
    many things that no script has."""

    begun_s: float
    tape: Tape
    happened: list[tuple[float, int]] = field(default_factory=list)
    sends: dict[int, list[tuple[Send, OnTheWay]]] = field(default_factory=lambda: defaultdict(list))
    merges: dict[int, list[Merge]] = field(default_factory=lambda: defaultdict(list))
    cloud: list[CloudMerge] = field(default_factory=list)
    others: int = 0
    _sent: Send | None = None  # the last

    def add(self, what: Noted, now_s: float) -> None:
        match what:
            case Opening(group) | Reporting(group) | Waking(group, _):
                self.happened.append((now_s, group))
            case Send():
                self._sent = what
            case OnTheWay() if self._sent is not None:
                self.sends[self._sent.group].append((self._sent, what))
            case Merge():
                self.merges[what.group].append(what)
            case CloudMerge():
                self.cloud.append(what)
            case _ if not isinstance(what, PLAIN):
                self.others += 1

    def script(self, method: Method, edges: Sequence[Edge], backhaul: Backhaul) -> Script | None:
        """None if there was more in it than a script says."""
        found = [_course(edge, self.sends[edge.group], self.merges[edge.group], backhaul) for edge in edges]
        courses = [course for course in found if course is not None]
        if self.others or len(courses) < len(edges) or len(self.cloud) != 1:
            return None
        order, n_seen = [], [0] * len(courses)
        for _, group in self.happened:
            order.append((group, n_seen[group]))
            n_seen[group] += 1
        times_s = [course.times_s(self.begun_s) for course in courses]
        if n_seen != list(map(len, times_s)) or [times_s[i][k] for i, k in order] != [s for s, _ in self.happened]:
            return None
        if _is_drawn(method, courses, self.cloud[0]):
            return None
        ties = [a == b for (a, _), (b, _) in pairwise(self.happened)]
        return Script(courses=courses, order=order, ties=ties, merge=self.cloud[0], tape=self.tape)


def _course(edge: Edge, sends: list[tuple[Send, OnTheWay]], merges: list[Merge], backhaul: Backhaul) -> Course | None:
    """What a group did; None if its edge rounds were not all alike, or some of its clients were not merged at once."""
    if not len(sends) == len(merges) > 0:
        return None
    (send, way), merge, scene = sends[-1], merges[-1], edge.here
    if not all(_same_send(s, send) and np.array_equal(w.takes_s, way.takes_s) for s, w in sends):
        return None
    errand: Errand = send.parts[0].load
    if not all(_same_merge(one, merge) for one in merges) or errand.arriving or errand.fate is not None:
        return None
    if errand.sent is None or np.isnan(errand.sent.merged_s).any():
        return None
    assert isinstance(scene, Scene)
    return Course(
        aggregators=edge.aggregators,
        n_rounds=len(sends),
        client=send.client,
        steps=send.steps,
        kinds=np.unique(scene.start_of[send.client]).tolist(),
        start=errand.dispatch.start,
        takes_s=way.takes_s,
        fetch_s=backhaul.fetch_s[edge.group],
        round_s=float(way.takes_s.max()),
        report_s=backhaul.report_s[edge.group],
        parts=[again(part, None) for part in merge.parts],
        sent=deepcopy(errand.sent),
    )


def _is_drawn(method: Method, courses: Sequence[Course], merge: CloudMerge) -> bool:
    """Whether weights depend on what tells one merge from another: without it they would be others, or there would be none."""
    assert isinstance(method.merge_edge, Linear) and isinstance(method.merge_cloud, CloudLinear)
    try:
        edge = [
            (p.weights, method.merge_edge.weigh(replace(p.arrivals, occasion=()))) for c in courses for p in c.parts
        ]
        cloud = method.merge_cloud.weigh(replace(merge.reports, n_reports=None))
    except Exception:  # whatever such a rule makes of it
        return True
    same = merge.weights.own == cloud.own and np.array_equal(merge.weights.edge, cloud.edge)
    return not (same and all(_same_weights(was, now) for was, now in edge))


def again(part: Part, load: Errand | None) -> Part:
    """The same merge, of what others bring."""
    flights = [Flight(f.client, f.ticket, f.left_at, f.host, f.steps, f.arrives_s, f.at, load) for f in part.flights]
    return Part(part.aggregator, flights, part.arrivals, part.weights)


def _same_send(one: Send, other: Send) -> bool:
    same = np.array_equal(one.client, other.client) and np.array_equal(one.steps, other.steps)
    return same and len(one.parts) == 1 and one.from_own == other.from_own is False


def _same_merge(one: Merge, other: Merge) -> bool:
    pairs = list(zip(one.parts, other.parts))
    same = len(one.parts) == len(other.parts) and one.n_updates == other.n_updates
    return same and all(
        a.aggregator == b.aggregator
        and len(a.flights) == 1
        and _same_weights(a.weights, b.weights)
        and np.array_equal(a.arrivals.client, b.arrivals.client)
        for a, b in pairs
    )


def _same_weights(one: EdgeWeights | None, other: EdgeWeights | None) -> bool:
    if one is None or other is None or (one.start is None) != (other.start is None):
        return False
    starts = one.start is None or other.start is None or np.array_equal(one.start, other.start)
    return starts and one.own == other.own and np.array_equal(one.model, other.model)

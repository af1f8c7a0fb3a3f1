"""Cloud rounds that are the last one again, later.

Where nothing changes (everybody is waited for, nobody is drawn, moves or fails, and models are merged by weights that are the same
every time), the machines do in every cloud round what they did in the one before: the same clients go to work from the models of
now, the same bills are paid, and what happens is as many seconds apart. To ask them each time takes longer than to train a small
model. So one cloud round is noted, with all that happened in it, and the next ones are written down from that: jobs and recipes
in the book, bills, the timeline, and the counts of the machines.

Times are the same sums as they would be, of the same numbers one after the other. As these are rounded, what happened one after
the other could change places in a later cloud round: then that one goes its ordinary way, and is noted in its turn.
"""

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedloom.methods import Method
from fedloom.mixing import CloudLinear, CloudWeights, EdgeWeights, Linear
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
from fedloom.simulator.book import Dispatch
from fedloom.simulator.clock import Clock, Happening, Opening, Reporting, Waking
from fedloom.simulator.held import Errand, mixture
from fedloom.simulator.ledger import Tape
from fedloom.simulator.scene import Scene
from fedloom.simulator.timeline import Sent
from fedloom.simulator.world import World

if TYPE_CHECKING:
    from fedloom.simulator.driver import Driver

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Noted = Happening | EdgeEvent | Action
HAPPENS = (Opening, Waking, Reporting)
PLAIN = (*HAPPENS, Begin, Open, OnTheWay, Due, Down, Ready, Send, Wake, Merge, RoundOver, Report, CloudMerge)


@dataclass(frozen=True, kw_only=True, eq=False)
class Course:
    """What a group does in a cloud round: m clients go to work in each of n_rounds edge rounds, for steps (m,), all_steps (m,) together, from the
    mixtures `kinds`, start (m,) of them, and are back after takes_s (m,). fetch_s, report_s: of models from the cloud and to it. parts: the
    merges of an edge round, without what was merged. sent: the lines of the timeline."""

    aggregators: list[int]
    n_rounds: int
    client: Ints
    steps: Ints
    all_steps: Ints
    kinds: list[int]
    start: Ints
    takes_s: Floats
    fetch_s: float
    report_s: float
    parts: Sequence[Part]
    sent: Sent

    def times_s(self, now_s: float) -> list[float]:
        """When its edge rounds open and close, in turn, and when its report is there, if the cloud round begins now."""
        at_s, found, takes_s = now_s + self.fetch_s, [], float(self.takes_s.max())
        for _ in range(self.n_rounds):
            found.append(at_s)
            at_s = at_s + takes_s
            found.append(at_s)
        return [*found, at_s + self.report_s]


class Script(NamedTuple):
    """A cloud round: the courses of the groups, what happened in which order (group, and which of its times), at the same time as
    the one before or not, what the cloud merged, and what was booked."""

    courses: list[Course]
    order: list[tuple[int, int]]
    ties: list[bool]
    merge: CloudMerge
    tape: Tape
    in_cloud_round: Ints

    def times_s(self, now_s: float) -> list[list[float]] | None:
        """Of each course, if the cloud round begins now; None if things would happen in another order."""
        found = [course.times_s(now_s) for course in self.courses]
        in_turn = [found[i][k] for i, k in self.order]
        same = in_turn == sorted(in_turn) and [a == b for a, b in pairwise(in_turn)] == self.ties
        return found if same else None


class Steady:
    """Repeats the cloud rounds of a driver. clock: if all is carried out as predicted, and looked at between cloud rounds only."""

    def __init__(self, driver: "Driver", clock: Clock | None) -> None:
        self._driver = driver
        self._clock = clock if clock is not None and _may_repeat(driver.method, driver.world) else None
        self._noted: list[tuple[float, Noted]] | None = None  # and when
        self._begun_s = 0.0
        self._script: Script | None = None

    def note(self, what: Noted) -> None:
        """It happens, is told or is answered in the cloud round that runs."""
        if self._noted is not None:
            self._noted.append((self._driver.clock.now_s, what))

    def begin(self, g: int) -> None:
        """Cloud round g goes its ordinary way: it is noted, unless groups are made in it."""
        self._script = None
        if self._clock is not None and not self._regroups(g):
            self._noted, self._begun_s, self._driver.ledger.tape = [], self._clock.now_s, Tape([], [])

    def end(self) -> None:
        """It is over."""
        noted, tape = self._noted, self._driver.ledger.tape
        self._noted = self._driver.ledger.tape = None
        if noted is not None and tape is not None and not self._driver.deserted:
            self._script = self._written(noted, tape)

    def repeat(self, g: int) -> bool:
        """Carry out cloud round g as the one that was noted; False if it has to go its ordinary way, and nothing has changed."""
        script, driver = self._script, self._driver
        if script is None or self._clock is None or self._regroups(g):
            return False
        times_s = script.times_s(self._clock.now_s)
        if times_s is None:
            return False
        machines, held, edges = driver.machines, driver.held, driver.machines.edges
        driver.rounds_before = max(edge.n_rounds for edge in edges)
        if driver.method.cloud.exists:
            for edge in edges:
                held.hand_down(edge.aggregators)
        for i, k in script.order:
            if k == 2 * script.courses[i].n_rounds:
                for n in script.courses[i].aggregators:
                    held.report(n, driver.scenes.now, machines.cloud.version)
            elif k % 2 == 0:
                self._edge_round(script.courses[i], k // 2, *times_s[i][k : k + 2])
        held.merge_cloud(script.merge)
        driver.ledger.play(script.tape)
        machines.devices.in_cloud_round = script.in_cloud_round
        machines.repeated(
            [(c.client, c.all_steps, c.n_rounds, t[-3] + c.takes_s) for c, t in zip(script.courses, times_s)]
        )
        driver.backhaul.repeated()
        self._clock.pass_to(max(course_s[-1] for course_s in times_s))
        return True

    def _edge_round(self, course: Course, r: int, open_s: float, close_s: float) -> None:
        """The r-th of a cloud round: what its clients train, what is merged of it, and their lines of the timeline."""
        driver, client = self._driver, course.client
        held, scene = driver.held, driver.scenes.now
        first_step = driver.machines.devices.steps[client] + r * course.steps
        starts = [mixture(held.edges, scene, kind) for kind in course.kinds]
        errand = Errand(Dispatch(starts, course.start, client, course.steps, first_step, None, held.sick))
        for part in course.parts:
            held.merge_edge(_of(part, errand), scene)
        when = driver.scenes.cloud_round + 1, driver.rounds_before + r + 1, open_s
        driver.errands.repeated(course.sent.again(*when, open_s + course.takes_s, close_s))

    def _regroups(self, g: int) -> bool:
        return g in (0, self._driver.method.cloud.warmup)

    def _written(self, noted: list[tuple[float, Noted]], tape: Tape) -> Script | None:
        """The script of a cloud round; None if it has more in it than such a script says."""
        driver, actions = self._driver, [what for _, what in noted]
        if self._clock is None or not self._clock.idle or not all(isinstance(what, PLAIN) for what in actions):
            return None
        merges = [what for what in actions if isinstance(what, CloudMerge)]
        courses = [self._course(edge, actions) for edge in driver.machines.edges]
        happened = [(at_s, what) for at_s, what in noted if isinstance(what, HAPPENS)]
        order, n_seen = [], [0] * len(courses)
        for _, what in happened:
            order.append((what.group, n_seen[what.group]))
            n_seen[what.group] += 1
        complete = [c for c in courses if c is not None]
        if len(complete) < len(courses) or n_seen != [2 * c.n_rounds + 1 for c in complete] or len(merges) != 1:
            return None
        times_s = [c.times_s(self._begun_s) for c in complete]
        if [times_s[i][k] for i, k in order] != [at_s for at_s, _ in happened] or _is_drawn(
            driver.method, complete, merges[0]
        ):
            return None
        ties = [a == b for (a, _), (b, _) in pairwise(happened)]
        return Script(complete, order, ties, merges[0], tape, driver.machines.devices.in_cloud_round)

    def _course(self, edge: Edge, actions: Sequence[Noted]) -> Course | None:
        """What a group did; None if its edge rounds were not all alike, or some of its clients were not merged at once."""
        sends = [what for what in actions if isinstance(what, Send) and what.group == edge.group]
        merges = [what for what in actions if isinstance(what, Merge) and what.group == edge.group]
        ways = [
            what for what in actions if isinstance(what, OnTheWay) and any(what.flight is s.parts[0] for s in sends)
        ]
        if not len(sends) == len(ways) == len(merges) > 0:
            return None
        backhaul, send, way, scene = self._driver.backhaul, sends[-1], ways[-1], edge.here
        alike = all(_same_send(s, send) for s in sends) and all(np.array_equal(w.takes_s, way.takes_s) for w in ways)
        if not alike or not all(_same_merge(merge, merges[-1]) for merge in merges):
            return None
        assert isinstance(scene, Scene)
        errand: Errand = send.parts[0].load
        if errand.sent is None or errand.fate is not None or errand.arriving or np.isnan(errand.sent.merged_s).any():
            return None
        return Course(
            aggregators=edge.aggregators.tolist(),
            n_rounds=len(sends),
            client=send.client,
            steps=send.steps,
            all_steps=len(sends) * send.steps,
            kinds=np.unique(scene.start_of[send.client]).tolist(),
            start=errand.dispatch.start,
            takes_s=way.takes_s,
            fetch_s=backhaul.fetch_s[edge.group],
            report_s=backhaul.report_s[edge.group],
            parts=[_of(part, None) for part in merges[-1].parts],
            sent=deepcopy(errand.sent),
        )


def _may_repeat(method: Method, world: World) -> bool:
    """Whether nothing but what is noted can differ from one cloud round to the next."""
    fleet, edge, cloud = world.fleet, method.merge_edge, method.merge_cloud
    always = fleet.stays and not fleet.snapshot(0).jitter_sigma and method.group.when != "cloud-round"
    everybody = (
        method.edge.waits_for_all
        and method.cloud.waits
        and world.participation == 1
        and world.clients_per_round is None
    )
    as_planned = method.edge.box_s is None and not callable(method.edge.rounds) and world.total_steps is None
    by_weights = (
        isinstance(edge, Linear) and isinstance(cloud, CloudLinear) and edge.then is None and cloud.then is None
    )
    as_sent = method.coding.plain and not fleet.snapshot(0).cloud_noisy and method.cloud.uplink is None
    honest = world.hostility is None and world.secure is None and method.audit is None
    from_merged = method.start.share is None and world.layout is None and not method.cloud.cluster_share
    return always and everybody and as_planned and by_weights and as_sent and honest and from_merged


def _is_drawn(method: Method, courses: Sequence[Course], merge: CloudMerge) -> bool:
    """Whether weights depend on what tells one merge from another: without it they would be others, or there would be none."""
    assert isinstance(method.merge_edge, Linear) and isinstance(method.merge_cloud, CloudLinear)
    try:
        edge = [
            (p.weights, method.merge_edge.weigh(replace(p.arrivals, occasion=()))) for c in courses for p in c.parts
        ]
        cloud = method.merge_cloud.weigh(replace(merge.reports, n_reports=None))
    except Exception:
        return True
    return not (all(_same_weights(was, now) for was, now in edge) and _same_cloud(merge.weights, cloud))


def _of(part: Part, load: Errand | None) -> Part:
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
    if one is None or other is None:
        return False
    pairs = (one.own, other.own), (one.model, other.model), (one.start, other.start)
    return all(np.array_equal(a, b) if isinstance(a, np.ndarray) else a == b for a, b in pairs)


def _same_cloud(one: CloudWeights, other: CloudWeights) -> bool:
    return one.own == other.own and np.array_equal(one.edge, other.edge)

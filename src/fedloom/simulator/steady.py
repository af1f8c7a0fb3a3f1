"""Cloud rounds that are the last one again, later.

Where nothing changes (everybody is waited for, nobody is drawn, moves or fails, and models are merged by weights that are the
same every time), the machines do in every cloud round what they did in the one before: the same clients go to work from the
models of now, the same bills are paid, and what happens is as many seconds apart. To ask them each time takes longer than to
train a small model. So one cloud round is noted, with all that happened in it (fedloom.simulator.script), and the next ones are
written down from that: jobs and recipes in the book, bills, the timeline, and the counts of the machines.

Times are the same sums as they would be, of the same numbers one after the other. As these are rounded, what happened one after
the other could change places in a later cloud round: then that one goes its ordinary way, and is noted in its turn.
"""

from typing import TYPE_CHECKING

import numpy as np

from fedloom.methods import Method
from fedloom.mixing import CloudLinear, Linear
from fedloom.simulator.book import Dispatch
from fedloom.simulator.clock import Clock
from fedloom.simulator.held import Errand, mixture
from fedloom.simulator.ledger import Tape
from fedloom.simulator.script import Course, Noted, Notes, Script, again
from fedloom.simulator.world import World

if TYPE_CHECKING:
    from fedloom.simulator.driver import Driver


class Steady:
    """Repeats the cloud rounds of a driver. clock: if all is carried out as predicted, and looked at between cloud rounds
    only. n_repeated: so many so far."""

    def __init__(self, driver: "Driver", clock: Clock | None) -> None:
        self._driver = driver
        self._clock = clock if clock is not None and may_repeat(driver.method, driver.world) else None
        self._notes: Notes | None = None
        self._script: Script | None = None
        self.n_repeated = 0

    def note(self, what: Noted) -> None:
        """It happens, is told or is answered in the cloud round that runs."""
        if self._notes is not None:
            self._notes.add(what, self._driver.clock.now_s)

    def begin(self, g: int) -> None:
        """Cloud round g goes its ordinary way: it is noted, unless groups are made in it."""
        self._script = None
        if self._clock is not None and not self._regroups(g):
            tape = self._driver.ledger.tape = Tape([], [])
            self._notes = Notes(self._clock.now_s, tape)

    def end(self) -> None:
        """It is over."""
        driver, notes = self._driver, self._notes
        self._notes = driver.ledger.tape = None
        if notes is not None and self._clock is not None and self._clock.idle and not driver.deserted:
            self._script = notes.script(driver.method, driver.machines.edges, driver.backhaul)

    def repeat(self, g: int) -> bool:
        """Carry out cloud round g as the one that was noted; False if it has to go its ordinary way, and nothing has changed."""
        script, driver = self._script, self._driver
        if script is None or self._clock is None or self._regroups(g):
            return False
        times_s = script.times_s(self._clock.now_s)
        if times_s is None:
            return False
        machines, held = driver.machines, driver.held
        driver.rounds_before = max([edge.n_rounds for edge in machines.edges])
        if driver.method.cloud.exists:
            held.hand_down(script.aggregators)
        for i, k in script.order:
            if k % 2 == 0 and k < len(times_s[i]) - 1:
                self._edge_round(script.courses[i], k // 2, *times_s[i][k : k + 2])
        for n in script.aggregators.tolist():
            held.report(n, driver.scenes.now, machines.cloud.version)
        held.merge_cloud(script.merge)
        driver.ledger.play(script.tape)
        client, times, steps, takes_s = script.clients
        back_s = np.repeat([course_s[-3] for course_s in times_s], script.n_clients) + takes_s
        machines.repeated(script.rounds, client, steps, times, back_s)
        driver.backhaul.repeated()
        self._clock.pass_to(max([course_s[-1] for course_s in times_s]))
        self.n_repeated += 1
        return True

    def _edge_round(self, course: Course, r: int, open_s: float, close_s: float) -> None:
        """The r-th of a cloud round: what its clients train, what is merged of it, and their lines of the timeline."""
        driver, client = self._driver, course.client
        held, scene = driver.held, driver.scenes.now
        first_step = driver.machines.devices.steps[client] + r * course.steps
        starts = [mixture(held.edges, scene, kind) for kind in course.kinds]
        errand = Errand(Dispatch(starts, course.start, client, course.steps, first_step, None, held.sick))
        for part in course.parts:
            held.merge_edge(again(part, errand), scene)
        when = driver.scenes.cloud_round + 1, driver.rounds_before + r + 1, open_s
        driver.errands.repeated(course.sent.again(*when, open_s + course.takes_s, close_s))

    def _regroups(self, g: int) -> bool:
        return g in (0, self._driver.method.cloud.warmup)


def may_repeat(method: Method, world: World) -> bool:
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

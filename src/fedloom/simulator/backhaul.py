"""Models between aggregators and the cloud: what sending them takes and costs, and reports that share the air.

Where the fleet's air is shared on the way, models are sent in it, and are there when they are; what a method says of reports that
share the air counts where it is not.
"""

from functools import partial

import numpy as np
from numpy.typing import NDArray

from fedloom.methods import Method
from fedloom.protocol import Edge, Federation
from fedloom.protocol.messages import Report
from fedloom.simulator.air import Air
from fedloom.simulator.auditing import Auditing
from fedloom.simulator.carrying import Carrier
from fedloom.simulator.clock import Fetched, Happening, Reporting
from fedloom.simulator.errands import spend_for_heads
from fedloom.simulator.exchange import Load, Way
from fedloom.simulator.held import Held
from fedloom.simulator.ledger import Ledger
from fedloom.simulator.outages import Outages
from fedloom.simulator.scene import Scene
from fedloom.simulator.world import World

Ints = NDArray[np.int64]


class Backhaul:
    """Without a cloud nothing is sent, and what is to be sent is there at once. fetch_s, report_s: by group, the seconds that its
    models took the last time, from the cloud and to it."""

    def __init__(
        self,
        method: Method,
        world: World,
        machines: Federation,
        carrier: Carrier,
        held: Held,
        ledger: Ledger,
        air: Air | None,
        auditing: Auditing,
        outages: Outages | None = None,
    ) -> None:
        self._auditing = auditing
        self._cloud, self._machines, self._carrier, self._clock = method.cloud, machines, carrier, carrier.clock
        self._held, self._ledger, self._air, self._outages = held, ledger, air, outages
        self._n_bytes = {"up": world.up_bytes, "down": world.down_bytes}  # of a model
        self._answered: dict[int, int | None] = {}  # by group, the order that its last report answers
        self._queued: dict[
            int, tuple[float, float, float]
        ] = {}  # groups whose reports wait: since when, seconds of the upload, and those that it is checked for
        self.fetch_s: dict[int, float] = {}
        self.report_s: dict[int, float] = {}

    def fetch(self, edge: Edge, scene: Scene) -> float | None:
        """The aggregators of a group get their models from the cloud; returns the seconds it takes. None: in air that is shared,
        and when they are there is told then (Fetched)."""
        self.fetch_s[edge.group] = 0.0
        if not self._cloud.exists:
            return 0.0
        self._held.hand_down(edge.aggregators)
        way, sent = scene.exchange.cloud_down, self._held.different(edge.aggregators)
        predicted_s = self.fetch_s[edge.group] = self._send(way, sent, scene)
        if self._on_air(way, sent, self._clock.now_s, Fetched(edge.group)):
            return None
        return self._carrier.takes_s(edge.group, predicted_s)

    def report(self, action: Report, scene: Scene) -> None:
        """A group sends its models to the cloud; where reports share the air, when all are ready to."""
        cloud = self._cloud
        upload_s = self._send(scene.exchange.cloud_up, action.aggregators, scene) if cloud.exists else 0.0
        self.report_s[action.group] = upload_s
        checked_s = self._auditing.waits_s(action.aggregators.tolist(), scene)
        topology, mine = self._machines.topology, self._machines.edges[action.group].aggregators
        models = [self._held.post(n) for n in mine.tolist()]
        if self._carrier.reported(action.group, topology.host[mine].tolist(), models, topology.kind, action.at_s):
            return
        order = self._machines.cloud.out.get(action.group)
        if order is not None and self._answered.get(action.group) == order:
            return  # it is under way, and has lost its aggregators since: that is what the cloud will see of it
        self._answered[action.group] = order
        if cloud.exists and self._on_air(
            scene.exchange.cloud_up, action.aggregators, action.at_s, Reporting(action.group), checked_s
        ):
            return
        if cloud.uplink is None:
            self._clock.foresee(action.at_s + upload_s + checked_s, Reporting(action.group))
            return
        self._queued[action.group] = action.at_s, upload_s, checked_s
        if len(self._queued) == self._machines.cloud.due:
            ready_s, up_s, after_s = (np.array(column) for column in zip(*self._queued.values()))
            for i, arrives_s in zip(self._queued, (cloud.uplink(ready_s, up_s) + after_s).tolist()):
                self._clock.foresee(max(self._clock.now_s, arrives_s), Reporting(i))
            self._queued = {}

    def repeated(self) -> None:
        """All groups have fetched and reported once more."""
        self._answered |= self._machines.cloud.settled

    def _on_air(self, way: Way, aggregators: Ints, at_s: float, told: Happening, later_s: float = 0.0) -> bool:
        """Send models in the fleet's air if that is shared on the way, and tell when all are there, or so much later; whether it
        is."""
        if self._air is None or not self._air.is_shared(way):
            return False
        self._air.travel_together(way, aggregators.tolist(), at_s, partial(self._tell, told, later_s))
        return True

    def _tell(self, told: Happening, later_s: float, at_s: float) -> None:
        self._clock.foresee(at_s + later_s, told)

    def _send(self, way: Way, aggregators: Ints, scene: Scene) -> float:
        """Send the models of these aggregators; returns the seconds: those of one host go one after the other."""
        if not len(aggregators):
            return 0.0
        bills, seconds = way.bills(aggregators, self._n_bytes[way.direction]), way.seconds[aggregators]
        host = self._machines.topology.host[aggregators]
        if self._outages is not None and scene.topology.kind == "head":
            cloud, n_bytes, wires_s = self._machines.cloud, self._n_bytes[way.direction], way.wires_s(aggregators)
            times = self._outages.repeated(way.direction, host, cloud.n_orders, n_bytes)
            seconds = seconds + (times - 1) * (seconds - wires_s)
            once = np.ones(len(aggregators))
            bills = way.bills_of(aggregators, n_bytes, Load(once.astype(np.int64), times, once))
            spend_for_heads(self._outages, scene, bills, self._clock.now_s)
        self._ledger.pay(bills)
        if len(aggregators) == 1:
            return float(seconds[0])
        _, place = np.unique(host, return_inverse=True)
        return float(np.bincount(place, weights=seconds).max())

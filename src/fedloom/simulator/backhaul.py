"""Models between aggregators and the cloud: what sending them takes and costs, and reports that share the air."""

import numpy as np
from numpy.typing import NDArray

from fedloom.methods import Method
from fedloom.protocol import Edge, Federation
from fedloom.protocol.messages import Report
from fedloom.simulator.carrying import Carrier
from fedloom.simulator.clock import Reporting
from fedloom.simulator.exchange import Way
from fedloom.simulator.held import Held
from fedloom.simulator.ledger import Ledger
from fedloom.simulator.scene import Scene
from fedloom.simulator.world import World

Ints = NDArray[np.int64]


class Backhaul:
    """Without a cloud nothing is sent, and what is to be sent is there at once."""

    def __init__(
        self, method: Method, world: World, machines: Federation, carrier: Carrier, held: Held, ledger: Ledger
    ) -> None:
        self._cloud, self._machines, self._carrier, self._clock = method.cloud, machines, carrier, carrier.clock
        self._held, self._ledger = held, ledger
        self._n_bytes = {"up": world.up_bytes, "down": world.down_bytes}  # of a model
        self._queued: dict[
            int, tuple[float, float]
        ] = {}  # groups whose reports wait: since when, seconds of the upload

    def fetch(self, edge: Edge, scene: Scene) -> float:
        """The aggregators of a group get their models from the cloud; returns the seconds it takes."""
        if not self._cloud.exists:
            return 0.0
        self._held.hand_down(edge.aggregators)
        predicted_s = self._send(scene.exchange.cloud_down, self._held.different(edge.aggregators))
        return self._carrier.takes_s(edge.group, predicted_s)

    def report(self, action: Report, scene: Scene) -> None:
        """A group sends its models to the cloud; where reports share the air, when all are ready to."""
        cloud = self._cloud
        upload_s = self._send(scene.exchange.cloud_up, action.aggregators) if cloud.exists else 0.0
        topology, mine = self._machines.topology, self._machines.edges[action.group].aggregators
        models = [self._held.post(n) for n in mine.tolist()]
        if self._carrier.reported(action.group, topology.host[mine].tolist(), models, topology.kind, action.at_s):
            return
        if cloud.uplink is None:
            self._clock.foresee(action.at_s + upload_s, Reporting(action.group))
            return
        self._queued[action.group] = action.at_s, upload_s
        if len(self._queued) == self._machines.cloud.due:
            ready_s, up_s = (np.array(column) for column in zip(*self._queued.values()))
            for i, arrives_s in zip(self._queued, cloud.uplink(ready_s, up_s).tolist()):
                self._clock.foresee(max(self._clock.now_s, arrives_s), Reporting(i))
            self._queued = {}

    def _send(self, way: Way, aggregators: Ints) -> float:
        """Send the models of these aggregators; returns the seconds: those of one host go one after the other."""
        if not len(aggregators):
            return 0.0
        way.book(self._ledger, aggregators, self._n_bytes[way.direction])
        if len(aggregators) == 1:
            return float(way.seconds[aggregators[0]])
        _, host = np.unique(self._machines.topology.host[aggregators], return_inverse=True)
        return float(np.bincount(host, weights=way.seconds[aggregators]).max())

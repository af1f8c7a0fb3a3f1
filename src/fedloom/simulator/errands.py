"""Sending clients to work: when they are back, what it costs, and the lines of the timeline."""

import numpy as np
from numpy.typing import NDArray

from fedloom._random import normal_of
from fedloom.methods import Method
from fedloom.protocol import Devices, Edge
from fedloom.protocol.messages import Merge, OnTheWay, Send
from fedloom.simulator.book import Dispatch
from fedloom.simulator.held import Errand, Held
from fedloom.simulator.ledger import Ledger
from fedloom.simulator.scene import Scene
from fedloom.simulator.timeline import Sent, Timeline
from fedloom.simulator.world import World

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


class Errands:
    """Knows what links and computing take. So far: n_late, clients that were sent and will be late; n_updates, those merged."""

    def __init__(
        self, method: Method, world: World, devices: Devices, held: Held, ledger: Ledger, *, keep_timeline: bool
    ) -> None:
        self._uplink = method.edge.uplink
        self._world, self._devices, self._held, self._ledger = world, devices, held, ledger
        self.timeline, self._keep_timeline = Timeline(), keep_timeline
        self.n_late = self.n_updates = 0

    def send(self, action: Send, edge: Edge, scene: Scene, at_s: float, cloud_round: int) -> OnTheWay:
        """Note the jobs, book what they cost, and tell when each client is back."""
        clients, ways = action.client, scene.exchange
        departure = self._devices.leave(clients, action.steps, edge.n_rounds)
        compute_s = action.steps * scene.step_s[clients]
        for again in np.unique(departure.times):
            those = departure.times == again
            sigma, when = scene.snapshot.jitter_sigma, (edge.n_rounds, int(again))
            compute_s[those] *= jitter(sigma, self._world.seed, clients[those], "jitter", *when)
        takes_s = ways.client_up.arrivals(clients, ways.client_down.seconds[clients] + compute_s, self._uplink)
        starts, start = self._held.starts(clients, scene, action.from_own)
        dispatch = Dispatch(starts, start, clients, action.steps, departure.first_step)
        self._held.sent(clients, dispatch)
        self._book(clients, scene, compute_s)
        sent = Sent(
            cloud_round=cloud_round + 1,
            edge_round=edge.n_rounds + 1,
            times=departure.times,
            client=clients,
            aggregator=edge.reports_to(clients),
            start_s=at_s,
            fetch_s=ways.client_down.seconds[clients],
            compute_s=compute_s,
            upload_s=ways.client_up.seconds[clients],
            arrival_s=at_s + takes_s,
            merged_s=np.full(len(clients), np.nan),
            merged_at=np.full(len(clients), -1),
            late=takes_s > action.deadline_s,
            moved=np.zeros(len(clients), dtype=np.bool_),
        )
        if self._keep_timeline:
            self.timeline.append(sent)
        errand = Errand(dispatch, sent)
        for part in action.parts:
            part.load, part.arrives_s = errand, at_s + takes_s[part.at]
        self.n_late += int(np.count_nonzero(sent.late))
        return OnTheWay(at_s, action.parts[0], takes_s, sent.late)

    def merged(self, action: Merge, host: Ints, n_reached: Ints, at_s: float) -> None:
        """Updates are in models: note in the timeline when and where. host (N,): of each aggregator now; n_reached (K,):
        aggregators that each client reports to now."""
        self.n_updates += action.n_updates
        for part in action.parts:
            for flight in part.flights:
                if (sent := flight.load.sent) is not None:
                    sent.merged_s[flight.at], sent.merged_at[flight.at] = at_s, part.aggregator
                    one = n_reached[flight.client] == 1  # who reports to several has not moved for that
                    sent.moved[flight.at] = one & (host[sent.aggregator[flight.at]] != host[part.aggregator])

    def _book(self, clients: Ints, scene: Scene, compute_s: Floats) -> None:
        ways, power_w = scene.exchange, scene.snapshot.compute_power_w
        busy_s = float(compute_s.sum())
        self._ledger.compute(busy_s, busy_s * power_w)
        at, owner = np.nonzero(scene.topology.cover[:, clients])
        parts_s = (compute_s / scene.n_reached[clients])[owner]
        self._ledger.note("computing", "", aggregator=at, airtime_s=parts_s, energy_j=parts_s * power_w)
        ways.client_down.book(self._ledger, clients, self._world.model_bytes)
        ways.client_up.book(self._ledger, clients, self._world.model_bytes)


def jitter(sigma: float, seed: int, clients: Ints, purpose: str, *when: int) -> Floats:
    """Factors (m,) by which the real computing times of clients (m,) differ from the predicted ones: log-normal, of each client
    and occasion."""
    if not sigma:
        return np.ones(len(clients))
    return np.exp(sigma * normal_of(seed, purpose, clients, *when))

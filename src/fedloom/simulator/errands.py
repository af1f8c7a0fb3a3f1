"""Sending clients to work: when they are back, what it costs, and the lines of the timeline."""

import numpy as np
from numpy.typing import NDArray

from fedloom._random import normal_of
from fedloom.methods import Method
from fedloom.protocol import Devices, Edge
from fedloom.protocol.messages import Merge, OnTheWay, Send
from fedloom.simulator.held import Errand, Held
from fedloom.simulator.ledger import Ledger, Note, Shares
from fedloom.simulator.scene import Scene, Trip
from fedloom.simulator.timeline import Sent, Timeline
from fedloom.simulator.world import World

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Idle = tuple[NDArray[np.bool_], bool]


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
        clients = action.client
        departure = self._devices.leave(clients, action.steps, edge.n_rounds)
        idle = None if self._world.hostility is None else self._world.hostility.idle(cloud_round)
        trip = self._trip(scene, clients, action.steps, departure.times, edge.n_rounds, idle)
        fetched, which = self._held.fetched(clients, scene, trip, action.from_own)
        starts, start = (fetched, which) if action.from_own else self._held.starts(clients, fetched, which)
        dispatch = self._held.states.dispatch(starts, start, clients, action.steps, departure.first_step)
        arriving = self._held.sent(dispatch, scene, fetched, which)
        self._ledger.compute(trip.busy_s, trip.busy_s * scene.snapshot.compute_power_w)
        self._ledger.pay(trip.entries)
        sent = Sent(
            cloud_round=cloud_round + 1,
            edge_round=edge.n_rounds + 1,
            times=departure.times,
            client=clients,
            aggregator=edge.reports_to(clients),
            start_s=at_s,
            fetch_s=trip.fetch_s,
            compute_s=trip.compute_s,
            upload_s=trip.upload_s,
            arrival_s=at_s + trip.takes_s,
            merged_s=np.full(len(clients), np.nan),
            merged_at=np.full(len(clients), -1),
            late=trip.takes_s > action.deadline_s,
            moved=np.zeros(len(clients), dtype=np.bool_),
        )
        if self._keep_timeline:
            self.timeline.append(sent)
        errand = Errand(dispatch, sent, arriving)
        for part in action.parts:
            part.load, part.arrives_s = errand, at_s + trip.takes_s[part.at]
        self.n_late += int(np.count_nonzero(sent.late))
        return OnTheWay(at_s, action.parts[0], trip.takes_s, sent.late)

    def merged(self, action: Merge, host: Ints, n_reached: Ints, at_s: float) -> None:
        """Updates are in models: note in the timeline when and where. host (N,): of each aggregator now; n_reached (K,):
        aggregators that each client reports to now."""
        self.n_updates += action.n_updates
        for part in action.parts:
            for flight in part.flights:
                if (sent := flight.load.sent) is not None:
                    at = slice(None) if len(flight) == len(sent.client) else flight.at  # mostly all of them
                    sent.merged_s[at], sent.merged_at[at] = at_s, part.aggregator
                    elsewhere = host[sent.aggregator[at]] != host[part.aggregator]
                    if elsewhere.any():  # who reports to several has not moved for that
                        elsewhere &= n_reached[flight.client] == 1
                    sent.moved[at] = elsewhere

    def _trip(self, scene: Scene, clients: Ints, steps: Ints, times: Ints, edge_round: int, idle: Idle | None) -> Trip:
        """What clients (m,) take for steps (m,). Without chance it is the same whenever they are sent, and is kept."""
        sigma = scene.snapshot.jitter_sigma
        if sigma:
            return self._new_trip(scene, clients, steps, self._luck(sigma, clients, times, edge_round), idle)
        key, n = (clients.tobytes(), steps.tobytes() + (b"" if idle is None else b"idle")), len(clients)
        return scene.trips.get(key, n, lambda: self._new_trip(scene, clients, steps, np.ones(n), idle))

    def _luck(self, sigma: float, clients: Ints, times: Ints, edge_round: int) -> Floats:
        """Factors (m,) of the computing times of clients that were sent `times` (m,) before in this edge round."""
        factor = np.ones(len(clients))
        for again in np.unique(times) if sigma else ():
            those = times == again
            factor[those] = jitter(sigma, self._world.seed, clients[those], "jitter", edge_round, int(again))
        return factor

    def _new_trip(self, scene: Scene, clients: Ints, steps: Ints, luck: Floats, idle: Idle | None) -> Trip:
        ways, power_w = scene.exchange, scene.snapshot.compute_power_w
        work_s = compute_s = steps * scene.step_s[clients] * luck
        if idle is not None:  # free riders
            who, pretend = idle
            work_s = np.where(who[clients], 0.0, compute_s)
            compute_s = compute_s if pretend else work_s
        fetch_s = ways.client_down.seconds[clients]
        at, owner = np.nonzero(scene.topology.cover[:, clients])
        parts_s = (work_s / scene.n_reached[clients])[owner]
        kinds, start = _different(scene.start_of[clients])
        return Trip(
            fetch_s=fetch_s,
            compute_s=compute_s,
            upload_s=ways.client_up.seconds[clients],
            takes_s=ways.client_up.arrivals(clients, fetch_s + compute_s, self._uplink),
            busy_s=float(work_s.sum()),
            entries=[
                Note(Shares.of(at, airtime_s=parts_s, energy_j=parts_s * power_w)),
                *ways.client_down.bills(clients, self._world.down_bytes),
                *ways.client_up.bills(clients, self._world.up_bytes),
            ],
            kinds=kinds,
            start=start,
        )


def _different(values: Ints) -> tuple[Ints, Ints]:
    """The different values, ascending, and which of them each (m,) is. Mostly there is but one."""
    if len(values) and (values == values[0]).all():
        return values[:1], np.zeros(len(values), dtype=np.int64)
    return np.unique(values, return_inverse=True)


def jitter(sigma: float, seed: int, clients: Ints, purpose: str, *when: int) -> Floats:
    """Factors (m,) by which the real computing times of clients (m,) differ from the predicted ones: log-normal, of each client
    and occasion."""
    if not sigma:
        return np.ones(len(clients))
    return np.exp(sigma * normal_of(seed, purpose, clients, *when))

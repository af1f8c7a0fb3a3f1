"""Sending clients to work: when they are back, what it costs, and the lines of the timeline."""

from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from fedloom._random import normal_of
from fedloom.methods import Method
from fedloom.protocol import Devices, Edge, Flight
from fedloom.protocol.messages import Merge, OnTheWay, Send
from fedloom.simulator.air import back_s
from fedloom.simulator.exchange import Way
from fedloom.simulator.held import Errand, Held
from fedloom.simulator.ledger import NOBODY, NOTED, Bill, Ledger, Note, Shares
from fedloom.simulator.masking import Masking
from fedloom.simulator.outages import CAUSES, Fate, Job, Outages
from fedloom.simulator.scene import Scene, Trip
from fedloom.simulator.timeline import Sent, Timeline
from fedloom.simulator.world import World

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Idle = tuple[NDArray[np.bool_], bool]

MOST_LOST = 200  # updates of each client in a row, before nobody believes any more that one will arrive


class Errands:
    """Knows what links and computing take. So far: n_late, clients that were sent and will be late (where air is shared: are);
    n_updates, those merged; n_lost, those that will never be, and lost_by, for which cause. outages: how devices fail, if
    they do."""

    def __init__(
        self,
        method: Method,
        world: World,
        devices: Devices,
        held: Held,
        ledger: Ledger,
        outages: Outages | None = None,
        *,
        keep_timeline: bool,
    ) -> None:
        self._uplink, self.outages = method.edge.uplink, outages
        self._world, self._devices, self._held, self._ledger = world, devices, held, ledger
        self.timeline, self._keep_timeline = Timeline(), keep_timeline
        self.n_late = self.n_updates = self.n_lost = self._lost_in_a_row = 0
        self.lost_by: Counter[str] = Counter()
        self.masking = None if world.secure is None else Masking(world.secure, round(world.model_bits / 32))

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
        fate = self._fate(scene, clients, trip, at_s, departure.times, edge.n_rounds)
        spent: Trip | Fate = trip if fate is None else fate
        takes_s = spent.takes_s
        self._pay(scene, clients, trip, fate, at_s)
        sent = Sent(
            cloud_round=cloud_round + 1,
            edge_round=edge.n_rounds + 1,
            times=departure.times,
            client=clients,
            aggregator=edge.reports_to(clients),
            start_s=at_s,
            fetch_s=spent.fetch_s,
            compute_s=spent.compute_s,
            upload_s=spent.upload_s,
            arrival_s=at_s + takes_s,
            merged_s=np.full(len(clients), np.nan),
            merged_at=np.full(len(clients), -1),
            late=_late(takes_s, action.deadline_s, fate) & (not scene.snapshot.air.is_shared),  # else it is seen then
            moved=np.zeros(len(clients), dtype=np.bool_),
        )
        if self._keep_timeline:
            self.timeline.append(sent)
        if self.masking is not None and trip.extra is not None:
            gone = sent.late if fate is None else sent.late | (fate.cause >= 0)
            self.masking.note(scene, clients, gone, trip.extra, self._ledger)
        errand = Errand(dispatch, sent, arriving, fate)
        for part in action.parts:
            part.load, part.arrives_s = errand, at_s + takes_s[part.at]
        self.n_late += int(np.count_nonzero(sent.late))
        return OnTheWay(at_s, action.parts[0], takes_s, sent.late)

    def lose(self, flights: Sequence[Flight], *, head: bool = False) -> None:
        """Updates that will never be merged; head: as their aggregator is lost."""
        for flight in flights:
            self.n_lost += len(flight)
            self._lost_in_a_row += len(flight)
            fate: Fate | None = flight.load.fate
            causes = [] if fate is None else fate.cause[flight.at].tolist()
            self.lost_by.update(["head"] * len(flight) if head else [CAUSES[cause] for cause in causes if cause >= 0])
            if (sent := flight.load.sent) is not None:
                sent.arrival_s[flight.at] = np.inf
        if self._lost_in_a_row > MOST_LOST * len(self._world.n_samples):
            raise ValueError(
                f"no update arrives any more: the last {self._lost_in_a_row:,} were lost ({', '.join(sorted(self.lost_by))}), so "
                "that the run would go on for ever; let devices be there longer than they work, or packets be sent again "
                "(loss.tries)"
            )

    def _fate(self, scene: Scene, clients: Ints, trip: Trip, at_s: float, times: Ints, edge_round: int) -> Fate | None:
        """What becomes of clients (m,) that are sent to work, if devices fail."""
        if self.outages is None:
            return None
        down, up = scene.exchange.client_down, scene.exchange.client_up
        return self.outages.fates(
            Job(
                client=clients,
                at_s=at_s,
                takes_s=trip.takes_s,
                fetch_s=trip.fetch_s,
                compute_s=trip.compute_s,
                upload_s=trip.upload_s,
                air_down_s=_radio_s(down, clients),
                air_up_s=_radio_s(up, clients),
                upload_j=up.legs[0].joules[clients] if up.legs else np.zeros(len(clients)),
                compute_w=scene.snapshot.compute_power_w,
                down_bytes=self._world.down_bytes,
                up_bytes=self._world.up_bytes,
                edge_round=edge_round,
                times=times,
            )
        )

    def _pay(self, scene: Scene, clients: Ints, trip: Trip, fate: Fate | None, at_s: float) -> None:
        """Book what clients (m,) do: as planned, or what they come to."""
        power_w, busy_s, entries = scene.snapshot.compute_power_w, trip.busy_s, trip.entries
        if fate is not None and not fate.plain.all():
            down, up, busy_s = scene.exchange.client_down, scene.exchange.client_up, float(fate.compute_s.sum())
            entries = [
                _computing(scene, clients, fate.compute_s),
                *down.bills_of(clients, self._world.down_bytes, fate.down),
                *up.bills_of(clients, self._world.up_bytes, fate.up),
                *(trip.extra.entries if trip.extra is not None else []),
            ]
        self._ledger.compute(busy_s, busy_s * power_w)
        self._ledger.pay(entries)
        if self.outages is not None:
            spend_for_heads(self.outages, scene, entries, at_s)

    def overdue(self, sent: Sent, is_back: NDArray[np.bool_]) -> None:
        """A deadline is over: who is not back (m,) is late."""
        sent.late[:] = ~is_back
        self.n_late += int(np.count_nonzero(sent.late))

    def merged(self, action: Merge, host: Ints, n_reached: Ints, at_s: float) -> None:
        """Updates are in models: note in the timeline when and where. host (N,): of each aggregator now; n_reached (K,):
        aggregators that each client reports to now."""
        self.n_updates += action.n_updates
        self._lost_in_a_row = 0
        for part in action.parts:
            for flight in part.flights:
                if (sent := flight.load.sent) is not None:
                    at = slice(None) if len(flight) == len(sent.client) else flight.at  # mostly all of them
                    sent.merged_s[at], sent.merged_at[at] = at_s, part.aggregator
                    was = sent.aggregator[at]
                    there = was < len(host)  # there may have been more of them when it was sent
                    elsewhere = ~there | (host[np.where(there, was, 0)] != host[part.aggregator])
                    if elsewhere.any():  # who reports to several has not moved for that
                        elsewhere &= n_reached[flight.client] == 1
                    sent.moved[at] = elsewhere

    def repeated(self, sent: Sent) -> None:
        """Clients were sent to work once more, and all were merged."""
        self.n_updates += len(sent.client)
        self._lost_in_a_row = 0
        if self._keep_timeline:
            self.timeline.append(sent)

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
        ways = scene.exchange
        work_s = compute_s = steps * scene.step_s[clients] * luck
        if idle is not None:  # free riders
            who, pretend = idle
            work_s = np.where(who[clients], 0.0, compute_s)
            compute_s = compute_s if pretend else work_s
        extra = None if self.masking is None else self.masking.before(scene, clients)
        if extra is not None:
            work_s, compute_s = work_s + extra.compute_s, compute_s + extra.compute_s
        fetch_s = ways.client_down.seconds[clients]
        kinds, start = _different(scene.start_of[clients])
        if (air := scene.snapshot.air).is_shared:  # if nobody else sends meanwhile
            takes_s = back_s(air, ways.client_down, ways.client_up, clients, compute_s)
        else:
            takes_s = ways.client_up.arrivals(clients, fetch_s + compute_s, self._uplink)
        if extra is not None:
            takes_s = takes_s + extra.wait_s
        return Trip(
            fetch_s=fetch_s,
            compute_s=compute_s,
            upload_s=ways.client_up.seconds[clients],
            takes_s=takes_s,
            busy_s=float(work_s.sum()),
            entries=[
                _computing(scene, clients, work_s),
                *ways.client_down.bills(clients, self._world.down_bytes),
                *ways.client_up.bills(clients, self._world.up_bytes),
                *(extra.entries if extra is not None else []),
            ],
            kinds=kinds,
            start=start,
            extra=extra,
        )


def _late(takes_s: Floats, deadline_s: float, fate: Fate | None) -> NDArray[np.bool_]:
    """(m,) who will be back, but not in time."""
    late = takes_s > deadline_s
    return late if fate is None else late & (fate.cause < 0)


def _computing(scene: Scene, clients: Ints, compute_s: Floats) -> Note:
    """Whose it is that clients (m,) compute: in equal parts of all aggregators of each."""
    at, owner = np.nonzero(scene.topology.cover[:, clients])
    parts_s = (compute_s / scene.n_reached[clients])[owner]
    return Note(Shares.of(at, airtime_s=parts_s, energy_j=parts_s * scene.snapshot.compute_power_w))


def _radio_s(way: Way, clients: Ints) -> Floats:
    """Seconds (m,) that messages of clients are on air, not relayed; 0 where they are broadcast, and not repeated."""
    if any(leg.broadcast for leg in way.legs):
        return np.zeros(len(clients))
    return np.maximum(way.seconds[clients] - way.wires_s(clients), 0.0)


def spend_for_heads(outages: Outages, scene: Scene, entries: Sequence[Bill | Note], at_s: float) -> None:
    """What heads send is from their batteries: to their members, and to the cloud."""
    if scene.topology.kind != "head":
        return
    for bill in entries:
        downwards = bill.hop == "device_head" and bill.direction == "down"
        upwards = bill.hop in ("device_cloud", "device_edge") and bill.direction == "up"
        if (downwards or upwards) and bill.shares is not None:
            host = scene.topology.host[bill.shares.place + NOBODY]
            outages.take(host, bill.shares.amounts[NOTED.index("energy_j")], at_s)


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

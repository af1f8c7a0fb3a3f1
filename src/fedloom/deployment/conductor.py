"""The cloud's part: turns what the driver decides into orders for stations and devices, and tells it what happens.

Every value is named, so that an order can be given before what it needs is there: whoever carries it out waits for it. After a
restart the driver goes through the journal again and gives the same orders the same names; confirmed ones are left out.
"""

import threading
import weakref
from collections.abc import Callable, Collection, Sequence

import numpy as np
from numpy.typing import NDArray

from fedloom.deployment import naming
from fedloom.deployment.book import Names
from fedloom.deployment.clock import WallClock
from fedloom.deployment.collecting import Collecting
from fedloom.deployment.journal import Journal, Noted
from fedloom.deployment.looking import Looking
from fedloom.deployment.losses import Losses
from fedloom.deployment.measured import Measured
from fedloom.deployment.orders import Order, Outbox
from fedloom.deployment.recipes import Recipe
from fedloom.deployment.recorded import in_lockstep, unforeseen
from fedloom.deployment.silence import Silence
from fedloom.deployment.store import Store
from fedloom.deployment.waves import Waves
from fedloom.methods import Method
from fedloom.mixing import ByRows
from fedloom.protocol.messages import OnTheWay, Part, Send
from fedloom.simulator.book import Dispatch, Model
from fedloom.simulator.carrying import Collects, Computes
from fedloom.simulator.clock import Back, Delivered, Left, Lost, Reporting
from fedloom.simulator.features import Features
from fedloom.simulator.scene import Scene
from fedloom.training.engine import Engine

Row = NDArray[np.float32]


class Conductor:
    """A carrier (fedloom.simulator.carrying). patience_s: how long a silent device is waited for; None: for ever."""

    foreseen = False

    def __init__(
        self,
        method: Method,
        journal: Journal,
        store: Store,
        n_params: int,
        *,
        patience_s: float | None = None,
        quorum: float = 0.0,
    ) -> None:
        self.method, self.store, self.journal, self.n_params = method, store, journal, n_params
        self.lock = threading.Condition(threading.RLock())
        self.outbox = Outbox()
        self.names = Names(store)
        self.silence = Silence(patience_s, quorum)
        self.losses = Losses(self.silence, self.outbox, self.names)
        self.clock = WallClock(journal, self.lock, self.look_around, self._noticed)
        self.waves = Waves(lockstep=in_lockstep(method))
        self._delivered = {
            pair
            for _, what in journal.happened
            if isinstance(what, Delivered)
            for pair in zip(what.client, what.ticket)
        }
        self._ticket: dict[str, tuple[int, int]] = {}
        self._sent_to: dict[str, set[str]] = {}
        self._reports: dict[int, tuple[set[str], float]] = {}  # by group: names that are not here yet, not before
        self._scheduled: set[int] = set()
        self.measures = Measured(journal)
        self.late: set[str] = set()
        """Updates that are waited for though their rounds are over."""

    def __repr__(self) -> str:
        waiting = {node: [order["id"] for order in orders] for node, orders in self.waiting().items()}
        reports = {group: sorted(wanted) for group, (wanted, _) in self._reports.items()}
        return f"Conductor({self.clock}, orders={waiting}, reports={reports}, scheduled={sorted(self._scheduled)})"

    # What the driver asks for

    def sent(self, action: Send, scene: Scene, event: OnTheWay) -> OnTheWay:
        with self.lock:
            dispatch: Dispatch = action.parts[0].load.dispatch
            ticket: dict[int, int] = {}
            for part in action.parts:
                ticket.update(zip(part.client.tolist(), part.ticket.tolist()))
            self.names.note(dispatch)
            self.silence.watch(dispatch)
            self.losses.see(scene.topology)
            for j, client in enumerate(dispatch.client.tolist()):
                self._train(dispatch, j, ticket[client], self._stations(scene, client))
                self.measures.sent((client, ticket[client]), action.parts[0].load.sent, j)
            return unforeseen(action, event)

    def merged(self, part: Part, scene: Scene, model: Model) -> None:
        with self.lock:
            station = naming.station(scene.topology.kind, int(scene.topology.host[part.aggregator]))
            noisy = part.weights is not None and model.rule is not None  # noise is added by the cloud, who hears it
            target = model.models[0][0] if noisy else model
            jobs = [(f.load.dispatch, int(j)) for f in part.flights for j in f.at]
            order: Order = {"do": "merge"}
            if part.weights is None:
                arrivals = part.arrivals
                order["arrivals"] = {
                    "client": arrivals.client.tolist(),
                    "n_samples": arrivals.n_samples.tolist(),
                    "n_reached": arrivals.n_reached.tolist(),
                    "staleness": arrivals.staleness.tolist(),
                    "total": arrivals.total,
                }
                order["old"] = self._recipe(target.models[0][0], [station], station)
                order["updates"] = [_update(d, j) for d, j in jobs]
            else:
                order["models"] = [[self._recipe(m, [station], station), w] for m, w in target.models]
                order["waves"] = self.waves.of(target)
            name = self.names.give(target, station, merge=True)
            order |= {"id": f"merge-{name}", "name": name}
            if order["id"] in self.journal.confirmed:
                self.names.done(name)
                return
            for dispatch, j in jobs:
                self._deliver(_update(dispatch, j), int(dispatch.client[j]), station)
            self.outbox.add(station, order)
            if not self.method.edge.at_once:  # a round is over: who is still at work for it is late
                orders = (o for orders in self.outbox.waiting().values() for o in orders)
                self.late.update(o["name"] for o in orders if o["do"] == "train" and station in o["to"])

    def reported(self, group: int, hosts: Sequence[int], models: Sequence[Model], kind: str, at_s: float) -> bool:
        with self.lock:
            wanted: set[str] = set()
            for model in models:
                for name in self.names.missing(model):
                    wanted.add(name)
                    for node in sorted(self.names.at[name])[:1]:
                        if node != naming.CLOUD:
                            self.outbox.add(node, {"id": f"report-{name}", "do": "report", "name": name})
            self._reports[group] = wanted, at_s
            self._scheduled.discard(group)
            self._check_reports()
            return True

    def takes_s(self, predicted_s: float) -> float:
        return 0.0 if self.method.edge.box_s is None else self.clock.since_s()

    def known(self, model: Model) -> None:
        Looking(self).mark([model])

    def features(self, local: Features) -> Collects:
        return Collecting(self, local)

    def computing(self, engine: Engine | None, live: Callable[[], list[Model]]) -> Computes:
        return Looking(self)

    # What comes from the nodes

    def done(self, node: str, order_id: str, failed: str | None = None, took_s: Sequence[float] = ()) -> None:
        """A node has carried out an order, or cannot. Copies change nothing. took_s: for training, what it measured itself."""
        with self.lock:
            order = self.outbox.get(node, order_id)
            if order is None:
                return
            if failed is not None and order["do"] != "train":
                self.outbox.add(node, order)  # it is tried again; the log says why it failed
                return
            match order["do"]:  # what cannot be written is not done yet
                case "train":
                    client, ticket = self._ticket[order["name"]]
                    self.journal.took(client, ticket, took_s)
                    del self._ticket[order["name"]]
                    self.late.discard(order["name"])
                    self.clock.happened(Left((client,)) if failed else Delivered((client,), (ticket,)))
                case "merge" | "hold":
                    self.journal.confirms(order_id)
                    if order["do"] == "merge":
                        self.names.done(order["name"])
            self.outbox.take(node, order_id)
            self._check_reports()
            self.lock.notify_all()

    def arrived(self, name: str, array: NDArray[np.generic]) -> None:
        """A report or a feature is here."""
        self.store.put(name, array)
        with self.lock:
            self._check_reports()
            self.lock.notify_all()

    def orders(self, node: str, known: Collection[str]) -> list[Order]:
        """What a node is to do and does not know yet."""
        with self.lock:
            return self.outbox.of(node, known)

    def waiting(self) -> dict[str, list[Order]]:
        """All orders that are not carried out, by node."""
        with self.lock:
            return self.outbox.waiting()

    def row_of(self, name: str) -> Row | None:
        """The row of a model that the cloud has or can make; None if not (yet)."""
        with self.lock:
            if name in self.store:
                return self.store[name]
            model = self.names.model(name)
            if model is None or self.names.missing(model):
                return None
            return self.names.row(model)

    def dead(self, held: Sequence[str]) -> list[str]:
        """Those of the values that a node holds which nobody needs any more."""
        with self.lock:
            return [name for name in held if not self.names.alive(name)] if self.clock.live else []

    def withdrawn(self, node: str, known: Collection[str]) -> list[str]:
        """Those of the orders that a node knows which are not wanted any more."""
        with self.lock:
            return [order for order in known if not self.outbox.has(node, order)] if self.clock.live else []

    def look_around(self) -> None:
        """Whom to wait for no longer."""
        self._check_reports()
        for what in self.losses.noticed():
            self.clock.happened(what)
        for clients in self.silence.given_up(self.outbox):
            for client in clients:
                self._withdraw(client)
            self.clock.happened(Left(tuple(clients)))

    # Helpers

    def _train(self, dispatch: Dispatch, j: int, ticket: int, stations: list[str]) -> None:
        client, start = int(dispatch.client[j]), dispatch.starts[int(dispatch.start[j])]
        name, node = _update(dispatch, j), naming.device(client)
        recipe = self._recipe(start, stations, node)
        self._sent_to[name] = set(stations)
        weakref.finalize(dispatch, self._sent_to.pop, name, None)
        if (client, ticket) in self._delivered:
            return
        self._ticket[name] = client, ticket
        self.outbox.add(
            node,
            {
                "id": f"train-{name}",
                "do": "train",
                "name": name,
                "start": recipe,
                "n_steps": int(dispatch.n_steps[j]),
                "lr_step": start.steps,
                "to": stations,
                "begun": isinstance(self.method.merge_edge, ByRows),
            },
        )

    def _recipe(self, model: Model, stations: Sequence[str], by: str) -> Recipe:
        """How a model is made by a node, from what the first of the stations that has it gives; if none has, the first is told to
        fetch it."""
        name = self.names.known(model)
        if name is None and model.jobs and not model.models:
            ((dispatch, at, _),) = model.jobs
            found, client = _update(dispatch, int(at[0])), int(dispatch.client[at[0]])
            if by != naming.device(client):
                self._deliver(found, client, by)
            return {"n": found, "at": by}
        if name is None and not model.settled and model.rule is None:
            return {"mix": [[self._recipe(part, stations, by), weight] for part, weight in model.models]}
        if name is None and not model.settled:
            return {"between": [self._recipe(part, stations, by) for part, _ in model.models]}
        name = self.names.of(model)
        has = [s for s in stations if s in self.names.at[name]]
        if not has:
            self._hold(name, stations[0])
        return {"n": name, "at": (has or stations)[0]}

    def _hold(self, name: str, station: str) -> None:
        source = self.names.source(name)
        assert source is not None, f"{name} was with a station that is lost, and is needed"
        self.names.at[name].add(station)
        lost = self.losses.times[station]
        order_id = f"hold-{name}-{station}" + (f"-{lost}" if lost else "")
        if order_id not in self.journal.confirmed:
            self.outbox.add(station, {"id": order_id, "do": "hold", "name": name, "from": source})

    def _deliver(self, name: str, client: int, station: str) -> None:
        """An update is to be merged where its client has moved to."""
        places = self._sent_to.setdefault(name, set())
        if station not in places:
            places.add(station)
            order = {"id": f"deliver-{name}-{station}", "do": "deliver", "name": name, "to": [station]}
            self.outbox.add(naming.device(client), order)

    def _stations(self, scene: Scene, client: int) -> list[str]:
        """Where a client's aggregators are."""
        topology = scene.topology
        hosts = topology.host[np.flatnonzero(topology.cover[:, client])].tolist()
        return list(dict.fromkeys(naming.station(topology.kind, host) for host in hosts))

    def _check_reports(self) -> None:
        """Groups whose models are all here have reported."""
        for group, (wanted, at_s) in list(self._reports.items()):
            wanted -= {name for name in wanted if name in self.store}
            if not wanted and self.clock.live and group not in self._scheduled:
                self._scheduled.add(group)
                if not self.clock.foresees(
                    Reporting(group)
                ):  # a report may be made twice if a station was lost meanwhile
                    self.clock.foresee(at_s, Reporting(group))
                self.lock.notify_all()

    def _noticed(self, at_s: float, what: Noted) -> None:
        """It happens, now or, after a restart, by the journal."""
        match what:
            case Reporting(group):
                self._scheduled.add(group)
            case Left(client):
                for one in client:
                    self._withdraw(one)
            case Lost(kind, host, client):
                self._lose(naming.station(kind, host), client)
            case Back(kind, host):
                self.losses.back(naming.station(kind, host))
            case Delivered(client, ticket):
                for pair in zip(client, ticket):
                    self.measures.delivered(pair, at_s)

    def _lose(self, station: str, clients: Sequence[int]) -> None:
        """A station is not waited for any more, nor what clients do for it; what was sent there is not there."""
        for client in clients:
            self._withdraw(client)
        self.losses.lose(station)
        for places in self._sent_to.values():
            places.discard(station)

    def _withdraw(self, client: int) -> None:
        node = naming.device(client)
        for order in self.outbox.waiting().get(node, []):
            if order["do"] == "train":
                self.outbox.take(node, order["id"])
                self._ticket.pop(order["name"], None)
                self.late.discard(order["name"])


def _update(dispatch: Dispatch, j: int) -> str:
    return naming.update(int(dispatch.client[j]), int(dispatch.first_step[j]))

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
from fedloom.deployment.booking import Booking
from fedloom.deployment.clock import WallClock
from fedloom.deployment.collecting import Collecting
from fedloom.deployment.journal import Journal, Noted
from fedloom.deployment.looking import Looking
from fedloom.deployment.measured import Measured
from fedloom.deployment.orders import Order, Outbox
from fedloom.deployment.recipes import Recipe, leaves
from fedloom.deployment.recorded import in_lockstep, unforeseen
from fedloom.deployment.sight import Sight
from fedloom.deployment.silence import Silence
from fedloom.deployment.store import Store
from fedloom.deployment.took import NOTHING, Took
from fedloom.deployment.waves import Waves
from fedloom.fleet import Snapshot
from fedloom.methods import Method
from fedloom.mixing import ByRows
from fedloom.protocol.messages import OnTheWay, Part, Send
from fedloom.simulator.book import Dispatch, Model
from fedloom.simulator.carrying import Collects, Computes
from fedloom.simulator.clock import Delivered, Left, Reporting
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
        model_bits: float | None = None,
    ) -> None:
        self.method, self.store, self.journal, self.n_params = method, store, journal, n_params
        self.lock = threading.Condition(threading.RLock())
        self.outbox = Outbox()
        self.names = Names(store)
        self.silence = Silence(patience_s, quorum)
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
        self.sight = Sight(measures=not in_lockstep(method), model_bits=model_bits or 32.0 * n_params)
        self.booking: Booking | None = None
        self.features_from: str | None = None
        """The model that clients began with when they trained for a feature last."""
        self.on_scene: Callable[[Scene], None] | None = None
        """Told of the scene when clients are sent to work; they then compute for as long as the fleet says."""

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
            lasts_s = None if self.on_scene is None else action.parts[0].load.sent.compute_s
            if self.on_scene is not None:
                self.on_scene(scene)
            for j, client in enumerate(dispatch.client.tolist()):
                self._train(dispatch, j, ticket[client], self._stations(scene, client), lasts_s)
                job, sent = (client, ticket[client]), action.parts[0].load.sent
                self.measures.sent(job, action.group, sent, j, int(dispatch.n_steps[j]))
                self.sight.sent(job, scene, int(dispatch.n_steps[j]))
                if self.booking is not None:
                    self.booking.sent(job, scene, float(sent.compute_s[j]))
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

    def takes_s(self, group: int, predicted_s: float) -> float:
        self.measures.handed_down(group, predicted_s)
        return 0.0 if self.method.edge.box_s is None else self.clock.since_s()

    def seen(self, now: Snapshot, step_s: NDArray[np.float64]) -> tuple[Snapshot, NDArray[np.float64]]:
        return self.sight.seen(now, step_s)

    def known(self, model: Model) -> None:
        Looking(self).mark([model])

    def features(self, local: Features) -> Collects:
        return Collecting(self, local)

    def computing(self, engine: Engine | None, live: Callable[[], list[Model]]) -> Computes:
        return Looking(self)

    # What comes from the nodes

    def done(self, node: str, order_id: str, failed: str | None = None, took: Took = NOTHING) -> None:
        """A node has carried out an order, or cannot. Copies change nothing. took: what it measured itself."""
        with self.lock:
            self.journal.carries(node, took.carried)
            order = self.outbox.take(node, order_id)
            if order is None:
                return
            if failed is not None and order["do"] != "train":
                self.outbox.add(node, order)  # it is tried again; the log says why it failed
                return
            match order["do"]:
                case "train":
                    client, ticket = self._ticket.pop(order["name"])
                    self.journal.measured(client, ticket, took)
                    self.clock.happened(Left((client,)) if failed else Delivered((client,), (ticket,)))
                case "merge" | "hold" | "report":
                    if order["do"] != "report":
                        self.journal.confirms(order_id)
                    if took.fetched is not None or took.sent is not None:
                        self.journal.moves(node, took)
                    if order["do"] == "merge":
                        self.names.done(order["name"])
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

    def look_around(self) -> None:
        """Whom to wait for no longer."""
        self._check_reports()
        for clients in self.silence.given_up(self.outbox):
            for client in clients:
                self._withdraw(client)
            self.clock.happened(Left(tuple(clients)))

    # Helpers

    def _train(
        self, dispatch: Dispatch, j: int, ticket: int, stations: list[str], lasts_s: NDArray[np.float64] | None
    ) -> None:
        client, start = int(dispatch.client[j]), dispatch.starts[int(dispatch.start[j])]
        name, node = _update(dispatch, j), naming.device(client)
        recipe = self._recipe(start, stations, node)
        paced = {} if lasts_s is None else {"lasts_s": float(lasts_s[j]), "also": self._from_all(recipe, stations)}
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
                **paced,
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

    def _from_all(self, recipe: Recipe, stations: Sequence[str]) -> list[tuple[str, str]]:
        """What else is fetched, and where, so that all is carried that the simulator counts: a client fetches from each of its
        stations, also where one would do because they have the same model, or none because it goes on from what it trained."""
        (name, _), *_ = found = list(leaves(recipe))
        wanted = name if naming.is_model(name) else self.features_from
        if wanted is None or self.names.model(wanted) is None:
            return []
        others = [station for station in stations if station not in {at for _, at in found}]
        for station in others:
            if station not in self.names.at[wanted]:
                self._hold(wanted, station)
        return [(wanted, station) for station in others]

    def _hold(self, name: str, station: str) -> None:
        places = self.names.at[name]
        source = naming.CLOUD if naming.CLOUD in places else min(places)
        places.add(station)
        order_id = f"hold-{name}-{station}"
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
                self.clock.foresee(at_s, Reporting(group))
                self.lock.notify_all()

    def _noticed(self, at_s: float, what: Noted) -> None:
        """It happens, now or, after a restart, by the journal."""
        match what:
            case Reporting(group):
                self._scheduled.add(group)
                if self.booking is not None:
                    self.booking.reported()
            case Left(client):
                for one in client:
                    self._withdraw(one)
                    self.sight.left(one)
            case Delivered(client, ticket):
                for pair in zip(client, ticket):
                    self.measures.delivered(pair, at_s)
                    self.sight.delivered(pair, self.journal.took.get(pair))
                    if self.booking is not None:
                        self.booking.delivered(pair)

    def _withdraw(self, client: int) -> None:
        node = naming.device(client)
        for order in self.outbox.of(node):
            if order["do"] == "train":
                self.outbox.take(node, order["id"])
                self._ticket.pop(order["name"], None)


def _update(dispatch: Dispatch, j: int) -> str:
    return naming.update(int(dispatch.client[j]), int(dispatch.first_step[j]))

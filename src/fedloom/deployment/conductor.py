"""The cloud's part: turns what the driver decides into orders for stations and devices (ordering.py), and tells it what happens.

After a restart the driver goes through the journal again and gives the same orders the same names; confirmed ones are left out.
"""

import threading
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedloom.deployment import naming
from fedloom.deployment.book import Names
from fedloom.deployment.booking import Booking
from fedloom.deployment.clock import WallClock
from fedloom.deployment.coded import Wire
from fedloom.deployment.collecting import Collecting
from fedloom.deployment.hostile import not_finite
from fedloom.deployment.journal import Journal, Noted
from fedloom.deployment.looking import Looking
from fedloom.deployment.losses import Losses
from fedloom.deployment.measured import Measured
from fedloom.deployment.ordering import Ordering
from fedloom.deployment.orders import Order, Outbox
from fedloom.deployment.recorded import in_lockstep
from fedloom.deployment.reports import Reports
from fedloom.deployment.secret import secret_of
from fedloom.deployment.sight import Sight
from fedloom.deployment.silence import Silence
from fedloom.deployment.store import Store
from fedloom.deployment.took import NOTHING, Took
from fedloom.deployment.witnesses import Witnesses
from fedloom.fleet import Snapshot
from fedloom.methods import Method, Waiting
from fedloom.protocol.messages import OnTheWay, Part, Send
from fedloom.simulator.book import Model
from fedloom.simulator.carrying import Collects, Computes, unforeseen
from fedloom.simulator.clock import Back, Delivered, Left, Lost, Reporting
from fedloom.simulator.features import Features
from fedloom.simulator.held import Errand
from fedloom.simulator.scene import Scene
from fedloom.training.engine import Engine
from fedloom.training.state import Layout

Row = NDArray[np.float32]


class Conductor:
    """A carrier (fedloom.simulator.carrying). waiting: for whom and how long, if not as the method says. trainable (P,): what of
    a model is coded. bits: by the scenario, of what goes up and down of a model. layout: of the states of a client rule."""

    foreseen = False
    witnessed = True

    def __init__(
        self,
        method: Method,
        journal: Journal,
        store: Store,
        n_params: int,
        *,
        waiting: Waiting | None = None,
        trainable: NDArray[np.bool_] | None = None,
        bits: tuple[float, float] | None = None,
        layout: Layout | None = None,
    ) -> None:
        self.method, self.store, self.journal, self.n_params = method, store, journal, n_params
        self.wire = Wire(method.coding, n_params, trainable)
        self.lock = threading.Condition(threading.RLock())
        self.outbox = Outbox()
        self.names = Names(store)
        self.silence = Silence(waiting or method.waiting)
        self.losses = Losses(self.silence, self.outbox, self.names)
        self.clock = WallClock(journal, self.lock, self.look_around, self._noticed)
        self.ordering = Ordering(method, journal, self.names, self.outbox, self.losses, layout)
        self.reports = Reports(store, self.clock)
        self.witnesses = Witnesses(self)
        self.measures = Measured(journal)
        up_bits, down_bits = bits or (8.0 * self.wire.up_bytes, 8.0 * self.wire.down_bytes)
        self.sight = Sight(measures=not in_lockstep(method), up_bits=up_bits, down_bits=down_bits)
        self.n_failed: Counter[str] = Counter()
        """By order: how often it failed."""
        self.booking: Booking | None = None
        self.on_scene: Callable[[Scene], None] | None = None
        """Told of the scene when clients are sent to work; they then compute for as long as the fleet says."""

    def __repr__(self) -> str:
        waiting = {node: [order["id"] for order in orders] for node, orders in self.waiting().items()}
        return f"Conductor({self.clock}, orders={waiting}, {self.reports})"

    # What the driver asks for

    def sent(self, action: Send, scene: Scene, event: OnTheWay) -> OnTheWay:
        with self.lock:
            errand: Errand = action.parts[0].load
            dispatch = errand.dispatch
            ticket: dict[int, int] = {}
            for part in action.parts:
                ticket.update(zip(part.client.tolist(), part.ticket.tolist()))
            self.names.note(dispatch)
            self.silence.watch(dispatch)
            self.losses.see(scene.topology)
            if self.on_scene is not None:
                self.on_scene(scene)
            sent = errand.sent
            assert sent is not None
            for j, client in enumerate(dispatch.client.tolist()):
                job, steps, compute_s = (client, ticket[client]), int(dispatch.n_steps[j]), float(sent.compute_s[j])
                self.ordering.train(errand, j, ticket[client], scene, None if self.on_scene is None else compute_s)
                self.measures.sent(job, action.group, sent, j, steps)
                self.sight.sent(job, scene, steps)
                if self.booking is not None:
                    self.booking.sent(job, scene, compute_s)
            return unforeseen(action, event)

    def merged(self, part: Part, scene: Scene, model: Model) -> None:
        with self.lock:
            self.ordering.merge(part, scene, model)

    def reported(self, group: int, hosts: Sequence[int], models: Sequence[Model], kind: str, at_s: float) -> bool:
        with self.lock:
            stations = [naming.station(kind, host) for host in hosts]
            self.reports.expect(group, self.ordering.report(models, stations), at_s)
            self.lock.notify_all()
            return True

    def takes_s(self, group: int, predicted_s: float) -> float:
        self.measures.handed_down(group, predicted_s)
        return 0.0 if self.method.edge.box_s is None else self.clock.since_s()

    @property
    def secret(self) -> int:
        return 0 if self.method.audit is None else secret_of(self.store.folder)

    def true_row(self, model: Model) -> Row | None:
        return self.witnesses.done_again(model)

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
            order = self.outbox.get(node, order_id)
            if order is None:
                return
            if failed is not None and order["do"] != "train":
                self.journal.carries(node, took.carried)
                self.n_failed[order_id] += 1
                self.outbox.add(node, order)  # it is tried again; the log says why it failed
                return
            match order["do"]:  # what cannot be written is not done yet
                case "train":
                    client, ticket = self.ordering.job[order["name"]]
                    self.journal.measured(client, ticket, took)
                    self.journal.carries(node, took.carried)
                    self.ordering.trained(order["name"])
                    if failed is None:
                        self.names.done(naming.left(order["name"]))
                        self.names.done(naming.own(order["name"]))
                    sick = (naming.first_step(order["name"]),) if failed and not_finite(failed) else ()
                    self.clock.happened(Left((client,), sick) if failed else Delivered((client,), (ticket,)))
                case "merge" | "hold" | "report" | "alter":
                    if order["do"] != "report":
                        self.journal.confirms(order_id)
                    if took.fetched is None and took.sent is None:
                        self.journal.carries(node, took.carried)
                    else:
                        self.journal.moves(node, took)
                    if order["do"] == "merge":
                        self.ordering.merged(order)
                    elif order["do"] == "alter":
                        self.names.done(order["name"])
                    elif order["do"] == "report":
                        self.ordering.reported(order["name"])
                case _:
                    self.journal.carries(node, took.carried)
            self.outbox.take(node, order_id)
            self.reports.check()
            self.lock.notify_all()

    def opened(self, report: Order, message: NDArray[Any] | None) -> Row:
        """The model in a coded report; Refusal if it is none."""
        code = report["code"]
        reference = self.row_of(code["ref"]["n"])
        assert reference is not None, "the cloud has what it has sent"
        return self.wire.taken_up(report["name"], message, reference, code["key"])

    def arrived(self, name: str, array: NDArray[np.generic]) -> None:
        """A report or a feature is here."""
        self.store.put(name, array)
        with self.lock:
            self.reports.check()
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
        self.reports.check()
        for what in self.losses.noticed():
            self.clock.happened(what)
        for clients in self.silence.given_up(self.outbox):
            for client in clients:
                self.ordering.withdraw(client)
            self.clock.happened(Left(tuple(clients)))

    def _noticed(self, at_s: float, what: Noted) -> None:
        """It happens, now or, after a restart, by the journal."""
        match what:
            case Reporting(group):
                self.reports.told(group)
                if self.booking is not None:
                    self.booking.reported()
            case Left(client):
                for one in client:
                    self.ordering.withdraw(one)
                    self.sight.left(one)
            case Lost(kind, host, client):
                self.ordering.lose(naming.station(kind, host), client)
            case Back(kind, host):
                self.losses.back(naming.station(kind, host))
            case Delivered(client, ticket):
                for pair in zip(client, ticket):
                    self.measures.delivered(pair, at_s)
                    self.sight.delivered(pair, self.journal.took.get(pair))
                    if self.booking is not None:
                        self.booking.delivered(pair)

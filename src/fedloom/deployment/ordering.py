"""What the driver decides, as orders for stations and devices. Every value is named, so that an order can be given before what it
needs is there: whoever carries it out waits for it. Orders that are confirmed by the journal are not given again."""

import weakref
from collections.abc import Sequence

import numpy as np

from fedloom.deployment import naming
from fedloom.deployment.book import Names
from fedloom.deployment.journal import Journal
from fedloom.deployment.losses import Losses
from fedloom.deployment.orders import Order, Outbox
from fedloom.deployment.recipes import Recipe, leaves
from fedloom.deployment.recorded import in_lockstep
from fedloom.deployment.waves import Waves
from fedloom.methods import Method
from fedloom.mixing import Arrivals, ByRows
from fedloom.protocol.messages import Part
from fedloom.simulator.book import Dispatch, Model
from fedloom.simulator.clock import Delivered
from fedloom.simulator.scene import Scene


class Ordering:
    """job: by update, the client and ticket of its order, until it is there. late: updates that are waited for though their
    rounds are over. features_from: the model that clients began with when they trained for a feature last."""

    def __init__(self, method: Method, journal: Journal, names: Names, outbox: Outbox, losses: Losses) -> None:
        self._method, self._journal, self._names, self._outbox = method, journal, names, outbox
        self._losses = losses
        self.waves = Waves(lockstep=in_lockstep(method))
        self.job: dict[str, tuple[int, int]] = {}
        self.late: set[str] = set()
        self.features_from: str | None = None
        self._sent_to: dict[str, set[str]] = {}  # by update: stations that have it, or will
        self._delivered = {
            pair
            for _, what in journal.happened
            if isinstance(what, Delivered)
            for pair in zip(what.client, what.ticket)
        }

    def train(self, dispatch: Dispatch, j: int, ticket: int, scene: Scene, lasts_s: float | None = None) -> None:
        """The j-th job of a dispatch: a device begins with its aggregators' models, and sends its update to them. lasts_s: it
        computes for so long, and fetches from all of them; None: as long as it takes, and from one that will do."""
        client, start = int(dispatch.client[j]), dispatch.starts[int(dispatch.start[j])]
        name, node, stations = _update(dispatch, j), naming.device(client), _stations(scene, client)
        recipe = self._recipe(start, stations, node)
        paced = {} if lasts_s is None else {"lasts_s": lasts_s, "also": self._from_all(recipe, stations)}
        self._sent_to[name] = set(stations)
        weakref.finalize(dispatch, self._sent_to.pop, name, None)
        if (client, ticket) in self._delivered:
            return
        self.job[name] = client, ticket
        self._outbox.add(
            node,
            {
                "id": f"train-{name}",
                "do": "train",
                "name": name,
                "start": recipe,
                "n_steps": int(dispatch.n_steps[j]),
                "lr_step": start.steps,
                "to": stations,
                "begun": isinstance(self._method.merge_edge, ByRows),
                **paced,
            },
        )

    def merge(self, part: Part, scene: Scene, model: Model) -> None:
        """A station makes a new model in place of the one before."""
        station = naming.station(scene.topology.kind, int(scene.topology.host[part.aggregator]))
        noisy = part.weights is not None and model.rule is not None  # noise is added by the cloud, who hears it
        target = model.models[0][0] if noisy else model
        jobs = [(f.load.dispatch, int(j)) for f in part.flights for j in f.at]
        order: Order = {"do": "merge"}
        if part.weights is None:
            order["arrivals"] = _plain(part.arrivals)
            order["old"] = self._recipe(target.models[0][0], [station], station)
            order["updates"] = [_update(d, j) for d, j in jobs]
        else:
            order["models"] = [[self._recipe(m, [station], station), w] for m, w in target.models]
            order["waves"] = self.waves.of(target)
        name = self._names.give(target, station, merge=True)
        order |= {"id": f"merge-{name}", "name": name}
        if order["id"] in self._journal.confirmed:
            self._names.done(name)
            return
        for dispatch, j in jobs:
            self._deliver(_update(dispatch, j), int(dispatch.client[j]), station)
        self._outbox.add(station, order)
        if not self._method.edge.at_once:  # a round is over: who is still at work for it is late
            orders = (o for orders in self._outbox.waiting().values() for o in orders)
            self.late.update(o["name"] for o in orders if o["do"] == "train" and station in o["to"])

    def report(self, models: Sequence[Model]) -> set[str]:
        """Stations send what the cloud has not of these models; their names."""
        wanted: set[str] = set()
        for model in models:
            for name in self._names.missing(model):
                wanted.add(name)
                for node in sorted(self._names.at[name])[:1]:
                    if node != naming.CLOUD:
                        self._outbox.add(node, {"id": f"report-{name}", "do": "report", "name": name})
        return wanted

    def trained(self, name: str) -> None:
        """An update is there, or will not come."""
        self.job.pop(name, None)
        self.late.discard(name)

    def withdraw(self, client: int) -> None:
        """What a client is to train is not waited for any more."""
        node = naming.device(client)
        for order in self._outbox.waiting().get(node, []):
            if order["do"] == "train":
                self._outbox.take(node, order["id"])
                self.trained(order["name"])

    def lose(self, station: str, clients: Sequence[int]) -> None:
        """A station is not waited for any more, nor what clients do for it; what was sent there is not there."""
        for client in clients:
            self.withdraw(client)
        self._losses.lose(station)
        for places in self._sent_to.values():
            places.discard(station)

    def _recipe(self, model: Model, stations: Sequence[str], by: str) -> Recipe:
        """How a model is made by a node, from what the first of the stations that has it gives; if none has, the first is told to
        fetch it."""
        name = self._names.known(model)
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
        name = self._names.of(model)
        has = [s for s in stations if s in self._names.at[name]]
        if not has:
            self._hold(name, stations[0])
        return {"n": name, "at": (has or stations)[0]}

    def _from_all(self, recipe: Recipe, stations: Sequence[str]) -> list[tuple[str, str]]:
        """What else is fetched, and where, so that all is carried that the simulator counts: a client fetches from each of its
        stations, also where one would do because they have the same model, or none because it goes on from what it trained."""
        (name, _), *_ = found = list(leaves(recipe))
        wanted = name if naming.is_model(name) else self.features_from
        if wanted is None or self._names.model(wanted) is None:
            return []
        others = [station for station in stations if station not in {at for _, at in found}]
        for station in others:
            if station not in self._names.at[wanted]:
                self._hold(wanted, station)
        return [(wanted, station) for station in others]

    def _hold(self, name: str, station: str) -> None:
        source = self._names.source(name)
        if source is None:
            self._losses.cut_off(station)
            return
        self._names.at[name].add(station)
        lost = self._losses.times[station]
        order_id = f"hold-{name}-{station}" + (f"-{lost}" if lost else "")
        if order_id not in self._journal.confirmed:
            self._outbox.add(station, {"id": order_id, "do": "hold", "name": name, "from": source})

    def _deliver(self, name: str, client: int, station: str) -> None:
        """An update is to be merged where its client has moved to."""
        places = self._sent_to.setdefault(name, set())
        if station not in places:
            places.add(station)
            order = {"id": f"deliver-{name}-{station}", "do": "deliver", "name": name, "to": [station]}
            self._outbox.add(naming.device(client), order)


def _stations(scene: Scene, client: int) -> list[str]:
    """Where a client's aggregators are."""
    topology = scene.topology
    hosts = topology.host[np.flatnonzero(topology.cover[:, client])].tolist()
    return list(dict.fromkeys(naming.station(topology.kind, host) for host in hosts))


def _update(dispatch: Dispatch, j: int) -> str:
    return naming.update(int(dispatch.client[j]), int(dispatch.first_step[j]))


def _plain(arrivals: Arrivals) -> dict[str, object]:
    return {
        "client": arrivals.client.tolist(),
        "n_samples": arrivals.n_samples.tolist(),
        "n_reached": arrivals.n_reached.tolist(),
        "staleness": arrivals.staleness.tolist(),
        "total": arrivals.total,
        "steps": [] if arrivals.steps is None else arrivals.steps.tolist(),
    }

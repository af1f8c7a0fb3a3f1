"""What the driver decides, as orders for stations and devices. Every value is named, so that an order can be given before what it
needs is there: whoever carries it out waits for it. Orders that are confirmed by the journal are not given again."""

import weakref
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedloom.deployment import naming
from fedloom.deployment.book import Names
from fedloom.deployment.hostile import alteration, altered_at, is_altered
from fedloom.deployment.journal import Journal
from fedloom.deployment.losses import Losses
from fedloom.deployment.orders import Order, Outbox
from fedloom.deployment.recipes import Leaf, Recipe, leaves
from fedloom.deployment.recorded import in_lockstep
from fedloom.deployment.waves import Waves
from fedloom.methods import Method
from fedloom.mixing import Arrivals, ByRows
from fedloom.protocol.messages import Part
from fedloom.simulator.altering import Altered
from fedloom.simulator.book import Dispatch, Model
from fedloom.simulator.clock import Delivered
from fedloom.simulator.edge_merge import same
from fedloom.simulator.held import Errand
from fedloom.simulator.moments import Moved
from fedloom.simulator.scene import Scene
from fedloom.simulator.sending import FETCH, Arrived, Rounded, message_of
from fedloom.training.state import Layout, Slowed


class _CodedReport(NamedTuple):
    """Who sends it, how it is written, and what it is made of, which is needed until the station knows that it is there."""

    station: str
    code: Order
    parts: list[Model]


class Ordering:
    """job: by update, the client and ticket of its order, until it is there. late: updates that are waited for though their
    rounds are over. features_from: the model that clients began with when they trained for a feature last. layout: of the states
    of a client rule, if there is one. merges: where aggregators are audited, how each model was to be made."""

    def __init__(
        self,
        method: Method,
        journal: Journal,
        names: Names,
        outbox: Outbox,
        losses: Losses,
        layout: Layout | None = None,
    ) -> None:
        self._method, self._journal, self._names, self._outbox = method, journal, names, outbox
        self._losses, self._layout = losses, layout
        self.waves = Waves(lockstep=in_lockstep(method))
        self.job: dict[str, tuple[int, int]] = {}
        self.late: set[str] = set()
        self.features_from: str | None = None
        self._sent_to: dict[str, set[str]] = {}  # by update: stations that have it, or will
        self._reports: dict[str, _CodedReport] = {}  # by what arrives of it
        self.merges: weakref.WeakKeyDictionary[Model, Order] = weakref.WeakKeyDictionary()
        self._delivered = {
            pair
            for _, what in journal.happened
            if isinstance(what, Delivered)
            for pair in zip(what.client, what.ticket)
        }

    def train(self, errand: Errand, j: int, ticket: int, scene: Scene, lasts_s: float | None = None) -> None:
        """The j-th job of an errand: a device begins with its aggregators' models, and sends its update to them. lasts_s: it
        computes for so long, and fetches from all of them; None: as long as it takes, and from one that will do."""
        dispatch = errand.dispatch
        client, start = int(dispatch.client[j]), dispatch.starts[int(dispatch.start[j])]
        name, node, stations = _update(dispatch, j), naming.device(client), _stations(scene, client)
        recipe = self._recipe(start, stations, node)
        paced = {} if lasts_s is None else {"lasts_s": lasts_s, "also": self._from_all(recipe, stations)}
        coded = self._coded(errand, j, stations, node)
        self.waves.note(dispatch, j)
        states = states_of(self._names, dispatch, j)
        sent = _sent(errand, j)
        self._sent_to[sent] = set(stations)
        weakref.finalize(dispatch, self._sent_to.pop, sent, None)
        if (client, ticket) in self._delivered:
            self._names.done(naming.left(name))
            self._names.done(naming.own(name))
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
                "begun": self.tells_start,
                "lasting": keeps_updates(self._method),
                **paced,
                **coded,
                **states,
                **({"altered": True} if is_altered(errand, j) else {}),
                **({} if self._method.audit is None else {"keep": True}),
            },
        )

    def merge(self, part: Part, scene: Scene, model: Model) -> None:
        """A station makes a new model in place of the one before."""
        station = naming.station(scene.topology.kind, int(scene.topology.host[part.aggregator]))
        whole = model.models[0][0] if isinstance(model.rule, Moved) else model  # and then an optimiser takes a step
        made = whole.models[1][0] if isinstance(whole.rule, Slowed) else whole  # and then shared states move by a share
        noisy = part.weights is not None and made.rule not in (None, same)  # noise is added by the cloud, who hears it
        target = made.models[0][0] if noisy else made
        jobs = [(f.load, int(j)) for f in part.flights for j in f.at]
        order: Order = {"do": "merge"}
        if part.weights is None:
            order["arrivals"] = _plain(part.arrivals)
            order["old"] = self._recipe(target.models[0][0], [station], station)
            order["updates"] = [self._update_and_start(errand, j, station) for errand, j in jobs]
            order |= self._scores(target, station, scene.topology.cover.shape[1])
        else:
            order["models"] = [[self._recipe(m, [station], station), w] for m, w in target.models]
            order["waves"] = self.waves.of(target)
        if isinstance(whole.rule, Slowed) and not noisy:
            old = self._recipe(whole.models[0][0], [station], station)
            order["slow"] = {"old": old, "share": whole.rule.share, "places": whole.rule.places}
            self.waves.same(whole, made)
            target = whole
        if isinstance(model.rule, Moved) and not noisy:
            order["step"] = self._step(model, model.rule, station)
            self.waves.same(model, target)
            target = model
        if self._layout is not None:
            order["n_params"] = self._layout.n_values
        name = self._names.give(target, station, merge=True)
        order |= {"id": f"merge-{name}", "name": name}
        if self._method.audit is not None:
            self.merges[target] = order
        if order["id"] in self._journal.confirmed:
            self.merged(order)
            return
        for errand, j in jobs:
            self._deliver(_sent(errand, j), int(errand.dispatch.client[j]), station)
        self._outbox.add(station, order)
        if not self._method.edge.at_once:  # a round is over: who is still at work for it is late
            orders = (o for orders in self._outbox.waiting().values() for o in orders)
            self.late.update(o["name"] for o in orders if o["do"] == "train" and station in o["to"])

    def merged(self, order: Order) -> None:
        """A station has made a model, and what it remembers of clients is on its disk."""
        self._names.done(order["name"])
        if "scores" in order:
            self._names.done(order["scores"]["to"])
        for name in order["step"]["to"] if "step" in order else ():
            self._names.done(name)

    def _step(self, moved: Model, rule: Moved, station: str) -> Order:
        """A step of a server optimiser: as what its station has the moments before it (None: none yet), and keeps those after it;
        what it does not move, from .. to."""
        _, (old, _), *before = moved.models
        names = [self._names.known(model) for model, _ in before]
        there = all(name is not None and station in self._names.at.get(name, ()) for name in names)
        kept = [self._names.keep(model, station) for model in rule.after]
        fixed = [] if rule.trainable is None else _runs(~rule.trainable)
        old_recipe = self._recipe(old, [station], station)
        return {"old": old_recipe, "from": names if there else None, "to": kept, "fixed": fixed}

    def _scores(self, merged: Model, station: str, n_clients: int) -> Order:
        """Where a merge remembers: as what its station has the scores of clients (None: none yet), and keeps those after it."""
        rule = self._method.merge_edge
        if not isinstance(rule, ByRows) or rule.remember is None:
            return {}
        after = merged.models[-1][0]
        before = self._names.known(after.models[-1][0])
        there = before is not None and station in self._names.at.get(before, ())
        kept = self._names.keep(after, station)
        return {"scores": {"from": before if there else None, "to": kept, "n": n_clients}}

    def report(self, models: Sequence[Model], stations: Sequence[str]) -> set[str]:
        """Stations send what the cloud has not of these models; their names."""
        wanted: set[str] = set()
        for model, station in zip(models, stations):
            self._alter(model)
            if self._names.known(model) is None and isinstance(model.rule, Arrived):
                self._code_report(model, station)
            if not self._names.missing(model):
                self.reported(str(self._names.known(model)))
            for name in self._names.missing(model):
                wanted.add(name)
                report = self._reports.get(name)
                nodes = sorted(self._names.at[name]) if report is None else [report.station]
                for node in nodes[:1]:
                    if node != naming.CLOUD:
                        coded = {} if report is None else {"code": report.code}
                        self._outbox.add(node, {"id": f"report-{name}", "do": "report", "name": name, **coded})
        return wanted

    def reported(self, name: str) -> None:
        """A model that a station has sent is here, and what it keeps of the message is on its disk."""
        report = self._reports.pop(name, None)
        if report is not None and report.code["keep"] is not None:
            self._names.done(report.code["keep"])

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
        self._reports = {name: report for name, report in self._reports.items() if report.station != station}
        for places in self._sent_to.values():
            places.discard(station)

    def _recipe(self, model: Model, stations: Sequence[str], by: str) -> Recipe:
        """How a model is made by a node, from what the first of the stations that has it gives; if none has, the first is told to
        fetch it."""
        self._alter(model)
        name = self._names.known(model)
        if name is None and model.jobs and not model.models:
            ((dispatch, at, _),) = model.jobs
            return self._brought(_update(dispatch, int(at[0])), int(dispatch.client[at[0]]), by)
        if name is None and not model.settled:
            match model.rule:
                case None:
                    return {"mix": [[self._recipe(part, stations, by), weight] for part, weight in model.models]}
                case Altered(
                    update=(_, client, first)
                ):  # a device that sends something else has that in the place of its update
                    return self._brought(naming.update(client, first), client, by)
                case Arrived(message):
                    (result, _), (reference, _), *_ = model.models
                    up = {"n": naming.message(_of_job(result)), "at": by}
                    return {"up": up, "ref": self._recipe(reference, stations, by), "key": message.key}
                case Rounded(kind, _, key) if kind == FETCH:
                    return {**self._held(model.models[0][0], stations), "key": key}
                case rule if not isinstance(rule, Rounded):
                    return {"between": [self._recipe(part, stations, by) for part, _ in model.models]}
        return self._held(model, stations)

    def _brought(self, update: str, client: int, by: str) -> Recipe:
        """An update of a client, which a node has or is brought."""
        if by != naming.device(client):
            self._deliver(update, client, by)
        return {"n": update, "at": by}

    def _held(self, model: Model, stations: Sequence[str]) -> Recipe:
        """A model that has a name, from the first of the stations that has it; if none has, the first is told to fetch it."""
        self._alter(model)
        name = self._names.of(model)
        has = [s for s in stations if s in self._names.at[name]]
        if not has:
            self._hold(name, stations[0])
        return {"n": name, "at": (has or stations)[0]}

    def _alter(self, model: Model) -> None:
        """A hostile station makes what it sends in the place of its model, if this is such and is not ordered yet."""
        if self._names.known(model) is not None or (station := altered_at(model)) is None:
            return
        assert isinstance(model.rule, Altered)
        (of, _), (before, _) = model.models
        order: Order = {"do": "alter", **alteration(model.rule)}
        order |= {"of": self._recipe(of, [station], station), "before": self._recipe(before, [station], station)}
        self.waves.same(model, model)
        name = self._names.give(model, station, merge=True)
        order |= {"id": f"alter-{name}", "name": name}
        if order["id"] in self._journal.confirmed:
            self._names.done(name)
        else:
            self._outbox.add(station, order)

    @property
    def tells_start(self) -> bool:
        """Devices tell what they began with: where merges go by it, and stations cannot make it of what they sent."""
        method = self._method
        return isinstance(method.merge_edge, ByRows) and not (method.coding.codes_up and method.start.share is None)

    def _update_and_start(self, errand: Errand, j: int, station: str) -> tuple[Recipe, Recipe]:
        """What a station has of a job, and what its client began with."""
        dispatch, name = errand.dispatch, _update(errand.dispatch, j)
        update = {"n": name, "at": station}
        if _is_coded(errand, j):
            update = self._recipe(errand.result(j), [station], station)
        if self.tells_start:
            return update, {"n": naming.begun(name), "at": station}
        return update, self._recipe(dispatch.starts[int(dispatch.start[j])], [station], station)

    def _coded(self, errand: Errand, j: int, stations: Sequence[str], node: str) -> Order:
        """How a device writes its update: the key of the message, the model that it tells the difference to, what is added
        of the last message, and what is kept of this one."""
        if not _is_coded(errand, j):
            return {}
        left = message_of(arrived := errand.result(j)).left
        kept = None if left is None else self._names.keep(left, node, naming.left(_update(errand.dispatch, j)))
        return {"code": self._code(arrived, kept, stations, node)}

    def _code_report(self, arrived: Model, station: str) -> None:
        """The same of a station; the cloud makes of its message what arrives."""
        name, left = self._names.give(arrived, naming.CLOUD, merge=True), message_of(arrived).left
        kept = None if left is None else self._names.keep(left, station)
        code = self._code(arrived, kept, [station], station)
        code["of"] = self._recipe(arrived.models[0][0], [station], station)
        self._reports[name] = _CodedReport(station, code, [part for part, _ in arrived.models])

    def _code(self, arrived: Model, kept: str | None, stations: Sequence[str], node: str) -> Order:
        _, (reference, _), *last = arrived.models
        added = [self._names.known(model) for model, _ in last]
        return {
            "key": message_of(arrived).key,
            "ref": self._recipe(reference, stations, node),
            "add": added[0] if added else None,
            "keep": kept,
        }

    def _from_all(self, recipe: Recipe, stations: Sequence[str]) -> list[Leaf]:
        """What else is fetched, and where, so that all is carried that the simulator counts: a client fetches from each of its
        stations, also where one would do because they have the same model, or none because it goes on from what it trained."""
        (name, *_), *_ = found = list(leaves(recipe))
        wanted = name if naming.is_model(name) else self.features_from
        if wanted is None or self._names.model(wanted) is None:
            return []
        others = [station for station in stations if station not in {leaf.at for leaf in found}]
        for station in others:
            if station not in self._names.at[wanted]:
                self._hold(wanted, station)
        key = 0 if self._method.coding.codes_down else None  # as many bytes as any other
        return [Leaf(wanted, station, key) for station in others]

    def _hold(self, name: str, station: str) -> None:
        source = self._names.source(name)
        if source is None:
            self._losses.cut_off(station)
            return
        self._names.at[name].add(station)
        lost = self._losses.times[station]
        order_id = f"hold-{name}-{station}" + (f"-{lost}" if lost else "")
        order: Order = {"id": order_id, "do": "hold", "name": name, "from": source}
        coded = self._names.coded_of(name)
        if coded is not None and source == naming.CLOUD:
            order |= {"of": self._names.of(coded[0]), "key": coded[1]}  # named also if that is not ordered again
        if order_id not in self._journal.confirmed:
            self._outbox.add(station, order)

    def _deliver(self, name: str, client: int, station: str) -> None:
        """An update is to be merged where its client has moved to."""
        places = self._sent_to.setdefault(name, set())
        if station not in places:
            places.add(station)
            names = [name, *([naming.begun(name)] if self.tells_start else [])]
            order = {"id": f"deliver-{name}-{station}", "do": "deliver", "names": names, "to": [station]}
            self._outbox.add(naming.device(client), order)


def keeps_updates(method: Method) -> bool:
    """Whether devices may need what they trained after their stations have it: one that is late follows a client that has moved,
    a client may begin with its own last one, and an audit may ask for it."""
    return not in_lockstep(method) or method.start.share is not None or method.audit is not None


def _runs(mask: NDArray[np.bool_]) -> list[list[int]]:
    """Where a mask is true, from .. to."""
    edges = np.flatnonzero(np.diff(mask.astype(np.int8), prepend=0, append=0))
    return edges.reshape(-1, 2).tolist()


def states_of(names: Names, dispatch: Dispatch, j: int) -> Order:
    """The own states of a client: what it begins with (None: nothing yet), and as what it keeps those after the job."""
    if dispatch.own is None:
        return {}
    node = naming.device(int(dispatch.client[j]))
    kept = names.keep(dispatch.kept(j), node, naming.own(_update(dispatch, j)))
    return {"own": {"from": names.known(dispatch.own[j]), "to": kept}}


def _stations(scene: Scene, client: int) -> list[str]:
    """Where a client's aggregators are."""
    topology = scene.topology
    hosts = topology.host[np.flatnonzero(topology.cover[:, client])].tolist()
    return list(dict.fromkeys(naming.station(topology.kind, host) for host in hosts))


def _update(dispatch: Dispatch, j: int) -> str:
    return naming.update(int(dispatch.client[j]), int(dispatch.first_step[j]))


def _of_job(result: Model) -> str:
    """The update that a model is which one job gives, or which is sent in its place."""
    if isinstance(result.rule, Altered):
        _, client, first = result.rule.update
        return naming.update(client, first)
    ((dispatch, at, _),) = result.jobs
    return _update(dispatch, int(at[0]))


def _sent(errand: Errand, j: int) -> str:
    """What a device sends of a job: its update, or the message of it."""
    name = _update(errand.dispatch, j)
    return naming.message(name) if _is_coded(errand, j) else name


def _is_coded(errand: Errand, j: int) -> bool:
    return j in errand.arriving and isinstance(errand.arriving[j].rule, Arrived)


def _plain(arrivals: Arrivals) -> dict[str, object]:
    return {
        "client": arrivals.client.tolist(),
        "n_samples": arrivals.n_samples.tolist(),
        "n_reached": arrivals.n_reached.tolist(),
        "staleness": arrivals.staleness.tolist(),
        "total": arrivals.total,
        "steps": [] if arrivals.steps is None else arrivals.steps.tolist(),
        "occasion": list(map(int, arrivals.occasion)),
    }

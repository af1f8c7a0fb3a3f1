"""Who holds which model: notes in the book for the cloud, the aggregators, their clusters and the devices.

Models are handles here: what a merge gives is written down (fedloom.simulator.book) and computed when somebody looks.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedloom import radio
from fedloom._random import stream
from fedloom.grouping import Topology
from fedloom.methods import Method
from fedloom.mixing import Arrivals, ByRows, CloudByRows, CloudWeights, EdgeWeights, Reports
from fedloom.mixing.noise import merged_noise_std
from fedloom.protocol import Flight
from fedloom.protocol.messages import CloudMerge, Part
from fedloom.simulator.book import Dispatch, Model, Recipe, Row, combine, derive
from fedloom.simulator.moments import CLOUD, Moments
from fedloom.simulator.scene import Scene, Trip
from fedloom.simulator.timeline import Sent
from fedloom.simulator.world import World

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Errand:
    """What a flight carries: the jobs that its clients were sent to do, and their lines of the timeline."""

    dispatch: Dispatch
    sent: Sent | None = None


class Held:
    """model: the cloud's. edges, reported (N,): each aggregator's, and the last it reported. clusters: by cluster. last: by
    client, what it trained last, if anybody asks for it; own: what clients trained for a feature in this cloud round. merged:
    the aggregators' models in the cloud's, with their weights. moments: of server optimisers."""

    def __init__(self, method: Method, world: World, first: Model, keep_last: bool) -> None:
        self._method, self._world = method, world
        self.model = self.first = first
        self.edges: list[Model] = []
        self.reported: list[Model] = []
        self.clusters: dict[int, Model] = {}
        self.last: dict[int, Model] = {}
        self.own: dict[int, Model] = {}
        self.merged: list[tuple[Model, float]] = []
        self.moments = Moments(method, first, world.trainable)
        self._weights = np.zeros(0)
        self._keep_last = keep_last or method.start.share is not None
        self._topology: Topology | None = None

    def live(self, flights: Sequence[Flight]) -> list[Model]:
        """The models that the rest of the run may still refer to, in a fixed order."""
        starts = [m for flight in flights for m in flight.load.dispatch.starts]
        clusters = [self.clusters[c] for c in sorted(self.clusters)]
        last = [self.last[k] for k in sorted(self.last)]
        return [self.model, *self.edges, *self.reported, *starts, *clusters, *last, *self.moments.live]

    def regroup(self, topology: Topology) -> None:
        """New aggregators, with the cloud's model. Without a cloud, those that stay where they are keep theirs."""
        before, n = self._topology, topology.n_aggregators
        if before is None or not np.array_equal(topology.clusters, before.clusters):
            self.clusters = dict.fromkeys(topology.clusters.tolist(), self.model)
        keep = not self._method.cloud.exists and bool(self.edges)
        if not (keep and before is not None and np.array_equal(topology.host, before.host)):
            self.edges = [self.model] * n
            self.moments.forget_aggregators()
        self.reported = [self.model] * n

    def follow(self, topology: Topology) -> None:
        """Clients have changed aggregators, which are the same."""
        self._topology = topology

    @property
    def topology(self) -> Topology:
        assert self._topology is not None
        return self._topology

    @property
    def of_clusters(self) -> list[Model]:
        """(N,) the model of each aggregator's cluster."""
        return [self.clusters[c] for c in self.topology.clusters.tolist()]

    def hand_down(self, aggregators: Ints) -> None:
        """Aggregators get the global model, or that of their cluster, or both in part."""
        share = self._method.cloud.cluster_share
        for n in aggregators.tolist():
            self.edges[n] = self.model
            if share:
                own = self.clusters[int(self.topology.clusters[n])]
                steps = max(self.model.steps, own.steps)
                self.edges[n] = combine([(self.model, 1 - share), (own, share)], [], steps=steps)

    def lose(self, aggregators: Ints) -> None:
        """What aggregators made since they were last handed a model is gone: they have that again; without a cloud, what they
        showed last."""
        if self._method.cloud.exists:
            self.hand_down(aggregators)
            return
        for n in aggregators.tolist():
            self.edges[n] = self.reported[n]

    def different(self, aggregators: Ints) -> Ints:
        """One of the aggregators on each host for every model that differs from the others there: what has to be sent."""
        host = self.topology.host
        first = {(int(host[n]), id(self.edges[n])): n for n in aggregators[::-1].tolist()}
        return np.array(sorted(first.values()), dtype=np.int64)

    def practised(self, clients: Ints, dispatch: Dispatch) -> None:
        """What clients trained for a feature."""
        after = dispatch.steps_after()
        self.own = {
            int(k): combine([], [(dispatch, np.array([j]), np.ones(1))], steps=int(after[j]))
            for j, k in enumerate(clients)
        }

    def starts(self, clients: Ints, scene: Scene, trip: Trip, from_own: bool) -> tuple[list[Model], Ints]:
        """Where clients start: from their own models, or from their aggregators'; those with the same mixture share one."""
        if from_own:
            return [self.own[int(k)] for k in clients], np.arange(len(clients))
        starts = []
        for kind in trip.kinds.tolist():
            parts = [(self.edges[n], weight) for n, weight in scene.mixtures[kind]]
            starts.append(combine(parts, [], steps=max(m.steps for m, _ in parts)))
        if self._method.start.share is None:
            return starts, trip.start
        return [self._between(int(k), starts[j]) for k, j in zip(clients, trip.start)], np.arange(len(clients))

    def sent(self, clients: Ints, dispatch: Dispatch) -> None:
        """Clients go to train."""
        if self._keep_last:
            self.last |= {int(k): dispatch.result(j) for j, k in enumerate(clients)}

    def withdraw(self, clients: Sequence[int]) -> None:
        """What clients were sent to train is not waited for: perhaps they never did."""
        for k in clients:
            self.last.pop(k, None)

    def merge_edge(self, part: Part, scene: Scene) -> None:
        """The new model of an aggregator."""
        n, flights, old = part.aggregator, part.flights, self.edges[part.aggregator]
        after = max(f.load.dispatch.most_steps_after(f.at) for f in flights)
        steps = max(old.steps, after)
        if part.weights is None:
            self.edges[n] = self.moments.stepped(n, old, self._by_rows(old, part, steps))
            return
        merged = _combined(old, flights, part.weights, steps)
        if scene.noise_std is not None and self.topology.kind == "cloud":
            client = part.arrivals.client
            when = np.concatenate([_occasion(f) for f in flights])
            merged = self._noisy(merged, part.weights.model * scene.noise_std[client], client, when)
        self.edges[n] = self.moments.stepped(n, old, merged)

    def report(self, n: int, scene: Scene, version: int) -> None:
        """The model of aggregator n reaches the cloud: with noise, if a head sends it over a noisy link."""
        model = self.edges[n]
        if scene.noise_std is not None and self.topology.kind == "head" and self._method.cloud.exists:
            head = self.topology.host[[n]]
            model = self._noisy(model, scene.noise_std[[n]], head, np.array([[version, 0]]))
        self.reported[n] = model

    def merge_cloud(self, action: CloudMerge) -> None:
        """The new model of the cloud, and of clusters."""
        merged = self._merged_at_cloud(action.reports, action.weights, self.reported)
        edge = action.weights.edge
        self.merged = [(m, w) for m, w in zip(self.reported, edge.tolist()) if w]
        self._weights = edge
        self.clusters = self.clusters_of(self.reported, edge, self.edges)
        self.model = self.moments.stepped(CLOUD, self.model, merged)

    def at_cloud(self, reports: Reports, weights: CloudWeights, models: list[Model]) -> Model:
        """What the cloud would make of the aggregators' models (N,)."""
        return self.moments.would(CLOUD, self.model, self._merged_at_cloud(reports, weights, models))

    def _merged_at_cloud(self, reports: Reports, weights: CloudWeights, models: list[Model]) -> Model:
        parts = [(self.model, weights.own), *zip(models, weights.edge.tolist())]
        steps = max(m.steps for m, w in parts if w)
        rule = self._method.merge_cloud
        if not isinstance(rule, CloudByRows):
            return combine(parts, [], steps=steps)

        def merge(rows: list[Row]) -> NDArray[np.floating]:
            return rule.rule(reports, rows[0], np.stack(rows[1:]))

        return derive([self.model, *models], merge, steps)

    def clusters_of(self, models: list[Model], weights: Floats, held: list[Model]) -> dict[int, Model]:
        """The model of each cluster: the mean of its aggregators' models (N,) by their weights (N,) at the cloud.

        Of a cluster that has nothing to say (weight 0) it is the one handed down to it, which all its aggregators still
        hold (N,); with a cloud that does not wait, the one it had: it may just not be its turn.
        """
        clusters, found = self.topology.clusters, {}
        for c in np.unique(clusters).tolist():
            mine = np.flatnonzero(clusters == c)
            heard = mine[weights[mine] != 0]
            if len(heard):
                share = weights[heard] / weights[heard].sum()
                parts = [(models[n], float(w)) for n, w in zip(heard, share)]
                found[c] = combine(parts, [], steps=max(m.steps for m, _ in parts))
            else:
                found[c] = held[mine[0]] if self._method.cloud.waits else self.clusters[c]
        return found

    def merged_noise(self, scene: Scene) -> float:
        """Standard deviation of the noise in the cloud's last merge of models that came over noisy links."""
        std, topology = scene.noise_std, scene.topology
        if std is None:
            return 0.0
        if topology.kind == "head":
            return merged_noise_std(std, self._weights)
        share = self._world.n_samples * topology.cover.any(axis=0)
        return merged_noise_std(std, share / share.sum())

    def _between(self, client: int, edge: Model) -> Model:
        """Between the aggregator's model and what the client trained last, if it did."""
        share_of = self._method.start.share
        if client not in self.last or share_of is None:
            return edge

        def between(rows: list[Row]) -> Floats:
            share = share_of(rows[0], rows[1])
            aggregators = rows[0].astype(np.float64)
            return aggregators if share == 1.0 else share * aggregators + (1 - share) * rows[1]

        return derive([edge, self.last[client]], between, edge.steps)

    def _by_rows(self, old: Model, part: Part, steps: int) -> Model:
        """A merge that is a function of the models: it is done when they are computed."""
        rule, arrivals = self._method.merge_edge, part.arrivals
        assert isinstance(rule, ByRows)
        jobs = [(f.load.dispatch, int(j)) for f in part.flights for j in f.at]
        results = [dispatch.result(j) for dispatch, j in jobs]
        starts = [dispatch.starts[dispatch.start[j]] for dispatch, j in jobs]
        return derive([old, *results, *starts], merge_by_rows(rule, arrivals, len(jobs)), steps)

    def _noisy(self, model: Model, std: Floats, device: Ints, when: Ints) -> Model:
        """The model with the noise that each of m devices adds to what is trained: of standard deviation std (m,), drawn by
        device (m,) and occasion `when` (m, 2) when the model is computed."""
        seed, trainable = self._world.seed, self._world.trainable

        def add(rows: list[Row]) -> NDArray[np.floating]:
            row: NDArray[np.floating] = rows[0]
            where = np.ones(len(row), dtype=np.bool_) if trainable is None else trainable
            for s, k, (number, times) in zip(std.tolist(), device.tolist(), when.tolist()):
                row = radio.noisy(row, s, where, stream(seed, "uplink noise", k, number, times))
            return row

        return derive([model], add, model.steps) if std.any() else model


def _combined(old: Model, flights: Sequence[Flight], weights: EdgeWeights, steps: int) -> Model:
    """own * old + the updates by their weights + what they started from by theirs."""
    models = [(old, weights.own)]
    if weights.start is not None:
        for flight, values in zip(flights, _by_flight(weights.start, flights)):
            dispatch = flight.load.dispatch
            sums = np.bincount(dispatch.start[flight.at], weights=values, minlength=len(dispatch.starts))
            models += list(zip(dispatch.starts, sums.tolist()))
    jobs = [(f.load.dispatch, f.at, w) for f, w in zip(flights, _by_flight(weights.model, flights))]
    return combine(models, jobs, steps)


def _by_flight(values: Floats, flights: Sequence[Flight]) -> Sequence[Floats]:
    """Values of all updates, one after the other, cut by flight."""
    return [values] if len(flights) == 1 else np.split(values, np.cumsum([len(f) for f in flights])[:-1])


def merge_by_rows(rule: ByRows, arrivals: Arrivals, n_jobs: int) -> Recipe:
    """The recipe of a merge of the old model, n_jobs updates and what they started from."""

    def merge(rows: list[Row]) -> NDArray[np.floating]:
        return rule.rule(arrivals, rows[0], np.stack(rows[1 : 1 + n_jobs]), np.stack(rows[1 + n_jobs :]))

    return merge


def _occasion(flight: Flight) -> Ints:
    """(m, 2) the edge round each was sent in, and how often it had been sent before in that round."""
    sent: Sent = flight.load.sent
    times = sent.times[flight.at]
    return np.column_stack([np.full(len(times), sent.edge_round), times])

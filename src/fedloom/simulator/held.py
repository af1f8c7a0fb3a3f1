"""Who holds which model: notes in the book for the cloud, the aggregators, their clusters and the devices.

Models are handles here: what a merge gives is written down (fedloom.simulator.book) and computed when somebody looks.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from fedloom.grouping import Topology
from fedloom.methods import Method
from fedloom.mixing import ByRows, CloudByRows, CloudWeights, Reports
from fedloom.mixing.audit import Sketch
from fedloom.mixing.noise import merged_noise_std
from fedloom.protocol import Flight
from fedloom.protocol.messages import CloudMerge, Part
from fedloom.simulator import standing
from fedloom.simulator.altering import TO_MEMBERS, Altering, note_sick
from fedloom.simulator.book import Dispatch, Model, Recipe, Row, combine, derive
from fedloom.simulator.cloud_merge import Told, judged, left_out_of
from fedloom.simulator.cloud_merge import merged as merged_at_cloud
from fedloom.simulator.edge_merge import by_rows, by_weights, weights_now
from fedloom.simulator.link_noise import noisy, occasion
from fedloom.simulator.moments import CLOUD, Moments
from fedloom.simulator.outages import Fate
from fedloom.simulator.roots import Roots
from fedloom.simulator.scene import Scene, Trip
from fedloom.simulator.sending import FETCH, HAND_DOWN, REPORT, UPLOAD, Sending
from fedloom.simulator.sick import NOT_FINITE, Sick, Update
from fedloom.simulator.spending import Spending
from fedloom.simulator.states import States
from fedloom.simulator.timeline import Sent
from fedloom.simulator.trails import Claim, Trails
from fedloom.simulator.world import World

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Errand:
    """What a flight carries: the jobs that its clients were sent to do, and their lines of the timeline. arriving: by job, what
    reaches an aggregator, where that is not what was trained. fate: what becomes of them, where devices fail."""

    dispatch: Dispatch
    sent: Sent | None = None
    arriving: Mapping[int, Model] = field(default_factory=dict)
    fate: Fate | None = None

    def result(self, position: int) -> Model:
        """What reaches an aggregator of one of the jobs."""
        return self.arriving[position] if position in self.arriving else self.dispatch.result(position)


class Held:
    """model: the cloud's. edges, reported (N,): each aggregator's, and the last it reported. clusters: by cluster. last: by
    client, what it trained last, if anybody asks for it; own: what clients trained for a feature in this cloud round. merged:
    the aggregators' models in the cloud's, with their weights. moments: of server optimisers. standing: what is remembered of
    senders. sending: what arrives of models that are coded. states: of a client rule. spending: what clients have given away.
    sick: updates that are left out, if any may be. altering: what hostile participants send. handed: by aggregator, what the
    cloud sent it, if the cloud has to remember. trails: what aggregators did, for those who check them."""

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
        self.standing = standing.Standing(max(len(world.n_samples), world.fleet.n_cells))
        self.sending = Sending(method.coding, world.seed, world.coded)
        self.sick = Sick() if world.drop_sick else None
        self.states = States(world.layout, self.sick)
        self.spending = Spending(method, len(world.n_samples))
        self.altering = Altering(world, self.sick)
        self.roots = Roots(world, self.sick)
        self.trails = Trails(keeps=isinstance(method.audit, Sketch))
        self.handed: dict[int, Model] = {}
        self._posted: dict[int, tuple[Model, Model]] = {}  # by aggregator, a report under way, and what arrives of it
        self._told: dict[int, Update] = {}  # by aggregator, its last report
        self._out: dict[
            int, tuple[Model, Model, Update]
        ] = {}  # by aggregator: its model, what it tells of it, and as what
        self._given: dict[int, Model] = {}  # by aggregator, what it had before it merged
        self.cloud_round = 0
        self._n_sent: dict[tuple[str, int], int] = defaultdict(int)
        self._weights = np.zeros(0)
        self._keep_last = keep_last or method.start.share is not None
        self._topology: Topology | None = None

    def live(self, flights: Sequence[Flight]) -> list[Model]:
        """The models that the rest of the run may still refer to, in a fixed order."""
        starts = [m for flight in flights for m in flight.load.dispatch.starts]
        clusters = [self.clusters[c] for c in sorted(self.clusters)]
        last = [self.last[k] for k in sorted(self.last)]
        arriving = [f.load.arriving[j] for f in flights for j in f.at.tolist() if j in f.load.arriving]
        owned = [m for f in flights for m in f.load.dispatch.own or []]
        reports = [self._posted[n][1] for n in sorted(self._posted)]
        if self.altering.reports:
            reports += [self._out[n][1] for n in sorted(self._out)] + [self._given[n] for n in sorted(self._given)]
        coded = [*arriving, *(self.handed[n] for n in sorted(self.handed)), *self.kept, *reports, *self.trails.live]
        others = [*self.moments.live, *self.standing.live, *coded, *owned, *self.states.live]
        return [self.model, *self.edges, *self.reported, *starts, *clusters, *last, *others]

    @property
    def kept(self) -> list[Model]:
        """What senders keep: of models that are coded, and to send again."""
        return [*self.sending.residuals, *self.altering.kept]

    def regroup(self, topology: Topology) -> None:
        """New aggregators, with the cloud's model. Without a cloud, those that stay where they are keep theirs."""
        before, n = self._topology, topology.n_aggregators
        if before is None or not np.array_equal(topology.clusters, before.clusters):
            self.clusters = dict.fromkeys(topology.clusters.tolist(), self.model)
        keep = not self._method.cloud.exists and bool(self.edges)
        if not (keep and before is not None and np.array_equal(topology.host, before.host)):
            self.edges = [self.model] * n
            self.moments.forget_aggregators()
            self.sending.forget_aggregators()
            self.handed, self._posted = {}, {}
            self._given, self._out = dict(enumerate(self.edges)), {}
            self.trails.forget()
        self.reported, self._told = [self.model] * n, {}

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
        """Aggregators get the global model, or that of their cluster, or both in part; what is the same for several on a host is
        sent once."""
        share, over_backhaul = self._method.cloud.cluster_share, self._over_backhaul
        sent: dict[tuple[int, Model], Model] = {}
        for n in aggregators.tolist():
            model, host = self.model, int(self.topology.host[n])
            if share:
                own = self.clusters[int(self.topology.clusters[n])]
                steps = max(self.model.steps, own.steps)
                model = combine([(self.model, 1 - share), (own, share)], [], steps=steps)
            if over_backhaul and (host, model) not in sent:
                sent[host, model] = self.sending.down(HAND_DOWN, host, model)
            self.edges[n] = self._given[n] = sent.get((host, model), model)
            if over_backhaul and self.sending.coding.codes_reports:
                self.handed[n] = self.edges[n]
            if over_backhaul and self._method.audit is not None:
                self.trails.begin(n, self.edges[n])

    @property
    def _over_backhaul(self) -> bool:
        """Models go between aggregators and the cloud: not if it is the aggregator itself."""
        return self._method.cloud.exists and self.topology.kind != "cloud"

    def lose(self, aggregators: Ints) -> None:
        """What aggregators made since they were last handed a model is gone: they have that again; without a cloud, what they
        showed last, and of what they sent nothing is left over."""
        for n in aggregators.tolist():
            self.sending.forget(REPORT, n)
            self._posted.pop(n, None)
            self._out.pop(n, None)
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
        self.own = {int(k): dispatch.result(j) for j, k in enumerate(clients)}

    def fetched(self, clients: Ints, scene: Scene, trip: Trip, from_own: bool) -> tuple[list[Model], Ints]:
        """What clients (m,) have of their aggregators' models, and which of these is a client's (m,); those with the same mixture
        share one. from_own: it is what they trained last, which their aggregators know."""
        if from_own:
            return self._trained_last(clients, scene, trip)
        if not (self.sending.coding.codes_down or self.altering.reports or self._method.audit):
            return [mixture(self.edges, scene, kind) for kind in trip.kinds.tolist()], trip.start
        senders = sorted({n for kind in trip.kinds.tolist() for n, _ in scene.mixtures[kind]})
        sent = {n: self._show(n, clients, scene) for n in senders}
        models, which = [mixture(sent, scene, kind) for kind in trip.kinds.tolist()], trip.start.copy()
        for j in np.flatnonzero(~scene.exchange.client_down.carried(clients)).tolist():  # heads have their own models
            models.append(mixture(self.edges, scene, int(trip.kinds[trip.start[j]])))
            which[j] = len(models) - 1
        return models, which

    def _trained_last(self, clients: Ints, scene: Scene, trip: Trip) -> tuple[list[Model], Ints]:
        """What clients (m,) trained for a feature; who was down then has fetched its aggregators' models."""
        own = [self.own[k] for k in clients.tolist() if k in self.own]
        if len(own) == len(clients):
            return own, np.arange(len(clients))
        models, which = self.fetched(clients, scene, trip, from_own=False)
        which = which.copy()
        which[np.isin(clients, list(self.own))] = len(models) + np.arange(len(own))
        return [*models, *own], which

    def starts(self, clients: Ints, fetched: list[Model], which: Ints) -> tuple[list[Model], Ints]:
        """Where clients (m,) start, of the models that they fetched, and which of these is a client's (m,)."""
        if self._method.start.share is None:
            return fetched, which
        return [self._between(int(k), fetched[j]) for k, j in zip(clients, which)], np.arange(len(clients))

    def sent(self, dispatch: Dispatch, scene: Scene, fetched: list[Model], which: Ints) -> dict[int, Model]:
        """Clients go to train, with what they fetched; by job, what will reach the aggregators, if not the result."""
        clients = dispatch.client
        if self._keep_last:
            self.last |= {int(k): dispatch.result(j) for j, k in enumerate(clients)}
        altered = self.altering.updates(dispatch, scene, self.cloud_round)
        if not self.sending.coding.codes_up:
            return altered
        results = [altered.get(j) or dispatch.result(j) for j in range(len(clients))]
        over_air = scene.exchange.client_up.carried(clients)
        if self.sending.coding.private is not None:
            over_air[:] = True  # what a head trains leaves it in its cluster's model
            self.spending.sent(clients)
        return {
            j: self.sending.up(UPLOAD, k, result, fetched[i], self._refused(dispatch.update(j))) if far else result
            for j, (k, result, i, far) in enumerate(zip(clients.tolist(), results, which.tolist(), over_air.tolist()))
        }

    def _refused(self, update: Update) -> Callable[[], None] | None:
        sick = self.sick
        return None if sick is None else lambda: sick.add(update, NOT_FINITE)

    def withdraw(self, clients: Sequence[int]) -> None:
        """What clients were sent to train is not waited for: perhaps they never did, nor sent anything of it."""
        for k in clients:
            self.last.pop(k, None)
            self.sending.forget(UPLOAD, k)
        self.states.withdraw(clients)

    def reject(self, clients: Sequence[int], first_steps: Sequence[int]) -> None:
        """Updates of clients were not finite, and did not come."""
        for k, step in zip(clients, first_steps):
            note_sick(("client", k, step), self.sick)

    def merge_edge(self, part: Part, scene: Scene) -> None:
        """The new model of an aggregator."""
        n, flights, old = part.aggregator, part.flights, self.edges[part.aggregator]
        if self.altering.reports and not self._method.cloud.exists:
            self._given[n] = old
        after = max([f.load.dispatch.most_steps_after(f.at) for f in flights])
        steps = max(old.steps, after)
        self.spending.merged(part.arrivals, part.weights)
        self.trails.merged(part)
        if part.weights is None:
            worked = 0 if part.arrivals.steps is None else int(np.median(part.arrivals.steps))
            reference = self.roots.reference(self._method.merge_edge, old, worked)
            rule, host = self._method.merge_edge, (self.topology.kind, int(self.topology.host[n]))
            before = self.standing.before(host) if isinstance(rule, ByRows) and rule.remember is not None else None
            merged, scores = by_rows(rule, old, part, steps, self.sick, reference, before)
            if scores is not None:
                self.standing.note(host, scores)
            merged = self.states.slowed(old, merged, part.arrivals)
            self.edges[n] = self.moments.stepped(n, old, merged)
            return
        merged = by_weights(self._method.merge_edge, old, part, steps, self.sick)
        if scene.noise_std is not None and self.topology.kind == "cloud":
            client = part.arrivals.client
            when, noise_std = np.concatenate([occasion(f) for f in flights]), scene.noise_std[client]
            counted = weights_now(self._method.merge_edge, part, self.sick)
            merged = noisy(self._world, merged, lambda: counted().model * noise_std, client, when)
        self.edges[n] = self.moments.stepped(n, old, self.states.slowed(old, merged, part.arrivals))

    def post(self, n: int) -> Model:
        """Aggregator n sends its model to the cloud; what arrives of it. One that has nothing new is not sent, and one that is
        under way not again."""
        return self._posting(n, self._telling(n)[0])

    def _posting(self, n: int, model: Model) -> Model:
        """What arrives of what aggregator n tells the cloud."""
        if n not in self.handed or model is self.handed[n]:
            return model
        if n not in self._posted or self._posted[n][0] is not model:
            self._posted[n] = model, self.sending.up(REPORT, n, model, self.handed[n])
        return self._posted[n][1]

    def _telling(self, n: int) -> tuple[Model, Update]:
        """What aggregator n tells the cloud of its model, and as what: the same until it has reported, or has another."""
        if n not in self._out or self._out[n][0] is not self.edges[n]:
            update = self._out[n][2] if n in self._out else self._next(n, "cloud")
            told = self.altering.from_aggregator("cloud", update, self.edges[n], self._given[n], self.cloud_round)
            self._out[n] = self.edges[n], told, update
        return self._out[n][1:]

    def _show(self, n: int, clients: Ints, scene: Scene) -> Model:
        """What those of the clients (m,) get who are members of aggregator n, when it shows them its model."""
        update, model = self._next(n, "members"), self.edges[n]
        shown = self.altering.from_aggregator("members", update, model, self._given[n], self.cloud_round)
        sent = self.sending.down(FETCH, n, shown)
        true = sent if shown is model else model if sent is shown else derive([model], _rule_of(sent), model.steps)
        far = clients[scene.topology.cover[n, clients] & scene.exchange.client_down.carried(clients)]
        self.trails.shown(n, Claim(sent, true, clients=tuple(far.tolist())))
        return sent

    def _next(self, n: int, to: str) -> Update:
        who = self.topology.kind + (TO_MEMBERS if to == "members" else ""), int(self.topology.host[n])
        self._n_sent[who] += 1
        return (*who, self._n_sent[who] - 1)

    def report(self, n: int, scene: Scene, version: int) -> None:
        """The model of aggregator n reaches the cloud: as it is coded, and with noise, if a head sends it over a noisy link."""
        told, update = self._telling(n)
        posted = self._posting(n, told)
        self._posted.pop(n, None)
        self._out.pop(n, None)
        model, noise_std = posted, 0.0
        if scene.noise_std is not None and self.topology.kind == "head" and self._method.cloud.exists:
            head = self.topology.host[[n]]
            std = scene.noise_std[[n]]
            model, noise_std = noisy(self._world, model, lambda: std, head, np.array([[version, 0]])), float(std[0])
        self.reported[n] = model
        self._told[n] = update
        true = self.edges[n]
        self.trails.told(
            n, update, Claim(model, posted if told is true else true, noise_std) if noise_std else Claim(told, true)
        )

    def merge_cloud(self, action: CloudMerge) -> None:
        """The new model of the cloud, and of clusters."""
        told = Told([self._told.get(n) for n in range(len(self.reported))], self.sick, self.altering.reports)
        rule, reference = self._method.merge_cloud, self._reference()
        reports, weights = told.believed(rule, action.reports, action.weights)
        scores = self._judged(reports, self.reported, told)
        merged = merged_at_cloud(
            rule, reports, weights, self.model, self.reported, told, reference, scores and scores[1]
        )
        if scores is not None:
            self.standing.note(standing.CLOUD, scores[0])
        edge = weights.edge
        self.merged = [(m, w) for m, w in zip(self.reported, edge.tolist()) if w]
        self._weights = edge
        held = [self._given[n] if lies else self.edges[n] for n, lies in enumerate(told.lies.tolist())]
        self.clusters = self.clusters_of(self.reported, edge, held, told)
        self.model = self.moments.stepped(CLOUD, self.model, merged)

    def at_cloud(self, reports: Reports, weights: CloudWeights, models: list[Model]) -> Model:
        """What the cloud would make of the aggregators' models (N,)."""
        told = Told([None] * len(models), None)
        rule, reference = self._method.merge_cloud, self._reference()
        scores = self._judged(reports, models, told)
        merged = merged_at_cloud(rule, reports, weights, self.model, models, told, reference, scores and scores[1])
        return self.moments.would(CLOUD, self.model, merged)

    def _reference(self) -> Model | None:
        """What trusted data make of the cloud's model in a cloud round; None if its merge has none."""
        rule = self._method.merge_cloud
        if not isinstance(rule, CloudByRows):
            return None
        periods = self._world.periods
        return self.roots.reference(rule, self.model, periods.local_steps * periods.edge_rounds)

    def _judged(self, reports: Reports, models: list[Model], told: Told) -> tuple[Model, Model] | None:
        """What the cloud thinks of hosts with these reports, and of the aggregators (N,); None if it does not remember."""
        rule = self._method.merge_cloud
        if not isinstance(rule, CloudByRows) or rule.remember is None:
            return None
        before = self.standing.before(standing.CLOUD)
        return judged(rule, reports, self.model, models, told, before, self.topology.host)

    def clusters_of(
        self, models: list[Model], weights: Floats, held: list[Model], told: Told | None = None
    ) -> dict[int, Model]:
        """The model of each cluster: the mean of its aggregators' models (N,) by their weights (N,) at the cloud, as it was told.

        Of a cluster that has nothing to say (weight 0) it is the one handed down to it, which all its aggregators still
        hold (N,); with a cloud that does not wait, the one it had: it may just not be its turn.
        """
        clusters, found, waits = self.topology.clusters, {}, self._method.cloud.waits
        if self.topology.cluster is None and (told is None or not told.doubtful):  # each is a cluster, and its own mean
            before = held if waits else self.clusters
            return {n: models[n] if w else before[n] for n, w in enumerate(weights.tolist())}
        for c in np.unique(clusters).tolist():
            mine = np.flatnonzero(clusters == c)
            heard = mine[weights[mine] != 0]
            if len(heard):
                found[c] = _mean(models, weights, heard, held[mine[0]], told)
            else:
                found[c] = held[mine[0]] if waits else self.clusters[c]
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
        return edge if client not in self.last or share_of is None else _between(edge, self.last[client], share_of)


def _mean(models: list[Model], weights: Floats, heard: Ints, before: Model, told: Told | None) -> Model:
    """The mean by weights (N,) of models (N,) that were heard (m,), without those that are sick; of none, what was before."""

    def parts(these: Ints) -> list[tuple[Model, float]]:
        share = weights[these] / weights[these].sum()
        return [(models[n], float(w)) for n, w in zip(these, share)]

    def without(out: NDArray[np.bool_]) -> list[tuple[Model, float]]:
        return parts(heard[~out[heard]]) if not out[heard].all() else [(before, 1.0)]

    made = combine(parts(heard), [], steps=max(models[n].steps for n in heard))
    return made if told is None else left_out_of(made, models, without, told)


def _rule_of(sent: Model) -> Recipe:
    """What is made of a model that is sent down coded."""
    assert sent.rule is not None
    return sent.rule


def _between(edge: Model, last: Model, share_of: Callable[[Row, Row], float]) -> Model:
    """Between two models, as much of the first as its share says."""

    def between(rows: list[Row]) -> Floats:
        share = share_of(rows[0], rows[1])
        aggregators = rows[0].astype(np.float64)
        return aggregators if share == 1.0 else share * aggregators + (1 - share) * rows[1]

    return derive([edge, last], between, edge.steps)


def mixture(models: Mapping[int, Model] | Sequence[Model], scene: Scene, kind: int) -> Model:
    """One of the mixtures of a scene, of the aggregators' models."""
    parts = [(models[n], weight) for n, weight in scene.mixtures[kind]]
    return combine(parts, [], steps=max(m.steps for m, _ in parts))

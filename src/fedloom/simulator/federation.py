"""The one loop: a federation on a virtual clock.

Time is exact and separate from wall time: events are ordered by (time, sequence number). A cloud round is: regroup if the
method asks for it (after collecting the features it wants to see) -> the aggregators fetch the cloud's model -> edge
rounds (clients fetch, train, return; the aggregator merges) -> the aggregators report -> the cloud merges. The method
decides who takes part, how much work there is, when to stop waiting and what counts how much; this loop knows no method by
name. No model's values are looked at, except in features for grouping: models are noted in the book
(fedloom.simulator.book) and computed later, or never in a dry run. Groupings that were decided on features are kept, so
that the clock can be run again without training.

Waiting at an aggregator: for everybody (lockstep), until a deadline (who is late is merged in the round that is open
when the update arrives), or not at all (async: every arrival is merged at once and the client is sent back to work).
Waiting at the cloud: for all aggregators (barrier), not at all (immediate), or there is no cloud (never): aggregators
keep their own models, and a cloud round yields their weighted mean, which nobody holds, to be evaluated. Aggregators that
share clients or a host open and close their rounds together (a pace group); others keep their own clocks within a cloud
round, in which each may have a number of edge rounds of its own.

Clients may move between edge rounds, busy or not: where they are in an edge round is a scene (fedloom.simulator.scene). A
group looks at the scene of its running edge round when it opens it; groups may be in different ones. An update that comes
late is merged, once, by the first group that closes a later round than the one it was sent in and has its client then.
"""

import heapq
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from fedloom import radio
from fedloom._random import normal_of, stream, uniform_of
from fedloom.fleet import Fleet, Snapshot
from fedloom.grouping import Topology, View, one_cloud
from fedloom.methods import Method
from fedloom.methods.method import Allotment
from fedloom.mixing import Arrivals, CloudWeights, EdgeWeights, Reports
from fedloom.mixing.noise import merged_noise_std
from fedloom.pacing import Offer, Pace, Periods, Progress, may_start, next_bound, rounds_in_box
from fedloom.simulator.book import Dispatch, Model, Row, combine, derive, settle, settle_all
from fedloom.simulator.exchange import Way, exchange
from fedloom.simulator.features import NO_MODEL, Features, Layers
from fedloom.simulator.ledger import NOBODY, Ledger
from fedloom.simulator.scene import Scene, make_scene
from fedloom.simulator.timeline import Sent, Timeline
from fedloom.training.batches import steps_per_pass

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

TIE = 1e-9  # seconds: arrivals this close to a deadline are on time
BOX_SLACK = 2e-9  # of a time box: rounds that fill it exactly on paper may be over it by rounding
KEPT_SCENES = 64  # aggregators may be so many edge rounds apart before scenes are made twice


@dataclass(frozen=True, kw_only=True, eq=False)
class World:
    """Everything the clock needs to know of a scenario: K clients with their data sizes, and the training settings.

    Local work is `local_epochs` passes over the client's data if given, else `local_steps` mini-batches. participation:
    share of an aggregator's clients that is sampled in every edge round; clients_per_round: or so many of every host (at the
    cloud: as many as all cells together would). total_steps: if given, the local steps of a client in all: the last edge round
    and the last cloud round are shorter if they must be. model_bits: size of a model on air. lr: learning
    rate at a step of a model's history. trainable (P,): where a model's row holds trained parameters, which noise is added to
    on a noisy link; None: everywhere.
    """

    fleet: Fleet
    n_samples: Ints
    label_counts: Ints
    batch_size: int
    model_bits: float
    seed: int
    drop_last: bool = False
    local_steps: int = 5
    local_epochs: int | None = None
    edge_rounds: int = 5
    participation: float = 1.0
    clients_per_round: int | None = None
    total_steps: int | None = None
    lr: Callable[[int], float] = lambda step: 1.0
    trainable: NDArray[np.bool_] | None = None

    @property
    def unit_steps(self) -> Ints:
        """(K,) steps of one epoch if work is counted in epochs, else 1."""
        return np.ones(len(self.n_samples), dtype=np.int64) if self.local_epochs is None else self.pass_steps

    @property
    def pass_steps(self) -> Ints:
        """(K,) steps of one pass over the client's data."""
        return np.array([steps_per_pass(int(n), self.batch_size, self.drop_last) for n in self.n_samples])

    @property
    def periods(self) -> Periods:
        """Units of local work in an edge round, and edge rounds in a cloud round."""
        units = self.local_steps if self.local_epochs is None else self.local_epochs
        return Periods(local_steps=units, edge_rounds=self.edge_rounds)


@dataclass(frozen=True, kw_only=True, eq=False)
class CloudRound:
    """The state after a cloud merge, or between two (`between`: then cloud_round is the last that is over, and the model what
    the cloud would make of the aggregators' models, which nobody holds). Counts and ledger totals are since the start of the
    run.

    edges: the aggregators' models that were merged, with their weights. reported_models, cluster_models (N,): the last model
    each aggregator reported, and the model of its cluster. device_models: what each device trained last, by device, if that
    is kept. costs: the ledger of this cloud round by aggregator. client_steps (K,): local steps in this cloud round, without
    features. group_rounds: edge rounds of each pace group in this cloud round (barrier), or so far. up_s (K,): seconds a
    client needs to send its model to its aggregators. handovers: times a client changed its home. s_max: the bound on
    staleness, if there is one. noise_std: of the noise that the cloud's merge added to every parameter, 0 without noisy links.
    last: no cloud round follows.
    """

    cloud_round: int
    edge_rounds: int
    time_s: float
    model: Model
    edges: list[tuple[Model, float]]
    reported_models: list[Model]
    cluster_models: list[Model]
    topology: Topology
    snapshot: Snapshot
    client_steps: Ints
    group_rounds: Ints
    up_s: Floats
    n_updates: int
    n_late: int
    handovers: int
    s_max: int | None
    noise_std: float = 0.0
    last: bool = False
    between: bool = False
    device_models: Mapping[int, Model] = field(default_factory=dict)
    costs: Mapping[str, list[str] | NDArray[np.generic]] = field(default_factory=dict)

    @property
    def local_steps(self) -> int:
        return self.model.steps


@dataclass(frozen=True, kw_only=True, eq=False)
class Decision:
    """A grouping that depended on models: which features were asked for, and what came out."""

    asked: tuple[tuple[str, Layers], ...]
    topology: Topology


@dataclass(eq=False)
class _Flight:
    """Clients at work, or whose updates wait to be merged: jobs `positions` (m,) of one dispatch.

    left_at (m,): the group's count of edge rounds (async: of merges) when they were sent, for their staleness. sent: their
    lines of the timeline.
    """

    dispatch: Dispatch
    positions: Ints
    arrives_s: Floats
    left_at: Ints
    sent: Sent | None = None

    @property
    def client(self) -> Ints:
        return self.dispatch.client[self.positions]

    @property
    def occasion(self) -> Ints:
        """(m, 2) the edge round each was sent in, and how often it had been sent before in that round."""
        assert self.sent is not None
        times = self.sent.times[self.positions]
        return np.column_stack([np.full(len(times), self.sent.edge_round), times])

    def split(self, mask: NDArray[np.bool_]) -> tuple["_Flight", "_Flight"]:
        """Those in the mask (m,), and the others."""
        yes, no = (
            _Flight(self.dispatch, self.positions[m], self.arrives_s[m], self.left_at[m], self.sent)
            for m in (mask, ~mask)
        )
        return yes, no


@dataclass(eq=False)
class _Group:
    """Aggregators that open and close together, their clients, and where they are.

    n_rounds, n_merges: edge rounds and merged arrivals since the start of the run (a new group starts at the highest).
    scene, index: of the edge round that is open, or was last.
    """

    aggregators: Ints
    members: Ints
    scene: Scene = field(init=False)
    index: int = 0
    n_rounds: int = 0
    n_merges: int = 0
    merges_before: int = 0  # of n_merges, those before the edge round that is open
    rounds_left: int = 0
    merges_left: int = 0
    local_units: int = 0
    from_own: bool = False  # members start from what they trained for a feature
    report_at_s: float = np.inf  # the end of a time box
    slack_s: float = TIE
    asleep: bool = False  # nobody there: with an immediate cloud it wakes up when somebody comes
    on_time: _Flight | None = None


class Federation:
    """The clock's state. `cloud_rounds` runs it; `ledger` holds what was spent so far.

    decisions: groupings by cloud round that depended on features; scores: accuracies of the cloud's model on samples that no
    client has, by the number of cloud merges, which a bound on staleness goes by; what is given at the start is not made or
    measured again. score measures one. look_every: yield also between cloud rounds, every so many edge rounds; keep_devices: keep
    the last model of every device; keep_timeline: keep what each client did when.
    """

    def __init__(
        self,
        method: Method,
        world: World,
        first: Model,
        features: Features | None = None,
        decisions: Mapping[int, Decision] | None = None,
        score: Callable[[Model], float] | None = None,
        scores: Mapping[int, float] | None = None,
        *,
        look_every: int | None = None,
        keep_devices: bool = False,
        keep_timeline: bool = True,
    ) -> None:
        n_clients = len(world.n_samples)
        self.method, self.world = method, world
        self.decisions: dict[int, Decision] = dict(decisions or {})
        self.scores: dict[int, float] = dict(scores or {})
        self._score = score
        self._features = features
        self._collected: dict[tuple[str, Layers], NDArray[np.floating]] = {}  # in this cloud round
        self._own: _Flight | None = None  # what clients trained for a feature in this cloud round
        self._own_models: dict[int, Model] = {}
        self.ledger = Ledger()
        self.model = self._first = first
        self.time_s = 0.0
        self._events: list[tuple[float, int, str, int]] = []
        self._n_events = 0
        self._groups: list[_Group] = []
        self._edge_models: list[Model] = []
        self._reported_models: list[Model] = []
        self._late: list[_Flight] = []
        self._working: dict[int, _Flight] = {}  # async: by client
        self._busy_until = np.zeros(n_clients)
        self._step_count = np.zeros(n_clients, dtype=np.int64)  # picks each client's mini-batches
        self._last_sent = np.full(
            n_clients, -1
        )  # the edge round in which each client was sent last, and how often before
        self._n_sent = np.zeros(n_clients, dtype=np.int64)
        self._client_steps = np.zeros(n_clients, dtype=np.int64)
        self._unit_steps = world.unit_steps
        self._pass_steps = world.pass_steps
        self._merged_edges: list[tuple[Model, float]] = []
        self._bytes = round(world.model_bits / 8)
        self._reports_due = 0
        self._n_updates = self._n_late = 0
        self._version = 0  # cloud merges so far
        self._snapshot: Snapshot | None = None  # before the first round
        self._cloud_round = 0
        self._topology: Topology  # from the first round on
        self._allotment = Allotment()
        self._ready: dict[int, tuple[float, float]] = {}  # groups whose reports wait: since when, seconds of the upload
        self._scene: Scene
        self._wander = world.fleet.moves == "edge-round"
        self._scenes: dict[int, Scene] = {}  # by running edge round
        self._newest = self._first_index = 0
        self._home: Ints | None = None
        self._handovers = 0
        self._cluster_models: dict[int, Model] = {}
        self._last_models: dict[int, Model] = {}  # by client, if starts depend on them
        self._bound, self._waiting = method.bound, list[int]()
        self._window = (0.0, 0.0)  # when the last adaption of the bound was, and the score then
        self.timeline = Timeline()
        self._look_every, self._keep_timeline = look_every, keep_timeline
        self._keep_last = keep_devices or method.start_row is not None
        self._looks: dict[
            int, dict[int, Model]
        ] = {}  # by edge round of this cloud round: models of the groups that had it
        self._n_before = 0  # edge rounds before this cloud round
        self._n_looked = 0
        self._steps_asked = 0  # of a client, in the cloud rounds that are over
        if world.total_steps is not None and (
            world.local_epochs is not None
            or method.edge != "rounds"
            or method.cloud == "immediate"
            or method.box_s is not None
            or method.allot is not None
        ):
            raise ValueError(
                f"total_steps counts the local steps of clients that all do the same: it needs local_steps, and a method with "
                f"rounds of the scenario's length; {method.name} decides by itself how much is done: use cloud_rounds"
            )

    def cloud_rounds(self, n_rounds: int) -> Iterator[CloudRound]:
        """Yield after every cloud round (immediate: after as many reports as there are pace groups, or times that), and
        between them if asked to. With total_steps the rounds go on until these are done, whatever n_rounds is."""
        g, over = 0, n_rounds == 0
        while not over:
            self._client_steps = np.zeros_like(self._client_steps)
            self._enter(g)
            if self.method.cloud != "immediate" or g == 0:
                counts, self._n_before = self._counts(), max(group.n_rounds for group in self._groups)
                for group in self._groups:
                    group.n_rounds = self._n_before
                self._keep_age(counts)
                for i in range(len(self._groups)):
                    self._fetch(i)
            n_reporting = sum(len(group.members) > 0 or self._may_be_empty(self._topology) for group in self._groups)
            self._reports_due += n_reporting * self._reports_of_each()
            while self._reports_due > 0:
                self.time_s, _, kind, subject = heapq.heappop(self._events)
                self._handlers[kind](self, subject)
                yield from self._seen_between(g)
            self._looks = {}
            if self.method.cloud != "immediate":
                reporting = np.concatenate([group.aggregators for group in self._groups])
                self._merge_at_cloud(np.isin(np.arange(self._topology.n_aggregators), reporting))
                if self.method.drop_at_cloud:
                    self._late = []
            periods, total = self._periods_now, self.world.total_steps
            self._steps_asked += periods.local_steps * periods.edge_rounds
            g += 1
            over = g == n_rounds if total is None else self._steps_asked >= total
            edge_rounds = max(group.n_rounds for group in self._groups)
            clusters = [self._cluster_models[c] for c in self._topology.clusters.tolist()]
            state = self._state(g, edge_rounds, self.model, self._merged_edges, self._reported_models, clusters)
            yield replace(state, last=over, costs=self.ledger.by_aggregator(), noise_std=self._merged_noise())

    def _state(
        self,
        cloud_round: int,
        edge_rounds: int,
        model: Model,
        edges: list[tuple[Model, float]],
        reported: list[Model],
        clusters: list[Model],
    ) -> CloudRound:
        return CloudRound(
            cloud_round=cloud_round,
            edge_rounds=edge_rounds,
            time_s=self.time_s,
            model=model,
            edges=edges,
            reported_models=list(reported),
            cluster_models=clusters,
            topology=self._scene.topology,
            snapshot=self._scene.snapshot,
            client_steps=self._client_steps,
            up_s=self._scene.exchange.client_up.seconds,
            group_rounds=np.array([group.n_rounds for group in self._groups]) - self._n_before,
            n_updates=self._n_updates,
            n_late=self._n_late,
            handovers=self._handovers,
            s_max=self._bound.s_max if self._bound is not None else None,
            device_models=dict(self._last_models),
        )

    def _merged_noise(self) -> float:
        """Standard deviation of the noise in the cloud's last merge of models that came over noisy links."""
        std, topology = self._scene.noise_std, self._scene.topology
        if std is None:
            return 0.0
        if topology.kind == "head":
            return merged_noise_std(std, self._cloud_weights)
        share = self.world.n_samples * topology.cover.any(axis=0)
        return merged_noise_std(std, share / share.sum())

    def _seen_between(self, g: int) -> Iterator[CloudRound]:
        """States between cloud rounds g and g + 1 that are due: every `look_every` edge rounds.

        With a cloud that merges at once: its model, when the groups have had so many edge rounds on average. Else what it would
        make of the aggregators' models after the same number of edge rounds, as soon as the last group has had them (a
        group that has fewer in this cloud round stays at its last); not after the last one, when the cloud merges.
        """
        every = self._look_every
        if every is None:
            return
        if self.method.cloud == "immediate":
            done = sum(group.n_rounds for group in self._groups) // len(self._groups)
            if done >= self._n_looked + every:
                self._n_looked = done - done % every
                clusters = [self._cluster_models[c] for c in self._topology.clusters.tolist()]
                state = self._state(g, done, self.model, self._merged_edges, self._reported_models, clusters)
                yield replace(state, between=True)
            return
        for done in sorted(self._looks):
            waited_for = [group for group in self._groups if group.rounds_left > 0]
            if not waited_for or any(group.n_rounds - self._n_before < done for group in waited_for):
                return
            models = list(self._edge_models)
            for n, model in self._looks.pop(done).items():
                models[n] = model
            reporting = np.concatenate([group.aggregators for group in self._groups])
            reports = self._reports(np.isin(np.arange(len(models)), reporting))
            weights, merged = self._merged_at_cloud(reports, models)
            edges = [(m, w) for m, w in zip(models, weights.edge.tolist()) if w]
            of_cluster = self._clusters_of(models, weights.edge, models)
            clusters = [of_cluster[c] for c in self._topology.clusters.tolist()]
            yield replace(self._state(g, self._n_before + done, merged, edges, models, clusters), between=True)

    def live_models(self) -> list[Model]:
        """The models that the rest of the run may still refer to, in a fixed order."""
        starts = [m for f in self._flights() for m in f.dispatch.starts]
        own = [self._last_models[k] for k in sorted(self._last_models)]
        clusters = [self._cluster_models[c] for c in sorted(self._cluster_models)]
        looks = [models[n] for _, models in sorted(self._looks.items()) for n in sorted(models)]
        return [self.model, *self._edge_models, *self._reported_models, *starts, *clusters, *own, *looks]

    @property
    def steps_done(self) -> int:
        """Local steps of all clients so far, with those for features."""
        return int(self._step_count.sum())

    @property
    def _now(self) -> Snapshot:
        assert self._snapshot is not None
        return self._snapshot

    def _may_be_empty(self, topology: Topology) -> bool:
        """Aggregators without clients take part, as some may come in a later edge round."""
        return self._wander and topology.follow and self.method.cloud != "immediate"

    def _enter(self, g: int) -> None:
        """Take the snapshot of cloud round g; regroup if it is time to; see what the links cost now."""
        world, method, before = self.world, self.method, self._snapshot
        self._cloud_round = g
        self._collected, self._own, self._own_models = {}, None, {}
        index = self._next_index()
        if self._groups and self._wander and method.cloud == "immediate":
            self._wake(range(len(self._groups)), self._advance(index))
            return
        now = self._snapshot = world.fleet.snapshot(g, index)
        due = before is None or method.regroup == "cloud-round" or g == method.warmup_rounds
        if now is before and not due:
            return
        self._step_s = now.step_seconds(world.batch_size, world.n_samples)
        moved = before is None or not (
            np.array_equal(before.home, now.home)
            and np.array_equal(before.in_reach, now.in_reach)
            and np.array_equal(before.active, now.active)
        )
        if due:
            self._regroup(self._decide(g))
        elif moved and self._topology.follow and method.regroup == "once" and not self._wander:
            self._regroup(self._topology.at_home(now.home))
        elif moved and method.regroup == "moved" and not (self._topology.follow and self._wander):
            self._regroup(self._decide(g))
        self._scenes = {}
        counts = self._counts()
        self._first_index = index
        self._scene, self._newest = self._scene_at(index), index
        self._see(self._scene)
        if method.edge == "async":
            self._keep_age(counts)
        for i, group in enumerate(self._groups):
            group.scene, group.members = self._scene, self._scene.members(i)
        for i, group in enumerate(self._groups):
            if group.merges_left > 0:  # clients may have left an open asynchronous round
                self._staff(i)
            self._wake([i], self._scene)

    def _wake(self, groups: Iterable[int], scene: Scene) -> None:
        """Groups that had nobody go on if somebody has come."""
        for i in groups:
            group = self._groups[i]
            if group.asleep and len(scene.members(i)):
                group.asleep, group.scene, group.members = False, scene, scene.members(i)
                if 0 < group.rounds_left < self._periods().edge_rounds:  # it has models that were not reported yet
                    self._schedule(self.time_s, "open", i)
                else:
                    self._fetch(i)

    def _see(self, scene: Scene) -> None:
        """The newest scene: count the clients that have changed their homes."""
        active = scene.snapshot.active
        if self._home is not None:
            self._handovers += int(np.count_nonzero((scene.snapshot.home != self._home) & active))
        self._home = scene.snapshot.home
        self._group_of = scene.group_of

    def _advance(self, index: int) -> Scene:
        """The scene of a running edge round that a group opens. If it is the newest, asynchronous work goes by it at once."""
        scene = self._scene_at(index)
        if index <= self._newest or scene is self._scene:
            return scene
        before = self._counts()
        self._newest, self._scene = index, scene
        self._see(scene)
        if self.method.edge == "async":
            for i, group in enumerate(self._groups):
                group.scene, group.members = scene, scene.members(i)
            self._keep_age(before)
            for i, group in enumerate(self._groups):
                if group.merges_left > 0:
                    self._staff(i)
                    self._close_if_deserted(i)
        if self.method.cloud == "immediate":
            self._wake(range(len(self._groups)), scene)
        return scene

    def _close_if_deserted(self, i: int) -> None:
        """Async: nobody works for group i any more and nobody can be sent; its round ends with what it has."""
        if not self._wander or self._n_working(i):
            return
        self._groups[i].merges_left = 0
        if self.method.cloud == "immediate":
            self._sleep(i)
        else:
            self._end_round(i)

    def _sleep(self, i: int) -> None:
        """Group i has nobody; with an immediate cloud it goes on when somebody comes. Nobody has to wait for it."""
        self._groups[i].asleep = True
        for waiting in list(self._waiting):
            self._restart(waiting)

    def _next_index(self, i: int | None = None) -> int:
        """The running edge round, from 1, that group i (by default: the first) opens next.

        Without a common end of rounds at the cloud, edge rounds of all groups together count, divided by the groups.
        """
        if not self._groups:
            return 1
        if self._wander and self.method.cloud == "immediate":
            return sum(group.n_rounds for group in self._groups) // len(self._groups) + 1
        return 1 + (max(group.n_rounds for group in self._groups) if i is None else self._groups[i].n_rounds)

    def _scene_at(self, index: int) -> Scene:
        """The scene of a running edge round; the same object as long as nothing changes.

        If clients neither follow their homes nor report to the cloud itself, moves count from the next cloud round on.
        """
        if index not in self._scenes:
            stays = self._wander and not self._topology.follow and self._topology.kind != "cloud"
            snapshot = self.world.fleet.snapshot(self._cloud_round, self._first_index if stays else index)
            same = [scene for scene in self._scenes.values() if scene.snapshot is snapshot]
            self._scenes[index] = same[0] if same else self._new_scene(snapshot)
            if len(self._scenes) > KEPT_SCENES:
                del self._scenes[next(iter(self._scenes))]
        return self._scenes[index]

    def _new_scene(self, snapshot: Snapshot) -> Scene:
        base, world = self._topology, self.world
        stays = not (base.follow and self._wander)
        topology = base if stays else base.at_home(snapshot.home)
        groups = [group.aggregators for group in self._groups]
        step_s = snapshot.step_seconds(world.batch_size, world.n_samples)
        scene = make_scene(
            snapshot,
            topology,
            groups,
            self.method.start(topology),
            world.model_bits,
            step_s,
            self._allotment.power_w,
        )
        self._check_links(scene)
        return scene

    def _check_links(self, scene: Scene) -> None:
        g, method = self._cloud_round, self.method
        dead = np.flatnonzero(~np.isfinite(scene.link_s))
        if len(dead) and method.box_s is None:
            raise ValueError(
                f"clients {dead.tolist()[:10]} have no usable link to their aggregator in cloud round {g + 1} (rate 0), "
                f"so {method.name} would wait for ever; repair the links, leave the clients out, or use a time box"
            )
        cloud_s = scene.exchange.cloud_down.seconds + scene.exchange.cloud_up.seconds
        cut_off = [n for group in self._groups for n in group.aggregators.tolist() if not np.isfinite(cloud_s[n])]
        if cut_off and method.cloud != "never":
            raise ValueError(
                f"aggregators {cut_off[:10]} have no usable link to the cloud in cloud round {g + 1} (rate 0), so the "
                f"cloud would wait for ever; repair the links to the cloud"
            )

    def _decide(self, g: int) -> Topology:
        """Ask the method who aggregates with whom; if it wants features first, they are collected on the way."""
        view = View(
            needs=self.method.needs,
            _snapshot=self._now,
            cloud_round=g,
            all_n_samples=self.world.n_samples,
            all_label_counts=self.world.label_counts,
            all_step_s=self._step_s,
            all_work_s=self._unit_steps * self._periods().local_steps * self._step_s,
            model_bits=self.world.model_bits,
            collect=self._collect,
            edge_rounds=self._periods().edge_rounds,
            lr=self.world.lr(self.model.steps),
        )
        if g in self.decisions:
            for kind, layers in self.decisions[g].asked:
                self._pay_for(kind, layers)
            settle_all(self._own_models.values(), None)  # of the run that is gone on with, which had computed them
            topology = self.decisions[g].topology
        else:
            group = one_cloud if g < self.method.warmup_rounds else self.method.group
            topology = group(view, stream(self.world.seed, "grouping", g))
            if self._collected:
                self.decisions[g] = Decision(asked=tuple(self._collected), topology=topology)
        return self._allotted(view, topology)

    def _allotted(self, view: View, topology: Topology) -> Topology:
        """Ask the method what each aggregator is to do, if it wants to say; the topology with what it notes."""
        if self.method.allot is None:
            return topology
        rng = stream(self.world.seed, "allotment", self._cloud_round)
        self._allotment = self.method.allot(replace(view, collect=_no_features), topology, rng)
        self._allotment.check(topology.n_aggregators)
        rounds = self._allotment.edge_rounds
        for together in topology.pace_groups() if rounds is not None else []:
            if rounds is not None and len(set(rounds[together].tolist())) > 1:
                raise ValueError(
                    f"aggregators {together.tolist()} share clients or a host, so their edge rounds run together; they need "
                    f"the same number of them, got {rounds[together].tolist()}"
                )
        return replace(topology, notes={**topology.notes, **self._allotment.notes})

    def _collect(self, kind: str, layers: Layers) -> NDArray[np.floating]:
        """Features (K, d) for grouping; paid for once in a cloud round."""
        if (kind, layers) not in self._collected:
            self._pay_for(kind, layers)
            assert self._features is not None
            self._collected[kind, layers] = self._features.values(kind, layers, self.model, self._own_models)
        return self._collected[kind, layers]

    def _pay_for(self, kind: str, layers: Layers) -> None:
        """All active clients fetch the cloud's model, compute a feature and send it to the cloud, which waits for all."""
        if self._features is None or self.method.cloud != "barrier":
            raise ValueError(
                "features for grouping need cloud='barrier' (the server waits for them) and a federation that was given "
                "a way to compute them; fedloom.Simulation does that"
            )
        clients = np.flatnonzero(self._now.active)
        local_steps = self._unit_steps * self._periods().local_steps
        everyone = Topology(cover=self._now.active[None, :], kind="cloud", host=np.zeros(1, dtype=np.int64))
        bits = self.world.model_bits * self._features.size(kind, layers)
        to_cloud = exchange(self._now, everyone, bits).client_up
        work = self._features.work(kind, local_steps, self._pass_steps)[clients]
        if kind == "update" and self._own is None:
            dispatch = self._dispatch(clients, local_steps[clients], [self.model], np.zeros(len(clients), np.int64))
            self._own = _Flight(
                dispatch, np.arange(len(clients)), np.zeros(len(clients)), np.zeros(len(clients), np.int64)
            )
            after = dispatch.steps_after()
            self._own_models = {
                int(k): combine([], [(dispatch, np.array([j]), np.ones(1))], steps=int(after[j]))
                for j, k in enumerate(clients)
            }
        elif kind == "update":
            work = np.zeros(len(clients))  # trained already, only other layers are sent
        before_j = self.ledger.total_j
        compute_s = work * self._step_s[clients] * self._jitter(clients, f"jitter of {kind}", self._cloud_round)
        finish_s = compute_s + to_cloud.seconds[clients]
        if kind not in NO_MODEL:
            from_cloud = exchange(self._now, everyone, self.world.model_bits).client_down
            from_cloud.book(self.ledger, clients, self._bytes, a_model=False)
            finish_s = finish_s + from_cloud.seconds[clients]
        to_cloud.book(self.ledger, clients, round(bits / 8), a_model=False)
        busy_s = float(compute_s.sum())
        self.ledger.compute(busy_s, busy_s * self._now.compute_power_w)
        nobody = np.array([NOBODY])
        self.ledger.note(
            "computing", "", aggregator=nobody, airtime_s=busy_s, energy_j=busy_s * self._now.compute_power_w
        )
        self.ledger.feature_j += self.ledger.total_j - before_j
        self.time_s += float(finish_s.max()) if self.method.feature_s is None else self.method.feature_s

    def _regroup(self, topology: Topology) -> None:
        """Take over a topology. With an immediate cloud, aggregators keep their models and go on with their rounds."""
        groups = [
            _Group(aggregators=a, members=np.flatnonzero(topology.cover[a].any(axis=0))) for a in topology.pace_groups()
        ]
        if self.method.cloud != "immediate" and not self._may_be_empty(topology):  # else clients may still come
            groups = [group for group in groups if len(group.members)]
        before = self._counts() if self._groups else None
        if self._groups and self.method.cloud == "immediate":
            self._move_between(groups)
        else:
            n = topology.n_aggregators
            for group in groups:
                group.n_rounds = max((old.n_rounds for old in self._groups), default=0)
                group.n_merges = max((old.n_merges for old in self._groups), default=0)
            if not (self._groups and np.array_equal(topology.clusters, self._topology.clusters)):
                self._cluster_models = dict.fromkeys(topology.clusters.tolist(), self.model)
            self._groups = groups
            if not self._keeps_models(topology):
                self._edge_models = [self.model] * n
            self._reported_models = [self.model] * n
            self._fetched = np.full(n, self._version)
            self._n_reports = np.zeros(n, dtype=np.int64)
            self._contributed = np.zeros(topology.cover.shape, dtype=np.bool_)
            self._contributed_last = self._contributed.copy()
        self._topology = topology
        self._group_with = {n: i for i, group in enumerate(self._groups) for n in group.aggregators.tolist()}
        self._group_of = np.full(topology.cover.shape[1], -1)
        for i, group in enumerate(self._groups):
            self._group_of[group.members] = i
        if before is not None:
            self._keep_age(before)

    def _keeps_models(self, topology: Topology) -> bool:
        """Without a cloud, the aggregators that stay where they are keep their models."""
        return (
            self.method.cloud == "never"
            and bool(self._edge_models)
            and np.array_equal(topology.host, self._topology.host)
        )

    def _counts(self) -> Ints:
        """(K,) edge rounds (async: merges) so far at each client's group, 0 for clients without one."""
        counts = [g.n_merges if self.method.edge == "async" else g.n_rounds for g in self._groups]
        return np.asarray(np.array([*counts, 0])[self._group_of])

    def _keep_age(self, before: Ints) -> None:
        """Updates under way keep their age though their groups' counts were `before` (K,) and are others now."""
        shift = self._counts() - before
        for flight in self._flights():
            flight.left_at = flight.left_at + shift[flight.client]

    def _flights(self) -> list[_Flight]:
        return [*self._late, *self._working.values(), *(g.on_time for g in self._groups if g.on_time)]

    def _move_between(self, groups: list[_Group]) -> None:
        """Clients changed groups while rounds are open: their updates are merged where they are now."""
        old, new = ([g.aggregators.tolist() for g in gs] for gs in (self._groups, groups))
        if old != new:
            raise ValueError(
                f"with an immediate cloud the same aggregators must work together all the time: they were {old} and "
                f"would now be {new}; use cloud='barrier'"
            )
        for group, fresh in zip(self._groups, groups):
            group.members = fresh.members
            if group.on_time is not None:
                group.on_time, left = group.on_time.split(np.isin(group.on_time.client, group.members))
                self._late += [left] if len(left.positions) else []

    def _fetch(self, i: int) -> None:
        """The aggregators of group i get their models from the cloud, if there is one, and start their edge rounds."""
        group = self._groups[i]
        start_s = self.time_s
        if self.method.cloud != "never":
            for n in group.aggregators:
                self._edge_models[n] = self._sent_down(n)
                self._fetched[n] = self._version
            start_s += self._over_backhaul(group.scene.exchange.cloud_down, self._different(group.aggregators))
        group.from_own = self._own is not None and self.method.keep_progress
        if self._own is not None and group.from_own:
            self._merge(i, [self._own.split(np.isin(self._own.client, group.members))[0]], 0, count=False)
        periods = self._periods_now = self._periods()
        group.rounds_left, group.local_units = periods.edge_rounds, periods.local_steps
        if self._allotment.edge_rounds is not None:
            group.rounds_left = int(self._allotment.edge_rounds[group.aggregators[0]])
        if self.method.box_s is not None:
            group.report_at_s = start_s + self.method.box_s
            group.slack_s = TIE + BOX_SLACK * self.method.box_s
            full_s = self._unit_steps * group.local_units * group.scene.step_s + group.scene.link_s
            slowest_s = float(full_s[group.members].max(initial=0.0))
            group.rounds_left = rounds_in_box(self.method.box_s, slowest_s) if slowest_s else 0
        if group.rounds_left:
            self._schedule(start_s, "open", i)
        else:
            self._send_report(i)

    def _sent_down(self, n: int) -> Model:
        """What aggregator n gets from the cloud: the global model, or that of its cluster, or both in part."""
        share = self.method.cluster_share
        if not share:
            return self.model
        own = self._cluster_models[int(self._topology.clusters[n])]
        return combine([(self.model, 1 - share), (own, share)], [], steps=max(self.model.steps, own.steps))

    def _different(self, aggregators: Ints) -> Ints:
        """One of the aggregators on each host for every model that differs from the others there: what has to be sent."""
        host = self._topology.host
        first = {(int(host[n]), id(self._edge_models[n])): n for n in aggregators[::-1].tolist()}
        return np.array(sorted(first.values()), dtype=np.int64)

    def _over_backhaul(self, way: Way, aggregators: Ints) -> float:
        """Send the models of these aggregators; returns the seconds: those of one host go one after the other."""
        if not len(aggregators):
            return 0.0
        way.book(self.ledger, aggregators, self._bytes)
        _, host = np.unique(self._topology.host[aggregators], return_inverse=True)
        return float(np.bincount(host, weights=way.seconds[aggregators]).max())

    def _reports_of_each(self) -> int:
        """Reports of an aggregator in a cloud round: one, or as many as make the scenario's edge rounds."""
        if self.method.cloud != "immediate" or self.method.edge_rounds is None:
            return 1
        return max(1, round(self.world.edge_rounds / self.method.edge_rounds))

    def _periods(self) -> Periods:
        """The periods of the cloud round that begins now: the scenario's, or what the method makes of the progress; no more
        edge rounds than total_steps leaves."""
        if self.method.periods is None:
            own = self.method.edge_rounds
            periods = self.world.periods if own is None else replace(self.world.periods, edge_rounds=own)
        else:
            step = self.model.steps
            periods = self.method.periods(Progress(step=step, lr=self.world.lr(step), first_lr=self.world.lr(0)))
        if self.world.total_steps is None:
            return periods
        left = max(1, self.world.total_steps - self._steps_asked)
        return replace(periods, edge_rounds=min(periods.edge_rounds, -(-left // periods.local_steps)))

    def _units(self, group: _Group) -> int:
        """Local work of the edge round that a group opens: fewer steps in the very last, if total_steps says so."""
        if self.world.total_steps is None:
            return group.local_units
        done = self._steps_asked + (group.n_rounds - self._n_before) * group.local_units
        return max(1, min(group.local_units, self.world.total_steps - done))

    def _open(self, i: int) -> None:
        """Start an edge round of group i: send idle clients to work, and decide when the round closes."""
        group = self._groups[i]
        index = self._next_index(i)
        scene = self._advance(index)
        group.scene, group.index = self._scene if self.method.edge == "async" else scene, index - 1
        group.members = group.scene.members(i)
        if self.method.edge == "async":
            group.merges_left, group.merges_before = self._n_wanted(group), group.n_merges
            self._staff(i)
            self._close_if_deserted(i)
            return
        sampled = self._sample(i, self._n_wanted(group))
        if len(sampled):
            close_s = self.time_s + self._send_to_work(i, sampled, group.index)
        elif len(group.members):  # all are busy: close when the first of them is not
            close_s = max(self.time_s, min(float(self._busy_until[group.members].min()), group.report_at_s))
        elif self._may_be_empty(self._topology):
            close_s = self.time_s
        else:
            self._sleep(i)
            return
        self._schedule(close_s, "close", i)

    def _staff(self, i: int) -> None:
        """Async: take in what waits for group i, and send as many clients (or squads) to work as merges are missing."""
        group = self._groups[i]
        self._release(i)
        for crew in self._crews(i, group.merges_left - self._n_working(i)):
            self._send_to_work(i, crew, group.n_merges)

    def _n_working(self, i: int) -> int:
        """Async: clients at work that are in group i now; of squads, those with a client there."""
        return sum(bool((self._group_of[flight.client] == i).any()) for flight in self._working.values())

    def _crews(self, i: int, wanted: int) -> list[Ints]:
        """Async: at most `wanted` idle clients of group i to send out, or whole squads of them."""
        squad = self._topology.squad
        if squad is None:
            sampled = self._sample(i, wanted)
            return [sampled] if len(sampled) else []
        members = self._groups[i].members
        busy = self._busy_until[members] > self.time_s + TIE
        crews = []
        for number in np.setdiff1d(squad[members], squad[members[busy]])[: max(wanted, 0)]:
            idle = members[squad[members] == number]
            crews.append(self._drawn(i, idle, self._share(len(idle))))
        return crews

    def _n_wanted(self, group: _Group) -> int:
        """Clients that take part in an edge round of a group; squads, if there are some."""
        if self.method.edge == "async" and self._topology.squad is not None:
            return max(1, len(np.unique(self._topology.squad[group.members])))
        topology, most = self._topology, self.world.clients_per_round
        if most is not None and topology.kind == "cloud":
            return max(1, most * group.scene.snapshot.n_cells // len(self._groups))
        return self._share(len(group.members), len(np.unique(topology.host[group.aggregators])))

    def _share(self, n_clients: int, n_hosts: int = 1) -> int:
        """How many of so many clients are sampled."""
        if self.world.clients_per_round is not None:
            return self.world.clients_per_round * n_hosts
        return max(1, round(self.world.participation * n_clients))

    def _sample(self, i: int, wanted: int) -> Ints:
        """At most `wanted` of the group's idle clients, uniformly without replacement, sorted."""
        group = self._groups[i]
        return self._drawn(i, group.members[self._busy_until[group.members] <= self.time_s + TIE], wanted)

    def _drawn(self, i: int, idle: Ints, wanted: int) -> Ints:
        """`wanted` of the idle clients (m,), sorted: those with the lowest lots. A client's lot in an edge round is its own,
        whichever group or method asks, so two methods that choose among the same clients choose the same."""
        if wanted >= len(idle):
            return idle
        group = self._groups[i]
        lots = uniform_of(self.world.seed, "sampling", idle, group.n_rounds, self._merges_in_round(group))
        return np.sort(idle[np.argsort(lots, kind="stable")[: max(wanted, 0)]])

    def _merges_in_round(self, group: _Group) -> int:
        """Arrivals merged in the edge round that is open; 0 where all are merged when it closes."""
        return group.n_merges - group.merges_before

    def _send_to_work(self, i: int, clients: Ints, left_at: int) -> float:
        """Note the jobs and book what they cost; returns the seconds until the round closes."""
        group = self._groups[i]
        scene = group.scene
        ways = scene.exchange
        aggregator = scene.topology.cover[:, clients].argmax(axis=0)
        offer = Offer(
            client=clients,
            full_steps=self._unit_steps[clients] * self._units(group),
            unit_steps=self._unit_steps[clients],
            step_s=scene.step_s[clients],
            link_s=scene.link_s[clients],
            cluster=aggregator,
        )
        pace = self._in_box(group, self.method.pace(offer))
        times = self._times_sent(clients, group.n_rounds)
        compute_s = pace.steps * offer.step_s
        for again in np.unique(times):
            those = times == again
            compute_s[those] *= self._jitter(clients[those], "jitter", group.n_rounds, int(again))
        finish_s = ways.client_up.arrivals(clients, ways.client_down.seconds[clients] + compute_s, self.method.uplink)
        dispatch = self._dispatch(clients, pace.steps, *self._starts(clients, group))
        if self._keep_last:
            self._last_models |= {int(k): dispatch.result(j) for j, k in enumerate(clients)}
        group.from_own = False
        self._client_steps[clients] += pace.steps
        busy_s = float(compute_s.sum())
        self.ledger.compute(busy_s, busy_s * self._now.compute_power_w)
        at, owner = np.nonzero(scene.topology.cover[:, clients])
        parts_s = (compute_s / scene.n_reached[clients])[owner]
        self.ledger.note(
            "computing", "", aggregator=at, airtime_s=parts_s, energy_j=parts_s * self._now.compute_power_w
        )
        ways.client_down.book(self.ledger, clients, self._bytes)
        ways.client_up.book(self.ledger, clients, self._bytes)
        self._busy_until[clients] = self.time_s + finish_s
        everyone = np.arange(len(clients))
        sent = Sent(
            cloud_round=self._cloud_round + 1,
            edge_round=group.n_rounds + 1,
            times=times,
            client=clients,
            aggregator=aggregator,
            start_s=self.time_s,
            fetch_s=ways.client_down.seconds[clients],
            compute_s=compute_s,
            upload_s=ways.client_up.seconds[clients],
            arrival_s=self.time_s + finish_s,
            merged_s=np.full(len(clients), np.nan),
            merged_at=np.full(len(clients), -1),
            late=finish_s > pace.close_s + group.slack_s,
            moved=np.zeros(len(clients), dtype=np.bool_),
        )
        if self._keep_timeline:
            self.timeline.append(sent)
        flight = _Flight(dispatch, everyone, self.time_s + finish_s, np.full(len(clients), left_at), sent)
        if self.method.edge == "async":
            self._busy_until[clients] = np.inf  # until its arrival is handled: others may arrive at the same time
            together = self._topology.squad is not None
            for part in [flight] if together else [flight.split(everyone == j)[0] for j in everyone]:
                self._working[int(part.client[0])] = part
                self._schedule(float(part.arrives_s.max()), "arrive", int(part.client[0]))
            return np.inf
        group.on_time, late = flight.split(~sent.late)
        self._n_late += len(late.positions)
        self._late += [late] if len(late.positions) else []
        everybody_there = pace.early_close and not sent.late.any()
        return float(finish_s.max()) if everybody_there else pace.close_s

    def _in_box(self, group: _Group, pace: Pace) -> Pace:
        """A time box ends every edge round that is open then: who has not arrived is late."""
        return replace(pace, close_s=min(pace.close_s, group.report_at_s - self.time_s))

    def _times_sent(self, clients: Ints, edge_round: int) -> Ints:
        """How often each of the clients (m,) was sent to work before in this edge round; notes that it is once more."""
        again = self._last_sent[clients] == edge_round
        self._n_sent[clients] = np.where(again, self._n_sent[clients] + 1, 0)
        self._last_sent[clients] = edge_round
        return self._n_sent[clients]

    def _dispatch(self, clients: Ints, steps: Ints, starts: list[Model], start: Ints) -> Dispatch:
        """Jobs of `clients` (m,) from the models `start` (m,) of `starts`."""
        dispatch = Dispatch(starts, start, clients, steps, self._step_count[clients])
        self._step_count[clients] += steps
        return dispatch

    def _starts(self, clients: Ints, group: _Group) -> tuple[list[Model], Ints]:
        """Where clients start: from their own models, or from their aggregators'; those with the same mixture share one."""
        if group.from_own:
            return [self._own_models[int(k)] for k in clients], np.arange(len(clients))
        kinds, start = np.unique(group.scene.start_of[clients], return_inverse=True)
        starts = []
        for weights in group.scene.start_weights[kinds]:
            parts = [(self._edge_models[n], float(weights[n])) for n in np.flatnonzero(weights)]
            starts.append(combine(parts, [], steps=max(m.steps for m, _ in parts)))
        if self.method.start_row is None:
            return starts, start
        return [self._own_start(int(k), starts[j]) for k, j in zip(clients, start)], np.arange(len(clients))

    def _own_start(self, client: int, edge: Model) -> Model:
        """Between the aggregator's model and what the client trained last, if it did."""
        if client not in self._last_models:
            return edge
        start_row = self.method.start_row
        assert start_row is not None

        def between(rows: list[Row]) -> Floats:
            share = start_row(rows[0], rows[1])
            return (
                rows[0].astype(np.float64)
                if share == 1.0
                else share * rows[0].astype(np.float64) + (1 - share) * rows[1]
            )

        return derive([edge, self._last_models[client]], between, edge.steps)

    def _jitter(self, clients: Ints, purpose: str, *when: int) -> Floats:
        """Factors (m,) by which the real computing time differs from the predicted one: of each client and occasion."""
        sigma = self._now.jitter_sigma
        if not sigma:
            return np.ones(len(clients))
        return np.exp(sigma * normal_of(self.world.seed, purpose, clients, *when))

    def _close(self, i: int) -> None:
        """End the edge round of group i: merge who is on time and who has arrived late; go on or report."""
        group = self._groups[i]
        flights = [group.on_time] if group.on_time is not None and len(group.on_time.positions) else []
        group.on_time = None
        still_late = []
        for flight in self._late:
            arrived = (group.scene.group_of[flight.client] == i) & (flight.arrives_s <= self.time_s + TIE)
            if self._wander:  # groups are in different rounds: not in one before the update was sent
                arrived &= flight.left_at < group.index
            here, away = flight.split(arrived)
            here = self._of_this_host(i, here)
            flights += [here] if len(here.positions) else []
            still_late += [away] if len(away.positions) else []
        self._late = still_late
        self._contributed_last[group.aggregators] = False
        self._merge(i, flights, group.index)
        self._end_round(i)

    def _of_this_host(self, i: int, flight: _Flight) -> _Flight:
        """What of the updates counts at group i: all, or if moving loses them, those of clients that were sent from there."""
        if not self.method.lost_on_move or flight.sent is None:
            return flight
        host = self._topology.host
        return flight.split(np.isin(host[flight.sent.aggregator[flight.positions]], host[self._groups[i].aggregators]))[
            0
        ]

    def _arrive(self, client: int) -> None:
        """Async: merge the update of a client (or squad) at once, where it is now, and send somebody idle in its place.

        A squad that has parted is merged everywhere, and counts as one of the merges where most of it is."""
        flight = self._working.pop(client)
        groups, size = np.unique(self._group_of[flight.client], return_counts=True)
        for i in groups:
            here = flight.split(self._group_of[flight.client] == i)[0]
            self._deliver(int(i), here, counts=i == groups[size.argmax()])

    def _deliver(self, i: int, flight: _Flight, counts: bool) -> None:
        if i < 0:  # the client has left the federation, and its update with it
            self._busy_until[flight.client] = self.time_s
            return
        group, everybody = self._groups[i], flight.client
        flight = self._of_this_host(i, flight)
        if not len(flight.positions):
            self._busy_until[everybody] = self.time_s
            if group.merges_left > 0:
                self._staff(i)
                self._close_if_deserted(i)
            return
        if group.merges_left == 0:  # no round is open: the update waits for the next one, and so does the client
            self._late.append(flight)
            return
        self._busy_until[everybody] = self.time_s
        self._contributed_last[group.aggregators] = False
        self._merge(i, [flight], group.n_merges)
        group.n_merges += 1
        group.merges_left -= counts
        if group.merges_left > 0:
            for crew in self._crews(i, 1):
                self._send_to_work(i, crew, group.n_merges)
            self._close_if_deserted(i)
        else:
            self._end_round(i)

    def _release(self, i: int) -> None:
        """Async: updates that came while group i waited for the cloud arrive now."""
        waiting = [f for f in self._late if self._group_of[f.client[0]] == i]
        self._late = [f for f in self._late if f not in waiting]
        for flight in waiting:
            self._working[int(flight.client[0])] = flight
            self._schedule(self.time_s, "arrive", int(flight.client[0]))

    def _merge(self, i: int, flights: list[_Flight], now: int, count: bool = True) -> None:
        """New models of the group's aggregators out of these updates; staleness is counted from `now`."""
        self._n_updates += sum(len(f.positions) for f in flights) if count else 0
        group = self._groups[i]
        for n in group.aggregators.tolist() if flights else []:
            mine = [f.split(group.scene.topology.cover[n, f.client])[0] for f in flights]
            mine = [f for f in mine if len(f.positions)]
            if mine:
                self._edge_models[n] = self._merged(n, mine, now)
                self._note_merge(n, mine)

    def _note_merge(self, n: int, flights: list[_Flight]) -> None:
        host = self._topology.host
        for flight in flights:
            if flight.sent is not None:
                at, sent = flight.positions, flight.sent
                sent.merged_s[at], sent.merged_at[at] = self.time_s, n
                one = self._scene.n_reached[flight.client] == 1  # who reports to several has not moved for that
                sent.moved[at] = one & (host[sent.aggregator[at]] != host[n])

    def _merged(self, n: int, flights: list[_Flight], now: int) -> Model:
        client = np.concatenate([f.client for f in flights])
        staleness = now - np.concatenate([f.left_at for f in flights])
        scene = self._groups[self._group_with[n]].scene
        arrivals = Arrivals(
            client=client,
            n_samples=self.world.n_samples[client],
            n_reached=scene.n_reached[client],
            staleness=staleness,
            total=float(self.world.n_samples[scene.topology.cover[n]].sum()),
        )
        self._contributed[n, client] = True
        self._contributed_last[n, client] = True
        old = self._edge_models[n]
        after = max(int(f.dispatch.steps_after()[f.positions].max()) for f in flights)
        steps = max(old.steps, after)
        if self.method.weigh_edge_rows is not None:
            return self._merged_by_rows(old, arrivals, flights, steps)
        weights = self.method.weigh_edge(arrivals)
        cuts = np.cumsum([len(f.positions) for f in flights])[:-1]
        models = [(old, weights.own)]
        if weights.start is not None:
            for flight, values in zip(flights, np.split(weights.start, cuts)):
                start = flight.dispatch.start[flight.positions]
                sums = np.bincount(start, weights=values, minlength=len(flight.dispatch.starts))
                models += list(zip(flight.dispatch.starts, sums.tolist()))
        jobs = [(f.dispatch, f.positions, w) for f, w in zip(flights, np.split(weights.model, cuts))]
        merged = combine(models, jobs, steps)
        if scene.noise_std is None or self._topology.kind != "cloud":
            return merged
        when = np.concatenate([f.occasion for f in flights])
        return self._noisy(merged, weights.model * scene.noise_std[client], client, when)

    def _merged_by_rows(self, old: Model, arrivals: Arrivals, flights: list[_Flight], steps: int) -> Model:
        """A merge whose weights depend on the models: they are found when the models are computed."""
        weigh = self.method.weigh_edge_rows
        assert weigh is not None
        jobs = [(f.dispatch, int(j)) for f in flights for j in f.positions]
        results = [dispatch.result(j) for dispatch, j in jobs]
        starts = [dispatch.starts[dispatch.start[j]] for dispatch, j in jobs]

        def merge(rows: list[Row]) -> Floats:
            models, begun = np.stack(rows[1 : 1 + len(jobs)]), np.stack(rows[1 + len(jobs) :])
            weights: EdgeWeights = weigh(arrivals, rows[0], models, begun)
            total = weights.own * rows[0].astype(np.float64) + weights.model @ models
            return total if weights.start is None else total + weights.start @ begun

        return derive([old, *results, *starts], merge, steps)

    def _end_round(self, i: int) -> None:
        group = self._groups[i]
        group.n_rounds += 1
        group.rounds_left -= 1
        if self.time_s >= group.report_at_s - group.slack_s:  # jitter has used up the time box: no round fits any more
            group.rounds_left = 0
        self._note_look(group)
        if group.rounds_left > 0:
            self._schedule(self.time_s, "open", i)
        else:
            self._send_report(i)

    def _note_look(self, group: _Group) -> None:
        """Keep the group's models if they are to be looked at after this edge round."""
        done = group.n_rounds - self._n_before
        if self._look_every is not None and self.method.cloud != "immediate" and done % self._look_every == 0:
            self._looks.setdefault(done, {}).update({n: self._edge_models[n] for n in group.aggregators.tolist()})

    def _send_report(self, i: int) -> None:
        group = self._groups[i]
        boxed = np.isfinite(group.report_at_s)
        arrives_s = max(self.time_s, group.report_at_s) if boxed else self.time_s  # a time box is waited for
        if self.method.cloud != "never":
            who, host = group.aggregators, self._topology.host
            several = np.array([np.count_nonzero(host[who] == h) > 1 for h in host[who]])
            changed = self._contributed[who].any(axis=1)  # of several on a host only those with news report
            upload_s = self._over_backhaul(group.scene.exchange.cloud_up, who[~several | changed])
            if self.method.cloud_uplink is not None:
                self._queue(i, upload_s)
                return
            arrives_s += upload_s
        self._schedule(arrives_s, "report", i)

    def _queue(self, i: int, upload_s: float) -> None:
        """Group i could send its report, which takes upload_s; when all could, the method says when each has arrived."""
        self._ready[i] = self.time_s, upload_s
        if len(self._ready) == self._reports_due:
            share = self.method.cloud_uplink
            assert share is not None
            ready_s, up_s = (np.array(column) for column in zip(*self._ready.values()))
            for j, arrives_s in zip(self._ready, share(ready_s, up_s).tolist()):
                self._schedule(max(self.time_s, arrives_s), "report", j)
            self._ready = {}

    def _report(self, i: int) -> None:
        """A report reaches the cloud."""
        aggregators = self._groups[i].aggregators
        self._reports_due -= 1
        for n in aggregators:
            self._reported_models[n] = self._received(int(n))
            self._n_reports[n] += 1
        if self.method.cloud == "immediate":
            self._merge_at_cloud(np.isin(np.arange(self._topology.n_aggregators), aggregators))
            self._adapt_bound()
            self._waiting.append(i)
            for waiting in list(self._waiting):
                self._restart(waiting)

    def _received(self, n: int) -> Model:
        """The model of aggregator n as the cloud gets it: with noise, if a head sends it over a noisy link."""
        model, scene = self._edge_models[n], self._groups[self._group_with[n]].scene
        if scene.noise_std is None or self._topology.kind != "head" or self.method.cloud == "never":
            return model
        head = self._topology.host[[n]]
        return self._noisy(model, scene.noise_std[[n]], head, np.array([[self._version, 0]]))

    def _noisy(self, model: Model, std: Floats, device: Ints, when: Ints) -> Model:
        """The model with the noise that each of m devices adds to what is trained: of standard deviation std (m,), drawn by
        device (m,) and occasion `when` (m, 2) when the model is computed."""
        seed, trainable = self.world.seed, self.world.trainable

        def add(rows: list[Row]) -> NDArray[np.floating]:
            row: NDArray[np.floating] = rows[0]
            where = np.ones(len(row), dtype=np.bool_) if trainable is None else trainable
            for s, k, (number, times) in zip(std.tolist(), device.tolist(), when.tolist()):
                row = radio.noisy(row, s, where, stream(seed, "uplink noise", k, number, times))
            return row

        return derive([model], add, model.steps) if std.any() else model

    def _restart(self, i: int) -> None:
        """Group i has reported and goes on, unless that would take it too far ahead of those at work."""
        if self._bound is not None:
            idle = {*self._waiting, *(j for j, group in enumerate(self._groups) if group.asleep)}
            working = [int(self._fetched[g.aggregators].min()) for j, g in enumerate(self._groups) if j not in idle]
            if not may_start(self._version, working, self._bound.s_max):
                return
        self._waiting.remove(i)
        self._fetch(i)

    def _adapt_bound(self) -> None:
        """After a window of cloud merges: move the bound on staleness by how fast accuracy rose."""
        every = self.method.bound_every
        if self._bound is None or not every:
            return
        if self._version == 1:
            self._window = (0.0, self._score_at(0, self._first))
        if self._version % every == 0 and self.time_s > self._window[0]:
            since_s, before = self._window
            self._window = (self.time_s, self._score_at(self._version, self.model))
            self._bound = next_bound(self._bound, self._window[1] - before, self.time_s - since_s)

    def _score_at(self, version: int, model: Model) -> float:
        if version in self.scores:  # of the run that is gone on with: there the model was computed at this moment
            settle(model, None)
        else:
            if self._score is None:
                raise ValueError(
                    f"{self.method.name} adapts its bound on staleness by accuracy, and this federation was given no way to "
                    f"measure it; fedloom.Simulation does that"
                )
            self.scores[version] = self._score(model)
        return self.scores[version]

    def _reports(self, fresh: NDArray[np.bool_]) -> Reports:
        """What the cloud knows of the aggregators; fresh (N,): those that report now."""
        samples = self.world.n_samples / self._scene.n_reached
        topology = self._scene.topology
        return Reports(
            total=topology.cover @ samples,
            reported=(self._contributed @ samples) * fresh,
            staleness=self._version - self._fetched,
            fresh=fresh,
            reported_last=(self._contributed_last @ samples) * fresh,
            n_reports=self._n_reports.copy(),
            cluster=np.unique(topology.clusters, return_inverse=True)[1],
            label_counts=self._labels_of_clusters(topology),
        )

    def _merged_at_cloud(self, reports: Reports, models: list[Model]) -> tuple[CloudWeights, Model]:
        """The weights of the aggregators' models (N,), and what the cloud makes of them."""
        weights = self.method.weigh_cloud(reports)
        parts = [(self.model, weights.own), *zip(models, weights.edge.tolist())]
        steps = max(m.steps for m, w in parts if w)
        if self.method.weigh_cloud_rows is None:
            return weights, combine(parts, [], steps=steps)
        return weights, self._cloud_by_rows(reports, models, steps)

    def _merge_at_cloud(self, fresh: NDArray[np.bool_]) -> None:
        weights, merged = self._merged_at_cloud(self._reports(fresh), self._reported_models)
        self._merged_edges = [(m, w) for m, w in zip(self._reported_models, weights.edge.tolist()) if w]
        self._cloud_weights = weights.edge
        self._cluster_models = self._clusters_of(self._reported_models, weights.edge, self._edge_models)
        self.model = merged
        self._version += 1
        self._contributed[fresh] = False

    def _cloud_by_rows(self, reports: Reports, models: list[Model], steps: int) -> Model:
        """A cloud merge whose weights depend on the models."""
        weigh = self.method.weigh_cloud_rows
        assert weigh is not None

        def merge(rows: list[Row]) -> Floats:
            edges = np.stack(rows[1:])
            weights = weigh(reports, rows[0], edges)
            return np.asarray(weights.own * rows[0].astype(np.float64) + weights.edge @ edges)

        return derive([self.model, *models], merge, steps)

    def _labels_of_clusters(self, topology: Topology) -> Ints:
        """(clusters, C) samples of each class: of all clients of a cluster, or, if all have left, of who contributed."""
        found = []
        for c in np.unique(topology.clusters):
            members = topology.cover[topology.clusters == c].any(axis=0)
            if not members.any():
                members = self._contributed[topology.clusters == c].any(axis=0)
            found.append(self.world.label_counts[members].sum(axis=0))
        return np.array(found, dtype=np.int64)

    def _clusters_of(self, models: list[Model], weights: Floats, held: list[Model]) -> dict[int, Model]:
        """The model of each cluster: the mean of its aggregators' models (N,) by their weights (N,) at the cloud.

        Of a cluster that has nothing to say (weight 0) it is the one handed down to it, which all its aggregators still
        hold (N,); with a cloud that does not wait, the one it had: it may just not be its turn.
        """
        clusters, found = self._topology.clusters, {}
        for c in np.unique(clusters).tolist():
            mine = np.flatnonzero(clusters == c)
            heard = mine[weights[mine] != 0]
            if len(heard):
                share = weights[heard] / weights[heard].sum()
                parts = [(models[n], float(w)) for n, w in zip(heard, share)]
                found[c] = combine(parts, [], steps=max(m.steps for m, _ in parts))
            elif self.method.cloud == "immediate":
                found[c] = self._cluster_models[c]
            else:
                found[c] = held[mine[0]]
        return found

    def _schedule(self, t_s: float, kind: str, subject: int) -> None:
        heapq.heappush(self._events, (t_s, self._n_events, kind, subject))
        self._n_events += 1

    _handlers: ClassVar = {"open": _open, "close": _close, "arrive": _arrive, "report": _report}


def _no_features(kind: str, layers: Layers) -> NDArray[np.floating]:
    raise ValueError("what aggregators are to do is decided without features; use what the grouping knows of them")

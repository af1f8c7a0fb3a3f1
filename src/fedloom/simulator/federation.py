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
round.
"""

import heapq
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from fedloom._random import stream
from fedloom.fleet import Fleet, Snapshot
from fedloom.grouping import Topology, View
from fedloom.methods import Method
from fedloom.mixing import Arrivals, Reports
from fedloom.pacing import Offer, Periods, Progress, rounds_in_box
from fedloom.simulator.book import Dispatch, Model, combine
from fedloom.simulator.exchange import exchange
from fedloom.simulator.features import Features, Layers
from fedloom.simulator.ledger import Ledger
from fedloom.training.batches import steps_per_pass

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

TIE = 1e-9  # seconds: arrivals this close to a deadline are on time


@dataclass(frozen=True, kw_only=True, eq=False)
class World:
    """Everything the clock needs to know of a scenario: K clients with their data sizes, and the training settings.

    Local work is `local_epochs` passes over the client's data if given, else `local_steps` mini-batches. participation:
    share of an aggregator's clients that is sampled in every edge round. model_bits: size of a model on air. lr: learning
    rate at a step of a model's history.
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
    lr: Callable[[int], float] = lambda step: 1.0

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
    """The state after a cloud merge. Counts and ledger totals are since the start of the run. edges: the aggregators'
    models that were merged, with their weights; client_steps (K,): local steps in this cloud round, without features;
    group_rounds: edge rounds of each pace group in this cloud round (barrier), or so far; up_s (K,): seconds a client
    needs to send its model to its aggregators."""

    cloud_round: int
    edge_rounds: int
    time_s: float
    model: Model
    edges: list[tuple[Model, float]]
    topology: Topology
    snapshot: Snapshot
    client_steps: Ints
    group_rounds: Ints
    up_s: Floats
    n_updates: int
    n_late: int

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

    left_at (m,): the group's count of edge rounds (async: of merges) when they were sent, for their staleness.
    """

    dispatch: Dispatch
    positions: Ints
    arrives_s: Floats
    left_at: Ints

    @property
    def client(self) -> Ints:
        return self.dispatch.client[self.positions]

    def split(self, mask: NDArray[np.bool_]) -> tuple["_Flight", "_Flight"]:
        """Those in the mask (m,), and the others."""
        yes, no = (_Flight(self.dispatch, self.positions[m], self.arrives_s[m], self.left_at[m]) for m in (mask, ~mask))
        return yes, no


@dataclass(eq=False)
class _Group:
    """Aggregators that open and close together, their clients, and where they are.

    n_rounds, n_merges: edge rounds and merged arrivals since the start of the run (a new group starts at the highest).
    """

    aggregators: Ints
    members: Ints
    n_rounds: int = 0
    n_merges: int = 0
    rounds_left: int = 0
    merges_left: int = 0
    local_units: int = 0
    from_own: bool = False  # members start from what they trained for a feature
    report_at_s: float = 0.0
    asleep: bool = False  # nobody there: with an immediate cloud it wakes up when somebody comes
    on_time: _Flight | None = None


class Federation:
    """The clock's state. `cloud_rounds` runs it; `ledger` holds what was spent so far.

    decisions: groupings by cloud round that depended on features. Those given at the start are not made again.
    """

    def __init__(
        self,
        method: Method,
        world: World,
        first: Model,
        features: Features | None = None,
        decisions: Mapping[int, Decision] | None = None,
    ) -> None:
        n_clients = len(world.n_samples)
        self.method, self.world = method, world
        self.decisions: dict[int, Decision] = dict(decisions or {})
        self._features = features
        self._collected: dict[tuple[str, Layers], NDArray[np.floating]] = {}  # in this cloud round
        self._own: _Flight | None = None  # what clients trained for a feature in this cloud round
        self._own_models: dict[int, Model] = {}
        self.ledger = Ledger()
        self.model = first
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
        self._client_steps = np.zeros(n_clients, dtype=np.int64)
        self._unit_steps = world.unit_steps
        self._pass_steps = world.pass_steps
        self._merged_edges: list[tuple[Model, float]] = []
        self._bytes = round(world.model_bits / 8)
        self._reports_due = 0
        self._n_updates = self._n_late = 0
        self._version = 0  # cloud merges so far
        self._snapshot: Snapshot | None = None  # before the first round

    def cloud_rounds(self, n_rounds: int) -> Iterator[CloudRound]:
        """Yield after every cloud round (immediate: after as many reports as there are pace groups)."""
        n_before = 0
        for g in range(n_rounds):
            self._client_steps = np.zeros_like(self._client_steps)
            self._enter(g)
            if self.method.cloud != "immediate" or g == 0:
                counts, n_before = self._counts(), max(group.n_rounds for group in self._groups)
                for group in self._groups:
                    group.n_rounds = n_before
                self._keep_age(counts)
                for i in range(len(self._groups)):
                    self._fetch(i)
            self._reports_due += sum(len(group.members) > 0 for group in self._groups)
            while self._reports_due > 0:
                self.time_s, _, kind, subject = heapq.heappop(self._events)
                self._handlers[kind](self, subject)
            if self.method.cloud != "immediate":
                reporting = np.concatenate([group.aggregators for group in self._groups])
                self._merge_at_cloud(np.isin(np.arange(self._topology.n_aggregators), reporting))
            yield CloudRound(
                cloud_round=g + 1,
                edge_rounds=max(group.n_rounds for group in self._groups),
                time_s=self.time_s,
                model=self.model,
                edges=self._merged_edges,
                topology=self._topology,
                snapshot=self._now,
                client_steps=self._client_steps,
                up_s=self._exchange.client_up.seconds,
                group_rounds=np.array([group.n_rounds for group in self._groups]) - n_before,
                n_updates=self._n_updates,
                n_late=self._n_late,
            )

    def live_models(self) -> list[Model]:
        """The models that the rest of the run may still refer to, in a fixed order."""
        starts = [m for f in self._flights() for m in f.dispatch.starts]
        return [self.model, *self._edge_models, *self._reported_models, *starts]

    @property
    def _now(self) -> Snapshot:
        assert self._snapshot is not None
        return self._snapshot

    def _enter(self, g: int) -> None:
        """Take the snapshot of cloud round g; regroup if it is time to; see what the links cost now."""
        world, method, before = self.world, self.method, self._snapshot
        now = self._snapshot = world.fleet.snapshot(g)
        self._collected, self._own, self._own_models = {}, None, {}
        if now is before and method.regroup != "cloud-round":
            return
        self._step_s = now.step_seconds(world.batch_size, world.n_samples)
        moved = before is None or not (
            np.array_equal(before.home, now.home)
            and np.array_equal(before.in_reach, now.in_reach)
            and np.array_equal(before.active, now.active)
        )
        if before is None or method.regroup == "cloud-round" or (method.regroup == "moved" and moved):
            self._regroup(self._decide(g))
        self._exchange = exchange(now, self._topology, world.model_bits)
        self._link_s = self._exchange.client_down.seconds + self._exchange.client_up.seconds
        dead = np.flatnonzero(~np.isfinite(self._link_s))
        if len(dead) and method.box_s is None:
            raise ValueError(
                f"clients {dead.tolist()[:10]} have no usable link to their aggregator in cloud round {g + 1} (rate 0), "
                f"so {method.name} would wait for ever; repair the links, leave the clients out, or use a time box"
            )
        cloud_s = self._exchange.cloud_down.seconds + self._exchange.cloud_up.seconds
        cut_off = [n for group in self._groups for n in group.aggregators.tolist() if not np.isfinite(cloud_s[n])]
        if cut_off and method.cloud != "never":
            raise ValueError(
                f"aggregators {cut_off[:10]} have no usable link to the cloud in cloud round {g + 1} (rate 0), so the "
                f"cloud would wait for ever; repair the links to the cloud"
            )
        for i, group in enumerate(self._groups):
            if group.merges_left > 0:  # clients may have left an open asynchronous round
                self._staff(i)
            if group.asleep and len(group.members):
                group.asleep = False
                self._fetch(i)

    def _decide(self, g: int) -> Topology:
        """Ask the method who aggregates with whom; if it wants features first, they are collected on the way."""
        if g in self.decisions:
            for kind, layers in self.decisions[g].asked:
                self._pay_for(kind, layers)
            return self.decisions[g].topology
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
        )
        topology = self.method.group(view, stream(self.world.seed, "grouping", g))
        if self._collected:
            self.decisions[g] = Decision(asked=tuple(self._collected), topology=topology)
        return topology

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
        compute_s = work * self._step_s[clients] * self._jitter(clients)
        finish_s = compute_s + to_cloud.seconds[clients]
        if kind != "labels":
            from_cloud = exchange(self._now, everyone, self.world.model_bits).client_down
            from_cloud.book(self.ledger, clients, self._bytes, a_model=False)
            finish_s = finish_s + from_cloud.seconds[clients]
        to_cloud.book(self.ledger, clients, round(bits / 8), a_model=False)
        self.ledger.compute(float(compute_s.sum()), float(compute_s.sum()) * self._now.compute_power_w)
        self.time_s += float(finish_s.max()) if self.method.feature_s is None else self.method.feature_s

    def _regroup(self, topology: Topology) -> None:
        """Take over a topology. With an immediate cloud, aggregators keep their models and go on with their rounds."""
        groups = [
            _Group(aggregators=a, members=np.flatnonzero(topology.cover[a].any(axis=0))) for a in topology.pace_groups()
        ]
        if self.method.cloud != "immediate":  # there clients may still come
            groups = [group for group in groups if len(group.members)]
        before = self._counts() if self._groups else None
        if self._groups and self.method.cloud == "immediate":
            self._move_between(groups)
        else:
            n = topology.n_aggregators
            for group in groups:
                group.n_rounds = max((old.n_rounds for old in self._groups), default=0)
                group.n_merges = max((old.n_merges for old in self._groups), default=0)
            self._groups = groups
            if not self._keeps_models(topology):
                self._edge_models = [self.model] * n
            self._reported_models = [self.model] * n
            self._fetched = np.full(n, self._version)
            self._contributed = np.zeros(topology.cover.shape, dtype=np.bool_)
        self._topology = topology
        self._group_of = np.full(topology.cover.shape[1], -1)
        for i, group in enumerate(self._groups):
            self._group_of[group.members] = i
        if before is not None:
            self._keep_age(before)
        self._n_reached = topology.n_reached.clip(min=1)
        self._start_weights, self._start_of = np.unique(self.method.start(topology), axis=0, return_inverse=True)

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
        """The aggregators of group i get the cloud's model, if there is one, and start their edge rounds."""
        group = self._groups[i]
        start_s = self.time_s
        if self.method.cloud != "never":
            down = self._exchange.cloud_down
            down.book(self.ledger, group.aggregators, self._bytes)
            for n in group.aggregators:
                self._edge_models[n] = self.model
                self._fetched[n] = self._version
            start_s += float(down.seconds[group.aggregators].max())
        group.from_own = self._own is not None and self.method.keep_progress
        if self._own is not None and group.from_own:
            self._merge(i, [self._own.split(np.isin(self._own.client, group.members))[0]], 0, count=False)
        periods = self._periods()
        group.rounds_left, group.local_units = periods.edge_rounds, periods.local_steps
        if self.method.box_s is not None:
            group.report_at_s = start_s + self.method.box_s
            full_s = self._unit_steps * group.local_units * self._step_s + self._link_s
            group.rounds_left = rounds_in_box(self.method.box_s, float(full_s[group.members].max()))
        if group.rounds_left:
            self._schedule(start_s, "open", i)
        else:
            self._send_report(i)

    def _periods(self) -> Periods:
        """The periods of the cloud round that begins now: the scenario's, or what the method makes of the progress."""
        if self.method.periods is None:
            return self.world.periods
        step = self.model.steps
        return self.method.periods(Progress(step=step, lr=self.world.lr(step), first_lr=self.world.lr(0)))

    def _open(self, i: int) -> None:
        """Start an edge round of group i: send idle clients to work, and decide when the round closes."""
        group = self._groups[i]
        if self.method.edge == "async":
            group.merges_left = self._n_wanted(group)
            self._staff(i)
            return
        sampled = self._sample(i, self._n_wanted(group))
        if len(sampled):
            close_s = self.time_s + self._send_to_work(i, sampled, group.n_rounds)
        elif len(group.members):  # all are late from earlier rounds: close with the first of them
            arrivals = np.concatenate([f.arrives_s[self._group_of[f.client] == i] for f in self._late])
            close_s = max(self.time_s, float(arrivals.min()))
        else:
            group.asleep = True
            return
        self._schedule(close_s, "close", i)

    def _staff(self, i: int) -> None:
        """Async: take in what waits for group i, and send as many clients to work as merges are missing."""
        group = self._groups[i]
        self._release(i)
        n_working = sum(self._group_of[k] == i for k in self._working)
        sampled = self._sample(i, group.merges_left - n_working)
        if len(sampled):
            self._send_to_work(i, sampled, group.n_merges)

    def _n_wanted(self, group: _Group) -> int:
        return max(1, round(self.world.participation * len(group.members)))

    def _sample(self, i: int, wanted: int) -> Ints:
        """At most `wanted` of the group's idle clients, uniformly without replacement, sorted."""
        group = self._groups[i]
        idle = group.members[self._busy_until[group.members] <= self.time_s + TIE]
        if wanted >= len(idle):
            return idle
        rng = stream(self.world.seed, "sampling", int(group.aggregators[0]), group.n_rounds, group.n_merges)
        return np.sort(rng.choice(idle, max(wanted, 0), replace=False))

    def _send_to_work(self, i: int, clients: Ints, left_at: int) -> float:
        """Note the jobs and book what they cost; returns the seconds until the round closes."""
        group = self._groups[i]
        offer = Offer(
            client=clients,
            full_steps=self._unit_steps[clients] * group.local_units,
            unit_steps=self._unit_steps[clients],
            step_s=self._step_s[clients],
            link_s=self._link_s[clients],
        )
        pace = self.method.pace(offer)
        compute_s = pace.steps * offer.step_s * self._jitter(clients)
        finish_s = compute_s + offer.link_s
        dispatch = self._dispatch(clients, pace.steps, *self._starts(clients, group.from_own))
        group.from_own = False
        self._client_steps[clients] += pace.steps
        busy_s = float(compute_s.sum())
        self.ledger.compute(busy_s, busy_s * self._now.compute_power_w)
        self._exchange.client_down.book(self.ledger, clients, self._bytes)
        self._exchange.client_up.book(self.ledger, clients, self._bytes)
        self._busy_until[clients] = self.time_s + finish_s
        flight = _Flight(dispatch, np.arange(len(clients)), self.time_s + finish_s, np.full(len(clients), left_at))
        if self.method.edge == "async":
            self._busy_until[clients] = np.inf  # until its arrival is handled: others may arrive at the same time
            for k, arrives_s in zip(clients.tolist(), flight.arrives_s.tolist()):
                self._working[k] = flight.split(clients == k)[0]
                self._schedule(arrives_s, "arrive", k)
            return np.inf
        group.on_time, late = flight.split(finish_s <= pace.close_s + TIE)
        self._n_late += len(late.positions)
        self._late += [late] if len(late.positions) else []
        last_s = float(finish_s.max())
        return min(pace.close_s, last_s) if pace.early_close else pace.close_s

    def _dispatch(self, clients: Ints, steps: Ints, starts: list[Model], start: Ints) -> Dispatch:
        """Jobs of `clients` (m,) from the models `start` (m,) of `starts`."""
        dispatch = Dispatch(starts, start, clients, steps, self._step_count[clients])
        self._step_count[clients] += steps
        return dispatch

    def _starts(self, clients: Ints, from_own: bool) -> tuple[list[Model], Ints]:
        """Where clients start: from their own models, or from their aggregators'; those with the same mixture share one."""
        if from_own:
            return [self._own_models[int(k)] for k in clients], np.arange(len(clients))
        kinds, start = np.unique(self._start_of[clients], return_inverse=True)
        starts = []
        for weights in self._start_weights[kinds]:
            parts = [(self._edge_models[n], float(weights[n])) for n in np.flatnonzero(weights)]
            starts.append(combine(parts, [], steps=max(m.steps for m, _ in parts)))
        return starts, start

    def _jitter(self, clients: Ints) -> Floats | float:
        """Factors (m,) by which the real computing time differs from the predicted one."""
        sigma = self._now.jitter_sigma
        if not sigma:
            return 1.0
        rng = stream(self.world.seed, "jitter", int(clients[0]), int(self._step_count[clients[0]]))
        return np.exp(sigma * rng.standard_normal(len(clients)))

    def _close(self, i: int) -> None:
        """End the edge round of group i: merge who is on time and who has arrived late; go on or report."""
        group = self._groups[i]
        flights = [group.on_time] if group.on_time is not None and len(group.on_time.positions) else []
        group.on_time = None
        still_late = []
        for flight in self._late:
            here, away = flight.split((self._group_of[flight.client] == i) & (flight.arrives_s <= self.time_s + TIE))
            flights += [here] if len(here.positions) else []
            still_late += [away] if len(away.positions) else []
        self._late = still_late
        self._merge(i, flights, group.n_rounds)
        self._end_round(i)

    def _arrive(self, client: int) -> None:
        """Async: merge the client's update at once, and send somebody idle to work in its place."""
        flight = self._working.pop(client)
        i = int(self._group_of[client])
        if i < 0:  # the client has left the federation, and its update with it
            self._busy_until[client] = self.time_s
            return
        group = self._groups[i]
        if group.merges_left == 0:  # no round is open: the update waits for the next one, and so does the client
            self._late.append(flight)
            return
        self._busy_until[client] = self.time_s
        self._merge(i, [flight], group.n_merges)
        group.n_merges += 1
        group.merges_left -= 1
        if group.merges_left > 0:
            self._send_to_work(i, self._sample(i, 1), group.n_merges)
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
        for n in self._groups[i].aggregators.tolist() if flights else []:
            mine = [f.split(self._topology.cover[n, f.client])[0] for f in flights]
            mine = [f for f in mine if len(f.positions)]
            if mine:
                self._edge_models[n] = self._merged(n, mine, now)

    def _merged(self, n: int, flights: list[_Flight], now: int) -> Model:
        client = np.concatenate([f.client for f in flights])
        staleness = now - np.concatenate([f.left_at for f in flights])
        weights = self.method.weigh_edge(
            Arrivals(
                client=client,
                n_samples=self.world.n_samples[client],
                n_reached=self._n_reached[client],
                staleness=staleness,
            )
        )
        self._contributed[n, client] = True
        cuts = np.cumsum([len(f.positions) for f in flights])[:-1]
        old = self._edge_models[n]
        models = [(old, weights.own)]
        if weights.start is not None:
            for flight, values in zip(flights, np.split(weights.start, cuts)):
                start = flight.dispatch.start[flight.positions]
                sums = np.bincount(start, weights=values, minlength=len(flight.dispatch.starts))
                models += list(zip(flight.dispatch.starts, sums.tolist()))
        jobs = [(f.dispatch, f.positions, w) for f, w in zip(flights, np.split(weights.model, cuts))]
        after = max(int(f.dispatch.steps_after()[f.positions].max()) for f in flights)
        return combine(models, jobs, steps=max(old.steps, after))

    def _end_round(self, i: int) -> None:
        group = self._groups[i]
        group.n_rounds += 1
        group.rounds_left -= 1
        if group.rounds_left > 0:
            self._schedule(self.time_s, "open", i)
        else:
            self._send_report(i)

    def _send_report(self, i: int) -> None:
        group, up = self._groups[i], self._exchange.cloud_up
        arrives_s = max(self.time_s, group.report_at_s)  # a time box is waited for
        if self.method.cloud != "never":
            up.book(self.ledger, group.aggregators, self._bytes)
            arrives_s += float(up.seconds[group.aggregators].max())
        self._schedule(arrives_s, "report", i)

    def _report(self, i: int) -> None:
        """A report reaches the cloud."""
        aggregators = self._groups[i].aggregators
        self._reports_due -= 1
        for n in aggregators:
            self._reported_models[n] = self._edge_models[n]
        if self.method.cloud == "immediate":
            self._merge_at_cloud(np.isin(np.arange(self._topology.n_aggregators), aggregators))
            self._fetch(i)

    def _merge_at_cloud(self, fresh: NDArray[np.bool_]) -> None:
        samples = self.world.n_samples / self._n_reached
        weights = self.method.weigh_cloud(
            Reports(
                total=self._topology.cover @ samples,
                reported=(self._contributed @ samples) * fresh,
                staleness=self._version - self._fetched,
                fresh=fresh,
            )
        )
        self._merged_edges = [(m, w) for m, w in zip(self._reported_models, weights.edge.tolist()) if w]
        parts = [(self.model, weights.own), *self._merged_edges]
        self.model = combine(parts, [], steps=max(m.steps for m, w in parts if w))
        self._version += 1
        self._contributed[fresh] = False

    def _schedule(self, t_s: float, kind: str, subject: int) -> None:
        heapq.heappush(self._events, (t_s, self._n_events, kind, subject))
        self._n_events += 1

    _handlers: ClassVar = {"open": _open, "close": _close, "arrive": _arrive, "report": _report}

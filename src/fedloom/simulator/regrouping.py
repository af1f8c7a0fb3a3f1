"""Deciding who aggregates with whom: what the server may see of a cloud round, and what it costs to collect more.

Groupings that were decided on features are kept, so that the clock can be run again without training.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from fedloom._random import stream
from fedloom.fleet import Snapshot
from fedloom.grouping import Topology, View, one_cloud
from fedloom.methods import Method
from fedloom.methods.method import Allotment
from fedloom.pacing import Periods
from fedloom.protocol import Devices, Flight
from fedloom.simulator.air import back_s
from fedloom.simulator.carrying import Collects
from fedloom.simulator.clock import Timepiece
from fedloom.simulator.errands import jitter
from fedloom.simulator.exchange import exchange
from fedloom.simulator.features import NO_MODEL, Layers
from fedloom.simulator.held import Errand, Held
from fedloom.simulator.ledger import NOBODY, Ledger, Note, Shares
from fedloom.simulator.outages import Outages
from fedloom.simulator.world import Decision, World

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


class Regrouping:
    """decisions: groupings by cloud round that depended on features; what is given at the start is not made again. allotment:
    what the aggregators were told to do. progress: what clients trained for a feature in this cloud round."""

    def __init__(
        self,
        method: Method,
        world: World,
        clock: Timepiece,
        devices: Devices,
        held: Held,
        ledger: Ledger,
        features: Collects | None,
        decisions: Mapping[int, Decision] | None,
        seen: Callable[[Snapshot, Floats], tuple[Snapshot, Floats]],
        outages: Outages | None = None,
    ) -> None:
        self._method, self._world, self._devices, self._held, self._ledger = method, world, devices, held, ledger
        self._clock, self._features, self._seen, self._outages = clock, features, seen, outages
        self._pass_steps = world.pass_steps
        self.decisions: dict[int, Decision] = dict(decisions or {})
        self.allotment = Allotment()
        self.progress: Flight | None = None
        self._collected: dict[tuple[str, Layers], NDArray[np.floating]] = {}
        self.liars: frozenset[int] = frozenset()  # found so far; a clock that is run again finds them again

    def begin_cloud_round(self) -> None:
        """Forget what was collected in the last one."""
        self._collected, self.progress, self._held.own = {}, None, {}

    def decide(self, cloud_round: int, now: Snapshot, periods: Periods, instead: Topology | None = None) -> Topology:
        """Ask the method who aggregates with whom; if it wants features first, they are collected on the way. instead: what it is
        if those who are there cannot be grouped, as they may be too few."""
        predicted_s = self._world.step_s(now)
        self._cloud_round, self._now, self._step_s, self._periods = cloud_round, now, predicted_s, periods
        known, step_s = self._seen(now, predicted_s)
        hostility = self._world.hostility
        if hostility is not None:
            known, step_s = hostility.snapshot(known, cloud_round), hostility.step_s(step_s)
        view = View(
            needs=self._method.needs,
            _snapshot=known,
            cloud_round=cloud_round,
            all_n_samples=self._world.told_n_samples,
            all_label_counts=self._world.told_label_counts,
            all_step_s=step_s,
            all_work_s=self._world.unit_steps * periods.local_steps * step_s,
            model_bits=self._world.model_bits,
            up_bits=self._world.up_bits,
            down_bits=self._world.down_bits,
            collect=self._collect,
            edge_rounds=periods.edge_rounds,
            lr=self._world.lr(self._held.model.steps),
        )
        if self._method.group.remember_liars:
            view = replace(view, found_before=self.liars)
            self.liars |= set(view.link_check.suspects.tolist())
        warm = cloud_round < self._method.cloud.warmup
        if cloud_round in self.decisions:
            for kind, layers in self.decisions[cloud_round].asked:
                self._pay_for(kind, layers)
            self._features_known()
            topology = self.decisions[cloud_round].topology
        else:
            rule = one_cloud if warm else self._method.group.rule
            try:
                topology = rule(view, stream(self._world.seed, "grouping", cloud_round))
                if not topology.cover.any():
                    raise ValueError("cover connects no client to any aggregator; nobody could train")
            except ValueError:
                if instead is None:
                    raise
                topology = instead
            if self._collected:
                self.decisions[cloud_round] = Decision(asked=tuple(self._collected), topology=topology)
        return topology if warm else self._allotted(view, topology)

    def _allotted(self, view: View, topology: Topology) -> Topology:
        """Ask the method what each aggregator is to do, if it wants to say; the topology with what it notes."""
        if self._method.allot is None:
            return topology
        rng = stream(self._world.seed, "allotment", self._cloud_round)
        self.allotment = self._method.allot(replace(view, collect=_no_features), topology, rng)
        rounds = self.allotment.edge_rounds
        for together in topology.pace_groups() if rounds is not None else []:
            if rounds is not None and len(set(rounds[together].tolist())) > 1:
                raise ValueError(
                    f"aggregators {together.tolist()} share clients or a host, so their edge rounds run together; they need "
                    f"the same number of them, got {rounds[together].tolist()}"
                )
        return replace(topology, notes={**topology.notes, **self.allotment.notes})

    def _features_known(self) -> None:
        """The run that is gone on with had computed what clients trained for a feature."""
        assert self._features is not None
        self._features.known(self._held.own)

    def _collect(self, kind: str, layers: Layers) -> NDArray[np.floating]:
        """Features (K, d) for grouping; paid for once in a cloud round."""
        if (kind, layers) not in self._collected:
            self._pay_for(kind, layers)
            assert self._features is not None
            values, hostility = (
                self._features.values(kind, layers, self._held.model, self._held.own),
                self._world.hostility,
            )
            self._collected[kind, layers] = values if hostility is None else hostility.features(values, kind)
        return self._collected[kind, layers]

    def _pay_for(self, kind: str, layers: Layers) -> None:
        """All active clients fetch the cloud's model, compute a feature and send it to the cloud, which waits for all."""
        cloud = self._method.cloud
        if self._features is None or not (cloud.exists and cloud.waits):
            raise ValueError(
                "features for grouping need a cloud that waits for them (Barrier) and a federation that was given a way to "
                "compute them; fedloom.Simulation does that"
            )
        clients = np.flatnonzero(self._now.active)
        everyone = Topology(cover=self._now.active[None, :], kind="cloud", host=np.zeros(1, dtype=np.int64))
        bits = self._world.model_bits * self._features.size(kind, layers)
        to_cloud = exchange(self._now, everyone, bits).client_up
        work = self._work(kind, clients)
        before_j = self._ledger.total_j
        factor = jitter(self._now.jitter_sigma, self._world.seed, clients, f"jitter of {kind}", self._cloud_round)
        compute_s = work * self._step_s[clients] * factor
        finish_s = compute_s + to_cloud.seconds[clients]
        from_cloud = None
        if kind not in NO_MODEL:
            model_bits = self._world.wide_bits if kind == "update" else self._world.model_bits
            from_cloud = exchange(self._now, everyone, model_bits).client_down
            from_cloud.book(self._ledger, clients, round(model_bits / 8), a_model=False)
            finish_s = finish_s + from_cloud.seconds[clients]
        if self._now.air.is_shared:
            finish_s = back_s(self._now.air, from_cloud, to_cloud, clients, compute_s)
        to_cloud.book(self._ledger, clients, round(bits / 8), a_model=False)
        busy_s = float(compute_s.sum())
        joules = busy_s * self._now.compute_power_w
        self._ledger.compute(busy_s, joules)
        self._ledger.pay([Note(Shares.of(np.array([NOBODY]), airtime_s=busy_s, energy_j=joules))])
        self._ledger.feature_j += self._ledger.total_j - before_j
        if self._outages is not None:
            sent_j = to_cloud.legs[0].joules[clients]
            self._outages.take(clients, compute_s * self._now.compute_power_w + sent_j, self._clock.now_s)
        feature_s = self._method.group.feature_s
        self._clock.spend(float(finish_s.max()) if feature_s is None else feature_s)

    def _work(self, kind: str, clients: Ints) -> NDArray[np.floating]:
        """Steps' worth of computing (m,) for a feature; if clients train for it, that is noted as their progress."""
        assert self._features is not None
        local_steps = self._world.unit_steps * self._periods.local_steps
        work = self._features.work(kind, local_steps, self._pass_steps)[clients]
        if kind != "update":
            return work
        if self.progress is not None:
            return np.zeros(len(clients))  # trained already, only other layers are sent
        steps, start = local_steps[clients], np.zeros(len(clients), np.int64)
        practised = self._devices.practise(clients, steps)
        dispatch = self._held.states.dispatch([self._held.model], start, clients, steps, practised)
        self._held.practised(clients, dispatch)
        flight = Flight.of(clients, np.full(len(clients), -1), 0, np.full(len(clients), -1), steps)
        flight.load = Errand(dispatch)
        self.progress = flight
        return work


def _no_features(kind: str, layers: Layers) -> NDArray[np.floating]:
    raise ValueError("what aggregators are to do is decided without features; use what the grouping knows of them")

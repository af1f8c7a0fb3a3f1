"""Edge servers and heads are lost and come back, clients too, at random moments: every federation ends, whatever the method."""

import heapq
import random

import numpy as np
import pytest

from fedloom.deployment.clock import same
from fedloom.deployment.recorded import unforeseen
from fedloom.simulator import Scenario, Simulation, make_method
from fedloom.simulator.book import settle
from fedloom.simulator.clock import Back, Delivered, Left, Lost, Reporting
from fedloom.simulator.computing import Computing
from small import for_method

METHODS = [
    "hierfedavg",
    "hhfl",
    "camu",
    "csahfl",
    "csahfl_no_clusters",
    "hiflash_r",
    "feduc_r",
    "fedmes",
    "random_clusters",
]
MOST = 20_000  # what happens in a federation that ends


class Chance:
    """A carrier (fedloom.simulator.carrying) by lot: when updates and reports come, who is lost and when it is back."""

    foreseen = False

    def __init__(self, seed, box_s):
        self.now_s, self._lots, self._n, self._boxed = 0.0, random.Random(seed), 0, box_s is not None
        self._queue, self.serving, self.lost = [], {}, set()
        self.clock, self.happened = self, []

    def soon_s(self):
        return self._lots.expovariate(2.0)

    # The clock

    def foresee(self, at_s, happening):
        self._n += 1
        heapq.heappush(self._queue, (at_s, self._n, happening))

    def spend(self, seconds):
        pass

    def next(self):
        assert len(self.happened) < MOST, "it does not end"
        found = self._fault() if self._lots.random() < 0.05 or (self.lost and not self._queue) else None
        if found is None:
            assert self._queue, "it waits for nobody"
            at_s, _, found = heapq.heappop(self._queue)
            self.now_s = max(self.now_s, at_s)
        self.happened.append(found)
        return found

    def _fault(self):
        """Somebody is lost, as long as others are left, or back."""
        stations = sorted(self.serving)
        there = [s for s in stations if s not in self.lost and any(self.serving[s])]
        if self.lost and (self._lots.random() < 0.4 or len(there) < 2 or not self._queue):
            back = self._lots.choice(sorted(self.lost))
            self.lost.discard(back)
            return Back(*back)
        if self._lots.random() < 0.3:
            return Left((self._lots.randrange(6),))
        if len(there) < 2:
            return None
        gone = self._lots.choice(there)
        self.lost.add(gone)
        at_work = [k for k in range(6) if self.serving[gone][k]]
        return Lost(*gone, tuple(k for k in at_work if self._lots.random() < 0.7))

    # The carrier

    def sent(self, action, scene, event):
        topology = scene.topology
        if topology.kind != "cloud":
            hosts = topology.host.tolist()
            self.serving = {(topology.kind, h): topology.cover[topology.host == h].any(axis=0).tolist() for h in hosts}
        for part in action.parts:
            for client, ticket in part.names:
                self.foresee(self.now_s + self.soon_s(), Delivered((client,), (ticket,)))
        return unforeseen(action, event)

    def merged(self, part, scene, model):
        topology = scene.topology
        lost = np.isin(topology.host, [host for kind, host in self.lost if kind == topology.kind])
        if topology.cover[~lost].any():  # else nobody would be left, and they are waited for
            assert not lost[part.aggregator]

    def reported(self, group, hosts, models, kind, at_s):
        if not any(same(what, Reporting(group)) for _, _, what in self._queue):
            self.foresee(max(at_s, self.now_s) + self.soon_s(), Reporting(group))
        return True

    def seen(self, now, step_s):
        return now, step_s

    def takes_s(self, group, predicted_s):
        return self.soon_s() if self._boxed else 0.0

    def known(self, model):
        settle(model, None)

    def features(self, local):
        return local

    def computing(self, engine, live):
        return Computing(engine, live)


@pytest.mark.parametrize("moves", [None, "edge-round", "cloud-round"])
@pytest.mark.parametrize("name", METHODS)
def test_federations_whose_stations_come_and_go_end(name, moves):
    scenario, text = for_method(name, cloud_rounds=4)
    if moves is not None:
        scenario["fleet"]["mobility"] = {"p_stay": 0.5, "neighbours": "ring", "every": moves}
    method = make_method(text)
    n_lost = n_back = 0
    for seed in range(6):
        chance = Chance(seed, method.edge.box_s)
        simulation = Simulation(Scenario.model_validate(scenario), method, 0, dry_run=True, carrier=chance)
        for _ in simulation.rounds():
            pass
        assert simulation.cloud_rounds_done == 4
        assert np.isfinite(simulation.federation.clock.now_s)
        n_lost += sum(isinstance(what, Lost) for what in chance.happened)
        n_back += sum(isinstance(what, Back) for what in chance.happened)
    assert n_lost > 2 and n_back > 0

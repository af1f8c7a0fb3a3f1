"""Random fleets and random mixtures of parts: laws that every federation obeys, whatever it is made of."""

import copy
import random

import numpy as np
import pytest

from fedloom.grouping import all_cells, home_cells, one_cloud
from fedloom.mixing import by_reported, by_size, by_split_size, by_total, polynomial_cloud, polynomial_edge
from fedloom.pacing import fixed_deadline, lockstep, median_iqr
from fedloom.simulator import Simulation, make_method, scenario
from fedloom.simulator.driver import Driver
from small import SMALL

pytestmark = pytest.mark.slow


class Watched(Driver):
    """A federation that checks every event and counts what is sent and merged."""

    def __init__(self, *args, **options):
        self.sent, self.merged = 0, set()
        super().__init__(*args, **options)

    def _schedule(self, t_s, kind, subject):
        assert self.time_s <= t_s < np.inf
        super()._schedule(t_s, kind, subject)

    def _dispatch(self, clients, steps, *starts):
        assert len(set(clients.tolist())) == len(clients) and (self._group_of[clients] >= 0).all()
        assert not (self.method.edge == "async" and set(clients.tolist()) & set(self._working))
        self.sent += len(clients)
        return super()._dispatch(clients, steps, *starts)

    def _merge(self, i, flights, now):
        for flight in flights:
            new = {(flight.dispatch, p) for p in flight.positions.tolist()}
            assert not new & self.merged
            self.merged |= new
            assert (flight.arrives_s <= self.time_s + 2e-9).all() and (now >= flight.left_at).all()
        super()._merge(i, flights, now)

    def _merged(self, n, flights, now):
        model = super()._merged(n, flights, now)
        total = sum(w for _, w in model.models) + sum(w.sum() for _, _, w in model.jobs)
        assert total == pytest.approx(1.0)
        return model

    def check(self, simulation):
        under_way = sum(len(f.positions) for f in self._flights())
        assert self.sent == len(self.merged) + under_way and self._n_updates == len(self.merged)
        for earlier, later in zip(simulation.measures, simulation.measures[1:]):
            assert all(earlier[key] <= later[key] for key in ("time_s", "local_steps", "energy_j", "bytes", "updates"))
        if self.method.cloud == "barrier" and self.method.box_s is None:
            training = simulation.scenario.training
            assert max(g.n_rounds for g in self._groups) == training.edge_rounds * training.cloud_rounds


def random_scenario(rnd):
    made = copy.deepcopy(SMALL)
    fleet, training = made["fleet"], made["training"]
    fleet["n_devices"] = rnd.choice([2, 3, 6, 9, 12])
    n_cells = rnd.choice([1, 2, 3, 4])
    if n_cells == 1:
        fleet |= {"cells": {"kind": "single"}, "placement": {"kind": "disc"}}
    else:
        radius = rnd.choice([60, 80])
        fleet["cells"] = {"kind": "grid", "shape": "line", "n": n_cells, "spacing_m": 100, "radius_m": radius}
        fleet["homes"] = rnd.choice(["even", "nearest", "random"])
        if rnd.random() < 0.5:
            fleet["mobility"] = {"p_stay": rnd.choice([0, 0.5, 0.9]), "neighbours": rnd.choice(["path", "ring"])}
    laws = [{"kind": "fixed", "value": 0.1}, {"kind": "uniform", "low": 0.1, "high": 4}]
    fleet["compute"] = {"law": rnd.choice(laws), "power_w": 1.0, "jitter_sigma": rnd.choice([0, 0, 0.5])}
    ways = [{"kind": "free"}, {"kind": "fixed", "seconds": 1.3}]
    fleet["device_edge"] = {"up": rnd.choice([*ways, {"kind": "radio"}]), "down": rnd.choice(ways)}
    fleet["edge_cloud"] = {"up": rnd.choice(ways), "down": rnd.choice(ways)}
    if rnd.random() < 0.3:
        fleet["redraw"] = {"links": "cloud-round", "compute": "cloud-round"}
    if rnd.random() < 0.2:
        fleet["device_cloud"] = {"via": "direct"}
    made["task"]["partition"] = {"kind": rnd.choice(["iid", "dirichlet"])}
    training |= {
        "participation": rnd.choice([1, 1, 0.7, 0.3]),
        "edge_rounds": rnd.choice([1, 2, 3]),
        "cloud_rounds": rnd.choice([1, 4, 7]),
    }
    made["evaluation"] = {"every": rnd.choice([1, 3, 50])}
    return made


def random_method(rnd, moves):
    group = rnd.choice([home_cells, home_cells, all_cells, one_cloud])
    edge, cloud = rnd.choice(["rounds", "async"]), rnd.choice(["barrier", "immediate"])
    if group is all_cells and moves:
        cloud = "barrier"  # overlaps change who works together, which an immediate cloud refuses
    slow = fixed_deadline(rnd.choice([0.05, 0.5, 2, 20]))
    weighings = [by_split_size if group is all_cells else by_size, polynomial_edge()]
    parts = {
        "group": group,
        "edge": edge,
        "cloud": cloud,
        "regroup": rnd.choice(["moved", "cloud-round"]),
        "pace": rnd.choice([lockstep, median_iqr(0.5, rnd.random() < 0.5), median_iqr(0.0), slow]),
        "weigh_edge": polynomial_edge() if edge == "async" else rnd.choice(weighings),
        "weigh_cloud": rnd.choice([by_total, by_reported, polynomial_cloud()])
        if cloud == "barrier"
        else polynomial_cloud(),
    }
    if edge == "rounds" and cloud == "barrier" and rnd.random() < 0.3:
        parts["box_s"] = rnd.choice([0.5, 3.0, 11.0])
    return make_method("hierfedavg").with_(**parts)


def play(made, method, seed, monkeypatch, **options):
    monkeypatch.setattr("fedloom.simulator.simulation.Driver", Watched)
    simulation = Simulation(scenario(made), method, seed, n_workers=1, **options)
    for _ in simulation.rounds():
        pass
    simulation.federation.check(simulation)
    return simulation


@pytest.mark.timeout(120)
@pytest.mark.parametrize("block", range(8))
def test_laws_of_every_federation(block, monkeypatch):
    for seed in range(40 * block, 40 * (block + 1)):
        rnd = random.Random(seed)
        made = random_scenario(rnd)
        method = random_method(rnd, "mobility" in made["fleet"])
        dry = play(made, method, seed, monkeypatch, dry_run=True)
        if seed % 20 == 0:
            real = play(made, method, seed, monkeypatch)
            keys = dry.measures[0]
            assert [{k: m[k] for k in keys} for m in real.measures] == dry.measures
            assert real.federation.ledger.table() == dry.federation.ledger.table()

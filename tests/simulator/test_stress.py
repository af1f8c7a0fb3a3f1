"""Random fleets and random mixtures of parts: laws that every federation obeys, whatever it is made of."""

import copy
import random

import numpy as np
import pytest

from fedloom.grouping import all_cells, home_cells, one_cloud
from fedloom.methods import Grouping
from fedloom.mixing import (
    CloudLinear,
    Linear,
    by_reported,
    by_size,
    by_split_size,
    by_total,
    polynomial_cloud,
    polynomial_edge,
)
from fedloom.pacing import fixed_deadline, lockstep, median_iqr
from fedloom.protocol import Async, Barrier, Immediate, NoCloud, Rounds, TimeBox
from fedloom.simulator import Simulation, make_method, scenario
from fedloom.simulator.driver import Driver
from fedloom.simulator.steady import Steady
from small import SMALL

pytestmark = pytest.mark.slow


class Watched(Driver):
    """A federation that checks everything that happens and counts what is sent and merged."""

    def __init__(self, *args, **options):
        self.sent, self.merged = 0, set()
        super().__init__(*args, **options)
        self.steady = Steady(self, None)  # all that happens is to be seen, also what is as in the cloud round before
        foresee = self.clock.foresee

        def checked(at_s, happening):
            assert self.clock.now_s <= at_s < np.inf
            foresee(at_s, happening)

        self.clock.foresee = checked

    def _send(self, action):
        clients, roster = action.client.tolist(), self.machines.roster
        assert len(set(clients)) == len(clients) and (roster.group_of[clients] >= 0).all()
        at_work = [client for flight in roster.working.values() for client in flight.client.tolist()]
        assert len(set(at_work)) == len(at_work)
        self.sent += len(clients)
        super()._send(action)

    def _merge(self, action):
        new = set()
        for part in action.parts:
            names = [name for flight in part.flights for name in flight.names]
            assert len(set(names)) == len(names)
            new |= set(names)
            assert all((flight.arrives_s <= self.clock.now_s + 2e-9).all() for flight in part.flights)
            assert (part.arrivals.staleness >= 0).all()
        assert not new & self.merged and len(new) == action.n_updates
        self.merged |= new
        super()._merge(action)
        for model in (self.held.edges[part.aggregator] for part in action.parts):
            assert sum(w for _, w in model.models) + sum(w.sum() for _, _, w in model.jobs) == pytest.approx(1.0)

    def check_updates(self):
        """Whatever was sent has been merged or is under way, or was dropped, if the cloud does that."""
        found = len(self.merged) + sum(map(len, self.machines.flights()))
        assert self.errands.n_updates == len(self.merged)
        assert self.sent == found or (self.method.cloud == Barrier(drop_late=True) and self.sent > found)

    def check(self, simulation):
        self.check_updates()
        keys = ["time_s", "energy_j", "bytes", "updates"]
        if self.method.cloud.exists:  # else steps are those of a mean, in which cells without clients do not count
            keys.append("local_steps")
        for earlier, later in zip(simulation.measures, simulation.measures[1:]):
            assert all(earlier[key] <= later[key] for key in keys)
        if self.method.cloud.waits and self.method.edge.box_s is None:
            training = simulation.scenario.training
            assert max(edge.n_rounds for edge in self.machines.edges) == training.edge_rounds * training.cloud_rounds


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
    asynchronous, cloud = rnd.random() < 0.5, rnd.choice([Barrier(), Barrier(drop_late=True), NoCloud(), Immediate()])
    if group is all_cells and moves and not cloud.waits:
        cloud = Barrier()  # overlaps change who works together, which an immediate cloud refuses
    slow = fixed_deadline(rnd.choice([0.05, 0.5, 2, 20]))
    weighings = [by_split_size if group is all_cells else by_size, polynomial_edge()]
    pace = rnd.choice([lockstep, median_iqr(0.5, rnd.random() < 0.5), median_iqr(0.0), slow])
    edges = [Rounds(pace=pace), Rounds(pace=pace), TimeBox(pace=pace, seconds=rnd.choice([0.5, 3.0, 11.0]))]
    return make_method("hierfedavg").with_(
        group=Grouping(group, when=rnd.choice(["moved", "cloud-round"])),
        edge=Async() if asynchronous else rnd.choice(edges),
        cloud=cloud,
        merge_edge=Linear(polynomial_edge() if asynchronous else rnd.choice(weighings)),
        merge_cloud=CloudLinear(
            rnd.choice([by_total, by_reported, polynomial_cloud()]) if cloud.waits else polynomial_cloud()
        ),
    )


def play(made, method, seed, monkeypatch, **options):
    monkeypatch.setattr("fedloom.simulator.simulation.Driver", Watched)
    simulation = Simulation(scenario(made), method, seed, n_workers=1, **options)
    for _ in simulation.rounds():
        pass
    simulation.federation.check(simulation)
    return simulation


@pytest.mark.timeout(120)
@pytest.mark.parametrize("block", [pytest.param(i, marks=pytest.mark.full if i > 2 else ()) for i in range(8)])
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

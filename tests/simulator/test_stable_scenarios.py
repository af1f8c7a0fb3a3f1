"""Shipped scenarios teach the right thing: read after every edge round, no curve goes up and down in turn."""

import pytest

from fedloom.record.curve_health import oscillates
from fedloom.simulator import scenario, simulate
from fedloom.simulator.scenarios import names

LOOK = ["evaluation.every={edge_rounds: 1}", "evaluation.models=global", "evaluation.local_samples=0"]
METHODS = {
    "cells-overlap": ("fedavg", "hierfedavg", "hhfl", "fedmes", "msfedavg"),
    "city-trace": ("fedavg", "hierfedavg", "hhfl", "csahfl"),
    "d2d-mesh": ("fedavg", "ltc", "random_clusters"),
    "disc-100": ("fedavg", "ddc"),
    "edge-mobility": ("fedavg", "hierfedavg", "csahfl", "fedat"),
    "factory": ("fedavg", "ltc", "ddc"),
    "hostile": ("hierfedavg", "hhfl"),
    "two-regions": ("fedavg", "camu", "camu_ungated"),
}


FIRST = {
    *("cells-overlap-hhfl", "d2d-mesh-fedavg", "disc-100-ddc", "edge-mobility-csahfl", "factory-ddc"),
    "two-regions-fedavg",
}
"""Always run; the others with the full tests."""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "method"),
    [
        pytest.param(name, m, marks=() if f"{name}-{m}" in FIRST else pytest.mark.full)
        for name in names()
        for m in METHODS[name]
    ],
)
def test_no_curve_of_a_shipped_scenario_oscillates(name, method):
    values = [m["accuracy"] for m in simulate(scenario(name, LOOK), method, seed=0).measures]
    assert len(values) > 20 and not oscillates(values[-21:])
    assert not oscillates(values[-20::2]) and not oscillates(values[-19::2])


@pytest.mark.slow
def test_the_rate_that_was_too_large_is_seen():
    restless = scenario("cells-overlap", [*LOOK, "training.lr=0.05", "training.momentum=0.5"])
    assert oscillates([m["accuracy"] for m in simulate(restless, "msfedavg", seed=0).measures])


def test_in_the_mesh_links_decide():
    """A model takes as long beside a client's computing as in LTC: 3 to 15 of 15.6 units."""
    import numpy as np

    from fedloom.simulator import Simulation, make_method

    shares, before = [], None
    for seed in range(3):
        simulation = Simulation(scenario("d2d-mesh"), make_method("random_clusters"), seed, dry_run=True)
        world = simulation.world
        for g in range(3):
            now = world.fleet.snapshot(g)
            link_s = now.d2d.seconds(world.model_bits)[~np.eye(30, dtype=bool)]
            work_s = world.pass_steps * now.step_seconds(world.batch_size, world.n_samples)
            shares.append(np.percentile(link_s, [5, 50, 95]) / work_s.mean())
            assert before is None or not np.array_equal(before, link_s)  # drawn anew
            before = link_s
    low, middle, high = np.mean(shares, axis=0)
    assert 0.15 < low < 0.3 and 0.3 < middle < 0.6 and 0.8 < high < 1.3

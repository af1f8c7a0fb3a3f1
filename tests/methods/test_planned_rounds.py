"""The round that clusters of devices are planned with is the round they run."""

import numpy as np
import pytest

import fedloom as fl
from fedloom.pacing import rounds_in_box
from fedloom.simulator import Simulation

D2D = ("ltc", "fedmds", "fedmds_plus", "dcliques", "random_clusters", "ltc:solution=3", "ltc:start=complementary")


def mesh(small, broadcast, seed, dead=False):
    """Devices whose links take about as long as their computing, drawn anew in every cloud round."""
    rng = np.random.default_rng(seed)
    small["fleet"] = {
        "n_devices": int(rng.integers(6, 15)),
        "device_device": {"kind": "drawn", "low": 0 if dead else 1, "high": 5},
        "head_broadcast": broadcast,
        "device_edge": {"up": {"kind": "free"}, "down": {"kind": "free"}},
        "compute": {"law": {"kind": "uniform", "low": 1, "high": 3}, "unit": "steps-per-second"},
        "redraw": {"links": "cloud-round", "compute": "cloud-round"},
    }
    small["model_bits"] = float(rng.uniform(5, 40))
    small["task"]["partition"] = {"kind": "sizes", "relative_std": 0.3, "classes_per_client": 2}
    small["training"] = {"batch_size": 8, "local_epochs": 1, "cloud_rounds": 3, "lr": 0.1}
    return fl.scenario(small)


@pytest.mark.parametrize("dead", [False, True])
@pytest.mark.parametrize("broadcast", ["link", "free"])
@pytest.mark.parametrize("name", D2D)
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.full) for seed in (1, 2))])
def test_the_rounds_that_fit_as_planned_are_run(small, name, broadcast, dead, seed):
    scenario = mesh(small, broadcast, seed, dead)
    method = fl.make_method(f"{name}:box_s=90")
    states = list(Simulation(scenario, method, seed, dry_run=True).federation.cloud_rounds(3))
    assert len(states) == 3
    for state in states:
        planned_s = state.topology.notes["round_s"]
        assert planned_s.shape == (
            state.topology.n_aggregators,
        )  # every cluster, also those that hear each other badly
        assert state.group_rounds.tolist() == [rounds_in_box(90.0, t) for t in planned_s.tolist()]
    assert any((state.group_rounds > 1).any() for state in states)


def test_rounds_are_planned_longer_where_the_model_of_a_head_takes_its_time(small):
    scenario = mesh(small, "link", 1)
    free = scenario.model_copy(update={"fleet": scenario.fleet.model_copy(update={"head_broadcast": "free"})})
    (with_download,), (without,) = (
        list(Simulation(s, fl.make_method("random_clusters"), 0, dry_run=True).federation.cloud_rounds(1))
        for s in (scenario, free)
    )
    np.testing.assert_array_equal(with_download.topology.cover, without.topology.cover)
    assert (with_download.topology.notes["round_s"] >= without.topology.notes["round_s"]).all()
    assert with_download.topology.notes["round_s"].sum() > 1.1 * without.topology.notes["round_s"].sum()

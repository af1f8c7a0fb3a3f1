"""Two methods with the same seed see the same world: factors of computing time, samples of clients and noise go by device and
round, never by who else is asked or how aggregators are numbered."""

import copy

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedloom._random import normal_of, stream, uniform_of
from fedloom.simulator import Simulation, make_method, scenario
from fedloom.simulator.timeline import table
from small import SMALL


def sent_of(chosen, method, seed):
    """Timeline of a dry run: client, edge round, times before in it, and seconds of its computing."""
    simulation = Simulation(chosen, make_method(method), seed, dry_run=True, timeline=True)
    for _ in simulation.rounds():
        pass
    timeline = simulation.federation.timeline
    return table(timeline) | {"times": np.concatenate([s.times for s in timeline])}, simulation


def factors(columns, simulation):
    """(client, edge round, times) -> realised over planned seconds a step; speeds must not be redrawn."""
    step_s = simulation.world.fleet.snapshot(0).step_seconds(simulation.world.batch_size, simulation.world.n_samples)
    keys = zip(columns["client"].tolist(), columns["edge_round"].tolist(), columns["times"].tolist())
    values = columns["compute_s"] / step_s[columns["client"]]
    return dict(zip(keys, values.tolist()))


def lockstep(seed, sigma=0.4, **training):
    made = copy.deepcopy(SMALL)
    made["fleet"]["compute"]["jitter_sigma"] = sigma
    made["training"] |= {"cloud_rounds": 3} | training
    return scenario(made)


@pytest.mark.parametrize("other", ["hierfedavg", "hhfl", "fedavg", "fedmes", "random_clusters", "fedprox:mu=0.1"])
@pytest.mark.parametrize("seed", [0, 7])
def test_a_device_has_the_same_factor_in_the_same_edge_round_whatever_the_method(seed, other):
    chosen = lockstep(seed)
    runs = [factors(*sent_of(chosen, m, seed)) for m in ("hierfedavg", other)]
    common = runs[0].keys() & runs[1].keys()
    assert len(common) == len(runs[0]) == 6 * 6
    for key in common:
        assert runs[0][key] == pytest.approx(runs[1][key], rel=1e-12)
    assert len(set(np.round(list(runs[0].values()), 9))) == len(common)  # and every one is another


@pytest.mark.parametrize("threshold", [180, 20])  # one cluster; several, so that aggregators have other numbers
@pytest.mark.parametrize("seed", [1, 2])
def test_methods_that_sample_the_same_cell_draw_the_same_clients(seed, threshold):
    chosen = scenario("edge-mobility", ["training.cloud_rounds=4", "fleet.compute.jitter_sigma=0.0"])

    def drawn(method):
        columns, _ = sent_of(chosen, method, seed)
        found = {}
        for client, number in zip(columns["client"].tolist(), columns["edge_round"].tolist()):
            found.setdefault(number, set()).add(client)
        return found

    plain, other = drawn("hierfedavg"), drawn(f"csahfl_no_deadline:beta={threshold}")
    assert plain == other and len(plain) == 12


def test_sampling_prefers_nobody():
    lots = np.array([uniform_of(3, "sampling", np.arange(10), r, 0) for r in range(4000)])
    chosen = (np.argsort(np.argsort(lots, axis=1), axis=1) < 3).mean(axis=0)
    assert np.abs(chosen - 0.3).max() < 4 * np.sqrt(0.3 * 0.7 / 4000)
    assert abs(np.corrcoef(lots[:-1, 0], lots[1:, 0])[0, 1]) < 0.06
    assert np.abs(np.corrcoef(lots.T) - np.eye(10)).max() < 0.08


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 2**63 - 1), st.lists(st.integers(0, 10**6), min_size=1, max_size=20, unique=True), st.randoms())
def test_a_draw_depends_on_the_device_alone(seed, devices, shuffler):
    who = np.array(devices)
    mixed = who.copy()
    shuffler.shuffle(mixed)
    draws = dict(zip(who.tolist(), uniform_of(seed, "x", who, 4, 2).tolist()))
    assert draws == dict(zip(mixed.tolist(), uniform_of(seed, "x", mixed, 4, 2).tolist()))
    assert all(0 < v < 1 for v in draws.values()) and len(set(draws.values())) == len(who)
    assert not set(draws.values()) & set(uniform_of(seed, "x", who, 2, 4).tolist())


def test_factors_are_standard_normal():
    z = normal_of(5, "jitter", np.arange(20_000), 1, 0)
    assert abs(z.mean()) < 0.03 and abs(z.std() - 1) < 0.02
    assert abs((z**3).mean()) < 0.1 and abs((z**4).mean() - 3) < 0.25


def test_noise_of_a_client_that_sends_to_the_cloud_is_its_own():
    # two clients, one merge: the model is the mean of what each sent with its own noise
    chosen = scenario(
        "two-regions",
        ["training.cloud_rounds=1", "training.lr=1e-12", "fleet.n_devices=30", "task.model={kind: softmax}"],
    )
    simulation = Simulation(chosen, make_method("fedavg"), seed=4)
    start = None
    for _ in simulation.rounds():
        start = simulation.federation.model.row if start is None else start
    std = simulation.federation.scenes.now.noise_std
    n = simulation.world.n_samples
    expected = start.astype(np.float64)
    for k in range(30):
        noise = stream(4, "uplink noise", k, 1, 0).standard_normal(len(start))
        expected = expected + n[k] / n.sum() * std[k] * noise
    assert np.abs(simulation.federation.model.row - expected).max() < 1e-5

"""SCAFFOLD in whole runs: against its published loop in numpy, bytes by hand, and where it is FedAvg."""

import numpy as np
import pytest
from plain_softmax import gradients

from fedloom._random import uniform_of
from fedloom.simulator import Simulation, make_method, scenario, simulate
from fedloom.training import rows
from small import for_method

ROUNDS, STEPS, LR, SEED = 20, 3, 0.2, 3


@pytest.fixture
def convex(small):
    small["task"]["model"] = {"kind": "softmax"}
    small["training"] = {"batch_size": 8, "local_steps": STEPS, "edge_rounds": 1, "cloud_rounds": ROUNDS, "lr": LR}
    return small


def local(task, client, x, c, c_i, first_step):
    """Steps of SCAFFOLD and option II of its control update."""
    y = x
    for grad in gradients(task, SEED, client, first_step, STEPS):
        y = y - LR * (grad(y) - c_i + c)
    return y, c_i - c + (x - y) / (STEPS * LR)


def published(simulation, sampled):
    """sampled(round) -> clients. Everybody counts by samples."""
    task = simulation.setting.task
    n, x = task.n_samples, rows.to_row(simulation.setting.model).astype(np.float64)
    c, own, done = np.zeros_like(x), np.zeros((len(n), len(x))), np.zeros(len(n), dtype=int)
    for g in range(ROUNDS):
        clients = sampled(g)
        results = {k: local(task, int(k), x, c, own[k], int(done[k])) for k in clients}
        x = sum(n[k] * results[k][0] for k in clients) / n[clients].sum()
        c = c + sum(n[k] * (results[k][1] - own[k]) for k in clients) / n.sum()
        for k in clients:
            own[k], done[k] = results[k][1], done[k] + STEPS
    return x


def run(made, method):
    simulation = Simulation(scenario(made), make_method(method), seed=SEED, engine="torch", n_workers=1)
    for _ in simulation.rounds():
        pass
    return simulation


def test_with_everybody_it_is_the_published_loop_over_twenty_rounds(convex):
    simulation = run(convex, "scaffold")
    expected = published(simulation, lambda g: np.arange(6))
    np.testing.assert_allclose(simulation.result().row, expected, atol=1e-5)
    assert np.abs(run(convex, "fedavg").result().row - expected).max() > 1e-3


def test_with_half_of_the_clients_controls_move_by_their_share(convex):
    convex["training"]["participation"] = 0.5
    simulation = run(convex, "scaffold")

    def sampled(g):
        lots = uniform_of(SEED, "sampling", np.arange(6), g, 0)
        return np.sort(np.argsort(lots, kind="stable")[:3])

    np.testing.assert_allclose(simulation.result().row, published(simulation, sampled), atol=1e-5)


def test_with_one_average_at_the_edge_the_hierarchical_one_is_the_flat_one_but_for_rounding(convex):
    flat, tiered = (run(convex, name).result().row for name in ("scaffold", "scaffold:hierarchical=true"))
    np.testing.assert_allclose(flat, tiered, atol=2e-5)


PAIRS = [
    ("scaffold:correction=0", "fedavg"),
    ("scaffold:correction=0:hierarchical=true", "hierfedavg"),
    ("hhfl:rule=scaffold:rule.correction=0", "hhfl"),
    ("csahfl:rule=scaffold:rule.correction=0", "csahfl"),
    ("fedat:rule=scaffold:rule.correction=0", "fedat"),
    ("ltc:rule=scaffold:rule.correction=0", "ltc"),
    ("camu:rule=scaffold:rule.correction=0", "camu"),
]


@pytest.mark.parametrize("pair", PAIRS)
def test_without_correction_it_trains_what_it_stands_on_bit_for_bit(pair):
    """Models are so small on air that twice the bytes change nothing that the clock decides."""
    name = pair[1]
    made, text = for_method(name)
    made["model_bits"] = 8
    a, b = (
        simulate(scenario(made), m, seed=1, engine="torch", n_workers=1) for m in (pair[0].replace(name, text, 1), text)
    )
    assert np.array_equal(a.row, b.row)
    assert [m["accuracy"] for m in a.measures] == [m["accuracy"] for m in b.measures]
    assert [m["edge_drift"] for m in a.measures] == [m["edge_drift"] for m in b.measures]


@pytest.mark.parametrize("name", ["fedavg", "hierfedavg", "hhfl"])
def test_controls_double_the_bytes(small, name):
    plain, controlled = (simulate(scenario(small), m, seed=1, dry_run=True) for m in (name, f"{name}:rule=scaffold"))
    assert controlled.ledger.total_bytes == 2 * plain.ledger.total_bytes > 0
    for a, b in zip(plain.measures, controlled.measures):
        assert a["models_unicast"] == b["models_unicast"]


def test_controls_are_coded_with_the_model(small):
    text = "hhfl:up=topk:up.share=0.1:down=float16"
    made = scenario(small)
    simulation = Simulation(made, make_method(f"{text}:rule=scaffold"), seed=1, dry_run=True)
    n = 2 * simulation.n_params
    kept = round(0.1 * n)
    which = min(-(-kept * (n - 1).bit_length() // 8), -(-n // 8))
    assert simulation.world.up_bits == 32 * kept + 8 * which and simulation.world.down_bits == 16 * n


def test_statistics_of_normalisations_have_no_controls(small):
    from torch import nn

    model = nn.Sequential(nn.Linear(8, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, 4))
    simulation = Simulation(scenario(small), make_method("scaffold"), seed=1, model=model)
    for _ in simulation.rounds():
        pass
    row, n, trained = simulation.federation.model.row, simulation.n_params, rows.trainable_mask(model)
    controls = row[n:]
    assert controls[trained].any() and not controls[~trained].any()
    for own in simulation.federation.held.states.kept.values():
        assert own.row[trained].any() and not own.row[~trained].any()

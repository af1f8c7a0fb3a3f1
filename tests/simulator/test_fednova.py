"""FedNova in whole runs: against a plain loop on softmax regression, and where it is FedAvg."""

import numpy as np
import pytest

from fedloom.mixing import robust
from fedloom.simulator import Simulation, make_method, scenario, simulate
from fedloom.training import rows
from fedloom.training.batches import batches
from small import for_method

N_CLASSES, ROUNDS, LR = 4, 20, 0.2


@pytest.fixture
def uneven(small):
    """Softmax regression for one epoch: who has more data does more steps."""
    small["task"]["model"] = {"kind": "softmax"}
    small["task"]["partition"] = {"kind": "dirichlet", "concentration": 0.5}
    small["training"] = {"batch_size": 8, "local_epochs": 1, "edge_rounds": 1, "cloud_rounds": ROUNDS, "lr": LR}
    return small


def trained(task, seed, client, row, first_step, n_steps):
    """Steps of gradient descent on mini-batches."""
    part = task.parts[client]
    w, b = row[:-N_CLASSES].reshape(N_CLASSES, -1), row[-N_CLASSES:]
    for positions in batches(seed, client, len(part), task.batch_size, first_step, n_steps):
        x, y = task.x_train[part[positions]].astype(np.float64), task.y_train[part[positions]]
        p = np.exp(x @ w.T + b)
        p /= p.sum(axis=1, keepdims=True)
        error = (p - np.eye(N_CLASSES)[y]) / len(y)
        w, b = w - LR * error.T @ x, b - LR * error.sum(axis=0)
    return np.concatenate([w.ravel(), b])


def test_flat_it_is_the_published_loop_over_twenty_rounds(uneven):
    simulation = Simulation(scenario(uneven), make_method("fednova"), seed=3)
    task = simulation.setting.task
    steps = -(-task.n_samples // task.batch_size)
    assert len(set(steps.tolist())) > 1
    p, row = task.n_samples / task.n_samples.sum(), rows.to_row(simulation.setting.model).astype(np.float64)
    for g in range(ROUNDS):
        change = np.zeros_like(row)
        for k, tau in enumerate(steps.tolist()):
            change += p[k] * (trained(task, 3, k, row, g * tau, tau) - row) / tau
        row = row + (p @ steps) * change
    for _ in simulation.rounds():
        pass
    np.testing.assert_allclose(simulation.result().row, row, atol=1e-5)
    plain = simulate(scenario(uneven), "fedavg", seed=3).row
    assert np.abs(plain - row).max() > 1e-3


PAIRS = [
    ("fednova", "fedavg"),
    ("fednova:hierarchical=true", "hierfedavg"),
    ("hhfl:by_steps=true", "hhfl"),
    ("fedat:by_steps=true", "fedat"),
    ("fedavg:by_steps=false", "fedavg"),
]


@pytest.mark.parametrize("pair", PAIRS)
def test_with_equal_steps_it_is_what_it_stands_on_bit_for_bit(pair):
    name = pair[1]
    made, text = for_method(name)
    a, b = (simulate(scenario(made), m, seed=1) for m in (pair[0].replace(name, text, 1), text))
    assert np.array_equal(a.row, b.row) and a.measures == b.measures


@pytest.mark.parametrize("name", ["hhfl", "csahfl_no_clusters", "ltc"])
def test_with_any_method_and_robust_merges_it_runs_and_makes_a_difference(uneven, name):
    made, text = for_method(name)
    made["task"], made["training"] = uneven["task"], uneven["training"] | {"cloud_rounds": 3, "edge_rounds": 2}
    a, b = (simulate(scenario(made), m, seed=1) for m in (text, f"{text}:by_steps=true"))
    assert not np.array_equal(a.row, b.row) and np.isfinite(b.row).all() and a.ledger.table() == b.ledger.table()
    trimmed = make_method(text).with_(merge_edge=robust.at_edge(robust.trimmed_mean(0.2)))
    c, d = (simulate(scenario(made), m, seed=1) for m in (trimmed, trimmed.with_(by_steps=True)))
    assert not np.array_equal(c.row, d.row) and np.isfinite(d.row).all()

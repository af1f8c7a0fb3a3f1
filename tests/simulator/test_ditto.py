"""Ditto in whole runs: personal models against its published loop in numpy, the shared model always the method's."""

import numpy as np
import pytest
from plain_softmax import gradients

from fedloom.simulator import Simulation, make_method, scenario, simulate
from fedloom.training import rows
from small import for_method

ROUNDS, STEPS, LR, PULL, SEED = 20, 3, 0.2, 0.5, 3


@pytest.fixture
def convex(small):
    small["task"]["model"] = {"kind": "softmax"}
    small["training"] = {"batch_size": 8, "local_steps": STEPS, "edge_rounds": 1, "cloud_rounds": ROUNDS, "lr": LR}
    return small


def test_it_is_the_published_loop_over_twenty_rounds(convex):
    simulation = Simulation(scenario(convex), make_method(f"ditto:pull={PULL}"), seed=SEED, n_workers=1)
    for _ in simulation.rounds():
        pass
    task = simulation.setting.task
    n, w = task.n_samples, rows.to_row(simulation.setting.model).astype(np.float64)
    personal = [w.copy() for _ in n]
    for g in range(ROUNDS):
        trained = []
        for k in range(len(n)):
            y = w
            for grad in gradients(task, SEED, k, g * STEPS, STEPS):
                y = y - LR * grad(y)
                personal[k] = personal[k] - LR * (grad(personal[k]) + PULL * (personal[k] - w))
            trained.append(y)
        w = np.average(trained, axis=0, weights=n)
    np.testing.assert_allclose(simulation.result().row, w, atol=1e-5)
    kept = simulation.federation.held.states.kept
    np.testing.assert_allclose([kept[k].row for k in range(len(n))], personal, atol=1e-5)
    assert max(np.abs(v - w).max() for v in personal) > 0.1


def test_personal_accuracies_are_those_of_the_models_that_clients_keep(convex):
    simulation = Simulation(scenario(convex), make_method("ditto"), seed=SEED, n_workers=1)
    for _ in simulation.rounds():
        pass
    kept, last = simulation.federation.held.states.kept, simulation.measures[-1]
    found = simulation.engine.evaluate(np.stack([kept[k].row for k in range(6)]))
    simulation.engine.close()
    assert last["personal_accuracy"] == pytest.approx(found.accuracy.mean())
    assert last["personal_accuracy_worst"] == found.accuracy.min()
    y, mine = simulation.dataset.y_test, simulation.label_counts > 0
    local = [found.correct[k][mine[k][y]].mean() for k in range(6)]
    assert last["local_by_personal"] == pytest.approx(np.mean(local))
    assert last["local_by_personal"] > last["local_by_global"]  # two labels each: that is what it is for
    first = simulation.measures[0]
    assert first["personal_accuracy"] == first["accuracy"] and first["local_by_personal"] == first["local_by_global"]


@pytest.mark.parametrize("name", ["fedavg", "hierfedavg", "hhfl", "csahfl_no_deadline", "msfedavg"])
def test_the_shared_model_is_the_methods_bit_for_bit(name):
    made, text = for_method(name)
    a, b = (simulate(scenario(made), m, seed=1, engine="torch", n_workers=1) for m in (text, f"{text}:rule=ditto"))
    assert np.array_equal(a.row, b.row) and a.ledger.total_bytes == b.ledger.total_bytes
    for plain, beside in zip(a.measures, b.measures):
        assert {**beside, **plain} | {key: beside[key] for key in ("time_s", "energy_j")} == beside


def test_two_models_take_twice_the_computing(small):
    plain, beside = (Simulation(scenario(small), make_method(m), seed=1, dry_run=True) for m in ("hhfl", "ditto"))
    for simulation in (plain, beside):
        for _ in simulation.rounds():
            pass
    a, b = plain.federation.ledger, beside.federation.ledger
    assert b.compute_s == pytest.approx(2 * a.compute_s) and b.compute_j == pytest.approx(2 * a.compute_j)


def test_nobody_to_pull_trains_alone(convex):
    """With pull 0 a personal model is what its client's own steps make of the first model, whoever else there is."""
    simulation = Simulation(scenario(convex), make_method("ditto:pull=0"), seed=SEED, n_workers=1)
    for _ in simulation.rounds():
        pass
    task, alone = simulation.setting.task, rows.to_row(simulation.setting.model).astype(np.float64)
    for grad in gradients(task, SEED, 2, 0, ROUNDS * STEPS):
        alone = alone - LR * grad(alone)
    np.testing.assert_allclose(simulation.federation.held.states.kept[2].row, alone, atol=1e-5)

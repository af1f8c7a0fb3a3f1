"""Server optimisers in whole runs: against a plain loop on softmax regression, and where they are nothing."""

import numpy as np
import pytest

from fedloom.grouping import home_cells
from fedloom.methods import Grouping
from fedloom.mixing import CloudLinear, Linear
from fedloom.mixing.server import Adam, Momentum
from fedloom.simulator import Simulation, make_method, scenario, simulate
from fedloom.training import rows

N_CLASSES, ROUNDS, STEPS, LR = 4, 20, 2, 0.2


@pytest.fixture
def convex(small):
    """Softmax regression with all samples in a batch: its steps can be written down."""
    small["task"]["model"] = {"kind": "softmax"}
    small["training"] |= {"batch_size": 500, "local_steps": STEPS, "edge_rounds": 1, "cloud_rounds": ROUNDS, "lr": LR}
    return small


def trained(x, y, w, b):
    """Two steps of gradient descent on the mean cross-entropy."""
    for _ in range(STEPS):
        z = x @ w.T + b
        p = np.exp(z - z.max(axis=1, keepdims=True))
        p /= p.sum(axis=1, keepdims=True)
        error = (p - np.eye(N_CLASSES)[y]) / len(y)
        w, b = w - LR * error.T @ x, b - LR * error.sum(axis=0)
    return np.concatenate([w.ravel(), b])


def plain_loop(simulation, move):
    """Flat federated training: the mean by size, then the move of the server. move(D, round) -> (P,)"""
    task = simulation.setting.task
    row = rows.to_row(simulation.setting.model).astype(np.float64)
    share = task.n_samples / task.n_samples.sum()
    for g in range(ROUNDS):
        w, b = row[:-N_CLASSES].reshape(N_CLASSES, -1), row[-N_CLASSES:]
        results = [trained(task.x_train[part].astype(np.float64), task.y_train[part], w, b) for part in task.parts]
        row = row + move(share @ np.array(results) - row, g)
    return row


class Kept:
    """The moments of the published forms, in plain variables."""

    def __init__(self, name):
        self.name, self.m, self.v = name, 0.0, 1e-6

    def __call__(self, d, _):
        if self.name == "fedavgm":
            self.m = 0.9 * self.m + d
            return self.m
        self.m = 0.9 * self.m + 0.1 * d
        if self.name == "fedadam":
            self.v = 0.99 * self.v + 0.01 * d**2
        else:
            self.v = self.v - 0.01 * d**2 * np.sign(self.v - d**2)
        return 0.03 * self.m / (np.sqrt(self.v) + 1e-3)


@pytest.mark.parametrize("name", ["fedavgm", "fedadam", "fedyogi"])
def test_flat_methods_are_the_plain_loop_over_twenty_rounds(convex, name):
    simulation = Simulation(scenario(convex), make_method(name), seed=3)
    expected = plain_loop(simulation, Kept(name))
    for _ in simulation.rounds():
        pass
    np.testing.assert_allclose(simulation.result().row, expected, atol=1e-5)


@pytest.mark.parametrize("name", ["fedavgm", "fedadam", "fedyogi"])
def test_with_one_average_at_the_edge_hierarchical_methods_are_the_flat_ones_but_for_rounding(convex, name):
    flat, tiered = (simulate(scenario(convex), text, seed=3) for text in (name, f"{name}:hierarchical=true"))
    np.testing.assert_allclose(flat.row, tiered.row, atol=2e-5)


@pytest.mark.parametrize(("options", "plain"), [("", "fedavg"), (":hierarchical=true", "hierfedavg")])
def test_without_memory_fedavgm_is_what_it_stands_on_bit_for_bit(small, options, plain):
    a, b = (simulate(scenario(small), m, seed=1) for m in (f"fedavgm:lr=1:beta=0{options}", plain))
    assert np.array_equal(a.row, b.row) and a.measures == b.measures


VARIANTS = {
    "flat": lambda: make_method("fedadam"),
    "cloud": lambda: make_method("fedyogi:hierarchical=true"),
    "both levels": lambda: make_method("hhfl").with_(merge_edge=Linear(then=Momentum()), merge_cloud=CloudLinear(then=Adam())),
    "aggregators that change": lambda: make_method("hierfedavg").with_(
        group=Grouping(home_cells, when="cloud-round"), merge_edge=Linear(then=Momentum(beta=0.5))
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", VARIANTS)
@pytest.mark.parametrize("stop_after", [1, 2, 3])
def test_a_run_goes_on_with_its_moments_to_the_same_bits(small, name, stop_after):
    whole = simulate(scenario(small), VARIANTS[name](), seed=2)
    first, second = (Simulation(scenario(small), VARIANTS[name](), seed=2) for _ in range(2))
    for _ in first.rounds():
        if first.cloud_rounds_done == stop_after:
            break
    for _ in second.rounds(first.checkpoint()):
        pass
    assert np.array_equal(second.result().row, whole.row) and second.measures == whole.measures


def test_moments_make_a_difference_and_a_look_does_not(small):
    plain, moved = (simulate(scenario(small), m, seed=1) for m in ("hierfedavg", "fedavgm:hierarchical=true"))
    assert not np.array_equal(plain.row, moved.row)
    small["evaluation"] = {"every": {"edge_rounds": 1}}
    looked = simulate(scenario(small), "fedavgm:hierarchical=true", seed=1)
    assert np.array_equal(looked.row, moved.row)

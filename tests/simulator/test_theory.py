"""What bounds are made of, of losses 3/2 |w|^2 whose gradients are known."""

from types import SimpleNamespace

import numpy as np
import pytest

from fedloom.simulator.theory import Theory

LR, NOISE = 0.5, np.float32([0.3, -0.4])


class Bowl:
    """Two clients with the same loss; a mini-batch is off by NOISE."""

    def evaluate(self, rows, split):
        return SimpleNamespace(loss=1.5 * (rows**2).sum(axis=1))

    def gradient(self, rows, jobs):
        return np.stack([3 * rows[row] for row, _ in jobs])

    def train(self, starts, jobs):
        return np.stack([starts[i] - LR * (3 * starts[i] + NOISE) for i in jobs.start])


def test_smoothness_noise_and_lengths_of_a_bowl():
    cover = np.array([[True, False], [False, True]])
    state = SimpleNamespace(cloud_round=1, topology=SimpleNamespace(cover=cover), client_steps=np.array([4, 8]))
    theory, before, row = Theory(Bowl(), np.array([10, 30]), LR), np.float32([2, 0]), np.float32([1, 1])
    found = theory.measure(row, before, state)
    assert found["train_loss"] == 3.0 and found["gradient_norm"] == 6.0 and found["step_mass"] == 7.0
    assert found["smoothness"] == pytest.approx(3.0) and found["noise2"] == pytest.approx(0.25)
    assert found["gradient2"] == pytest.approx(6.3**2 + 0.4**2) == pytest.approx(found["gradient_max"] ** 2)
    assert found["mismatch_cluster_max"] == found["mismatch2_client"] == 0.0
    both = SimpleNamespace(**vars(state) | {"topology": SimpleNamespace(cover=np.ones((2, 2), bool))})
    assert "mismatch_client" not in theory.measure(row, before, both)  # whose clusters have common clients
    assert set(theory.measure(row, None, None)) == {"train_loss"}

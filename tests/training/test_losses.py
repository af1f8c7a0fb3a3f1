"""Losses by the kind of targets, and of one's own: what is minimised, and what is counted as right."""

import numpy as np
import pytest
import torch
from torch.nn import functional

from fedloom.training import losses


def drawn(*shape, seed=0):
    return torch.from_numpy(np.random.default_rng(seed).standard_normal(shape).astype(np.float32))


def test_tokens_without_a_label_do_not_count():
    """By a plain loop over tokens: the loss is the mean over those of the batch that have one, a sample's share over its own."""
    output = drawn(3, 4, 5)
    target = torch.tensor([[0, 1, -1, -1], [2, 2, 2, 2], [4, -1, -1, 3]])
    each, right = [], []
    for i in range(3):
        mine = [t for t in range(4) if target[i, t] >= 0]
        each.append([-torch.log_softmax(output[i, t], 0)[target[i, t]].item() for t in mine])
        right.append(np.mean([output[i, t].argmax().item() == target[i, t].item() for t in mine]))
    mean = losses.function("tokens")(output, target).item()
    assert mean == pytest.approx(np.mean([x for sample in each for x in sample]), rel=1e-6)
    sums, share = losses.scored("tokens", output, target)
    assert sums[0] == pytest.approx(sum(np.mean(sample) for sample in each), rel=1e-6)
    np.testing.assert_allclose(share, right)


def test_several_labels_are_right_by_the_side_of_zero():
    output, target = (
        torch.tensor([[2.0, -1.0, 0.5], [-3.0, 1.0, -0.5]]),
        torch.tensor([[1.0, 0.0, 0.0], [0.0, 1.0, 1.0]]),
    )
    sums, share = losses.scored("multi-label", output, target)
    np.testing.assert_allclose(share, [2 / 3, 2 / 3])
    probability = 1 / (1 + np.exp(-output.numpy().astype(np.float64)))
    loss = -np.where(target.numpy() > 0, np.log(probability), np.log(1 - probability))
    assert sums[0] == pytest.approx(loss.mean(axis=1).sum(), rel=1e-6)
    assert losses.function("multi-label")(output, target).item() == pytest.approx(loss.mean(), rel=1e-6)


@pytest.mark.parametrize(
    ("name", "own", "target"),
    [
        ("cross-entropy", functional.cross_entropy, torch.tensor([0, 2, 1, 1])),
        ("mse", functional.mse_loss, drawn(4, 3, seed=1)),
    ],
)
def test_a_function_is_scored_like_the_loss_of_that_name(name, own, target):
    output = drawn(4, 3)
    sums, right = losses.scored(name, output, target)
    mine, same = losses.scored(lambda a, b: own(a, b), output, target)
    np.testing.assert_allclose(mine, sums, rtol=1e-6)
    np.testing.assert_array_equal(right, same)

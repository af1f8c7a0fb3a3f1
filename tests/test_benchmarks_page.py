"""The page beside other simulators is what the committed results give, and its check notices training that is not the same."""

import copy
import json
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "benchmarks"))
import peers_page  # noqa: E402

RESULTS = json.loads((ROOT / "benchmarks" / "peers" / "results.json").read_text(encoding="utf-8"))


def test_the_page_is_what_the_results_give():
    assert (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8") == peers_page.page(RESULTS)


def test_every_loop_of_the_results_trains_the_same():
    assert "**no**" not in peers_page.page(RESULTS)


def test_a_loop_with_another_loss_is_marked():
    changed = copy.deepcopy(RESULTS)
    for turn in changed["turns"]:
        if turn["case"] == "softmax":
            turn["runs"]["pfl"]["loss"] *= 1.05
    rows = [line for line in peers_page.page(changed).splitlines() if line.startswith("| pfl")]
    assert rows[0].endswith("| **no** |") and all(row.endswith("| yes |") for row in rows[1:])


def loss(seed, lr=0.01, n_steps=5, batch_size=20, n_clients=20, rounds=10):
    """FedAvg of softmax regression from zeros, batches in the order of `seed`: the loss on all samples afterwards."""
    rng = np.random.default_rng(0)
    classes = rng.normal(size=(10, 50))
    y = rng.integers(0, 10, (20, 100))
    x = classes[y] + rng.normal(size=(20, 100, 50))
    order = np.random.default_rng(seed)
    w = np.zeros((50, 10))
    for _ in range(rounds):
        models = []
        for k in range(n_clients):
            own = w.copy()
            for batch in order.permutation(100).reshape(-1, batch_size)[:n_steps]:
                own -= lr * x[k, batch].T @ (_softmax(x[k, batch] @ own) - np.eye(10)[y[k, batch]]) / batch_size
            models.append(own)
        w = np.mean(models, axis=0)
    return float(-np.log(np.take_along_axis(_softmax(x @ w), y[..., None], -1)).mean())


def _softmax(z):
    e = np.exp(z - z.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


BARE = [loss(seed) for seed in (1, 2, 3)]


@pytest.mark.parametrize("seed", [4, 5, 6])
def test_another_order_of_the_same_batches_passes(seed):
    assert peers_page.trains_the_same(BARE, [loss(seed)])


@pytest.mark.parametrize(
    "wrong",
    [{"lr": 0.0102}, {"n_steps": 4}, {"batch_size": 25, "n_steps": 4}, {"n_clients": 15}, {"rounds": 9}],
    ids=str,
)
def test_training_that_is_not_the_same_does_not_pass(wrong):
    assert not peers_page.trains_the_same(BARE, [loss(4, **wrong)])


def test_a_loss_that_is_no_number_does_not_pass():
    assert not peers_page.trains_the_same(BARE, [float("nan")])


def test_two_seeds_are_too_few_to_compare_with():
    with pytest.raises(ValueError, match="needs at least 3 seeds to compare with, got 2"):
        peers_page.interval([1.0, 1.1])

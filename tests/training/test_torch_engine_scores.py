"""Evaluation against direct computation, and what a task refuses."""

import re

import numpy as np
import pytest
import torch
from torch import nn

from fedloom.training import models, rows
from fedloom.training.engine import Task
from fedloom.training.rule import LocalRule
from fedloom.training.torch_engine import TorchEngine

N_TRAIN, N_TEST = 30, 1203  # more than two pieces of 1000, and a ragged one


def fields(loss="cross-entropy", n_outputs=4):
    rng = np.random.default_rng(0)

    def targets(n):
        if loss == "cross-entropy":
            return rng.integers(0, n_outputs, n)
        return rng.normal(3, 2, (n, n_outputs)).astype(np.float32)

    return {
        "x_train": rng.normal(size=(N_TRAIN, 1, 16, 16)).astype(np.float32), "y_train": targets(N_TRAIN),
        "x_test": rng.normal(size=(N_TEST, 1, 16, 16)).astype(np.float32), "y_test": targets(N_TEST),
        "parts": tuple(np.array_split(np.arange(N_TRAIN), 3)), "loss": loss,
    }  # fmt: skip


def some_rows(model, n=3):
    rng = np.random.default_rng(1)
    row = rows.to_row(model)
    return (row + rng.uniform(0, 0.1, size=(n, len(row)))).astype(np.float32)  # positive: variances are among them


@pytest.fixture(params=[1, 2], ids=["one worker", "two workers"])
def n_workers(request):
    return request.param


@pytest.mark.parametrize("split", ["test", "train"])
@pytest.mark.parametrize("name", ["softmax", "cnn-bn"])
def test_accuracy_and_loss_are_those_of_a_direct_computation(name, split, n_workers):
    model = models.build(name, (1, 16, 16), 4, seed=2)
    task = Task(model=model, **fields())
    engine = TorchEngine(task, LocalRule(), seed=0, n_workers=n_workers)
    matrix = some_rows(model)
    scores = engine.evaluate(matrix) if split == "test" else engine.evaluate(matrix, split="train")
    engine.close()
    x, y = (getattr(task, f"{part}_{split}") for part in "xy")
    assert scores.correct.shape == (3, len(x)) and scores.correct.dtype == np.bool_
    for m, row in enumerate(matrix):
        rows.load_row(model, row)
        with torch.no_grad():
            z = model.eval()(torch.from_numpy(x)).numpy().astype(np.float64)
        loss = np.log(np.exp(z - z.max(1, keepdims=True)).sum(1)) + z.max(1) - z[np.arange(len(y)), y]
        assert scores.loss[m] == pytest.approx(loss.mean(), rel=1e-5)
        right = z.argmax(1) == y
        assert (scores.correct[m] != right).sum() <= 1  # a tie may fall either way in another batch size
        assert scores.accuracy[m] == pytest.approx(right.mean(), abs=1.01 / len(y))
    np.testing.assert_array_equal(scores.accuracy, scores.correct.mean(axis=1))


def test_accuracy_by_hand():
    # one feature, identity-like weights (-1, 1): class 1 where x > 0
    x = np.array([[-1], [2], [3], [-4]], dtype=np.float32)
    task = Task(
        model=models.softmax((1,), 2), x_train=x, y_train=np.array([0, 1, 1, 0]),
        x_test=x, y_test=np.array([0, 0, 1, 1]), parts=(np.arange(4),),
    )  # fmt: skip
    engine = TorchEngine(task, LocalRule(), seed=0, n_workers=1)
    scores = engine.evaluate(np.array([[-1, 1, 0, 0], [0, 0, 0, 0]]))
    np.testing.assert_array_equal(scores.correct[0], [True, False, True, False])
    assert scores.accuracy[0] == 0.5
    # log(1 + exp(-2 |x|)) where right, plus 2 |x| where wrong; log 2 for the zero model
    logs = np.log1p(np.exp(-2 * np.abs(x[:, 0].astype(float))))
    assert scores.loss[0] == pytest.approx((logs.sum() + 4 + 8) / 4, rel=1e-6)
    assert scores.loss[1] == pytest.approx(np.log(2), rel=1e-6)
    assert engine.evaluate(np.array([[-1, 1, 0, 0]]), split="train").accuracy[0] == 1.0


def test_regression_errors_are_those_of_numpy(n_workers):
    model = models.build("mlp", (1, 16, 16), 5, seed=2)
    task = Task(model=model, **fields("mse", 5))
    engine = TorchEngine(task, LocalRule(), seed=0, n_workers=n_workers)
    matrix = some_rows(model)
    for split in ("test", "train"):
        scores = engine.evaluate(matrix, split)
        x, y = (getattr(task, f"{part}_{split}") for part in "xy")
        assert scores.correct.shape == (3, 0)
        for m, row in enumerate(matrix):
            rows.load_row(model, row)
            with torch.no_grad():
                error = model(torch.from_numpy(x)).numpy().astype(np.float64) - y
            assert scores.loss[m] == pytest.approx((error**2).mean(), rel=1e-6)
            assert scores.rmse[m] == pytest.approx(np.sqrt((error**2).mean()), rel=1e-6)
            assert scores.mae[m] == pytest.approx(np.abs(error).mean(), rel=1e-6)
    engine.close()


def test_dropout_is_off_in_evaluation():
    model = nn.Sequential(nn.Flatten(), nn.Dropout(0.9), nn.Linear(256, 4))
    engine = TorchEngine(Task(model=model, **fields()), LocalRule(), seed=0, n_workers=1)
    matrix = some_rows(model, 2)
    matrix[1] = matrix[0]
    scores = engine.evaluate(matrix)
    assert scores.loss[0] == scores.loss[1]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"loss": "hinge"}, "loss must be one of cross-entropy, tokens, multi-label, mse; got 'hinge'"),
        ({"batch_size": 0}, "batch_size must be a whole number of at least 1, got 0"),
        ({"batch_size": 2.5}, "batch_size must be a whole number of at least 1, got 2.5"),
        ({"y_train": np.zeros(29, int)}, "train inputs and targets must be equally many and not none: 30, 29"),
        (
            {"x_test": np.zeros((0, 2), "f4"), "y_test": np.zeros(0, int)},
            "test inputs and targets must be equally many and not none: 0, 0",
        ),
        (
            {"parts": (np.arange(3), np.array([], int), np.arange(3), np.array([], int))},
            "clients [1, 3] have no samples; use fewer clients or another partition",
        ),
    ],
)
def test_a_task_that_cannot_be_is_refused(change, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        Task(model=nn.Identity(), **{**fields(), **change})


@pytest.mark.parametrize("split", ["train", "test"])
def test_inputs_that_are_not_finite_are_refused_and_the_first_sample_named(split):
    given = fields()
    given[f"x_{split}"][17, 0, 3, 3] = np.nan
    given[f"x_{split}"][19, 0, 0, 0] = np.inf
    with pytest.raises(ValueError, match=f"{split} inputs must be finite; sample 17 is not"):
        Task(model=nn.Identity(), **given)


def test_a_task_counts_its_clients_and_their_samples():
    task = Task(model=nn.Identity(), **{**fields(), "parts": (np.arange(3), np.arange(7))})
    assert task.n_clients == 2
    np.testing.assert_array_equal(task.n_samples, [3, 7])

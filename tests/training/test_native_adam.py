"""Adam and AdamW of the native engine: the formula by hand, and the torch engine, as close as with momentum."""

import numpy as np
import pytest
from test_native_equality import (
    DECAY,
    ONE_STEP,
    SHAPES,
    assert_equal_after_many_steps,
    make_jobs,
    make_task,
    some_rows,
    supported_builds,
    worst_error,
)
from torch import nn

from fedloom.training import models
from fedloom.training.engine import Task
from fedloom.training.native import NativeEngine
from fedloom.training.rule import LocalRule, Optimiser

EPS = 1e-3  # where a gradient is nothing but rounding, a small one would make a whole step of it
ADAM = {
    "adam": LocalRule(lr=0.005, optimiser=Optimiser("Adam", {"eps": EPS})),
    "all": LocalRule(
        lr=0.005, proximal=0.2, clip_norm=0.5, schedule=DECAY,
        optimiser=Optimiser("Adam", {"betas": (0.8, 0.95), "eps": EPS, "weight_decay": 0.05}),
    ),
    "adamw": LocalRule(lr=0.005, proximal=0.2, optimiser=Optimiser("AdamW", {"eps": EPS, "weight_decay": 0.3})),
    "sgd of torch": LocalRule(lr=0.02, optimiser=Optimiser("SGD", {"momentum": 0.9, "weight_decay": 0.1})),
}  # fmt: skip
QUICK = {("mlp", rule) for rule in ADAM} | {("cnn-bn", "all")}


@pytest.mark.parametrize(
    ("name", "rule"),
    [
        pytest.param(name, rule, marks=[] if (name, rule) in QUICK else pytest.mark.full)
        for name in SHAPES
        for rule in ADAM
    ],
)
def test_one_step_and_fifty_are_those_of_torch(name, rule):
    model = models.build(name, SHAPES[name], 4, seed=1)
    batch_size, sizes = (2, (4, 4)) if name == "vgg" else (4, (10, 8, 7, 6, 11))
    task = make_task(model, SHAPES[name], sizes=sizes, batch_size=batch_size)
    clients, starts = np.arange(len(sizes)), some_rows(model, 1)
    assert worst_error(task, ADAM[rule], starts, make_jobs(clients, 1)) <= ONE_STEP
    n_steps = 50 if name != "vgg" or rule == "all" else 4
    assert_equal_after_many_steps(task, ADAM[rule], starts, make_jobs(clients, n_steps, first_step=2, lr_step=5))


@pytest.mark.parametrize("build", supported_builds())
@pytest.mark.parametrize("kind", ["Adam", "AdamW"])
def test_three_steps_by_hand(kind, build, monkeypatch):
    """A line through one sample, x = (1, 2, 0), target 1, from zeros: f = w.x + b, dF/dw = 2 (f - 1) x, dF/db = 2 (f - 1)."""
    monkeypatch.setenv("FEDLOOM_NATIVE", build)
    lr, b1, b2, eps, decay = 0.1, 0.9, 0.99, 1e-8, 0.1
    x = np.array([1.0, 2.0, 0.0, 1.0])  # 1 for the bias
    w, m, v = np.array([0.5, -0.5, 0.25, 0.0]), np.zeros(4), np.zeros(4)
    start = w.astype(np.float32)[None]
    for t in (1, 2, 3):
        g = 2 * (w @ x - 1) * x
        if kind == "Adam":
            g = g + decay * w
        else:
            w = w * (1 - lr * decay)
        m, v = b1 * m + (1 - b1) * g, b2 * v + (1 - b2) * g**2
        w = w - lr * (m / (1 - b1**t)) / (np.sqrt(v / (1 - b2**t)) + eps)
    sample, target = np.array([[1, 2, 0]], dtype=np.float32), np.ones((1, 1), dtype=np.float32)
    task = Task(
        model=nn.Sequential(nn.Linear(3, 1)), x_train=sample, y_train=target, x_test=sample, y_test=target,
        parts=(np.array([0]),), loss="mse",
    )  # fmt: skip
    rule = LocalRule(lr=lr, optimiser=Optimiser(kind, {"betas": (b1, b2), "eps": eps, "weight_decay": decay}))
    trained = NativeEngine(task, rule, 0, n_workers=1).train(start, make_jobs([0], 3))
    np.testing.assert_allclose(trained[0], w, rtol=2e-6, atol=2e-7)


def test_moments_are_fresh_in_every_job():
    model = models.build("mlp", (7,), 4, seed=1)
    engine = NativeEngine(make_task(model, (7,)), ADAM["adamw"], 3, n_workers=1)
    starts = some_rows(model, 1)
    first = engine.train(starts, make_jobs([0, 1, 2], 5))
    np.testing.assert_array_equal(engine.train(starts, make_jobs([2], 5))[0], first[2])


def test_sgd_after_adam_is_what_it_was():
    """The memory of workers is kept from job to job."""
    model = models.build("lenet5", SHAPES["lenet5"], 4, seed=1)
    task = make_task(model, SHAPES["lenet5"])
    starts, jobs = some_rows(model, 1), make_jobs([0, 1, 2], 3)
    rule = LocalRule(lr=0.02, momentum=0.9)
    wanted = NativeEngine(task, rule, 3, n_workers=1).train(starts, jobs)
    NativeEngine(task, ADAM["all"], 3, n_workers=1).train(starts, jobs)
    np.testing.assert_array_equal(NativeEngine(task, rule, 3, n_workers=1).train(starts, jobs), wanted)


def test_numbers_of_threads_do_not_change_a_bit():
    model = models.build("cnn-bn", SHAPES["cnn-bn"], 4, seed=1)
    task = make_task(model, SHAPES["cnn-bn"], sizes=(10, 7, 8, 6))
    starts, jobs = some_rows(model, 1), make_jobs([0, 1, 2, 3], 4)
    one, three = (NativeEngine(task, ADAM["all"], 3, n_workers=n).train(starts, jobs) for n in (1, 3))
    np.testing.assert_array_equal(one, three)

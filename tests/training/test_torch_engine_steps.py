"""The torch engine against a plain loop with torch.optim.SGD, for every model and every rule."""

import copy
import functools

import numpy as np
import pytest
import torch
from torch import nn

from fedloom.training import models, networks, rows
from fedloom.training.batches import batches
from fedloom.training.dropout import dropout_key, use_counters
from fedloom.training.engine import Jobs, Task
from fedloom.training.rule import Exponential, LocalRule
from fedloom.training.torch_engine import TorchEngine

SEED = 5
DECAY = Exponential(ratio=0.5, every_steps=2)
RULES = {
    "plain": LocalRule(lr=0.05),
    "momentum": LocalRule(lr=0.05, momentum=0.9),
    "weight decay": LocalRule(lr=0.05, weight_decay=0.1),
    "proximal": LocalRule(lr=0.05, proximal=0.5),
    "clipping": LocalRule(lr=0.05, clip_norm=0.3),
    "schedule": LocalRule(lr=0.05, schedule=DECAY),
    "all": LocalRule(lr=0.05, schedule=DECAY, momentum=0.9, weight_decay=0.1, proximal=0.5, clip_norm=0.5),
}

LARGE = ("squeezenet", "resnet18")  # seconds a rule: fewer steps


@functools.cache
def task_of(name, loss="cross-entropy"):
    rng = np.random.default_rng(0)
    shape = {"vgg": (3, 8, 8), "softmax": (1, 8, 8), "mlp": (1, 8, 8)}.get(name, (1, 20, 20))
    n = 24

    def inputs():
        return rng.normal(size=(n, *shape)).astype(np.float32)

    def targets():
        return rng.integers(0, 3, n) if loss == "cross-entropy" else rng.normal(size=(n, 3)).astype(np.float32)

    return Task(
        model=models.build(name, shape, 3, seed=1),
        x_train=inputs(), y_train=targets(), x_test=inputs(), y_test=targets(),
        parts=(np.arange(5), rng.permutation(np.arange(5, 16)), np.arange(16, 24)),
        loss=loss, batch_size=4,
    )  # fmt: skip


def one_job(client, n_steps, first_step=0, lr_step=0):
    return Jobs(**{
        name: np.array([value])
        for name, value in [
            ("start", 0), ("client", client), ("n_steps", n_steps), ("first_step", first_step), ("lr_step", lr_step),
        ]
    })  # fmt: skip


def trained_by_sgd(task, rule, client, n_steps, first_step, lr_step):
    """A client's local training as anybody would write it; returns the row."""
    model = copy.deepcopy(task.model)
    model.load_state_dict(task.model.state_dict())
    model.train()
    dropouts = use_counters(model)
    w0 = [p.detach().clone() for p in model.parameters()]
    optimiser = torch.optim.SGD(model.parameters(), lr=1.0, momentum=rule.momentum, weight_decay=rule.weight_decay)
    part = task.parts[client]
    loss_of = nn.CrossEntropyLoss() if task.loss == "cross-entropy" else nn.MSELoss()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(((SEED * 1_000_003 + client) * 1_000_003 + first_step) % 2**63)  # for modules that draw
        for j, positions in enumerate(batches(SEED, client, len(part), task.batch_size, first_step, n_steps)):
            x, y = torch.from_numpy(task.x_train[part[positions]]), torch.from_numpy(task.y_train[part[positions]])
            for layer in dropouts:
                layer.key = dropout_key(SEED, client, first_step + j)
            t = lr_step + j
            decay = rule.schedule.ratio ** (t // rule.schedule.every_steps) if rule.schedule == DECAY else 1.0
            optimiser.param_groups[0]["lr"] = rule.lr * decay
            loss = loss_of(model(x), y)
            if rule.proximal:
                away = sum(((p - p0) ** 2).sum() for p, p0 in zip(model.parameters(), w0))
                loss = loss + rule.proximal / 2 * away
            optimiser.zero_grad()
            loss.backward()
            if rule.clip_norm is not None:
                torch.nn.utils.clip_grad_norm_(model.parameters(), rule.clip_norm)
            optimiser.step()
    return rows.to_row(model)


def relative_error(ours, wanted, start):
    """Norm of the difference in units of the norm of the update, which is smaller than the row."""
    return np.linalg.norm(ours.astype(np.float64) - wanted) / np.linalg.norm(wanted.astype(np.float64) - start)


@pytest.mark.parametrize(
    ("name", "rule"),
    # a rule is the same for all layers: all rules on two small networks, all networks with all parts of a rule together
    [(name, rule) for name in networks.NETWORKS for rule in RULES if name in ("mlp", "cnn-bn") or rule == "all"],
)
def test_local_training_equals_plain_sgd(name, rule):
    task, rule = task_of(name), RULES[rule]
    n_steps = 1 if name in LARGE else 2 if name == "vgg" else 5
    work = (1, n_steps, 2, 1)  # client, n_steps, first_step, lr_step; from first_step on batches of 3, 4, 4, 3, 4
    start = rows.to_row(task.model)
    ours = TorchEngine(task, rule, SEED, n_workers=1).train(start[None], one_job(*work))[0]
    wanted = trained_by_sgd(task, rule, *work)
    mask = rows.trainable_mask(task.model)
    assert relative_error(ours[mask], wanted[mask], start[mask]) < 1e-5
    if name in ("cnn-bn", "resnet18"):
        assert (wanted != start)[~mask].all()
        assert relative_error(ours[~mask], wanted[~mask], start[~mask]) < 1e-5
    else:
        assert mask.all()


@pytest.mark.parametrize("name", ["softmax", "mlp", "cnn"])
def test_regression_equals_plain_sgd(name):
    task, rule = task_of(name, "mse"), RULES["all"]
    start = rows.to_row(task.model)
    ours = TorchEngine(task, rule, SEED, n_workers=1).train(start[None], one_job(2, 4))[0]
    assert relative_error(ours, trained_by_sgd(task, rule, 2, 4, 0, 0), start) < 1e-5


def test_softmax_regression_by_hand():
    # one sample x = (1, 2), label 0 of 2, from zeros: p = (1/2, 1/2), dF/dz = (-1/2, 1/2), w <- -0.1 dF/dz x, b alike
    task = Task(
        model=models.softmax((2,), 2),
        x_train=np.array([[1, 2]], dtype=np.float32), y_train=np.array([0]),
        x_test=np.zeros((1, 2), dtype=np.float32), y_test=np.array([1]),
        parts=(np.array([0]),),
    )  # fmt: skip
    ours = TorchEngine(task, LocalRule(lr=0.1), 0, n_workers=1).train(np.zeros((1, 6)), one_job(0, 1))
    np.testing.assert_allclose(ours, [[0.05, 0.1, -0.05, -0.1, 0.05, -0.05]], rtol=1e-6)


def test_two_jobs_one_after_the_other_equal_one_long_job_without_momentum():
    task, rule = task_of("mlp"), LocalRule(lr=0.05, schedule=DECAY, weight_decay=0.1)
    engine = TorchEngine(task, rule, SEED, n_workers=1)
    start = rows.to_row(task.model)[None]
    half = engine.train(start, one_job(1, 4))
    np.testing.assert_array_equal(engine.train(half, one_job(1, 3, 4, 4)), engine.train(start, one_job(1, 7)))


def test_no_steps_return_the_start():
    task = task_of("cnn-bn")
    start = rows.to_row(task.model)[None] + np.float32(0.5)
    np.testing.assert_array_equal(TorchEngine(task, RULES["all"], SEED, n_workers=1).train(start, one_job(0, 0)), start)


def test_frozen_weights_stay_as_they_are():
    model = models.build("mlp", (1, 8, 8), 3, seed=1)
    model[1].weight.requires_grad_(False)
    base = task_of("mlp")
    task = Task(
        model=model, x_train=base.x_train, y_train=base.y_train, x_test=base.x_test, y_test=base.y_test,
        parts=base.parts, batch_size=4,
    )  # fmt: skip
    start = rows.to_row(model)
    ours = TorchEngine(task, RULES["all"], SEED, n_workers=1).train(start[None], one_job(0, 3))[0]
    mask = rows.trainable_mask(model)
    np.testing.assert_array_equal(ours[~mask], start[~mask])
    assert (ours[mask] != start[mask]).mean() > 0.5


def test_the_users_model_and_data_are_not_changed():
    task = task_of("cnn-bn")
    before = copy.deepcopy(task.model.state_dict())
    x, y = task.x_train.copy(), task.y_train.copy()
    start = rows.to_row(task.model)[None]
    kept = start.copy()
    engine = TorchEngine(task, RULES["all"], SEED, n_workers=1)
    engine.train(start, one_job(0, 3))
    engine.evaluate(start + 1)
    assert task.model.training
    for name, value in task.model.state_dict().items():
        assert torch.equal(value, before[name])
    for now, then in [(task.x_train, x), (task.y_train, y), (start, kept)]:
        np.testing.assert_array_equal(now, then)


class Decomposed(nn.Module):
    """A shared and a personal part that are added: autograd hands out one tensor as the gradient of both."""

    def __init__(self):
        super().__init__()
        self.shared = nn.Parameter(torch.linspace(-0.1, 0.1, 3 * 64).view(3, 64))
        self.personal = nn.Parameter(torch.zeros(3, 64))

    def forward(self, x):
        return nn.functional.linear(x.flatten(1), self.shared + self.personal)


@pytest.mark.parametrize("rule", [pytest.param(rule, id=name) for name, rule in RULES.items()])
def test_parameters_that_are_added_train_as_with_plain_sgd(rule):
    base = task_of("softmax")
    task = Task(
        model=Decomposed(), x_train=base.x_train, y_train=base.y_train, x_test=base.x_test, y_test=base.y_test,
        parts=base.parts, batch_size=4,
    )  # fmt: skip
    start = rows.to_row(task.model)
    ours = TorchEngine(task, rule, SEED, n_workers=1).train(start[None], one_job(1, 4))[0]
    assert relative_error(ours, trained_by_sgd(task, rule, 1, 4, 0, 0), start) < 1e-5

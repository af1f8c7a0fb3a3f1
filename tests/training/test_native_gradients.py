"""Gradients in double precision against finite differences and autograd; gradients and scores of both engines."""

import copy
import importlib

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from test_native_equality import RULES, SHAPES, initialise, make_task, networks, some_rows, supported_builds
from torch import nn

from fedloom.training import models, rows
from fedloom.training.dropout import use_counters
from fedloom.training.native import NativeEngine, describe
from fedloom.training.torch_engine import TorchEngine

pytestmark = pytest.mark.slow

LAYERS = {
    "linear": (nn.Sequential(nn.Linear(7, 4)), (7,)),
    "linear without bias": (nn.Sequential(nn.Linear(7, 17, bias=False), nn.Linear(17, 3)), (7,)),
    "relu": (nn.Sequential(nn.Linear(7, 9), nn.ReLU(), nn.Linear(9, 3)), (7,)),
    "conv": (nn.Sequential(nn.Conv2d(2, 3, 3), nn.Conv2d(3, 2, 3), nn.Flatten(), nn.Linear(18, 3)), (2, 7, 7)),
    "conv padded": (
        nn.Sequential(
            nn.Conv2d(1, 3, (2, 5), padding=(3, 6)), nn.Conv2d(3, 2, (4, 1), padding=(1, 2), bias=False),
            nn.Flatten(), nn.Linear(2 * 8 * 17, 3),
        ),
        (1, 4, 5),
    ),
    "max": (nn.Sequential(nn.Conv2d(1, 3, 2), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(18, 3)), (1, 6, 7)),
    "relu and max": (
        nn.Sequential(nn.Conv2d(1, 3, 2), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(18, 3)), (1, 6, 7)
    ),
    "max and relu": (
        nn.Sequential(nn.Conv2d(1, 3, 2), nn.MaxPool2d(2), nn.ReLU(), nn.Flatten(), nn.Linear(18, 3)), (1, 6, 7)
    ),
    "avg": (nn.Sequential(nn.Conv2d(1, 3, 2), nn.AvgPool2d(2), nn.Flatten(), nn.Linear(18, 3)), (1, 6, 7)),
    "group norm": (
        nn.Sequential(nn.Conv2d(1, 4, 2), nn.GroupNorm(2, 4), nn.ReLU(), nn.Flatten(), nn.Linear(64, 3)), (1, 5, 5)
    ),
    "batch norm of images": (
        nn.Sequential(nn.Conv2d(1, 4, 2), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(64, 3)), (1, 5, 5)
    ),
    "batch norm of vectors": (nn.Sequential(nn.Linear(6, 5), nn.BatchNorm1d(5), nn.ReLU(), nn.Linear(5, 3)), (6,)),
    "dropout": (nn.Sequential(nn.Linear(6, 9), nn.Dropout(0.5), nn.Linear(9, 3)), (6,)),
}  # fmt: skip


def data_of(model, shape, n=6):
    rng = np.random.default_rng(4)
    x = rng.normal(size=(n, *shape)).astype(np.float32)
    n_outputs = [layer for layer in model.modules() if isinstance(layer, nn.Linear)][-1].out_features
    return x, rng.integers(0, n_outputs, n)


def double_row(model, seed=1):
    """A row in double precision whose variances are positive and whose statistics are not the trivial ones."""
    row = rows.to_row(initialise(model, seed)).astype(np.float64)
    buffers = ~rows.trainable_mask(model)
    row[buffers] += np.random.default_rng(seed).uniform(0.1, 0.5, buffers.sum())
    return row


def native64(build, model, shape, row, x, y, train_mode=False):
    module = importlib.import_module(f"fedloom._compiled_{build}")
    flat = np.ascontiguousarray(x.reshape(len(x), -1))
    return module.loss_and_gradient64(describe(model, shape), len(row), row, flat, y, train_mode)


def autograd64(model, row, x, y, train_mode):
    """Loss and gradient (P,) by torch in double precision; zero where the row holds buffers."""
    twin = copy.deepcopy(model)
    use_counters(twin)  # their key is 0, as in the extension
    twin = twin.double()
    found = [*twin.named_parameters(), *((n, b) for n, b in twin.named_buffers() if b.is_floating_point())]
    at = 0
    with torch.no_grad():
        for _, tensor in found:
            tensor.copy_(torch.from_numpy(row[at : at + tensor.numel()]).view_as(tensor))
            at += tensor.numel()
    assert at == len(row)
    loss = nn.functional.cross_entropy(twin.train(train_mode)(torch.from_numpy(x).double()), torch.from_numpy(y))
    gradients = torch.autograd.grad(loss, list(twin.parameters()))
    out = np.zeros(len(row))
    flat = torch.cat([g.reshape(-1) for g in gradients]).numpy()
    out[: len(flat)] = flat
    return loss.item(), out


@pytest.mark.parametrize("build", supported_builds())
@pytest.mark.parametrize("kind", LAYERS)
def test_the_gradient_is_that_of_finite_differences(kind, build):
    model, shape = LAYERS[kind]
    x, y = data_of(model, shape)
    row = double_row(model)
    loss, gradient = native64(build, model, shape, row, x, y)
    assert loss == pytest.approx(autograd64(model, row, x, y, False)[0], rel=1e-12)
    trains = np.flatnonzero(rows.trainable_mask(model))
    rng = np.random.default_rng(0)
    h = 1e-6
    for i in rng.permutation(trains)[:60]:
        up, down = row.copy(), row.copy()
        up[i] += h
        down[i] -= h
        slope = (native64(build, model, shape, up, x, y)[0] - native64(build, model, shape, down, x, y)[0]) / (2 * h)
        assert gradient[i] == pytest.approx(slope, rel=1e-5, abs=1e-7 * max(1, np.abs(gradient).max()))
    assert not gradient[~rows.trainable_mask(model)].any()


@pytest.mark.parametrize("build", supported_builds())
@pytest.mark.parametrize("train_mode", [False, True], ids=["evaluation", "training"])
@pytest.mark.parametrize("kind", LAYERS)
def test_the_gradient_is_that_of_autograd(kind, train_mode, build):
    model, shape = LAYERS[kind]
    for n in (2, 5, 8, 19):
        x, y = data_of(model, shape, n)
        row = double_row(model)
        _, gradient = native64(build, model, shape, row, x, y, train_mode)
        _, wanted = autograd64(model, row, x, y, train_mode)
        # in training the gradient comes out as a difference of rows, so it is rounded like them
        assert np.linalg.norm(gradient - wanted) <= 1e-11 * np.linalg.norm(wanted) + 1e-14 * np.linalg.norm(row)


@given(networks(dropout=False), st.booleans(), st.integers(0, 100))
@settings(max_examples=100)
def test_gradients_of_random_networks_are_those_of_autograd(network, train_mode, seed):
    model, shape, _, batch = network
    x, y = data_of(model, shape, batch)
    row = double_row(model, seed)
    wanted_loss, wanted = autograd64(model, row, x, y, train_mode)
    for build in supported_builds():
        loss, gradient = native64(build, model, shape, row, x, y, train_mode)
        scale = max(np.linalg.norm(wanted), np.linalg.norm(row))
        assert np.linalg.norm(gradient - wanted) <= 1e-9 * scale
        if not train_mode:
            assert loss == pytest.approx(wanted_loss, rel=1e-10)


@pytest.mark.parametrize("loss", ["cross-entropy", "mse"])
@pytest.mark.parametrize("name", SHAPES)
def test_gradients_of_whole_clients_are_those_of_torch(name, loss):
    model = models.build(name, SHAPES[name], 4, seed=1)
    sizes = (4, 9) if name == "vgg" else (10, 130, 7)  # more than two pieces of 50, one of them ragged
    task = make_task(model, SHAPES[name], sizes=sizes, loss=loss)
    starts = some_rows(model, 2)
    buffers = ~rows.trainable_mask(model)
    starts[:, buffers] += np.linspace(0, 0.5, buffers.sum(), dtype=np.float32)  # evaluation mode: these matter
    jobs = [(1, 0), (0, 1), (1, 1), (0, 0)]
    ours, theirs = (e(task, RULES["plain"], 0, n_workers=1).gradient(starts, jobs) for e in (NativeEngine, TorchEngine))
    assert ours.dtype == np.float32
    for a, b in zip(ours, theirs):
        assert np.linalg.norm(a - b) <= 1e-5 * np.linalg.norm(b)
    assert not ours[:, buffers].any()


@pytest.mark.parametrize("split", ["test", "train"])
@pytest.mark.parametrize("name", SHAPES)
def test_scores_are_those_of_torch(name, split):
    model = models.build(name, SHAPES[name], 4, seed=1)
    sizes = (30,) if name == "vgg" else (300, 220, 517)
    task = make_task(model, SHAPES[name], sizes=sizes, n_test=53 if name == "vgg" else 1203)
    starts = some_rows(model, 3)
    ours, theirs = (e(task, RULES["plain"], 0, n_workers=2) for e in (NativeEngine, TorchEngine))
    a, b = ours.evaluate(starts, split), theirs.evaluate(starts, split)
    theirs.close()
    np.testing.assert_allclose(a.loss, b.loss, rtol=1e-6)
    assert a.correct.shape == b.correct.shape and a.correct.dtype == np.bool_
    outputs = ours.outputs(starts, split)
    top = np.sort(outputs, axis=2)
    assert (a.correct == b.correct)[top[..., -1] - top[..., -2] > 1e-4].all()  # ties may fall either way
    labels = task.y_test if split == "test" else task.y_train
    np.testing.assert_array_equal(a.correct, outputs.argmax(2) == labels)
    x = torch.from_numpy(task.x_test if split == "test" else task.x_train)
    rows.load_row(model, starts[2])
    with torch.no_grad():
        wanted = model.eval()(x).numpy()
    np.testing.assert_allclose(outputs[2], wanted, rtol=1e-4, atol=1e-5 * np.abs(wanted).max())


@pytest.mark.parametrize("split", ["test", "train"])
def test_regression_errors_are_those_of_torch(split):
    model = models.build("mlp", (7,), 5, seed=1)
    task = make_task(model, (7,), 5, sizes=(20, 1100), loss="mse", n_test=77)
    starts = some_rows(model, 3)
    ours, theirs = (
        e(task, RULES["plain"], 0, n_workers=1).evaluate(starts, split) for e in (NativeEngine, TorchEngine)
    )
    for name in ("loss", "rmse", "mae"):
        np.testing.assert_allclose(getattr(ours, name), getattr(theirs, name), rtol=1e-6)
    assert ours.correct.shape == (3, 0)

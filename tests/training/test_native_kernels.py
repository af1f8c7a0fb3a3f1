"""Kernels of the native engine that a shape selects: convolutions at points (Winograd), wide first layers, kept memory.

The networks here have no ReLU and no pooling unless they are what is tested, so nothing can tip over and one step must agree
with torch to rounding.
"""

import numpy as np
import pytest
from test_native_equality import ONE_STEP, RULES, initialise, make_jobs, make_task, supported_builds, worst_error
from test_native_gradients import autograd64, data_of, double_row, native64
from torch import nn

from fedloom.training import rows
from fedloom.training.batches import pass_order
from fedloom.training.engine import NotFinite
from fedloom.training.native import NativeEngine
from fedloom.training.rule import LocalRule


def convolution(c, out, kernel, padding, shape, bias=True):
    """A convolution whose input needs a gradient: one of a single tap stands before it."""
    h, w = (shape[i] + 2 * padding[i] - kernel[i] + 1 for i in (0, 1))
    assert h > 0 and w > 0
    return nn.Sequential(
        nn.Conv2d(1, c, 1),
        nn.Conv2d(c, out, kernel, padding=padding, bias=bias),
        nn.Flatten(),
        nn.Linear(out * h * w, 3),
    )


# c, out, kernel, padding, shape: heights that fill bands of 4 (5 rows) or 6 (3 rows), leave 1, 2 or 3 rows, or are one band
SHAPES = [
    (10, 20, (5, 5), (0, 0), (12, 12)),
    (6, 16, (5, 5), (0, 0), (14, 14)),
    (3, 6, (5, 5), (0, 0), (11, 9)),
    (2, 3, (5, 5), (2, 2), (9, 7)),
    (1, 4, (5, 5), (1, 0), (6, 6)),
    (4, 5, (5, 1), (0, 3), (13, 4)),
    (5, 8, (5, 8), (4, 7), (3, 5)),
    (3, 7, (5, 3), (6, 5), (2, 2)),
    (16, 20, (3, 3), (1, 1), (8, 8)),
    (3, 9, (3, 3), (0, 0), (8, 8)),
    (7, 4, (3, 3), (1, 1), (5, 6)),
    (1, 11, (3, 5), (2, 2), (4, 9)),
    (20, 3, (3, 2), (4, 0), (3, 5)),
    (2, 10, (3, 3), (0, 1), (13, 3)),
]


@pytest.mark.parametrize("build", supported_builds())
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_convolutions_at_points_train_as_in_torch(shape, build, monkeypatch):
    monkeypatch.setenv("FEDLOOM_NATIVE", build)
    c, out, kernel, padding, image = shape
    for seed, (batch, bias) in enumerate(((1, True), (3, False), (10, True), (16, True), (21, False))):
        model = initialise(convolution(c, out, kernel, padding, image, bias), seed)
        task = make_task(model, (1, *image), 3, sizes=(2 * batch, batch + max(1, batch // 2)), batch_size=batch)
        starts = rows.to_row(model)[None]
        # clipping sees every gradient, also what stands behind the last
        assert worst_error(task, RULES["clipping"], starts, make_jobs([0, 1], 1)) <= ONE_STEP
        assert worst_error(task, RULES["plain"], starts, make_jobs([0, 1], 3)) <= 3 * ONE_STEP  # batch sizes change


@pytest.mark.parametrize("build", supported_builds())
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_gradients_at_points_are_those_of_autograd(shape, build):
    c, out, kernel, padding, image = shape
    model = convolution(c, out, kernel, padding, image)
    for n in (2, 5, 11):
        x, y = data_of(model, (1, *image), n)
        row = double_row(model)
        loss, gradient = native64(build, model, (1, *image), row, x, y)
        wanted_loss, wanted = autograd64(model, row, x, y, False)
        assert loss == pytest.approx(wanted_loss, rel=1e-12)
        assert np.linalg.norm(gradient - wanted) <= 1e-11 * np.linalg.norm(wanted)


@pytest.mark.parametrize("build", supported_builds())
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_convolutions_at_points_are_sums_of_direct_ones(shape, build):
    """Two output channels are too few for points: a network in such pieces uses the direct convolution, the reference."""
    c, out, kernel, padding, image = shape
    model = initialise(convolution(c, out, kernel, padding, image), 1)
    x, _ = data_of(model, (1, *image), 6)
    whole = outputs(build, model, x)
    parts = np.zeros_like(whole)
    before, conv, _, last = model
    per_channel = last.in_features // out
    for o in range(0, out, 2):
        n = min(2, out - o)
        piece = nn.Sequential(
            before, nn.Conv2d(c, n, kernel, padding=padding), nn.Flatten(), nn.Linear(n * per_channel, 3, bias=not o)
        )
        piece[1].weight.data, piece[1].bias.data = conv.weight.data[o : o + n], conv.bias.data[o : o + n]
        piece[3].weight.data = last.weight.data[:, o * per_channel : (o + n) * per_channel].contiguous()
        if not o:
            piece[3].bias.data = last.bias.data
        parts += outputs(build, piece, x)
    assert np.linalg.norm(whole - parts) <= 5e-6 * np.linalg.norm(parts)


def outputs(build, model, x):
    """Outputs of a model in float32 by the named build."""
    task = make_task(model, x.shape[1:], 3, sizes=(len(x),), n_test=len(x))
    task.x_test[:] = x
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FEDLOOM_NATIVE", build)
        return NativeEngine(task, RULES["plain"], 0).outputs(rows.to_row(model)[None])[0]


@pytest.mark.parametrize("build", supported_builds())
@pytest.mark.parametrize("n_outputs", [1, 2, 5, 10, 13, 17])
@pytest.mark.parametrize("n_inputs", [128, 144, 784, 400])
def test_wide_first_layers_train_as_in_torch(n_inputs, n_outputs, build, monkeypatch):
    monkeypatch.setenv("FEDLOOM_NATIVE", build)
    for bias, batch in ((True, 20), (False, 3), (True, 1), (True, 7)):
        layers = [nn.Linear(n_inputs, n_outputs, bias=bias)]
        model = initialise(nn.Sequential(*layers, nn.Linear(n_outputs, 3)), batch)
        task = make_task(model, (n_inputs,), 3, sizes=(2 * batch, batch + batch // 2), batch_size=batch)
        starts = rows.to_row(model)[None]
        for rule in ("plain", "all"):
            assert worst_error(task, RULES[rule], starts, make_jobs([0, 1], 1)) <= ONE_STEP
        assert worst_error(task, RULES["plain"], starts, make_jobs([0, 1], 4)) <= 3 * ONE_STEP


@pytest.mark.parametrize("build", supported_builds())
def test_gradients_of_wide_first_layers_are_those_of_autograd(build):
    model = nn.Sequential(nn.Linear(256, 3))
    for n in (1, 4, 13):
        x, y = data_of(model, (256,), n)
        row = double_row(model)
        _, gradient = native64(build, model, (256,), row, x, y)
        wanted = autograd64(model, row, x, y, False)[1]
        assert np.linalg.norm(gradient - wanted) <= 1e-11 * np.linalg.norm(wanted)


@pytest.mark.parametrize("build", supported_builds())
@pytest.mark.parametrize("batch", [1, 2, 3, 5, 10, 15, 16, 17, 31, 40])
def test_poolings_of_any_batch_leave_borders_alone(batch, build):
    """The convolution behind reads a border; the one before reads zeros behind the gradient of its rows."""
    model = nn.Sequential(
        nn.Conv2d(1, 3, 3), nn.MaxPool2d(2), nn.Conv2d(3, 4, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
        nn.Linear(16, 3),
    )  # fmt: skip
    row = double_row(model)
    x, y = data_of(model, (1, 11, 10), batch)
    _, gradient = native64(build, model, (1, 11, 10), row, x, y)
    wanted = autograd64(model, row, x, y, False)[1]
    assert np.linalg.norm(gradient - wanted) <= 1e-11 * np.linalg.norm(wanted)


@pytest.mark.parametrize("n", [1, 2, 3, 100, 4099])
def test_both_engines_walk_through_samples_in_the_same_order(n):
    """Sample i is the number i + 1, so that one step of a sum tells which samples were in the batch."""
    model = nn.Sequential(nn.Linear(1, 1, bias=False))
    task = make_task(model, (1,), 1, sizes=(n,), batch_size=1, loss="mse")
    task.x_train[task.parts[0], 0] = np.arange(1, n + 1)
    task.y_train[:] = 0
    engine = NativeEngine(task, LocalRule(lr=1.0), seed=9)
    steps = n + np.random.default_rng(0).permutation(n)[:200]  # of the second pass
    jobs = make_jobs(np.zeros(len(steps)), 1, first_step=steps)
    # w = 1 becomes 1 - 2 x^2
    x = np.sqrt((1 - engine.train(np.ones((1, 1), dtype=np.float32), jobs)[:, 0]) / 2)
    np.testing.assert_allclose(x, pass_order(9, 0, 1, n)[steps - n] + 1, rtol=1e-6)


@pytest.fixture
def images():
    """A task whose network has every kind of padding: borders, spare rows, lanes behind dense weights."""
    layers = [nn.Conv2d(1, 4, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(4, 5, 3, padding=1), nn.Flatten()]
    model = initialise(nn.Sequential(*layers, nn.Linear(5 * 36, 7), nn.ReLU(), nn.Linear(7, 3)), 1)
    return make_task(model, (1, 13, 13), 3)


def test_a_diverged_client_does_not_reach_the_next_call(images):
    starts, jobs = rows.to_row(images.model)[None], make_jobs([0, 1, 2], 5)
    engine = NativeEngine(images, RULES["all"], 3, n_workers=2)
    with pytest.raises(NotFinite):
        engine.train(np.full_like(starts, np.inf), jobs)
    fresh = NativeEngine(images, RULES["all"], 3, n_workers=2)
    np.testing.assert_array_equal(engine.train(starts, jobs), fresh.train(starts, jobs))
    np.testing.assert_array_equal(engine.evaluate(starts).loss, fresh.evaluate(starts).loss)


def test_a_diverged_client_does_not_reach_the_next_one(images):
    row = rows.to_row(images.model)
    starts = np.stack([np.full_like(row, np.inf), row])
    with pytest.raises(NotFinite) as caught:
        NativeEngine(images, RULES["all"], 3, n_workers=1).train(starts, make_jobs([0, 1, 2], 5, start=[0, 1, 1]))
    assert caught.value.clients == [0]

"""What the native engine takes, what it refuses and why, and that bad arguments are errors and never crashes."""

import faulthandler
import multiprocessing
import warnings

import numpy as np
import pytest
import torch
from test_native_equality import errors, make_jobs, make_task, some_rows
from torch import nn

from fedloom.training import rows
from fedloom.training.engine import Mix, Task
from fedloom.training.native import NativeEngine, Unsupported, describe, load_build
from fedloom.training.rule import LocalRule
from fedloom.training.torch_engine import TorchEngine

IMAGE = (2, 8, 8)


def behind(*layers):
    """The layers, and a dense layer that fits behind them."""
    model = nn.Sequential(*layers, nn.Flatten(), nn.LazyLinear(3))
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")  # lazy modules warn that they are new
        model.eval()(torch.zeros(2, *IMAGE))
    return model.train()


class Twice(nn.Module):
    def forward(self, x):
        return 2 * x


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(6, 6)

    def forward(self, x):
        return x + self.inner(x)


class OwnSequential(nn.Sequential):
    def forward(self, x):
        return 2 * super().forward(x)


class OwnLinear(nn.Linear):
    def forward(self, x):
        return 2 * super().forward(x)


def frozen():
    model = nn.Sequential(nn.Linear(6, 6), nn.Linear(6, 3))
    model[0].bias.requires_grad_(False)
    return model


def hooked(kind, container=False):
    model = nn.Sequential(nn.Linear(6, 3))
    getattr(model if container else model[0], f"register_{kind}")(lambda *args: None)
    return model


def tied():
    first, second = nn.Linear(6, 6), nn.Linear(6, 6)
    second.weight = first.weight
    return nn.Sequential(first, nn.ReLU(), second, nn.Linear(6, 3))


def used_twice():
    layer = nn.Linear(6, 6)
    return nn.Sequential(layer, nn.ReLU(), layer, nn.Linear(6, 3))


CONV = "a Conv2d has a stride, dilation, groups or a padding mode"
MAX, AVG = "MaxPool2d is not a plain 2x2 pooling", "AvgPool2d is not a plain 2x2 pooling"
REFUSED = {
    "stride": (lambda: behind(nn.Conv2d(2, 3, 3, stride=2)), IMAGE, CONV),
    "stride one way": (lambda: behind(nn.Conv2d(2, 3, 3, stride=(1, 2))), IMAGE, CONV),
    "dilation": (lambda: behind(nn.Conv2d(2, 3, 3, dilation=2)), IMAGE, CONV),
    "groups": (lambda: behind(nn.Conv2d(2, 4, 3, groups=2)), IMAGE, CONV),
    "padding mode": (lambda: behind(nn.Conv2d(2, 3, 3, padding=1, padding_mode="reflect")), IMAGE, CONV),
    "same, even": (lambda: behind(nn.Conv2d(2, 3, (3, 4), padding="same")), IMAGE, "padding 'same' with an even kernel"),
    "channels": (lambda: nn.Sequential(nn.Conv2d(3, 3, 3), nn.Flatten(), nn.Linear(9, 3)), IMAGE, "expects 3 channels and"),
    "too small": (lambda: nn.Sequential(nn.Conv2d(2, 3, 9), nn.Flatten(), nn.Linear(9, 3)), IMAGE, "leaves nothing of"),
    "max 3": (lambda: behind(nn.MaxPool2d(3)), IMAGE, MAX),
    "max overlapping": (lambda: behind(nn.MaxPool2d(2, stride=1)), IMAGE, MAX),
    "max padded": (lambda: behind(nn.MaxPool2d(2, padding=1)), IMAGE, MAX),
    "max dilated": (lambda: behind(nn.MaxPool2d(2, dilation=2)), IMAGE, MAX),
    "max ceil": (lambda: behind(nn.MaxPool2d(2, ceil_mode=True)), IMAGE, MAX),
    "max indices": (lambda: nn.Sequential(nn.MaxPool2d(2, return_indices=True)), IMAGE, MAX),
    "avg 4": (lambda: behind(nn.AvgPool2d((4, 2))), IMAGE, AVG),
    "avg ceil": (lambda: behind(nn.AvgPool2d(2, ceil_mode=True)), IMAGE, AVG),
    "avg padded": (lambda: behind(nn.AvgPool2d(2, padding=1)), IMAGE, AVG),
    "avg divisor": (lambda: behind(nn.AvgPool2d(2, divisor_override=3)), IMAGE, AVG),
    "pool of one row": (
        lambda: nn.Sequential(nn.MaxPool2d(2), nn.Flatten(), nn.Linear(8, 3)), (2, 1, 8), "leaves nothing of images of 1x8"
    ),
    "frozen": (frozen, (6,), "some parameters are frozen"),
    "evaluation": (lambda: nn.Sequential(nn.Linear(6, 3)).eval(), (6,), "evaluation mode"),
    "forward hook": (lambda: hooked("forward_hook"), (6,), "Linear has hooks"),
    "forward pre-hook": (lambda: hooked("forward_pre_hook"), (6,), "Linear has hooks"),
    "backward hook": (lambda: hooked("full_backward_hook"), (6,), "Linear has hooks"),
    "subclass of Sequential": (lambda: OwnSequential(nn.Linear(6, 3)), (6,), "OwnSequential is not an nn.Sequential"),
    "nested subclass": (
        lambda: nn.Sequential(OwnSequential(nn.Linear(6, 6)), nn.Linear(6, 3)), (6,), "OwnSequential is not an nn.Sequential"
    ),
    "own module": (lambda: nn.Sequential(Residual(), nn.Linear(6, 3)), (6,), "Residual is not an nn.Sequential"),
    "own leaf": (lambda: nn.Sequential(Twice(), nn.Linear(6, 3)), (6,), "Twice on vectors is not among its layers"),
    "subclass of Linear": (lambda: nn.Sequential(OwnLinear(6, 3)), (6,), "OwnLinear on vectors is not among its layers"),
    "sigmoid": (lambda: nn.Sequential(nn.Linear(6, 3), nn.Sigmoid()), (6,), "Sigmoid on vectors is not among its layers"),
    "tanh": (lambda: behind(nn.Tanh()), IMAGE, "Tanh on images is not among its layers"),
    "Linear on images": (lambda: nn.Sequential(nn.Linear(8, 3)), IMAGE, "Linear on images is not among its layers"),
    "features": (lambda: nn.Sequential(nn.Linear(5, 3)), (6,), "a Linear expects 5 features and gets 6"),
    "Conv2d on vectors": (lambda: nn.Sequential(nn.Conv2d(2, 3, 3)), (6,), "Conv2d on vectors is not among its layers"),
    "BatchNorm features": (
        lambda: nn.Sequential(nn.BatchNorm1d(5), nn.Linear(6, 3)), (6,), "another number of features"
    ),
    "GroupNorm channels": (lambda: nn.Sequential(nn.GroupNorm(1, 3), nn.Flatten(), nn.Linear(128, 3)), IMAGE, "3 channels"),
    "GroupNorm on vectors": (
        lambda: nn.Sequential(nn.GroupNorm(2, 6), nn.Linear(6, 3)), (6,), "GroupNorm on vectors is not among"
    ),
    "dropout of all": (lambda: nn.Sequential(nn.Linear(6, 3), nn.Dropout(1.0)), (6,), "drops everything"),
    "partial flatten": (lambda: nn.Sequential(nn.ReLU(), nn.Flatten(2)), IMAGE, "a Flatten keeps some dimensions"),
    "partial flatten in front": (lambda: nn.Sequential(nn.Flatten(1, 2)), IMAGE, "a Flatten keeps some dimensions"),
    "sequences": (lambda: nn.Sequential(nn.Linear(4, 3)), (5, 4), "neither vectors nor images"),
    "volumes": (lambda: nn.Sequential(nn.ReLU()), (1, 4, 4, 4), "neither vectors nor images"),
    "image out": (lambda: nn.Sequential(nn.Conv2d(2, 3, 3)), IMAGE, "its output is an image"),
    "nothing to train": (lambda: nn.Sequential(nn.Flatten(), nn.ReLU()), IMAGE, "nothing to train"),
    "nothing at all": (lambda: nn.Sequential(), (6,), "nothing to train"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_it_cannot_train_is_refused_with_the_reason(case):
    make, shape, reason = REFUSED[case]
    with pytest.raises(Unsupported, match=reason):
        describe(make(), shape)


def test_batch_norm_without_a_momentum_is_refused():
    with pytest.raises(ValueError, match="momentum=None"):  # by rows, before any engine
        describe(nn.Sequential(nn.BatchNorm1d(6, momentum=None), nn.Linear(6, 3)), (6,))
    model = nn.Sequential(nn.BatchNorm1d(6, momentum=None, track_running_stats=False), nn.Linear(6, 3))
    with pytest.raises(Unsupported, match="no momentum"):
        describe(model, (6,))


@pytest.mark.parametrize("kind", ["forward_hook", "forward_pre_hook", "full_backward_hook"])
def test_hooks_of_a_container_are_refused(kind):
    with pytest.raises(Unsupported, match="hooks"):
        describe(hooked(kind, container=True), (6,))


@pytest.mark.parametrize("make", [tied, used_twice])
def test_shared_weights_are_refused(make):
    with pytest.raises(Unsupported):
        describe(make(), (6,))


@pytest.mark.parametrize("layer", [nn.ReLU, nn.Dropout])
def test_a_layer_without_weights_may_be_used_twice(layer):
    again = layer()
    model = nn.Sequential(nn.Linear(6, 8), again, nn.Linear(8, 8), again, nn.Linear(8, 4))
    assert len(describe(model, (6,))) == 5
    task = make_task(model, (6,))
    assert errors(task, LocalRule(), some_rows(model, 1), make_jobs([0, 1], 3)).max() <= 1e-5


def test_batch_norm_without_running_statistics_is_refused():
    model = nn.Sequential(nn.Linear(6, 5), nn.BatchNorm1d(5, track_running_stats=False), nn.Linear(5, 3))
    with pytest.raises(Unsupported):
        describe(model, (6,))


@pytest.mark.parametrize(
    "model",
    [
        behind(nn.Conv2d(2, 3, (3, 5), padding="same"), nn.ReLU(inplace=True)),
        behind(nn.Conv2d(2, 3, 4, padding="valid"), nn.MaxPool2d((2, 2), (2, 2))),
        behind(nn.AvgPool2d(2, count_include_pad=False), nn.GroupNorm(2, 2, affine=False)),
        behind(nn.Sequential(nn.Sequential(nn.Conv2d(2, 3, 2)), nn.ReLU()), nn.Sequential()),
        behind(nn.BatchNorm2d(2, affine=False), nn.Dropout(0.0)),
        nn.Sequential(nn.Sequential(nn.Flatten(), nn.Linear(128, 3))),
    ],
    ids=["same", "valid", "avg and GroupNorm", "nested", "BatchNorm without weights", "Flatten in a nest"],
)
def test_less_usual_forms_train_as_in_torch(model):
    task = make_task(model, IMAGE, 3)
    assert errors(task, LocalRule(lr=0.05), some_rows(model, 1), make_jobs([0, 1], 2)).max() <= 1e-5


def test_a_single_layer_and_a_bare_linear_are_networks():
    model = nn.Linear(6, 3)
    assert len(describe(model, (6,))) == 1
    assert errors(make_task(model, (6,), 3), LocalRule(), some_rows(model, 1), make_jobs([0, 1], 2)).max() <= 1e-5


def test_columns_of_the_description():
    model = nn.Sequential(
        nn.Conv2d(2, 5, (3, 4), padding=(1, 0)), nn.BatchNorm2d(5, eps=0.5, momentum=0.25), nn.Flatten()
    )
    conv, norm, flat = describe(model, (2, 6, 7))
    # kind; in; out: 6 + 2 - 3 + 1 = 6, 7 - 4 + 1 = 4; kernel, padding, groups; eps, momentum, p; weight, bias, mean, var
    assert conv == [0, 2, 6, 7, 5, 6, 4, 3, 4, 1, 0, 0, 0, 0, 0, 0, 120, -1, -1]
    assert norm == [5, 5, 6, 4, 5, 6, 4, 0, 0, 0, 0, 0, 0.5, 0.25, 0, 125, 130, 135, 140]
    assert flat[:7] == [8, 5, 6, 4, 120, 0, 0] and flat[15:] == [-1] * 4


def small_engine(**options):
    model = nn.Sequential(nn.Linear(6, 3))
    return NativeEngine(make_task(model, (6,), 3, **options), LocalRule(), 0, n_workers=2), rows.to_row(model)[None]


def test_rows_that_do_not_fit_are_refused():
    engine, starts = small_engine()
    jobs, mix = make_jobs([0], 1), Mix(n_targets=1, target=np.array([0]), job=np.array([0]), weight=np.ones(1))
    for bad in (starts[:, :-1], starts[0], np.zeros((1, 22), np.float32)):
        for call in (
            lambda: engine.train(bad, jobs),  # noqa: B023
            lambda: engine.train_average(bad, jobs, mix),  # noqa: B023
            lambda: engine.gradient(bad, [(0, 0)]),  # noqa: B023
            lambda: engine.evaluate(bad),  # noqa: B023
            lambda: engine.outputs(bad),  # noqa: B023
        ):
            with pytest.raises(ValueError, match=r"rows must have shape \(any, 21\)"):
                call()


@pytest.mark.parametrize(
    ("name", "value"),
    [("start", -1), ("start", 3), ("client", -1), ("client", 3), ("n_steps", -1), ("first_step", -1)],
)
def test_jobs_out_of_range_are_refused(name, value):
    engine, starts = small_engine()
    with pytest.raises(ValueError, match=f"{name} of a job must be"):
        engine.train(starts, make_jobs(**({"client": [1], "n_steps": 1} | {name: [value]})))


@pytest.mark.parametrize("pair", [(1, 0), (-1, 0), (0, 3), (0, -1)])
def test_gradients_out_of_range_are_refused(pair):
    engine, starts = small_engine()
    with pytest.raises(ValueError, match="does not exist"):
        engine.gradient(starts, [(0, 0), pair])


@pytest.mark.parametrize(("target", "job"), [(2, 0), (-1, 0), (0, 1), (0, -1)])
def test_averages_out_of_range_are_refused(target, job):
    engine, starts = small_engine()
    mix = Mix(n_targets=2, target=np.array([target]), job=np.array([job]), weight=np.ones(1))
    with pytest.raises(ValueError, match=r"of a weight must be in 0\.\."):
        engine.train_average(starts, make_jobs([0], 1), mix)


def test_an_unknown_split_is_refused():
    engine, starts = small_engine()
    for call in (engine.evaluate, engine.outputs):
        with pytest.raises(ValueError, match="split must be one of train, test; got 'valid'"):
            call(starts, "valid")


def test_a_number_of_workers_that_cannot_be_is_refused():
    model = nn.Sequential(nn.Linear(6, 3))
    for n in (0, -1, 1.5):
        with pytest.raises(ValueError, match="n_workers must be a whole number"):
            NativeEngine(make_task(model, (6,), 3), LocalRule(), 0, n_workers=n)


def changed(task, **changes):
    return Task(**{**task.__dict__, **changes})


@pytest.mark.parametrize("label", [-1, 3])
def test_labels_outside_the_outputs_are_refused(label):
    model = nn.Sequential(nn.Linear(6, 3))
    task = make_task(model, (6,), 3)
    labels = task.y_train.copy()
    labels[4] = label
    with pytest.raises(ValueError, match="a label is not among the network's outputs"):
        NativeEngine(changed(task, y_train=labels), LocalRule(), 0)
    tests = task.y_test.copy()
    tests[4] = label
    engine = NativeEngine(changed(task, y_test=tests), LocalRule(), 0)
    with pytest.raises(ValueError, match="a label is not among the network's outputs"):
        engine.evaluate(rows.to_row(model)[None])


def test_targets_of_another_width_are_refused():
    task = make_task(nn.Sequential(nn.Linear(6, 3)), (6,), 2, loss="mse")
    with pytest.raises(ValueError, match="targets must be"):
        NativeEngine(task, LocalRule(), 0)


def test_arrays_of_another_layout_or_type_give_the_same_bits():
    model = nn.Sequential(nn.Conv2d(2, 3, 3), nn.Flatten(), nn.Linear(3 * 36, 3))
    task = make_task(model, IMAGE, 3)
    strange = changed(
        task,
        x_train=np.asfortranarray(task.x_train), x_test=np.repeat(task.x_test, 2, axis=0)[::2].astype(np.float64),
        y_train=np.repeat(task.y_train, 2)[::2], y_test=task.y_test.astype(np.int32),
        parts=tuple(part.astype(np.int32) for part in task.parts),
    )  # fmt: skip
    a, b = (NativeEngine(t, LocalRule(), 0) for t in (task, strange))
    starts = some_rows(model, 2)
    jobs = make_jobs([0, 1], 3, start=[0, 1])
    wide = np.repeat(starts, 2, axis=1)[:, ::2].astype(np.float64)
    assert not wide.flags.c_contiguous or wide.dtype == np.float64
    np.testing.assert_array_equal(a.train(starts, jobs), b.train(wide, jobs))
    np.testing.assert_array_equal(a.evaluate(starts).correct, b.evaluate(np.asfortranarray(starts)).correct)


@pytest.mark.parametrize("engine", [NativeEngine, TorchEngine])
def test_a_batch_of_one_sample_cannot_be_normalised(engine):
    model = nn.Sequential(nn.BatchNorm1d(6), nn.Linear(6, 3))
    task = make_task(model, (6,), 3, sizes=(4, 5), batch_size=4)
    trainer = engine(task, LocalRule(), 0, n_workers=1)
    starts = some_rows(model, 1)
    trainer.train(starts, make_jobs([0, 1], 1))
    with pytest.raises((RuntimeError, ValueError), match=r"more than (1|one) value per channel"):
        trainer.train(starts, make_jobs([0, 1], 2))
    trainer.train(starts, make_jobs([0, 1], 1))  # it still works


def test_a_model_that_is_not_finite_has_no_loss():
    model = nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 3))
    engine = NativeEngine(make_task(model, (6,), 3), LocalRule(), 0)
    starts = some_rows(model, 1)
    starts[0, 0] = np.nan
    assert np.isnan(engine.evaluate(starts).loss[0])


def ints(*values):
    return np.array(values, dtype=np.int64)


def raw_engine(**changes):
    """The extension's own class with good arguments, except for the changes."""
    model = nn.Sequential(nn.Linear(6, 3))
    rng = np.random.default_rng(0)
    arguments = {
        "layers": describe(model, (6,)), "n_row": 21, "x": rng.normal(size=(9, 6)).astype(np.float32),
        "y": rng.integers(0, 3, 9), "classify": True, "samples": np.arange(9), "first": ints(0, 4, 9), "batch_size": 3,
        "drop_last": False, "seed": 0, "rule": [0.0, 0.0, 0.0, 0.0],
    }  # fmt: skip
    return load_build().Engine(*(arguments | changes).values())


ROW, RATES = np.zeros((1, 21), np.float32), np.full(2, 0.1)
LINEAR = describe(nn.Sequential(nn.Linear(6, 3)), (6,))[0]
ROW64 = np.zeros(21)
GOOD_X, GOOD_Y = np.zeros((4, 6), np.float32), np.zeros(4, np.int64)


def job(*values):
    return np.array([values], dtype=np.int64)


def average(first, target, weight, n_targets=1, jobs=None):
    jobs = job(0, 0, 1, 0, 0) if jobs is None else jobs
    return raw_engine().train_average(ROW, jobs, RATES, first, target, weight, n_targets, 1)


def chain(**changes):
    """Two waves of a job each; between them a model is made of the first one's sum and the given row."""
    jobs = np.array([[1, 0, 1, 0, 0], [0, 1, 1, 0, 0]])
    arguments = {
        "given": ROW, "carried": np.zeros((0, 21)), "jobs": jobs, "lr": RATES, "job_first": ints(0, 1, 2),
        "entry_first": ints(0, 1, 2), "entry_sum": ints(0, 1), "entry_weight": np.ones(2), "add_first": ints(0, 0, 0),
        "adds": np.zeros((0, 2), np.int64), "model_first": ints(0, 0, 1), "model_sum": ints(0), "part_first": ints(0, 1),
        "part_slot": ints(1), "part_weight": np.ones(1), "n_sums": 2, "seconds": 9.0, "n_threads": 1,
    }  # fmt: skip
    return raw_engine().train_chain(*(arguments | changes).values())


def test_a_chain_with_good_arguments_is_trained():
    made, left, values, n_waves, bad = chain()
    assert made.shape == values.shape == (1, 21) and (left, n_waves, bad) == ([1], 2, [])


def check64(row=ROW64, x=GOOD_X, labels=GOOD_Y):
    return load_build().loss_and_gradient64([LINEAR], 21, row, x, labels, False)


BAD_CALLS = {
    "no layers": lambda: raw_engine(layers=[]),
    "a layer of 18 numbers": lambda: raw_engine(layers=[LINEAR[:18]]),
    "inputs of another width": lambda: raw_engine(x=np.zeros((9, 5), np.float32)),
    "inputs of three dimensions": lambda: raw_engine(x=np.zeros((9, 6, 1), np.float32)),
    "too few labels": lambda: raw_engine(y=np.zeros(8, np.int64)),
    "labels as a table": lambda: raw_engine(y=np.zeros((9, 1), np.int64)),
    "a label too large": lambda: raw_engine(y=np.full(9, 3)),
    "a negative label": lambda: raw_engine(y=np.full(9, -1)),
    "targets of another width": lambda: raw_engine(y=np.zeros((9, 2), np.float32), classify=False),
    "a sample too large": lambda: raw_engine(samples=np.arange(1, 10)),
    "a negative sample": lambda: raw_engine(samples=np.arange(-1, 8)),
    "samples left over": lambda: raw_engine(first=ints(0, 4, 8)),
    "samples that are missing": lambda: raw_engine(first=ints(0, 4, 10)),
    "a client without samples": lambda: raw_engine(first=ints(0, 4, 4, 9)),
    "clients in disorder": lambda: raw_engine(first=ints(0, 10**9, 9)),
    "no beginning": lambda: raw_engine(first=ints()),
    "batches of nothing": lambda: raw_engine(batch_size=0),
    "half a rule": lambda: raw_engine(rule=[0.0, 0.0]),
    "half of Adam": lambda: raw_engine(rule=[0.0] * 6),
    "rows too short": lambda: raw_engine().train(ROW[:, 1:], job(0, 0, 1, 0, 0), RATES, 1),
    "jobs of four columns": lambda: raw_engine().train(ROW, job(0, 0, 1, 0), RATES, 1),
    "a start that is not there": lambda: raw_engine().train(ROW, job(1, 0, 1, 0, 0), RATES, 1),
    "a negative start": lambda: raw_engine().train(ROW, job(-1, 0, 1, 0, 0), RATES, 1),
    "a client that is not there": lambda: raw_engine().train(ROW, job(0, 2, 1, 0, 0), RATES, 1),
    "negative steps": lambda: raw_engine().train(ROW, job(0, 0, -1, 0, 0), RATES, 1),
    "a negative counter": lambda: raw_engine().train(ROW, job(0, 0, 1, -1, 0), RATES, 1),
    "no rates": lambda: raw_engine().train(ROW, job(0, 0, 2, 0, 1), RATES, 1),
    "negative rates": lambda: raw_engine().train(ROW, job(0, 0, 1, 0, -1), RATES, 1),
    "rates beyond 2^63": lambda: raw_engine().train(ROW, job(0, 0, 2**62, 0, 2**62), RATES, 1),
    "a target that is not there": lambda: average(ints(0, 1), ints(1), np.ones(1)),
    "weights of too few jobs": lambda: average(ints(0), ints(), np.ones(0)),
    "a gradient's row": lambda: raw_engine().gradient(ROW, ints(1), ints(0), 5, 1),
    "a gradient's client": lambda: raw_engine().gradient(ROW, ints(0), ints(2), 5, 1),
    "evaluation of short rows": lambda: raw_engine().evaluate(ROW[:, 1:], GOOD_X, GOOD_Y, 5, False, 1),
    "evaluation of narrow inputs": lambda: raw_engine().evaluate(ROW, GOOD_X[:, 1:], GOOD_Y, 5, False, 1),
    "evaluation of wrong labels": lambda: raw_engine().evaluate(ROW, GOOD_X, GOOD_Y + 3, 5, False, 1),
    "a chain of short rows": lambda: chain(given=ROW[:, 1:]),
    "a chain with short sums": lambda: chain(carried=np.zeros((1, 20))),
    "a chain with waves outside": lambda: chain(job_first=ints(0, 1, 3)),
    "a chain with waves in disorder": lambda: chain(job_first=ints(0, 2, 1)),
    "a chain with a sum that is not there": lambda: chain(entry_sum=ints(0, 2)),
    "a chain that adds a sum that is not there": lambda: chain(adds=ints(0, 9)[None], add_first=ints(0, 1, 1)),
    "a chain that adds a sum that is not in use": lambda: chain(adds=ints(0, 1)[None], add_first=ints(0, 1, 1)),
    "a chain that adds a sum to itself": lambda: chain(adds=ints(0, 0)[None], add_first=ints(0, 1, 1)),
    "a chain with a model of a sum that is not there": lambda: chain(model_sum=ints(7)),
    "a chain with a model of a sum that is not in use": lambda: chain(model_sum=ints(1)),
    "a chain with a model of a row that is not there": lambda: chain(part_slot=ints(2)),
    "a chain with a model of itself": lambda: chain(part_slot=ints(0)),
    "a chain that starts from a model before it is made": lambda: chain(model_first=ints(0, 0, 0)),
    "a chain that starts from a row that is not there": lambda: chain(jobs=np.array([[2, 0, 1, 0, 0]] * 2)),
    "a chain with too few weights": lambda: chain(entry_weight=np.ones(1)),
    "a chain with models outside": lambda: chain(model_first=ints(0, 0, 2)),
    "a short row in double": lambda: check64(row=np.zeros(20)),
    "narrow inputs in double": lambda: check64(x=GOOD_X[:, 1:]),
}  # fmt: skip
# These end the process or never return today; so they are tried in a process of their own.
CRASHES = {
    "a chain without threads": lambda: chain(n_threads=0),
    "a chain with less than no sums": lambda: chain(n_sums=-1),
    "no threads": lambda: raw_engine().train(ROW, job(0, 0, 1, 0, 0), RATES, 0),
    "gradients in pieces of nothing": lambda: raw_engine().gradient(ROW, ints(0), ints(0), 0, 1),
    "gradients of more rows than clients": lambda: raw_engine().gradient(ROW, ints(0, 0), ints(0, 0)[:1], 5, 1),
    "evaluation in pieces of nothing": lambda: raw_engine().evaluate(ROW, GOOD_X, GOOD_Y, 0, False, 1),
    "entries that are not there": lambda: average(ints(0, 10**9), ints(0), np.ones(1)),
    "entries in disorder": lambda: average(ints(5, 1), ints(0), np.ones(1)),
    "fewer weights than entries": lambda: average(ints(0, 3), ints(0, 0, 0), np.ones(1)),
    "less than no targets": lambda: average(ints(0, 0), ints(), np.ones(0), n_targets=-1),
    "a weight outside the row": lambda: raw_engine(layers=[[*LINEAR[:15], 10**6, 18, -1, -1]]),
    "a dense layer without weights": lambda: raw_engine(layers=[[*LINEAR[:15], -1, 18, -1, -1]]),
    "layers that do not fit": lambda: raw_engine(layers=[LINEAR, LINEAR]),
    "a layer of no kind": lambda: raw_engine(layers=[[77, *LINEAR[1:]]]),
    "labels outside in double": lambda: check64(labels=GOOD_Y + 10**8),
    "too few labels in double": lambda: check64(labels=GOOD_Y[:0]),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD_CALLS)
def test_the_extension_refuses_bad_arguments(case):
    with pytest.raises((ValueError, TypeError)):
        BAD_CALLS[case]()


def test_the_extension_takes_good_ones():
    engine = raw_engine()
    assert engine.train(ROW, job(0, 1, 2, 5, 0), RATES, 1)[0].shape == (1, 21)
    assert engine.evaluate(ROW, GOOD_X, GOOD_Y, 3, True, 1)[2].shape == (1, 4, 3)
    assert average(ints(0, 1), ints(0), np.ones(1))[0].shape == (1, 21)
    assert check64()[0] == pytest.approx(np.log(3))


@pytest.mark.parametrize("case", CRASHES)
def test_the_extension_never_crashes_or_hangs(case):
    def attempt():
        faulthandler.disable()  # a crash is an answer here, its trace is not wanted
        try:
            CRASHES[case]()
        except (ValueError, TypeError):
            raise SystemExit(0) from None
        raise SystemExit(3)

    process = multiprocessing.get_context("fork").Process(target=attempt, daemon=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        process.start()
    process.join(timeout=1.5)
    if process.exitcode is None:
        process.kill()
        process.join()
        pytest.fail("it hangs")
    assert process.exitcode == 0

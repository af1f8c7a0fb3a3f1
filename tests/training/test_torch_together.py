"""Many clients at once against one after the other: the same jobs give the same models up to rounding, on the processor through
the code that other devices run; and what cannot be trained at once says why."""

import functools
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from test_native_equality import distances, make_jobs, make_task, some_rows
from torch import nn

from fedloom.training import models, networks
from fedloom.training.engine import Mix, NotFinite, Task
from fedloom.training.rule import Exponential, LocalRule, Optimiser
from fedloom.training.torch_engine import TorchEngine
from fedloom.training.torch_together import VALUE_BY_VALUE, cuts, usual_number

SEED = 3
CLOSE = 1e-5  # of the update, as the native engine is to torch after one step
DECAY = Exponential(ratio=0.5, every_steps=2)
ALL = LocalRule(lr=0.03, momentum=0.7, weight_decay=0.05, proximal=0.2, clip_norm=0.5, schedule=DECAY)
RULES = {
    "plain": LocalRule(lr=0.05),
    "momentum": LocalRule(lr=0.05, momentum=0.9),
    "weight decay": LocalRule(lr=0.05, weight_decay=0.1),
    "proximal": LocalRule(lr=0.05, proximal=0.5),
    "clipping": LocalRule(lr=0.2, clip_norm=0.3),
    "schedule": LocalRule(lr=0.1, schedule=DECAY),
    "all": ALL,
}
SHAPES = {"softmax": (1, 5, 5), "mlp": (7,), "cnn-small": (1, 10, 10), "vgg": (1, 8, 8), "squeezenet": (1, 8, 8)}
SMALL = {"resnet18": {"shape": (1, 8, 8)}, "resnet20": {"shape": (1, 8, 8)}, "vgg": {"width": 0.125}}
SIZES = (9, 6, 11, 8)  # batches of 4 at most, also of 1, 2 and 3


@functools.cache
def images(name, sizes=SIZES, batch_size=4):
    options = dict(SMALL.get(name, {}))
    shape = options.pop("shape", SHAPES.get(name, (1, 16, 16)))
    return make_task(models.build(name, shape, 4, seed=1, **options), shape, sizes=sizes, batch_size=batch_size)


@functools.cache
def tokens(name, per_token):
    rng = np.random.default_rng(0)
    y = rng.integers(-1 if per_token else 0, 5, (34, 6) if per_token else 34)
    if per_token:
        y[:, 0] = 1  # every sample has a label
    x = rng.integers(0, 9, (34, 6)).astype(np.int32)
    return Task(
        model=models.build(name, (6,), 5, seed=1, n_tokens=9, per_token=per_token, units=8),
        x_train=x, y_train=y, x_test=x[:5], y_test=y[:5],
        parts=tuple(np.split(rng.permutation(34), np.cumsum(SIZES)[:-1])),
        loss="tokens" if per_token else "cross-entropy", batch_size=4,
    )  # fmt: skip


def both(task, rule, jobs, starts, together=3):
    """(rows of the loop, rows of many at once), (J, P) each."""
    many = TorchEngine(task, rule, SEED, device="cpu", together=together)
    assert (many.at_once, many.why_not, many.name) == (together, "", f"torch-cpu, {together} clients at once")
    return TorchEngine(task, rule, SEED, n_workers=1).train(starts, jobs), many.train(starts, jobs)


def assert_close(task, rule, jobs, starts, bound=CLOSE):
    one, many = both(task, rule, jobs, starts)
    assert distances(task, many, one, starts[jobs.start]).max() <= bound
    assert not np.array_equal(one, starts[jobs.start])


UNEVEN = make_jobs(
    [0, 1, 2, 3, 0], [3, 1, 4, 0, 2], start=[0, 1, 0, 1, 1], first_step=[0, 2, 1, 0, 7], lr_step=[0, 0, 3, 5, 1]
)


@pytest.mark.parametrize("name", [name for name in networks.NETWORKS if name not in ("resnet18", "squeezenet")])
def test_every_network_trains_at_once_as_one_by_one(name):
    task = images(name, (16, 14, 22, 24), 8) if name == "cnn-bn" else images(name)  # a variance takes some samples
    jobs = UNEVEN.pick(np.arange(2)) if name == "resnet20" else UNEVEN  # it takes long
    assert_close(task, ALL, jobs, some_rows(task.model, 2))


@pytest.mark.full
@pytest.mark.parametrize("name", ["resnet18", "squeezenet"])
def test_large_networks_train_at_once_as_one_by_one(name):
    task = images(name, (4, 4))
    assert_close(task, ALL, make_jobs([0, 1], [1, 2]), some_rows(task.model, 1), bound=1e-4)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("name", [pytest.param("mlp", marks=pytest.mark.full), "cnn-small"])
def test_every_rule_at_once_is_that_of_one_by_one(name, rule):
    task = images(name)
    assert_close(task, RULES[rule], UNEVEN, some_rows(task.model, 2))


@pytest.mark.parametrize("name", VALUE_BY_VALUE)
@pytest.mark.parametrize(
    "schedule", [pytest.param(None, marks=pytest.mark.full, id="constant"), pytest.param(DECAY, id="decaying")]
)
def test_every_optimiser_that_takes_single_values(name, schedule):
    task = images("mlp")
    more = {} if schedule is None else {"schedule": schedule}
    rule = LocalRule(lr=0.01, proximal=0.1, clip_norm=0.5, optimiser=Optimiser(name), **more)
    assert_close(task, rule, UNEVEN, some_rows(task.model, 2), bound=1e-4)  # they divide by small gradients


@pytest.mark.parametrize("bn_var", ["mean", "pooled"])
def test_statistics_of_batch_normalisation_are_each_clients_own(bn_var):
    model = models.build("cnn-bn", (1, 16, 16), 4, seed=1, bn_var=bn_var)
    task = make_task(model, (1, 16, 16), sizes=(8, 8))
    starts = some_rows(model, 2)
    one, many = both(task, RULES["plain"], make_jobs([0, 1], 2, start=[0, 1]), starts, together=2)
    assert distances(task, many, one, starts).max() <= CLOSE
    buffers = many[:, -40:]
    assert (buffers != starts[:, -40:]).all() and (buffers[0] != buffers[1]).any()


@pytest.mark.parametrize("per_token", [False, True])
def test_transformers_train_at_once(per_token):
    task = tokens("transformer", per_token)
    assert_close(task, ALL, UNEVEN, some_rows(task.model, 2))


class TwoInputs(nn.Module):
    def __init__(self):
        super().__init__()
        self.near, self.far = nn.Linear(3, 4), nn.Linear(2, 4, bias=False)
        self.far.weight.requires_grad_(False)

    def forward(self, near, far):
        return self.near(near) + self.far(far)


def two_inputs():
    rng = np.random.default_rng(4)
    x = np.zeros(34, dtype=[("near", np.float32, 3), ("far", np.float32, 2)])
    x["near"], x["far"] = rng.normal(size=(34, 3)), rng.normal(size=(34, 2))
    y = rng.integers(0, 4, 34)
    parts = tuple(np.split(np.arange(34), np.cumsum(SIZES)[:-1]))
    return Task(model=TwoInputs(), x_train=x, y_train=y, x_test=x, y_test=y, parts=parts, batch_size=4)


def test_several_inputs_and_frozen_weights():
    task = two_inputs()
    starts = some_rows(task.model, 2)
    one, many = both(task, ALL, UNEVEN, starts)
    assert distances(task, many, one, starts[UNEVEN.start]).max() <= CLOSE
    frozen = slice(16, None)  # 12 + 4 trained values come first
    np.testing.assert_array_equal(many[:, frozen], starts[UNEVEN.start][:, frozen])


def huber(output, target):
    return nn.functional.huber_loss(output, torch.eye(4)[target])


@pytest.mark.parametrize("loss", [huber, "mse", "multi-label"], ids=["own", "mse", "multi-label"])
def test_losses(loss):
    model = models.build("mlp", (7,), 4, seed=1)
    base = make_task(model, (7,), sizes=SIZES)
    y = base.y_train
    if loss == "mse":
        y = np.random.default_rng(0).normal(size=(len(y), 4)).astype(np.float32)
    elif loss == "multi-label":
        y = np.random.default_rng(0).integers(0, 2, (len(y), 4)).astype(np.float32)
    task = Task(
        model=model, x_train=base.x_train, y_train=y, x_test=base.x_train, y_test=y, parts=base.parts, loss=loss, batch_size=4
    )  # fmt: skip
    assert_close(task, ALL, UNEVEN, some_rows(model, 2))


def test_averages_scores_outputs_and_gradients_are_those_of_the_loop():
    task = images("cnn-small")
    starts = some_rows(task.model, 2)
    mix = Mix(
        n_targets=2, target=np.array([0, 0, 1, 1]), job=np.array([0, 2, 2, 4]), weight=np.array([0.5, 0.5, 0.3, 0.7])
    )
    one = TorchEngine(task, ALL, SEED, n_workers=1)
    many = TorchEngine(task, ALL, SEED, together=4)
    a, b = one.train_average(starts, UNEVEN, mix), many.train_average(starts, UNEVEN, mix)
    assert np.linalg.norm(a - b) <= CLOSE * np.linalg.norm(a - starts)
    rows = one.train(starts, UNEVEN)
    np.testing.assert_array_equal(one.evaluate(rows).loss, many.evaluate(rows).loss)
    np.testing.assert_array_equal(one.outputs(rows), many.outputs(rows))
    np.testing.assert_array_equal(one.gradient(rows, [(0, 1)]), many.gradient(rows, [(0, 1)]))


def test_results_come_in_the_order_of_the_jobs_and_again_with_the_same_bits():
    task = images("mlp")
    starts = some_rows(task.model, 2)
    engine = TorchEngine(task, ALL, SEED, together=5)
    first = engine.train(starts, UNEVEN)
    backwards = engine.train(starts, UNEVEN.pick(np.arange(5)[::-1]))
    np.testing.assert_array_equal(first, backwards[::-1])


def test_clients_whose_models_are_not_finite_are_named():
    task = images("mlp")
    jobs = make_jobs([2, 1, 0], [9, 0, 9])
    with pytest.raises(NotFinite) as caught:
        TorchEngine(task, LocalRule(lr=1e38), SEED, together=2).train(some_rows(task.model, 1), jobs)
    assert caught.value.clients == [0, 2]


def looks(output, target):
    return nn.functional.cross_entropy(output, target) * (2.0 if output.sum().item() > 0 else 1.0)


def own_optimiser(params):
    return torch.optim.SGD(params, lr=1.0)


class Counts(nn.Module):
    def __init__(self):
        super().__init__()
        self.line = nn.Linear(7, 4)
        self.register_buffer("seen", torch.zeros((), dtype=torch.int64))

    def forward(self, x):
        self.seen += 1
        return self.line(x)


class Remembers(nn.Module):
    """Adds what it saw before: of many at once, that of all."""

    def __init__(self):
        super().__init__()
        self.line, self.calls = nn.Linear(7, 4), 0

    def forward(self, x):
        self.calls += 1
        return self.line(x) * self.calls


def refused(model=None, rule=RULES["plain"], loss="cross-entropy", task=None):
    task = task or make_task(model or models.build("mlp", (7,), 4, seed=1), (7,), sizes=SIZES, loss=loss)
    engine = TorchEngine(task, rule, SEED, n_workers=1, together=8)
    assert engine.at_once == 1 and engine.name == "torch, 1 processes"
    starts = some_rows(task.model, 1)
    same = TorchEngine(task, rule, SEED, n_workers=1)
    jobs = make_jobs([0, 1], 2)
    if not isinstance(task.model, Remembers):
        np.testing.assert_array_equal(engine.train(starts, jobs), same.train(starts, jobs))
    return engine.why_not


def test_what_cannot_be_done_at_once_is_done_one_by_one_and_says_why():
    begins = "not 8 clients at once: "
    assert refused(loss=looks) == begins + "the model or the loss looks at values, by .item() or a condition"
    drawn = nn.Sequential(nn.Linear(7, 4), nn.AlphaDropout(0.1))
    assert refused(drawn) == begins + "the model draws random numbers by itself"
    assert refused(Counts()) == begins + "the model writes into a tensor that all clients would share"
    odd = refused(nn.Sequential(nn.Linear(7, 4), nn.RReLU()))
    assert odd == begins + "torch.func refuses it: vmap: we do not yet support aten::rrelu_with_noise"
    assert refused(Remembers()) == begins + "its gradients are others than those of a client by itself"
    assert refused(task=tokens("lstm", True)) == begins + "torch.func has no rule for aten::mkldnn_rnn_layer"
    assert refused(rule=LocalRule(optimiser=Optimiser(own_optimiser))) == (
        begins + "the optimiser of your own may look at more than single values"
    )
    assert refused(rule=LocalRule(lr=0.01, optimiser=Optimiser("Adafactor"))) == (
        begins + "the optimiser Adafactor may look at more than single values"
    )


@dataclass(frozen=True, kw_only=True)
class Noisy(LocalRule):
    noise: float = 0.0


def test_settings_of_a_rule_that_are_not_known_are_refused_if_they_are_used():
    assert refused(rule=Noisy(lr=0.05, noise=1.0)) == "not 8 clients at once: noise is for one client after the other"
    assert TorchEngine(images("mlp"), Noisy(), SEED, together=8).at_once == 8


def test_at_most_so_many_at_once_and_with_an_optimiser_only_those_of_one_rate():
    steps = [0, 0, 0, 4, 4]
    assert cuts(RULES["schedule"], steps, 3) == [0, 3, 5]
    assert cuts(LocalRule(optimiser=Optimiser("Adam"), schedule=DECAY), steps, 2) == [0, 2, 3, 5]
    assert cuts(LocalRule(optimiser=Optimiser("Adam")), steps, 4) == [0, 4, 5]


def test_the_usual_number_falls_with_the_size_of_the_model():
    assert usual_number(1000) == 64
    assert usual_number(11_220_132) == 5  # 2^26 / 11.2 million
    assert usual_number(10**9) == 1

"""Dropout by counters: masks as the docstring defines them, the same in both engines."""

import numpy as np
import pytest
import torch
from test_native_equality import errors, make_jobs, make_task, some_rows
from torch import nn

from fedloom.training.dropout import CounterDropout, dropout_key, use_counters
from fedloom.training.native import NativeEngine
from fedloom.training.rule import LocalRule
from fedloom.training.torch_engine import TorchEngine

WORD, HALF = 2**64, 2**32


def splitmix64(x):
    """Steele, Lea and Flood's finaliser, in plain numbers."""
    x = (x + 0x9E3779B97F4A7C15) % WORD
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9 % WORD
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB % WORD
    return x ^ (x >> 31)


def murmur32(x):
    """MurmurHash3's finaliser of 32 bits, in plain numbers."""
    x ^= x >> 16
    x = x * 0x85EBCA6B % HALF
    x ^= x >> 13
    x = x * 0xC2B2AE35 % HALF
    return x ^ (x >> 16)


def kept(seed, client, step, layer, element, p):
    key = splitmix64(seed ^ 0xD1B54A32D192ED03)
    key = splitmix64(splitmix64(key ^ client) ^ step)
    key = splitmix64(key ^ (layer * 0x9E3779B97F4A7C15) % WORD) % HALF
    return murmur32(element ^ key) >= p * HALF


@pytest.mark.parametrize("seed", [0, 7, 2**63 + 5])
@pytest.mark.parametrize(("layer", "p"), [(1, 0.5), (2, 0.1), (5, 0.9)])
def test_masks_are_those_of_the_formula(seed, layer, p):
    dropout = CounterDropout(p, layer)
    dropout.key = dropout_key(seed, 3, 11)
    mask = dropout(torch.ones(4, 3, 5)).reshape(-1)
    wanted = [kept(seed, 3, 11, layer, element, p) / (1 - p) for element in range(60)]
    np.testing.assert_allclose(mask.numpy(), wanted, rtol=1e-6)


@pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
def test_the_share_that_is_kept(p):
    n, shares = 10_000, []
    for step in range(20):
        dropout = CounterDropout(p, 1)
        dropout.key = dropout_key(1, 2, step)
        shares.append((dropout(torch.ones(n)) > 0).double().mean().item())
    deviation = (p * (1 - p) / n) ** 0.5
    assert max(abs(share - (1 - p)) for share in shares) < 5 * deviation
    assert abs(np.mean(shares) - (1 - p)) < 4 * deviation / 20**0.5


def test_masks_of_other_steps_clients_layers_and_seeds_are_unrelated():
    def mask(seed=1, client=2, step=3, layer=1):
        dropout = CounterDropout(0.5, layer)
        dropout.key = dropout_key(seed, client, step)
        return (dropout(torch.ones(10_000)) > 0).double().numpy()

    base = mask()
    np.testing.assert_array_equal(base, mask())
    for other in (mask(seed=2), mask(client=3), mask(step=4), mask(layer=2)):
        assert abs(np.corrcoef(base, other)[0, 1]) < 0.05  # five deviations of chance
    for shift in (1, 2, 16):
        assert abs(np.corrcoef(base[shift:], base[:-shift])[0, 1]) < 0.05


def test_it_is_the_identity_in_evaluation_and_without_probability():
    x = torch.randn(3, 4, generator=torch.Generator().manual_seed(0))
    assert CounterDropout(0.9, 1).eval()(x) is x
    assert CounterDropout(0.0, 1).train()(x) is x


def test_gradients_pass_where_values_do():
    dropout = CounterDropout(0.5, 1)
    x = torch.ones(50, requires_grad=True)
    y = dropout(x)
    y.sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), y.detach().numpy())


def test_layers_are_numbered_in_the_order_of_the_model():
    model = nn.Sequential(nn.Dropout(0.1), nn.Sequential(nn.Linear(2, 2), nn.Dropout(0.2)), nn.Dropout(0.3))
    found = use_counters(model)
    in_order = [layer for layer in model.modules() if isinstance(layer, CounterDropout)]
    assert sorted((layer.p, layer.layer) for layer in found) == sorted((d.p, d.layer) for d in in_order)
    assert [layer.p for layer in in_order] == [0.1, 0.2, 0.3]
    assert [layer.layer for layer in in_order] == [1, 2, 3]


@pytest.mark.parametrize(
    ("model", "shape"),
    [
        (nn.Sequential(nn.Dropout(0.3), nn.Linear(9, 8), nn.ReLU(), nn.Dropout(0.5), nn.Linear(8, 4)), (9,)),
        (nn.Sequential(nn.Conv2d(2, 5, 3), nn.Dropout(0.4), nn.ReLU(), nn.Flatten(), nn.Linear(80, 4)), (2, 6, 6)),
        (nn.Sequential(nn.Conv2d(1, 3, 3, padding=1), nn.Dropout(0.0), nn.Flatten(), nn.Linear(48, 4)), (1, 4, 4)),
        pytest.param(
            nn.Sequential(
                nn.Linear(9, 9), nn.Sequential(nn.Dropout(0.2), nn.Linear(9, 9)), nn.Dropout(0.6), nn.Linear(9, 4)
            ),
            (9,),
        ),
    ],
    ids=["dense", "image", "never", "nested"],
)
@pytest.mark.parametrize("batch_size", [1, 3, 16])
def test_both_engines_drop_the_same(model, shape, batch_size):
    task = make_task(model, shape, batch_size=batch_size, sizes=(17, 20))
    jobs = make_jobs([0, 1], [1, 6], first_step=[4, 2])
    assert errors(task, LocalRule(lr=0.05), some_rows(model, 1), jobs, seed=12).max() <= 1e-5


@pytest.mark.parametrize("engine", [NativeEngine, TorchEngine])
def test_evaluation_and_gradients_drop_nothing(engine):
    dropped = nn.Sequential(nn.Dropout(0.9), nn.Linear(9, 4), nn.Dropout(0.5))
    plain = nn.Sequential(nn.Linear(9, 4))
    starts = some_rows(plain, 2)
    a, b = (engine(make_task(model, (9,)), LocalRule(), 0, n_workers=1) for model in (dropped, plain))
    np.testing.assert_array_equal(a.evaluate(starts).loss, b.evaluate(starts).loss)
    np.testing.assert_array_equal(a.gradient(starts, [(1, 2)]), b.gradient(starts, [(1, 2)]))

"""Max-pooling by channels gives the bits of torch's."""

import copy

import pytest
import torch
from torch import nn

from fedloom.training.pooling import LEAST_CHANNELS, MaxPoolByChannels, pool_by_channels

POOLS = [nn.MaxPool2d(2), nn.MaxPool2d(3, 2, ceil_mode=True), nn.MaxPool2d((3, 2), (1, 2), (1, 0), dilation=(2, 1))]


@pytest.mark.parametrize("pool", POOLS, ids=str)
@pytest.mark.parametrize(
    "shape", [(4, 64, 17, 18), (9, 16, 32, 32), (2, LEAST_CHANNELS - 1, 80, 80), (1, 16, 8, 8), (16, 40, 40)]
)
@pytest.mark.parametrize("what", ["random", "ties", "not a number"])
def test_values_and_gradients_are_the_same_bits(pool, shape, what):
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(shape, generator=generator)
    if what == "ties":  # as after ReLU, and more
        x = x.mul(2).round().relu()
    elif what == "not a number":
        x[torch.rand(shape, generator=generator) < 0.01] = torch.nan
    weight = torch.randn(pool(x).shape, generator=generator)
    found = []
    for layer in (pool, MaxPoolByChannels(pool)):
        inputs = x.clone().requires_grad_()
        outputs = layer(inputs)
        found.append((outputs, *torch.autograd.grad((outputs * weight).sum(), inputs)))
        assert outputs.is_contiguous()
    for a, b in zip(*found):
        torch.testing.assert_close(a, b, rtol=0, atol=0, equal_nan=True)


def test_plain_ones_are_exchanged_wherever_they_stand():
    model = nn.Sequential(nn.MaxPool2d(2), nn.Sequential(nn.MaxPool2d(3, 2)))
    pool_by_channels(model)
    assert [type(layer) for layer in model.modules() if not list(layer.children())] == [MaxPoolByChannels] * 2


def test_others_are_left_alone():
    class Own(nn.MaxPool2d):
        pass

    hooked = nn.MaxPool2d(2)
    hooked.register_forward_hook(lambda *_: None)
    model = nn.Sequential(nn.MaxPool2d(2, return_indices=True), Own(2), hooked, nn.AvgPool2d(2), nn.MaxPool1d(2))
    before = copy.copy(list(model))
    pool_by_channels(model)
    assert all(a is b for a, b in zip(before, model))

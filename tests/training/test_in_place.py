"""ReLU writes over its input only where nobody else needs that."""

import copy

import pytest
import torch
from torch import nn

from fedloom.training import models
from fedloom.training.in_place import OVERWRITABLE, relu_in_place


def in_place(model):
    relu_in_place(model)
    return [layer.inplace for layer in model.modules() if isinstance(layer, nn.ReLU)]


def test_after_a_layer_whose_output_nobody_needs():
    assert in_place(nn.Sequential(nn.Linear(3, 3), nn.ReLU(), nn.Sequential(nn.Linear(3, 3), nn.ReLU()))) == [True] * 2


@pytest.mark.parametrize(
    "model",
    [
        nn.Sequential(nn.ReLU(), nn.Linear(3, 3)),  # its input is somebody else's
        nn.Sequential(nn.Linear(3, 3), nn.Sigmoid(), nn.ReLU()),  # the sigmoid's gradient needs its output
        nn.Sequential(nn.Linear(3, 3), nn.Sequential(nn.ReLU())),
        nn.Sequential(nn.Linear(3, 3), type("Own", (nn.ReLU,), {})()),
        nn.Sequential(type("Own", (nn.Linear,), {})(3, 3), nn.ReLU()),
        type("Own", (nn.Sequential,), {})(nn.Linear(3, 3), nn.ReLU()),
    ],
    ids=["first", "needed", "nested", "own relu", "own layer", "own sequence"],
)
def test_elsewhere_it_is_left_alone(model):
    assert in_place(model) == [False]


def test_one_that_stands_in_two_places_is_left_alone():
    relu = nn.ReLU()
    assert in_place(nn.Sequential(nn.Linear(3, 3), relu, nn.Sigmoid(), relu)) == [False]


@pytest.mark.parametrize("which", [0, 1])
def test_outputs_that_a_hook_may_keep_are_left_alone(which):
    model = nn.Sequential(nn.Linear(3, 3), nn.ReLU())
    model[which].register_forward_hook(lambda *_: None)
    assert in_place(model) == [False]


SMALL = {
    nn.Conv2d: lambda: nn.Conv2d(4, 4, 3, padding=1),
    nn.Linear: lambda: nn.Linear(6, 6),
    nn.BatchNorm1d: lambda: nn.BatchNorm1d(4),
    nn.BatchNorm2d: lambda: nn.BatchNorm2d(4),
    nn.GroupNorm: lambda: nn.GroupNorm(2, 4),
    nn.MaxPool2d: lambda: nn.MaxPool2d(3, 2, ceil_mode=True),
    nn.AvgPool2d: lambda: nn.AvgPool2d(2),
}


@pytest.mark.parametrize("kind", sorted(OVERWRITABLE, key=lambda kind: kind.__name__))
def test_gradients_are_the_same_bits(kind):
    shape = (5, 4, 6) if kind is nn.BatchNorm1d else (5, 4, 6, 6)
    first = nn.Sequential(
        nn.Conv1d(4, 4, 1) if kind is nn.BatchNorm1d else nn.Conv2d(4, 4, 1), SMALL[kind](), nn.ReLU()
    )
    second = copy.deepcopy(first)
    relu_in_place(second)
    assert second[2].inplace
    assert_same(first, second, torch.randn(*shape, generator=torch.Generator().manual_seed(1)))


@pytest.mark.parametrize("name", ["vgg", "resnet18", "squeezenet"])
def test_named_networks_give_the_same_bits(name):
    first = models.build(name, (3, 16, 16), 4, seed=0)
    for layer in first.modules():
        if isinstance(layer, nn.Dropout):
            layer.p = 0.0
    second = copy.deepcopy(first)
    relu_in_place(second)
    assert_same(first, second, torch.randn(3, 3, 16, 16, generator=torch.Generator().manual_seed(1)))


def assert_same(first, second, x):
    results = []
    for model in (first, second):
        inputs = x.clone().requires_grad_()
        outputs = model(inputs)
        results.append([outputs, *torch.autograd.grad(outputs.square().sum(), [inputs, *model.parameters()])])
    assert all(torch.equal(a, b) for a, b in zip(*results, strict=True))

"""The named networks as torch modules: `nn.Sequential`s of plain layers, or of blocks with branches.

What they are made of stands in `fedloom.training.networks`; here the records become modules.
"""

import functools
from collections.abc import Callable, Iterator
from typing import Any, ParamSpec

import torch
from torch import nn
from torch.nn import functional

from fedloom.training import layers, networks, rows, sequences
from fedloom.training.layers import Layer, Network
from fedloom.training.networks import Shape

Options = ParamSpec("Options")


class PooledBatchNorm2d(nn.Module):
    """BatchNorm2d that keeps its running variance as a second moment, variance + mean^2: the mean of such models has the
    variance of the pooled samples, sum_k w_k (var_k + mean_k^2) - (sum_k w_k mean_k)^2 (ours), not the mean of the variances."""

    running_mean: torch.Tensor
    running_square: torch.Tensor

    def __init__(self, channels: int, momentum: float = 0.1, eps: float = 1e-5) -> None:
        super().__init__()
        self.momentum, self.eps = momentum, eps
        self.weight, self.bias = nn.Parameter(torch.ones(channels)), nn.Parameter(torch.zeros(channels))
        self.register_buffer("running_mean", torch.zeros(channels))
        self.register_buffer("running_square", torch.ones(channels))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        mean = self.running_mean.clone()
        variance = (self.running_square - mean**2).clamp(min=0)
        y = functional.batch_norm(x, mean, variance, self.weight, self.bias, self.training, self.momentum, self.eps)
        if self.training:
            with torch.no_grad():
                self.running_mean.copy_(mean)
                self.running_square.copy_(variance + mean**2)
        return y


class Fire(nn.Module):
    """SqueezeNet's block: few 1x1 filters, then 1x1 and 3x3 filters side by side, their channels one after the other."""

    def __init__(self, channels: int, squeezed: int, expanded: int) -> None:
        super().__init__()
        self.squeeze = nn.Conv2d(channels, squeezed, 1)
        self.expand1 = nn.Conv2d(squeezed, expanded, 1)
        self.expand3 = nn.Conv2d(squeezed, expanded, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, channels, side, side) -> (batch, 2 expanded, side, side)."""
        x = self.squeeze(x).relu_()
        return torch.cat([self.expand1(x), self.expand3(x)], dim=1).relu_()


class Residual(nn.Module):
    """ResNet's basic block: two 3x3 convolutions with a normalisation, added to the input.

    Where the shape changes, the input goes through a 1x1 convolution with one.
    """

    def __init__(self, block: layers.Residual) -> None:
        super().__init__()
        made = {name: _layer(layer) for name, layer in block.inside()}
        self.body = nn.Sequential(*(layer for name, layer in made.items() if name.startswith("body")))
        self.shortcut = nn.Sequential(*(layer for name, layer in made.items() if name.startswith("shortcut")))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, channels, side, side) -> (batch, wide, side / stride, side / stride), rounded up."""
        added: torch.Tensor = self.body(x) + self.shortcut(x)
        return added.relu_()


def module_of(network: Network) -> nn.Module:
    """The network as a module with its first values; the global generator of torch is left as it was."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(network.seed)
        module = fresh(network)
    if (
        network.first == "layers"
    ):  # the same values, but for the last bit on old processors (fedloom.training.first_values)
        rows.load_row(module, rows.to_row(network))
    return module


def as_module(model: Network | nn.Module) -> nn.Module:
    """A module, made if it is only described."""
    return module_of(model) if isinstance(model, Network) else model


def build(name: str, shape: Shape, n_outputs: int, seed: int, **options: Any) -> nn.Module:
    """The named network with weights drawn from `seed`; the global generator of torch is left as it was."""
    return module_of(networks.network(name, shape, n_outputs, seed, **options))


def fresh(network: Network) -> nn.Sequential:
    """The network as a module with values from torch's global generator."""
    model = nn.Sequential(*(_layer(layer) for layer in network.layers))
    if network.first == "squeezenet":
        convolutions = list(_convolutions(model))
        for layer in convolutions:
            if layer is convolutions[-1]:
                nn.init.normal_(layer.weight, std=0.01)
            else:
                nn.init.kaiming_uniform_(layer.weight)
            assert layer.bias is not None
            nn.init.zeros_(layer.bias)
    elif network.first == "resnet18":
        for layer in _convolutions(model):
            nn.init.kaiming_normal_(layer.weight, mode="fan_out", nonlinearity="relu")
    return model


def _layer(layer: Layer) -> nn.Module:
    match layer:
        case layers.Conv2d():
            return nn.Conv2d(
                layer.inputs, layer.outputs, layer.kernel, stride=layer.stride, padding=layer.padding, bias=layer.bias
            )
        case layers.Linear():
            linear = nn.Linear(layer.inputs, layer.outputs, bias=layer.bias)
            for parameter in linear.parameters() if layer.zero else ():
                nn.init.zeros_(parameter)
            return linear
        case layers.ReLU():
            return nn.ReLU()
        case layers.MaxPool2d():
            return nn.MaxPool2d(layer.kernel, stride=layer.stride, ceil_mode=layer.ceil)
        case layers.AvgPool2d():
            return nn.AvgPool2d(layer.kernel)
        case layers.GlobalAvgPool2d():
            return nn.AdaptiveAvgPool2d(1)
        case layers.BatchNorm2d():
            return nn.BatchNorm2d(layer.channels, layer.eps, layer.momentum, layer.affine)
        case layers.BatchNorm1d():
            return nn.BatchNorm1d(layer.channels, layer.eps, layer.momentum, layer.affine)
        case layers.PooledBatchNorm2d():
            return PooledBatchNorm2d(layer.channels)
        case layers.GroupNorm():
            return nn.GroupNorm(layer.groups, layer.channels, layer.eps, layer.affine)
        case layers.Dropout():
            return nn.Dropout(layer.p)
        case layers.Flatten():
            return nn.Flatten()
        case layers.Fire():
            return Fire(layer.inputs, layer.squeezed, layer.expanded)
        case layers.Residual():
            return Residual(layer)
        case layers.Embedding():
            return nn.Embedding(layer.n_tokens, layer.width)
        case layers.Positions():
            return sequences.Positions(layer.length, layer.width)
        case layers.LSTM():
            return sequences.States(layer.inputs, layer.width, layer.depth)
        case layers.LayerNorm():
            return nn.LayerNorm(layer.width)
        case layers.LastPlace():
            return sequences.LastPlace()
        case layers.Attention():
            return sequences.Attention(layer.width, layer.heads)
        case layers.Other():
            raise ValueError(f"of the layer {layer.name} only the name is known; give the module itself")


def _convolutions(model: nn.Module) -> Iterator[nn.Conv2d]:
    return (layer for layer in model.modules() if isinstance(layer, nn.Conv2d))


def _fresh(make: Callable[Options, Network]) -> Callable[Options, nn.Sequential]:
    """The builder of a network as a builder of modules, with its docstring and arguments."""

    @functools.wraps(make)
    def made(*args: Options.args, **options: Options.kwargs) -> nn.Sequential:
        return fresh(make(*args, **options))

    return made


softmax = _fresh(networks.softmax)
mlp = _fresh(networks.mlp)
lenet5 = _fresh(networks.lenet5)
cnn = _fresh(networks.cnn)
cnn_small = _fresh(networks.cnn_small)
cnn_bn = _fresh(networks.cnn_bn)
vgg = _fresh(networks.vgg)
squeezenet = _fresh(networks.squeezenet)
resnet18 = _fresh(networks.resnet18)
resnet20 = _fresh(networks.resnet20)
lstm = _fresh(networks.lstm)
transformer = _fresh(networks.transformer)

MODELS: dict[str, Callable[..., nn.Module]] = {
    name: _fresh(make) for name, make in (networks.NETWORKS | networks.SEQUENCES).items()
}

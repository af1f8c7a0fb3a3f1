"""Reading a torch module as layers: of an nn.Sequential (nested ones are fine), for engines other than torch."""

from typing import Any

from torch import nn

from fedloom.training import rows
from fedloom.training.engine import Unsupported
from fedloom.training.layers import (
    AvgPool2d,
    BatchNorm1d,
    BatchNorm2d,
    Conv2d,
    Dropout,
    Flatten,
    GroupNorm,
    Leaf,
    Linear,
    MaxPool2d,
    Other,
    Plain,
    ReLU,
)

POOLING = (nn.MaxPool2d, nn.AvgPool2d)


def leaves_of(model: nn.Module) -> list[Leaf]:
    """The module's layers in the order they are applied; Unsupported if it does something that layers do not say."""
    if model.training is False:
        raise Unsupported("the model is in evaluation mode, which could mean that parts of it are not to be trained")
    rows.tensors(model)  # what cannot be part of a row at all
    if any(not p.requires_grad for p in model.parameters()):
        raise Unsupported("some parameters are frozen")
    for module in model.modules():
        if module._forward_hooks or module._forward_pre_hooks or module._backward_hooks or module._backward_pre_hooks:
            raise Unsupported(f"{type(module).__name__} has hooks")
    found = _applied(model, "")
    weights = [id(p) for _, layer in found for p in layer.parameters()]
    if len(set(weights)) < len(weights):
        raise Unsupported("some layers share their weights")
    dropouts: dict[nn.Module, int] = {}  # numbered as in fedloom.training.dropout
    for _, layer in found:
        if isinstance(layer, nn.Dropout):
            dropouts.setdefault(layer, len(dropouts) + 1)
    return [Leaf(name, _layer(layer), dropouts.get(layer, 0)) for name, layer in found]


def _applied(model: nn.Module, prefix: str) -> list[tuple[str, nn.Module]]:
    """Modules in the order they are applied, with the prefix of their parameters' names."""
    if type(model) is not nn.Sequential:
        if list(model.children()):
            raise Unsupported(f"{type(model).__name__} is not an nn.Sequential")
        return [(prefix, model)]
    return [leaf for name, child in model._modules.items() if child for leaf in _applied(child, f"{prefix}{name}.")]


def _layer(layer: Any) -> Plain:
    """By the type itself: a subclass may compute something else."""
    kind = type(layer)
    if kind is nn.Conv2d:
        return _convolution(layer)
    if kind is nn.Linear:
        return Linear(layer.in_features, layer.out_features, layer.bias is not None)
    if kind is nn.ReLU:
        return ReLU()
    if kind in POOLING:
        return _pooling(layer)
    if kind in (nn.BatchNorm1d, nn.BatchNorm2d):
        if layer.momentum is None or not layer.track_running_stats:
            raise Unsupported("a BatchNorm has no momentum, no running statistics or another number of features")
        norm = BatchNorm1d if kind is nn.BatchNorm1d else BatchNorm2d
        return norm(layer.num_features, layer.eps, layer.momentum, layer.affine)
    if kind is nn.GroupNorm:
        return GroupNorm(layer.num_groups, layer.num_channels, layer.eps, layer.affine)
    if kind is nn.Dropout:
        return Dropout(layer.p)
    if kind is nn.Flatten:
        if (layer.start_dim, layer.end_dim) != (1, -1):
            raise Unsupported("a Flatten keeps some dimensions")
        return Flatten()
    return Other(kind.__name__)


def _convolution(layer: nn.Conv2d) -> Conv2d:
    if layer.stride != (1, 1) or layer.dilation != (1, 1) or layer.groups != 1 or layer.padding_mode != "zeros":
        raise Unsupported("a Conv2d has a stride, dilation, groups or a padding mode")
    kh, kw = layer.kernel_size
    if isinstance(layer.padding, str):
        if layer.padding == "same" and not (kh % 2 and kw % 2):
            raise Unsupported("a Conv2d has padding 'same' with an even kernel")
        ph, pw = (kh // 2, kw // 2) if layer.padding == "same" else (0, 0)
    else:
        ph, pw = (int(p) for p in layer.padding)
    return Conv2d(layer.in_channels, layer.out_channels, (kh, kw), (ph, pw), bias=layer.bias is not None)


def _pooling(layer: Any) -> MaxPool2d | AvgPool2d:
    def pair(value: Any) -> tuple[int, int]:
        return (value, value) if isinstance(value, int) else tuple(value)

    plain = pair(layer.kernel_size) == pair(layer.stride) == (2, 2) and pair(layer.padding) == (0, 0)
    odd = layer.ceil_mode or getattr(layer, "return_indices", False) or pair(getattr(layer, "dilation", 1)) != (1, 1)
    if not plain or odd or getattr(layer, "divisor_override", None) is not None:
        raise Unsupported(f"{type(layer).__name__} is not a plain 2x2 pooling")
    return MaxPool2d() if type(layer) is nn.MaxPool2d else AvgPool2d()

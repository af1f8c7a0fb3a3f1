"""Convolutions of 3x3 filters over many channels with fewer multiplications, and images whose channels lie side by side.

Squares of 4x4 outputs go to 36 points, where the sum over channels is one matrix product each, and back (cpp/tiles.h): a
quarter of the multiplications. Results are those of torch's convolution up to rounding, whose error is about twice as large.
Steps to the points and back are compiled kernels; the products are torch's.
"""

import math
from types import ModuleType
from typing import Any

import torch
from torch import nn
from torch.autograd.function import once_differentiable

from fedloom import _kernels
from fedloom.training.dropout import CounterDropout
from fedloom.training.models import Fire, Residual
from fedloom.training.pooling import MaxPoolByChannels, hooked

POINTS, SIDE = 36, 4  # points of a square, and outputs along its side
APART = 16  # numbers between the matrices of two points, or all would fall on the same place of a cache
WHOLE, LEAST_INPUTS, LEAST_OUTPUTS = 16, 16, 32  # channels; WHOLE: the largest vector
LEAST_SQUARES, LEAST_OUTPUTS_OF_SQUARE = 16, 8  # of a batch; of 16, where squares reach over the border
MANY_WEIGHTS = 1 << 20  # at the points they are four times as many; and oneDNN takes images with channels apart sooner
AT_ONCE = 1 << 16  # squares x (inputs + outputs) whose points are worked on together

# Layers that do not look at how images lie in memory. Types are compared by themselves, as a subclass may do more.
KNOWN = frozenset(
    (
        nn.Sequential, nn.Identity, nn.Conv2d, nn.Linear, nn.BatchNorm1d, nn.BatchNorm2d, nn.GroupNorm, nn.ReLU, nn.Dropout,
        nn.MaxPool2d, nn.AvgPool2d, nn.AdaptiveAvgPool2d, nn.Flatten, MaxPoolByChannels, CounterDropout, Fire, Residual,
    )
)  # fmt: skip


class Convolution(nn.Module):
    """Takes the place of an nn.Conv2d while an engine trains.

    among_known: its neighbours do not look at how images lie in memory, so that they may have their channels side by side;
    else its outputs lie as those of nn.Conv2d.
    """

    def __init__(self, layer: nn.Conv2d, kernels: ModuleType, among_known: bool) -> None:
        super().__init__()
        self.weight, self.bias = layer.weight, layer.bias
        self._options: tuple[Any, ...] = (layer.stride, layer.padding, layer.dilation, layer.groups)
        self._kernels = kernels if fits(layer) else None
        self._among_known = among_known
        many = layer.weight.numel() >= MANY_WEIGHTS
        self._lie = torch.contiguous_format if many else torch.channels_last

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, channels, height, width), or without batch, as nn.Conv2d."""
        if self._kernels is not None and _pays(x):
            y: torch.Tensor = _Convolve.apply(x, self.weight, self.bias, self._kernels)  # type: ignore[no-untyped-call]
            return y if self._among_known else y.contiguous()
        if self._among_known and x.dim() == 4:
            x = x.contiguous(memory_format=self._lie)
        return nn.functional.conv2d(x, self.weight, self.bias, *self._options)


def convolve_quickly(model: nn.Module) -> None:
    """Exchange convolutions of the model for quick ones, if it has any that gain; hooked ones are left alone."""
    kernels = _kernels.compiled()
    if kernels is None or not any(
        type(layer) is nn.Conv2d and _plain(layer) and fits(layer) for layer in model.modules()
    ):
        return
    known = all(type(layer) in KNOWN and not hooked(layer) for layer in model.modules())
    for parent in list(model.modules()):
        for name, child in list(parent._modules.items()):
            if type(child) is nn.Conv2d and _plain(child) and (known or fits(child)):
                setattr(parent, name, Convolution(child, kernels, known))


def _plain(layer: nn.Conv2d) -> bool:
    return layer.padding_mode == "zeros" and not hooked(layer)


def fits(layer: nn.Conv2d) -> bool:
    """Whether it is one of 3x3 over channels enough, and not over too many."""
    outputs, inputs = layer.weight.shape[:2]
    sizes = (layer.kernel_size, layer.stride, layer.padding, layer.dilation, layer.groups)
    return (
        sizes == ((3, 3), (1, 1), (1, 1), (1, 1), 1)
        and inputs >= LEAST_INPUTS and outputs >= LEAST_OUTPUTS
        and inputs % WHOLE == outputs % WHOLE == 0
        and layer.weight.numel() < MANY_WEIGHTS
    )  # fmt: skip


def _pays(x: torch.Tensor) -> bool:
    """Whether there are squares enough for what filters cost."""
    if x.dim() != 4 or x.dtype != torch.float32:
        return False
    squares = _squares(x)
    return len(x) * squares >= LEAST_SQUARES and squares * LEAST_OUTPUTS_OF_SQUARE <= math.prod(x.shape[2:])


def _squares(x: torch.Tensor) -> int:
    """Of an image."""
    return math.prod(-(-side // SIDE) for side in x.shape[2:])


class _Convolve(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, kernels: ModuleType) -> Any:
        x = x.contiguous(memory_format=torch.channels_last)
        ctx.save_for_backward(x, weight)
        ctx.kernels = kernels
        return _convolved(kernels, x, _filters(kernels, weight, mirrored=False).transpose(1, 2), bias)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        x, weight = ctx.saved_tensors
        gradient = gradient.contiguous(memory_format=torch.channels_last)
        of_x = of_weight = of_bias = None
        if ctx.needs_input_grad[0]:
            of_x = _convolved(ctx.kernels, gradient, _filters(ctx.kernels, weight, mirrored=True), None)
        if ctx.needs_input_grad[1]:
            of_weight = _gradient(ctx.kernels, x, gradient, weight)
        if ctx.needs_input_grad[2]:
            of_bias = gradient.sum((0, 2, 3))
        return of_x, of_weight, of_bias, None


def _convolved(kernels: ModuleType, x: torch.Tensor, filters: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
    """x (n, inputs, height, width), side by side; filters (36, inputs, outputs) at the points."""
    inputs, outputs = filters.shape[1:]
    y = torch.empty((len(x), outputs, *x.shape[2:]), memory_format=torch.channels_last)
    n = _images_at_once(x, inputs, outputs)
    at_inputs, at_outputs = (_points(n * _squares(x), channels) for channels in (inputs, outputs))
    for low in range(0, len(x), n):
        part, out = _array(x[low : low + n]), _array(y[low : low + n])
        squares = len(part) * _squares(x)
        kernels.images_to_points(part, at_inputs.numpy())
        torch.bmm(_matrices(at_inputs, squares, inputs), filters, out=_matrices(at_outputs, squares, outputs))
        kernels.points_to_images(at_outputs.numpy(), out, None if bias is None else bias.detach().numpy())
    return y


def _gradient(kernels: ModuleType, x: torch.Tensor, gradient: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """Of the filters (outputs, inputs, 3, 3)."""
    outputs, inputs = weight.shape[:2]
    n = _images_at_once(x, inputs, outputs)
    at_inputs, at_outputs = (_points(n * _squares(x), channels) for channels in (inputs, outputs))
    total = _points(outputs, inputs)
    sums = _matrices(total, outputs, inputs)
    for low in range(0, len(x), n):
        part = _array(x[low : low + n])
        squares = len(part) * _squares(x)
        kernels.images_to_points(part, at_inputs.numpy())
        kernels.gradients_to_points(_array(gradient[low : low + n]), at_outputs.numpy())
        a, b = _matrices(at_outputs, squares, outputs).transpose(1, 2), _matrices(at_inputs, squares, inputs)
        torch.baddbmm(sums, a, b, beta=1.0 if low else 0.0, out=sums)
    found = torch.empty(weight.shape)
    kernels.points_to_filters(total.numpy(), found.numpy())
    return found


def _filters(kernels: ModuleType, weight: torch.Tensor, *, mirrored: bool) -> torch.Tensor:
    """(36, outputs, inputs)."""
    points = _points(*weight.shape[:2])
    kernels.filters_to_points(weight.detach().contiguous().numpy(), points.numpy(), mirrored)
    return _matrices(points, *weight.shape[:2])


def _images_at_once(x: torch.Tensor, inputs: int, outputs: int) -> int:
    """So many that their points stay in the cache; but where filters are larger than these, as many as those."""
    n = max(AT_ONCE, inputs * outputs) // (_squares(x) * (inputs + outputs))
    return min(len(x), max(1, n))


def _points(n_rows: int, n_columns: int) -> torch.Tensor:
    """Room for a matrix at each point."""
    return torch.empty((POINTS, n_rows * n_columns + APART))


def _matrices(points: torch.Tensor, n_rows: int, n_columns: int) -> torch.Tensor:
    """(36, rows, columns) in that room."""
    return points[:, : n_rows * n_columns].view(POINTS, n_rows, n_columns)


def _array(x: torch.Tensor) -> Any:
    """(n, height, width, channels)."""
    return x.detach().permute(0, 2, 3, 1).numpy()

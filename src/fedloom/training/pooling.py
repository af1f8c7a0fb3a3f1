"""Max-pooling of large images by vectors of channels.

torch pools images that lie channel after channel value by value, and images whose channels lie side by side vector by vector:
with the copies there and back that takes half the time. Maxima are not rounded, of equal values the first counts in both, and
gradients go the usual way: the bits are the same.
"""

from typing import Any

import torch
from torch import nn
from torch.autograd.function import once_differentiable
from torch.nn.modules.utils import _pair

LEAST_CHANNELS, LEAST_VALUES = 16, 1 << 16  # of a batch: below, copies and calls cost more than they gain


class MaxPoolByChannels(nn.Module):
    """Takes the place of an nn.MaxPool2d while an engine trains."""

    def __init__(self, layer: nn.MaxPool2d) -> None:
        super().__init__()
        sizes = (layer.kernel_size, layer.stride, layer.padding, layer.dilation)
        self.options: tuple[Any, ...] = (*(list(_pair(size)) for size in sizes), layer.ceil_mode)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, channels, height, width), or without batch, as nn.MaxPool2d."""
        large = x.dim() == 4 and x.shape[1] >= LEAST_CHANNELS and x.numel() >= LEAST_VALUES
        if large and x.is_contiguous():
            pooled: torch.Tensor = _Pool.apply(x, self.options)  # type: ignore[no-untyped-call]
            return pooled
        return torch.max_pool2d(x, *self.options)


def pool_by_channels(model: nn.Module) -> None:
    """Exchange every plain nn.MaxPool2d inside the model; types are compared by themselves, as a subclass may do more."""
    for parent in list(model.modules()):
        for name, child in list(parent._modules.items()):
            if type(child) is nn.MaxPool2d and not child.return_indices and not hooked(child):
                setattr(parent, name, MaxPoolByChannels(child))


def hooked(layer: nn.Module) -> bool:
    """Whether somebody looks at what goes into it or comes out."""
    return bool(layer._forward_hooks or layer._forward_pre_hooks or layer._backward_hooks or layer._backward_pre_hooks)


class _Pool(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, options: tuple[Any, ...]) -> torch.Tensor:
        side_by_side = x.contiguous(memory_format=torch.channels_last)
        pooled, index = torch.ops.aten.max_pool2d_with_indices(side_by_side, *options)
        ctx.save_for_backward(x, index.contiguous())
        ctx.options = options
        contiguous: torch.Tensor = pooled.contiguous()
        return contiguous

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None]:
        x, index = ctx.saved_tensors
        return torch.ops.aten.max_pool2d_with_indices_backward(gradient, x, *ctx.options, index), None

"""A model as a row: one float32 vector, trainable parameters first, then floating-point buffers.

Averaging rows averages BatchNorm statistics with the same weights as the parameters. BatchNorm's counter of batches
is left out: with a fixed momentum (the usual case) nothing reads it.
"""

from collections.abc import Iterable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

Row = NDArray[np.float32]


def tensors(module: nn.Module) -> list[tuple[str, torch.Tensor]]:
    """Names and tensors of a row in their order: parameters, then buffers; integer buffers are left out."""
    found: list[tuple[str, torch.Tensor]] = list(module.named_parameters())
    for name, layer in module.named_modules():
        if isinstance(layer, nn.modules.batchnorm._BatchNorm) and layer.track_running_stats and layer.momentum is None:
            raise ValueError(
                f"layer {name or 'of the model'} is a BatchNorm with momentum=None, whose statistics depend on a "
                f"counter that is not part of a row; give it a momentum such as 0.1"
            )
    found += [(name, b) for name, b in module.named_buffers() if b.is_floating_point()]
    for name, tensor in found:
        if tensor.dtype != torch.float32:
            raise ValueError(f"{name} must be float32, got {tensor.dtype}; convert the model with .float()")
    return found


def n_values(module: nn.Module) -> int:
    """P, the length of the model's row."""
    return sum(t.numel() for _, t in tensors(module))


def to_row(module: nn.Module) -> Row:
    """The model's values, (P,)."""
    return torch.cat([t.detach().reshape(-1) for _, t in tensors(module)]).numpy().copy()


def load_row(module: nn.Module, row: Row) -> None:
    """Write the values of `row` (P,) into the model."""
    wanted = n_values(module)
    if row.shape != (wanted,):
        raise ValueError(f"the row must have shape ({wanted},) for this model, got {row.shape}")
    values = torch.from_numpy(np.ascontiguousarray(row, dtype=np.float32))
    start = 0
    with torch.no_grad():
        for _, tensor in tensors(module):
            tensor.copy_(values[start : start + tensor.numel()].view_as(tensor))
            start += tensor.numel()


def bind(module: nn.Module) -> torch.Tensor:
    """Make the model's tensors views of one vector (P,), which is returned: writing it sets the whole model."""
    parts = tensors(module)
    flat = torch.cat([t.detach().reshape(-1) for _, t in parts])
    start = 0
    for _, tensor in parts:
        tensor.data = flat[start : start + tensor.numel()].view_as(tensor)
        start += tensor.numel()
    return flat


def trainable_mask(module: nn.Module) -> NDArray[np.bool_]:
    """(P,) true where the row holds a trainable parameter, false where it holds a buffer or a frozen weight."""
    trains = {name for name, p in module.named_parameters() if p.requires_grad}
    return np.concatenate([np.full(t.numel(), name in trains) for name, t in tensors(module)])


def columns(module: nn.Module, names: Iterable[str]) -> NDArray[np.int64]:
    """Positions in the row, rising, of the tensors or layers of these names.

    A tensor's name is as in `tensors`, "0.weight"; a layer's, "0" or "3.squeeze" ("": the whole model), stands for all
    parameters in it, not for its buffers. A position occurs once even if two names hold it.
    """
    wanted = set(names)
    if not wanted:
        raise ValueError("columns must be of at least one tensor or layer, got no names")
    trained = {name for name, _ in module.named_parameters()}
    found, met, start = [], set(), 0
    for name, tensor in tensors(module):
        parts = name.split(".")
        above = {".".join(parts[:n]) for n in range(len(parts))} if name in trained else set()
        hits = wanted & (above | {name})
        if hits:
            found.append(np.arange(start, start + tensor.numel()))
            met |= hits
        start += tensor.numel()
    if wanted - met:
        known = ", ".join(name for name, _ in tensors(module))
        raise ValueError(f"the model has no tensor or layer {sorted(wanted - met)[0]!r} with values; tensors: {known}")
    return np.concatenate(found)


def smallest_convolutions(module: nn.Module, n: int = 4) -> tuple[str, ...]:
    """Names of the n convolutions with the fewest parameters, weights and bias; of two alike the first. In model order.

    LTC sends these layers, not the whole model, where the model is large.
    """
    found = _convolutions(module)
    if not 1 <= n <= len(found):
        raise ValueError(f"n must be in 1..{len(found)}, the number of the model's convolutions, got {n}")
    chosen = sorted(sorted(range(len(found)), key=lambda i: found[i][1])[:n])
    return tuple(found[i][0] for i in chosen)


def first_convolution(module: nn.Module) -> tuple[str, ...]:
    """Name of the first convolution: what LTC sends of a small model, 456 of the 62,006 values of LeNet-5 on 32x32x3."""
    return (_convolutions(module)[0][0],)


def _convolutions(module: nn.Module) -> list[tuple[str, int]]:
    """Names and numbers of parameters of the convolutions, in model order."""
    found = [
        (name, sum(p.numel() for p in layer.parameters()))
        for name, layer in module.named_modules()
        if isinstance(layer, nn.modules.conv._ConvNd)
    ]
    if not found:
        raise ValueError("the model has no convolutions; choose layers by name")
    return found

"""A model as a row: one float32 vector, trainable parameters first, then floating-point buffers.

A model is the record of a named network, which needs no torch, or any torch module. Averaging rows averages BatchNorm
statistics with the same weights as the parameters. BatchNorm's counter of batches is left out: with a fixed momentum (the
usual case) nothing reads it.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fedloom.training.first_values import first_row
from fedloom.training.layers import BUFFER, TRAINED, Conv2d, Network

if TYPE_CHECKING:  # torch is loaded for modules only: it takes longer than many a run
    import torch
    from torch import nn

    AnyModel = Network | nn.Module

Row = NDArray[np.float32]


@dataclass(frozen=True)
class Part:
    """One tensor of a row. parameter: it is one, and no buffer; trained: training changes it."""

    name: str
    shape: tuple[int, ...]
    parameter: bool
    trained: bool

    @property
    def n_values(self) -> int:
        return int(np.prod(self.shape, dtype=object))


def layout(model: "AnyModel") -> list[Part]:
    """The tensors of a row in their order."""
    if isinstance(model, Network):
        kinds = {kind: [t for t in model.tensors() if t.kind == kind] for kind in (TRAINED, BUFFER)}
        return [Part(t.name, t.shape, kind == TRAINED, kind == TRAINED) for kind in kinds for t in kinds[kind]]
    found = dict(model.named_parameters())
    trains = {name for name, p in found.items() if p.requires_grad}
    return [Part(name, tuple(t.shape), name in found, name in trains) for name, t in tensors(model)]


def tensors(module: "nn.Module") -> list[tuple[str, "torch.Tensor"]]:
    """Names and tensors of a module's row in their order: parameters, then buffers; integer buffers are left out."""
    import torch
    from torch import nn

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


def n_values(model: "AnyModel") -> int:
    """P, the length of the model's row."""
    return sum(part.n_values for part in layout(model))


def to_row(model: "AnyModel") -> Row:
    """The model's values, (P,); of a network its first ones."""
    if isinstance(model, Network) and model.first == "layers":
        return first_row(model)
    import torch

    from fedloom.training.models import as_module

    module = as_module(model)
    return torch.cat([t.detach().reshape(-1) for _, t in tensors(module)]).numpy().copy()


def load_row(module: "nn.Module", row: Row) -> None:
    """Write the values of `row` (P,) into the module."""
    import torch

    wanted = n_values(module)
    if row.shape != (wanted,):
        raise ValueError(f"the row must have shape ({wanted},) for this model, got {row.shape}")
    values = torch.from_numpy(np.ascontiguousarray(row, dtype=np.float32))
    start = 0
    with torch.no_grad():
        for _, tensor in tensors(module):
            tensor.copy_(values[start : start + tensor.numel()].view_as(tensor))
            start += tensor.numel()


def bind(module: "nn.Module") -> "torch.Tensor":
    """Make the module's tensors views of one vector (P,), which is returned: writing it sets the whole model."""
    import torch

    parts = tensors(module)
    flat = torch.cat([t.detach().reshape(-1) for _, t in parts])
    start = 0
    for _, tensor in parts:
        tensor.data = flat[start : start + tensor.numel()].view_as(tensor)
        start += tensor.numel()
    return flat


def trainable_mask(model: "AnyModel") -> NDArray[np.bool_]:
    """(P,) true where the row holds a trainable parameter, false where it holds a buffer or a frozen weight."""
    return np.concatenate([np.full(part.n_values, part.trained) for part in layout(model)])


def columns(model: "AnyModel", names: Iterable[str]) -> NDArray[np.int64]:
    """Positions in the row, rising, of the tensors or layers of these names.

    A tensor's name is as in `layout`, "0.weight"; a layer's, "0" or "3.squeeze" ("": the whole model), stands for all
    parameters in it, not for its buffers. A position occurs once even if two names hold it.
    """
    wanted = set(names)
    if not wanted:
        raise ValueError("columns must be of at least one tensor or layer, got no names")
    found, met, start = [], set(), 0
    for part in layout(model):
        path = part.name.split(".")
        above = {".".join(path[:n]) for n in range(len(path))} if part.parameter else set()
        hits = wanted & (above | {part.name})
        if hits:
            found.append(np.arange(start, start + part.n_values))
            met |= hits
        start += part.n_values
    if wanted - met:
        known = ", ".join(part.name for part in layout(model))
        raise ValueError(f"the model has no tensor or layer {sorted(wanted - met)[0]!r} with values; tensors: {known}")
    return np.concatenate(found)


def smallest_convolutions(model: "AnyModel", n: int = 4) -> tuple[str, ...]:
    """Names of the n convolutions with the fewest parameters, weights and bias; of two alike the first. In model order.

    LTC sends these layers, not the whole model, where the model is large.
    """
    found = _convolutions(model)
    if not 1 <= n <= len(found):
        raise ValueError(f"n must be in 1..{len(found)}, the number of the model's convolutions, got {n}")
    chosen = sorted(sorted(range(len(found)), key=lambda i: found[i][1])[:n])
    return tuple(found[i][0] for i in chosen)


def first_convolution(model: "AnyModel") -> tuple[str, ...]:
    """Name of the first convolution: what LTC sends of a small model, 456 of the 62,006 values of LeNet-5 on 32x32x3."""
    return (_convolutions(model)[0][0],)


def _convolutions(model: "AnyModel") -> list[tuple[str, int]]:
    """Names and numbers of parameters of the convolutions, in model order."""
    if isinstance(model, Network):
        found = [
            (name, sum(t.n_values for t in layer.tensors()))
            for name, layer in model.leaves()
            if isinstance(layer, Conv2d)
        ]
    else:
        from torch import nn

        found = [
            (name, sum(p.numel() for p in layer.parameters()))
            for name, layer in model.named_modules()
            if isinstance(layer, nn.modules.conv._ConvNd)
        ]
    if not found:
        raise ValueError("the model has no convolutions; choose layers by name")
    return found

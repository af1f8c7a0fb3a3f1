"""Dropout whose masks are a pure function of (seed, client, step, layer, element), the same in every engine.

    keep element e  iff  mix32(e xor key) >= p 2^32,   key = low 32 bits of mix(step's key xor layer * golden ratio)

e counts the elements of the batch in torch's order (sample first); layers are counted from 1 in the order of the model.
"""

import torch
from torch import nn

from fedloom.training.batches import mix

_GOLDEN = 0x9E3779B97F4A7C15
_MASK = 0xFFFF_FFFF


def dropout_key(seed: int, client: int, step: int) -> int:
    """The key of one step of one client."""
    return mix(mix(mix(seed ^ 0xD1B54A32D192ED03) ^ client) ^ step)


def layer_key(key: int, layer: int) -> int:
    """Of a step's key and a layer's number, the key of its masks as int32."""
    return _signed(mix(key ^ (layer * _GOLDEN % 2**64)) & _MASK)


class CounterDropout(nn.Module):
    """Takes the place of nn.Dropout while an engine trains; `key` is set before every step. Where many clients train at once it
    is that of the layer already (`layer_key`), a tensor () of int32, of which every client has its own."""

    def __init__(self, p: float, layer: int) -> None:
        super().__init__()
        self.p, self.layer = p, layer
        self.key: int | torch.Tensor = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x times 0 or 1 / (1 - p) in training, x itself otherwise."""
        if not self.training or self.p <= 0:
            return x
        element = torch.arange(x.numel(), dtype=torch.int32, device=x.device)
        if isinstance(self.key, int):
            element.bitwise_xor_(layer_key(self.key, self.layer))
        else:
            element = element ^ self.key
        least = min(int(self.p * 2**32), _MASK)
        keep = _mix32(element).bitwise_xor_(_signed(1 << 31)) >= least - 2**31
        return x * keep.view_as(x).to(x.dtype).div_(1 - self.p)


def use_counters(model: nn.Module) -> list[CounterDropout]:
    """Exchange every nn.Dropout inside the model (one that is used twice stays one); returns the new layers."""
    found: dict[nn.Module, CounterDropout] = {}
    for layer in model.modules():  # in the order of the model
        if type(layer) is nn.Dropout:
            found[layer] = CounterDropout(layer.p, len(found) + 1)
    for parent in list(model.modules()):
        for name, child in list(parent._modules.items()):
            if child in found:
                setattr(parent, name, found[child])
    return list(found.values())


def _mix32(x: torch.Tensor) -> torch.Tensor:
    """A 32-bit hash of numbers that are kept in int32, in place: products wrap around, and shifts must not bring the sign in."""
    x ^= (x >> 16).bitwise_and_(0xFFFF)
    x *= _signed(0x85EBCA6B)
    x ^= (x >> 13).bitwise_and_(0x7FFFF)
    x *= _signed(0xC2B2AE35)
    x ^= (x >> 16).bitwise_and_(0xFFFF)
    return x


def _signed(bits: int) -> int:
    """A number below 2^32 as the int32 of the same bits."""
    return bits - (bits >> 31 << 32)

"""First values of a network, drawn without torch and equal to torch's own to the bit.

torch draws with the Mersenne twister MT19937, seeded with the low 32 bits of the seed. A float32 of uniform_(-b, b) takes 32
random bits, of which the low 24 count, r in 0..2^24-1:

    value = float32(r 2^-24 * 2b - b)     rounded once: torch's kernels for AVX2, AVX-512 and ARM multiply and add in one step

The exact result has at most 48 significant bits, so that float64 holds it and one conversion rounds it. (torch's kernels for
older processors round the product too; there the values here differ from torch's in the last bit, and are those that all
other machines have.) Layers draw in the order of the model, a layer's weight before its bias, both from +-1/sqrt(fan in): the
weight's bound by the way of kaiming_uniform_(a=sqrt(5)), in the same floating-point operations.
"""

import math

import numpy as np
from numpy.typing import NDArray

from fedloom.training.layers import BUFFER, TRAINED, Conv2d, Linear, Network, WithTensors

Row = NDArray[np.float32]


def first_row(network: Network) -> Row:
    """The row (P,) that the network starts from: its parameters, then its buffers."""
    if network.first != "layers":
        raise ValueError(f"the first values of {network.first} are drawn by torch; make its module")
    twister = np.random.RandomState(network.seed & 0xFFFF_FFFF)
    values: dict[str, list[Row]] = {TRAINED: [], BUFFER: []}
    for _, layer in network.leaves():
        if isinstance(layer, Conv2d | Linear):
            zero = isinstance(layer, Linear) and layer.zero
            for tensor in layer.tensors():
                bound = _weight_bound(layer.fan_in) if tensor.name == "weight" else 1 / math.sqrt(layer.fan_in)
                values[TRAINED].append(
                    np.zeros(tensor.n_values, np.float32) if zero else uniform(twister, tensor.n_values, bound)
                )
        elif isinstance(layer, WithTensors):  # a normalisation
            for tensor in layer.tensors():
                if tensor.kind in values:
                    one = tensor.name in ("weight", "running_var", "running_square")
                    values[tensor.kind].append(np.full(tensor.n_values, float(one), np.float32))
    return np.concatenate([*values[TRAINED], *values[BUFFER], np.zeros(0, np.float32)])


def uniform(twister: np.random.RandomState, n: int, bound: float) -> Row:
    """n values of torch's uniform_(-bound, bound)."""
    bits = twister.randint(0, 2**32, size=n, dtype=np.uint32)  # one draw a value, none is thrown away
    share = (bits & 0xFF_FFFF).astype(np.float64) * 2.0**-24
    b = float(np.float32(bound))
    return (share * (2 * b) - b).astype(np.float32)


def _weight_bound(fan_in: int) -> float:
    """1 / sqrt(fan_in) but for rounding."""
    gain = math.sqrt(2.0 / (1 + math.sqrt(5) ** 2))
    return math.sqrt(3.0) * (gain / math.sqrt(fan_in))

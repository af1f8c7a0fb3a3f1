"""The sum of an aggregator's updates to the last bit, for those who have the models at hand: merges by value, and stations.

The training engines add up what they train while they train it, in an order that is fixed (fedloom.training.sums): block by
block, blocks along a binary tree. This is the same sum of models that are there already: products and additions in double
precision, fused where the engine's are.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from fedloom import _kernels

Row = NDArray[np.float32]

BLOCK = 64  # these three and `block_size` are those of fedloom.training.sums; a test sees that they stay so
LARGE_MODEL = 1_000_000
SMALL_BLOCK = 4


def block_size(n_params: int) -> int:
    """Updates in a block of models with so many values."""
    return BLOCK if n_params <= LARGE_MODEL else SMALL_BLOCK


def weighted_sum(
    rows: Sequence[Row] | NDArray[np.float32],
    weights: Sequence[float] | NDArray[np.float64],
    n_params: int | None = None,
) -> NDArray[np.float64]:
    """sum_i weights[i] rows[i] (P,) of m rows (P,), m >= 1, added in the order given. n_params: values of the model, if rows have
    shared states behind it."""
    size = block_size(n_params or len(rows[0]))
    values = [float(w) for w in weights]
    nodes = [_block(rows[low : low + size], values[low : low + size]) for low in range(0, len(rows), size)]
    while (
        len(nodes) > 1
    ):  # node i of a level is the sum of nodes 2i and 2i + 1 below; what is missing on the right is left out
        pairs = [a + b for a, b in zip(nodes[::2], nodes[1::2])]
        nodes = pairs + nodes[len(nodes) - len(nodes) % 2 :]
    return nodes[0]


def _block(rows: Sequence[Row] | NDArray[np.float32], weights: list[float]) -> NDArray[np.float64]:
    """One after the other, from zero."""
    kernels = _kernels.compiled()
    if kernels is not None:
        total: NDArray[np.float64] = kernels.weighted_sum([np.ascontiguousarray(row) for row in rows], weights)
        return total
    import torch  # then it trains, too

    block = torch.zeros(len(rows[0]), dtype=torch.float64)
    for row, weight in zip(rows, weights):
        block.add_(torch.from_numpy(np.array(row)), alpha=weight)
    return np.asarray(block.numpy())

"""Weighted sums of trained rows, or of a range of their columns, as torch adds them.

Workers share a sum out by columns: each adds its own range of all rows, in the order that is fixed for all (`sums`). A column's
sum does not depend on the others, so the bits are those of one process that adds whole rows.
"""

import itertools
from collections.abc import Sequence

import torch

from fedloom.training.sums import Tree

PIECE = 1 << 16  # columns added at a time: torch makes a copy in double precision, which should stay in the cache
ALIGNED = 64  # columns: ranges begin at multiples of it

Entries = Sequence[tuple[int, float]]  # averages that a row counts in, and its weights


class RangeSums:
    """Sums of the columns low..high-1 of n_jobs rows, `size` jobs to a block."""

    def __init__(self, low: int, high: int, size: int, n_jobs: int) -> None:
        self._low, self._high, self._size, self._n_jobs = low, high, size, n_jobs
        self._tree, self._n_added = Tree(), 0
        self._block: dict[int, torch.Tensor] = {}

    def add(self, row: torch.Tensor, entries: Entries) -> None:
        """The next row (P,) in the fixed order."""
        part = row[self._low : self._high]
        for target, weight in entries:
            if target not in self._block:
                self._block[target] = torch.zeros(len(part), dtype=torch.float64)
            sums = self._block[target]
            for a in range(0, len(part), PIECE):
                sums[a : a + PIECE].add_(part[a : a + PIECE], alpha=weight)
        self._n_added += 1
        if self._n_added % self._size == 0 or self._n_added == self._n_jobs:
            self._tree.push({target: sums.numpy() for target, sums in self._block.items()})
            self._block = {}

    def write(self, out: torch.Tensor) -> None:
        """Into the same columns of out (M, P), after the last row; averages that no row counts in are zero."""
        mine = out[:, self._low : self._high]
        found = self._tree.sums()
        for target in range(len(out)):
            if target in found:
                mine[target] = torch.from_numpy(found[target])
            else:
                mine[target] = 0.0


def ranges(n_columns: int, n: int) -> list[tuple[int, int]]:
    """So many columns in n parts, about alike."""
    cuts = [min(n_columns, -(-n_columns * i // n // ALIGNED) * ALIGNED) for i in range(n)] + [n_columns]
    return list(itertools.pairwise(cuts))

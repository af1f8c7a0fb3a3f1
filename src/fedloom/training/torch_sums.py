"""Weighted sums of trained rows, or of a range of their columns, as torch adds them.

Workers share a sum out by columns: each adds its own range of all rows, in the order that is fixed for all (`sums`). A column's
sum does not depend on the others, so the bits are those of one process that adds whole rows.
"""

import itertools
from collections.abc import Sequence

import torch

from fedloom.training.sums import Tree

PIECE = (
    1 << 15
)  # columns added at a time: they and the copy that torch makes in double precision should stay in the cache
ALIGNED = 64  # columns: ranges begin at multiples of it

Entries = Sequence[tuple[int, float]]  # averages that a row counts in, and its weights


class RangeSums:
    """Sums of the columns low..high-1 of n_jobs rows, `size` jobs to a block."""

    def __init__(self, low: int, high: int, size: int, n_jobs: int) -> None:
        self._low, self._high, self._size, self._n_jobs = low, high, size, n_jobs
        self._tree, self._n_added = Tree(), 0
        self._block: dict[int, torch.Tensor] = {}

    def add(self, rows: Sequence[tuple[torch.Tensor, Entries]]) -> None:
        """The next rows (P,) in the fixed order: of a block all in one go, so that its sums are read and written once."""
        while rows:
            n = min(len(rows), self._size - self._n_added % self._size)
            self._add_in_block(rows[:n])
            self._n_added += n
            rows = rows[n:]
            if self._n_added % self._size == 0 or self._n_added == self._n_jobs:
                self._tree.push({target: sums.numpy() for target, sums in self._block.items()})
                self._block = {}

    def _add_in_block(self, rows: Sequence[tuple[torch.Tensor, Entries]]) -> None:
        found = dict.fromkeys(target for _, entries in rows for target, _ in entries)
        new = [target for target in found if target not in self._block]
        for target in new:
            self._block[target] = torch.empty(self._high - self._low, dtype=torch.float64)
        for a in range(self._low, self._high, PIECE):
            b = min(a + PIECE, self._high)
            pieces = {target: self._block[target][a - self._low : b - self._low] for target in found}
            for target in new:
                pieces[target].zero_()
            for row, entries in rows:
                for target, weight in entries:
                    pieces[target].add_(row[a:b], alpha=weight)

    def write(self, out: torch.Tensor) -> None:
        """Into the same columns of out (M, P), after the last row; averages that no row counts in are zero. What is written is
        forgotten here."""
        mine = out[:, self._low : self._high]
        found = self._tree.sums()
        for target in range(len(out)):
            sums = found.pop(target, None)
            mine[target] = 0.0 if sums is None else torch.from_numpy(sums)


def ranges(n_columns: int, n: int) -> list[tuple[int, int]]:
    """So many columns in n parts, about alike."""
    cuts = [min(n_columns, -(-n_columns * i // n // ALIGNED) * ALIGNED) for i in range(n)] + [n_columns]
    return list(itertools.pairwise(cuts))

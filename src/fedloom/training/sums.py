"""The order in which trained models are added up: a function of the jobs alone, so that threads, processes and machines agree.

Floating-point sums depend on their order. Ours is fixed in three steps:

    1. jobs are sorted by their first average, then client, then step counter, and cut into blocks of `block_size` jobs
    2. in a block, each average adds its jobs in canonical order (client, step counter), starting from zero
    3. blocks are leaves of a binary tree: node i of a level is the sum of nodes 2i and 2i + 1 below; what is missing on the
       right, or takes no part in an average, is left out (and not added as zero)

So any aligned run of 2^h blocks can be summed anywhere: its result is one node of the tree. Up to one block this is plain
addition in canonical order. Sorting by average first keeps the averages that a block touches few.
"""

from collections.abc import Callable
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from fedloom.training.engine import Ints, Jobs, Mix

Row = NDArray[np.float64]
Sums = dict[int, Row]  # average -> (P,)
T = TypeVar("T")

BLOCK = 64
LARGE_MODEL = 1_000_000  # values; training so large a model takes so long that a few more additions do not matter
SMALL_BLOCK = 4


def block_size(n_params: int) -> int:
    """Jobs in a block of models with `n_params` values: few if they are large, so that few clients can be shared out."""
    return BLOCK if n_params <= LARGE_MODEL else SMALL_BLOCK


def by_average(jobs: Jobs, mix: Mix) -> Ints:
    """Jobs (J,) sorted by the first average they count in, then client, then counter; those that count nowhere last."""
    first = np.full(len(jobs), mix.n_targets, dtype=np.int64)
    np.minimum.at(first, mix.job, mix.target)
    return np.lexsort((jobs.first_step, jobs.client, first))


def summation_order(jobs: Jobs, mix: Mix, size: int) -> Ints:
    """Jobs (J,) in the order of addition: block after block, in canonical order within each."""
    if len(jobs) <= size:
        return jobs.canonical_order()
    block = np.empty(len(jobs), dtype=np.int64)
    block[by_average(jobs, mix)] = np.arange(len(jobs)) // size
    return np.lexsort((jobs.first_step, jobs.client, block))


class Additions(Generic[T]):
    """The binary tree, whatever is added along it: `add` makes one sum of a left and a right one. Of every level at most one
    sum is kept."""

    def __init__(self, add: Callable[[T, T], T]) -> None:
        self._add = add
        self._nodes: list[tuple[int, dict[int, T]]] = []  # level and sums, levels falling

    def push(self, sums: dict[int, T]) -> None:
        """The next block."""
        level = 0
        while self._nodes and self._nodes[-1][0] == level:
            sums = self._join(self._nodes.pop()[1], sums)
            level += 1
        self._nodes.append((level, sums))

    def sums(self) -> dict[int, T]:
        """After the last block: of every average that a job counts in."""
        sums: dict[int, T] = {}
        while self._nodes:
            sums = self._join(self._nodes.pop()[1], sums)
        return sums

    def _join(self, left: dict[int, T], right: dict[int, T]) -> dict[int, T]:
        for target, value in right.items():
            left[target] = self._add(left[target], value) if target in left else value
        return left


class Tree:
    """Adds up rows of consecutive blocks, or of consecutive nodes of one level. Sums that are pushed may be written to."""

    def __init__(self) -> None:
        self._additions = Additions(_add)

    def push(self, sums: Sums) -> None:
        """The next block."""
        self._additions.push(sums)

    def sums(self) -> Sums:
        """After the last block: of every average that a job counts in."""
        return self._additions.sums()

    def total(self, n_targets: int, n_params: int) -> NDArray[np.float64]:
        """(M, P) after the last block; averages that no job counts in are zero."""
        out = np.zeros((n_targets, n_params))
        for target, row in self.sums().items():
            out[target] = row
        return out


def _add(left: Row, right: Row) -> Row:
    if not left.flags.writeable:  # memory that is shared with other processes
        return left + right
    left += right
    return left

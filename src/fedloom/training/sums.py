"""The order in which trained models are added up: a function of the jobs alone, so that threads, processes and machines agree.

Floating-point sums depend on their order. Ours is fixed in three steps:

    1. jobs are sorted by their first average, then client, then step counter, and cut into blocks of `block_size` jobs
    2. in a block, each average adds its jobs in canonical order (client, step counter), starting from zero
    3. blocks are leaves of a binary tree: node i of a level is the sum of nodes 2i and 2i + 1 below; what is missing on the
       right, or takes no part in an average, is left out (and not added as zero)

So any aligned run of 2^h blocks can be summed anywhere: its result is one node of the tree. Up to one block this is plain
addition in canonical order. Sorting by average first keeps the averages that a block touches few.
"""

import numpy as np
from numpy.typing import NDArray

from fedloom.training.engine import Ints, Jobs, Mix

Sums = dict[int, NDArray[np.float64]]  # average -> (P,)

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


class Tree:
    """Adds up sums of consecutive blocks, or of consecutive nodes of one level, along the binary tree.

    Of every level at most one sum is kept. Sums that are pushed may be written to.
    """

    def __init__(self) -> None:
        self._nodes: list[tuple[int, Sums]] = []  # level and sums, levels falling

    def push(self, sums: Sums) -> None:
        """The next block."""
        level = 0
        while self._nodes and self._nodes[-1][0] == level:
            sums = _join(self._nodes.pop()[1], sums)
            level += 1
        self._nodes.append((level, sums))

    def sums(self) -> Sums:
        """After the last block: of every average that a job counts in."""
        sums: Sums = {}
        while self._nodes:
            sums = _join(self._nodes.pop()[1], sums)
        return sums

    def total(self, n_targets: int, n_params: int) -> NDArray[np.float64]:
        """(M, P) after the last block; averages that no job counts in are zero."""
        out = np.zeros((n_targets, n_params))
        for target, row in self.sums().items():
            out[target] = row
        return out


def _join(left: Sums, right: Sums) -> Sums:
    for target, row in right.items():
        mine = left.get(target)
        if mine is None:
            left[target] = row
        elif mine.flags.writeable:
            mine += row
        else:  # memory that is shared with other processes
            left[target] = mine + row
    return left

"""A chain (fedloom.training.chain) as the compiled kernels want it: everything in arrays, sums by number.

Sums are numbered: first those that are carried over, then for every wave, block and target one. After a wave the blocks of a
target are added along the tree of fedloom.training.sums, and the target's sum of this wave to that of the waves before.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedloom.training.chain import Chain
from fedloom.training.engine import Ints, Mix
from fedloom.training.sums import Additions, summation_order

Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, eq=False)
class Numbered:
    """order (J,): the jobs, wave after wave, in the order of addition. job_first (W + 1,): where those of a wave begin.
    entry_first (J + 1,), entry_sum, entry_weight: to which sums a job's result is added. adds (A, 2): the second sum is added
    to the first, add_first (W + 1,): after which wave. n_sums: how many there are; sum_of: by target, the number of its sum,
    which the others of it are added to."""

    order: Ints
    job_first: Ints
    entry_first: Ints
    entry_sum: Ints
    entry_weight: Floats
    add_first: Ints
    adds: Ints
    n_sums: int
    sum_of: dict[int, int]


def numbered(chain: Chain, size: int) -> Numbered:
    """Number the sums of a chain whose blocks have `size` jobs."""
    order, job_first = _order(chain, size)
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order))
    by_job = np.argsort(rank[chain.mix.job], kind="stable")
    place, target = rank[chain.mix.job[by_job]], chain.mix.target[by_job]
    wave = chain.wave[order]
    block = (np.arange(len(order)) - job_first[wave]) // size
    n_blocks, n_targets = int(block.max(initial=0)) + 1, max(1, chain.mix.n_targets)
    names, number = np.unique((wave[place] * n_blocks + block[place]) * n_targets + target, return_inverse=True)
    carried = {target: i for i, target in enumerate(chain.sums)}
    adds, add_first, sum_of = _adds(names, n_blocks, n_targets, chain.n_waves, carried)
    return Numbered(
        order=order,
        job_first=job_first,
        entry_first=np.searchsorted(place, np.arange(len(order) + 1)),
        entry_sum=number + len(chain.sums),
        entry_weight=chain.mix.weight[by_job].astype(np.float64),
        add_first=np.array(add_first, dtype=np.int64),
        adds=np.array(adds, dtype=np.int64).reshape(-1, 2),
        n_sums=len(names) + len(chain.sums),
        sum_of=sum_of,
    )


def _order(chain: Chain, size: int) -> tuple[Ints, Ints]:
    """Jobs (J,) in the order of addition, and where each wave begins (W + 1,)."""
    order = np.lexsort((chain.jobs.first_step, chain.jobs.client, chain.wave))
    first = np.searchsorted(chain.wave[order], np.arange(chain.n_waves + 1))
    for w in np.flatnonzero(np.diff(first) > size).tolist():  # more than a block
        mine = order[first[w] : first[w + 1]]
        place = np.full(len(order), -1)
        place[mine] = np.arange(len(mine))
        job = place[chain.mix.job]
        mix = Mix(
            n_targets=chain.mix.n_targets,
            target=chain.mix.target[job >= 0],
            job=job[job >= 0],
            weight=chain.mix.weight[job >= 0],
        )
        order[first[w] : first[w + 1]] = mine[summation_order(chain.jobs.pick(mine), mix, size)]
    return order, first


def _adds(
    names: Ints, n_blocks: int, n_targets: int, n_waves: int, carried: dict[int, int]
) -> tuple[list[tuple[int, int]], list[int], dict[int, int]]:
    """Which sums are added after the waves, where those of each wave begin, and by target the number of its sum in the end.
    names: of the new sums, rising; carried: by target, the number of the sum it has already."""
    adds: list[tuple[int, int]] = []
    first, sum_of = [0], dict(carried)

    def add(left: int, right: int) -> int:
        adds.append((left, right))
        return left

    of_wave: list[dict[int, dict[int, int]]] = [{} for _ in range(n_waves)]  # block -> target -> number
    for number, name in enumerate(names.tolist(), start=len(carried)):
        block, target = divmod(name, n_targets)
        of_wave[block // n_blocks].setdefault(block, {})[target] = number
    for blocks in of_wave:
        tree = Additions(add)
        for sums in blocks.values():
            tree.push(sums)
        for target, number in tree.sums().items():
            sum_of[target] = add(sum_of[target], number) if target in sum_of else number
        first.append(len(adds))
    return adds, first, sum_of

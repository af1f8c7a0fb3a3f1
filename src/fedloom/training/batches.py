"""Which samples stand in which mini-batch: a pure function of (seed, client, step counter).

A client walks through reshuffled passes over its own samples. The pass is (counter // steps per pass), its order comes
from a Philox generator keyed by (seed, client) at counter (pass), so any step can be computed without the ones before,
and every engine and method sees the same batches at the same counter.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray


def steps_per_pass(n_samples: int, batch_size: int, drop_last: bool = False) -> int:
    """ceil(n / B); floor if incomplete last batches are dropped (at least 1: a client with n < B uses all it has)."""
    return max(1, n_samples // batch_size if drop_last else -(-n_samples // batch_size))


def batches(
    seed: int,
    client: int,
    n_samples: int,
    batch_size: int,
    first_step: int,
    n_steps: int,
    drop_last: bool = False,
) -> Iterator[NDArray[np.int64]]:
    """Positions (0..n_samples-1) of the samples of `n_steps` batches from `first_step` on.

    >>> [len(b) for b in batches(0, 0, n_samples=5, batch_size=2, first_step=1, n_steps=4)]
    [2, 1, 2, 2]
    """
    per_pass = steps_per_pass(n_samples, batch_size, drop_last)
    for step in range(first_step, first_step + n_steps):
        epoch, position = divmod(step, per_pass)
        if step == first_step or position == 0:
            order = _order(seed, client, epoch, n_samples)
        yield order[position * batch_size : (position + 1) * batch_size]


def _order(seed: int, client: int, epoch: int, n_samples: int) -> NDArray[np.int64]:
    key = np.array([seed, client], dtype=np.uint64)
    counter = np.array([0, 0, 0, epoch], dtype=np.uint64)  # low words count the draws of one pass
    return np.random.Generator(np.random.Philox(key=key, counter=counter)).permutation(n_samples)

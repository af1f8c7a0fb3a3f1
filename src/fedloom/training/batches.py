"""Which samples stand in which mini-batch: a pure function of (seed, client, step counter).

A client walks through reshuffled passes over its own samples. The pass is (counter // steps per pass); its order sorts the
samples by a hash of (seed, client, pass, sample). So any step can be computed without the ones before it, every engine and
method sees the same batches at the same counter, and no library's generator is involved: the native engine computes the
same order in C++ (cpp/jobs.h).
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from fedloom._random import mix_all

_MASK = 2**64 - 1


def steps_per_pass(n_samples: int, batch_size: int, drop_last: bool = False) -> int:
    """ceil(n / B); floor if incomplete last batches are dropped (at least 1: a client with n < B uses all it has)."""
    return max(1, n_samples // batch_size if drop_last else -(-n_samples // batch_size))


def batches(
    seed: int, client: int, n_samples: int, batch_size: int, first_step: int, n_steps: int, drop_last: bool = False
) -> Iterator[NDArray[np.int64]]:
    """Positions (0..n_samples-1) of the samples of `n_steps` batches from `first_step` on.

    >>> [len(b) for b in batches(0, 0, n_samples=5, batch_size=2, first_step=1, n_steps=4)]
    [2, 1, 2, 2]
    """
    per_pass = steps_per_pass(n_samples, batch_size, drop_last)
    for step in range(first_step, first_step + n_steps):
        number, position = divmod(step, per_pass)
        if step == first_step or position == 0:
            order = pass_order(seed, client, number, n_samples)
        yield order[position * batch_size : (position + 1) * batch_size]


def pass_order(seed: int, client: int, number: int, n_samples: int) -> NDArray[np.int64]:
    """The order (n_samples,) in which a client goes through its samples in pass `number`."""
    key = mix(mix(mix(seed) ^ client) ^ number)
    return np.argsort(mix_all(np.uint64(key) ^ np.arange(n_samples, dtype=np.uint64)), kind="stable")


def mix(x: int) -> int:
    """A 64-bit hash of a 64-bit number: one step of splitmix64."""
    x = (x + 0x9E3779B97F4A7C15) & _MASK
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & _MASK
    return x ^ (x >> 31)

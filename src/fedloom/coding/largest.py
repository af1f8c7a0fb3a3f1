"""Which k of P values: how many that is, and the largest of them."""

import numpy as np
from numpy.typing import NDArray

from fedloom import _check
from fedloom.gate import Refused


def check_share_or_k(share: float | None, k: int | None) -> None:
    """One of both, and a number that can be."""
    if (share is None) == (k is None):
        raise ValueError(f"give either a share of the values or their number k, not both; got share={share}, k={k}")
    if k is not None:
        _check.whole("k", k)
    elif share is not None and not 0 < share <= 1:
        raise ValueError(f"share must be above 0 and at most 1, got {share:g}")


def n_kept(n_values: int, share: float | None, k: int | None) -> int:
    """k, or the share of P values rounded to the nearest whole number, at least 1."""
    if k is None:
        assert share is not None
        return max(1, round(share * n_values))
    if k > n_values:
        raise Refused(f"k must be at most the number of values, {n_values:,}, got {k:,}; give a share instead")
    return k


def largest(numbers: NDArray[np.uint32], k: int) -> NDArray[np.int64]:
    """Where the k largest of the numbers (n,) are, ascending. Among equal ones those with the lower index come first.

    >>> largest(np.array([3, 5, 3, 9, 3], dtype=np.uint32), 3).tolist()
    [0, 1, 3]
    """
    least = np.partition(numbers, len(numbers) - k)[len(numbers) - k]
    at = np.flatnonzero(numbers >= least)
    if len(at) > k:  # the least of them is there more often than it is needed
        equal = np.flatnonzero(numbers[at] == least)
        at = np.delete(at, equal[len(equal) - (len(at) - k) :])
    return at

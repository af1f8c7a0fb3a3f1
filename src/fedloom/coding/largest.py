"""Which k of P values: how many that is, and the largest of them."""

import numpy as np
from numpy.typing import NDArray

from fedloom import _check
from fedloom.gate import Refused

EVERY = 61  # one of so many numbers is a sample of them; odd, as layers have even sizes


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
    within = _candidates(numbers, k)
    among = numbers if within is None else numbers[within]
    least = np.partition(among, len(among) - k)[len(among) - k]
    at = where_true(among >= least)
    if len(at) > k:  # the least of them is there more often than it is needed
        equal = np.flatnonzero(among[at] == least)
        at = np.delete(at, equal[len(equal) - (len(at) - k) :])
    return at if within is None else within[at]


def where_true(mask: NDArray[np.bool_]) -> NDArray[np.int64]:
    """np.flatnonzero(mask). Where at most a tenth is true, numpy goes from one to the next, at a wrong guess of the processor for
    each; where more is, it writes every index down and keeps some. That is quicker from a thirtieth on, so true values are added
    behind the end."""
    n, n_true = len(mask), int(np.count_nonzero(mask))
    if not n < 30 * n_true <= 3 * n:
        return np.flatnonzero(mask)
    more = np.ones(n + n // 8 + 1, dtype=np.bool_)
    more[:n] = mask
    return np.flatnonzero(more)[:n_true]


def _candidates(numbers: NDArray[np.uint32], k: int) -> NDArray[np.int64] | None:
    """Where some numbers (n,) are, among them the k largest: those that are as large as a sample says the k-th is, with a margin.
    None if that is not worth it, or the sample is no good."""
    if 4 * k > len(numbers) or len(numbers) < 32 * EVERY:
        return None
    sample = numbers[::EVERY]
    expected = k / EVERY
    rank = int(expected + 4 * expected**0.5) + 4
    if rank >= len(sample):
        return None
    at = where_true(numbers >= np.partition(sample, len(sample) - rank)[len(sample) - rank])
    return at if k <= len(at) else None

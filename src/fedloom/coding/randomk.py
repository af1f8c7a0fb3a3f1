"""k values that the key chooses, as they are; all others arrive as 0. Both sides know the key, so only the values travel.

    n_bits(P) = 32 k

The values are those with the k largest of P random numbers by the key, so every set of k is as likely as any other. As they
are, they make the contraction that Sebastian U. Stich, Jean-Baptiste Cordonnier, Martin Jaggi: Sparsified SGD with Memory,
2018, use with a memory of what was not sent: use it with feedback. With unbiased=True they are sent times P / k, so that
the mean over keys is the row: use it without.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedloom import _kernels
from fedloom._random import bits_of, state_of
from fedloom.coding.interface import Row, check_count, checked, floats_from, floats_to, in_bounds, opened
from fedloom.coding.largest import check_share_or_k, largest, n_kept

MARGIN = 6  # deviations: that fewer numbers than k are that near the top happens to one key in a billion


@dataclass(frozen=True, kw_only=True)
class RandomK:
    """Some values of rows. Either a share or a number is given."""

    share: float | None = None
    """Of the values that are sent, above 0 and at most 1: round(share P) of them, at least one."""
    k: int | None = None
    """How many values are sent."""
    unbiased: bool = False
    """Values are sent times P / k."""

    def __post_init__(self) -> None:
        check_share_or_k(self.share, self.k)

    def encode(self, row: Row, key: int) -> bytes:
        """The values, in the order of their indices."""
        return floats_to(self._sent(checked(row), key)[1])

    def decode(self, data: bytes, n_values: int, key: int) -> Row:
        """The values where the key says."""
        values = floats_from("a value", opened(self, data, n_values))
        return _placed(self._chosen(n_values, key), values, n_values)

    def coded(self, row: Row, key: int) -> Row:
        """What arrives."""
        at, values = self._sent(checked(row), key)
        return _placed(at, values, len(row))

    def n_bits(self, n_values: int) -> int:
        """32 a value that is sent."""
        check_count(n_values)
        return 32 * n_kept(n_values, self.share, self.k)

    def _sent(self, row: Row, key: int) -> tuple[NDArray[np.int64], Row]:
        """Which values, and what is sent of them."""
        at = self._chosen(len(row), key)
        if not self.unbiased:
            return at, row[at]
        with np.errstate(over="ignore"):
            values = row[at] * np.float32(len(row) / len(at))
        in_bounds("a value times P / k", values)
        return at, values

    def _chosen(self, n_values: int, key: int) -> NDArray[np.int64]:
        """Where the k largest of the key's numbers are. Kernels look only at those near the top: as many as k, and a margin."""
        k = n_kept(n_values, self.share, self.k)
        kernels = _kernels.compiled()
        if kernels is not None:
            at, numbers = np.empty(n_values + 1, dtype=np.int64), np.empty(n_values + 1, dtype=np.uint32)
            wanted = min(n_values, k + MARGIN * math.sqrt(k) + MARGIN)
            low = int(2**32 * (1 - wanted / n_values))
            found = kernels.at_least(state_of(key), n_values, low, at, numbers)
            if found >= k:
                return at[:found][largest(numbers[:found], k)]
        return largest(bits_of(key, n_values), k)


def _placed(at: NDArray[np.int64], values: Row, n_values: int) -> Row:
    row = np.zeros(n_values, dtype=np.float32)
    row[at] = values
    return row

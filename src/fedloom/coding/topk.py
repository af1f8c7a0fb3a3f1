"""The k values that are largest in magnitude, as they are; all others arrive as 0. Of equal magnitudes the lower index is sent.

A message is which values are sent, then the values as float32 in the order of their indices. Which: their indices ascending, in
ceil(log2 P) bits each, or a bit for every value, 1 if it is sent; whichever takes fewer bytes (indices if neither does).

    n_bits(P) = 32 k + 8 min(bytes of k numbers of ceil(log2 P) bits, ceil(P / 8))         (fedloom.coding.packing)

Top-k with a memory of what was not sent: Sebastian U. Stich, Jean-Baptiste Cordonnier, Martin Jaggi: Sparsified SGD with
Memory, 2018. It is biased: use it with feedback.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedloom.coding.interface import Row, check_count, checked, floats_from, floats_to, opened
from fedloom.coding.largest import check_share_or_k, largest, n_kept, where_true
from fedloom.coding.packing import n_packed, packed, unpacked
from fedloom.gate import Refused


@dataclass(frozen=True, kw_only=True)
class TopK:
    """The largest values of rows. Either a share or a number is given."""

    share: float | None = None
    """Of the values that are sent, above 0 and at most 1: round(share P) of them, at least one."""
    k: int | None = None
    """How many values are sent."""

    def __post_init__(self) -> None:
        check_share_or_k(self.share, self.k)

    def encode(self, row: Row, key: int) -> bytes:
        """Which values, then the values."""
        row = checked(row)
        at, n = self._chosen(row), len(row)
        which = _bitmap(at, n) if self._by_bitmap(n) else packed(at.astype(np.uint32), _index_bits(n))
        return which + floats_to(row[at])

    def decode(self, data: bytes, n_values: int, key: int) -> Row:
        """The values where they belong."""
        message = opened(self, data, n_values)
        k = n_kept(n_values, self.share, self.k)
        which, values = message[: -4 * k], floats_from("a value", message[-4 * k :])
        by_bitmap = self._by_bitmap(n_values)
        at = _from_bitmap(which, n_values, k) if by_bitmap else _from_indices(which, n_values, k)
        row = np.zeros(n_values, dtype=np.float32)
        row[at] = values
        return row

    def coded(self, row: Row, key: int) -> Row:
        """What arrives, without packing."""
        row = checked(row)
        at = self._chosen(row)
        out = np.zeros_like(row)
        out[at] = row[at]
        return out

    def n_bits(self, n_values: int) -> int:
        """32 a value that is sent, and which they are."""
        check_count(n_values)
        k = n_kept(n_values, self.share, self.k)
        return 32 * k + 8 * min(n_packed(k, _index_bits(n_values)), n_packed(n_values, 1))

    def _chosen(self, row: Row) -> NDArray[np.int64]:
        # Floats without a sign have the same order as their bits as whole numbers.
        magnitude = row.view(np.uint32) & np.uint32(0x7FFFFFFF)
        return largest(magnitude, n_kept(len(row), self.share, self.k))

    def _by_bitmap(self, n_values: int) -> bool:
        k = n_kept(n_values, self.share, self.k)
        return n_packed(n_values, 1) < n_packed(k, _index_bits(n_values))


def _index_bits(n_values: int) -> int:
    """ceil(log2 P), and one bit where there is but one value."""
    return max(1, (n_values - 1).bit_length())


def _bitmap(at: NDArray[np.int64], n_values: int) -> bytes:
    sent = np.zeros(n_values, dtype=np.uint8)
    sent[at] = 1
    return packed(sent, 1)


def _from_bitmap(data: memoryview, n_values: int, k: int) -> NDArray[np.int64]:
    at = where_true(unpacked(data, n_values, 1).view(np.bool_))
    if len(at) != k:
        raise Refused(f"a message of {k:,} values must mark as many as sent, got {len(at):,}")
    return at


def _from_indices(data: memoryview, n_values: int, k: int) -> NDArray[np.int64]:
    at = unpacked(data, k, _index_bits(n_values)).astype(np.int64)
    if at[-1] >= n_values or (np.diff(at) <= 0).any():
        raise Refused(f"indices of {k:,} values must ascend from 0 to at most {n_values - 1:,}, and these do not")
    return at

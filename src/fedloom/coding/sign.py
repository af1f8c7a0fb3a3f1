"""One bit a value, its sign, and one scale for all values of a bucket: their mean magnitude.

    s    = (1 / d) sum |v_i| over a bucket of d values            sent as float32
    v_i' = s if v_i >= 0 else -s                                  sent in 1 bit, 1 for values below 0; 0 and -0 count as positive

    n_bits(P) = 32 ceil(P / d) + 8 ceil(P / 8)

The scaled sign of Sai Praneeth Karimireddy, Quentin Rebjock, Sebastian U. Stich, Martin Jaggi: Error Feedback Fixes SignSGD
and other Gradient Compression Schemes, 2019, with one scale for the row unless a bucket is given. It is biased: use it with
feedback. s is the magnitude that loses least: it minimises sum (v_i - v_i')^2.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedloom import _check
from fedloom.coding.buckets import in_buckets, n_buckets, spread
from fedloom.coding.interface import Row, check_count, checked, floats_from, floats_to, opened
from fedloom.coding.packing import n_packed, packed, unpacked
from fedloom.gate import Refused


@dataclass(frozen=True, kw_only=True)
class Sign:
    """Rows as signs."""

    bucket: int | None = None
    """Values that share a scale; all of the row if it is None."""

    def __post_init__(self) -> None:
        if self.bucket is not None:
            _check.whole("bucket", self.bucket)

    def encode(self, row: Row, key: int) -> bytes:
        """The scales, then the signs."""
        below, scale = self._signs(row)
        return floats_to(scale) + packed(below.view(np.uint8), 1)

    def decode(self, data: bytes, n_values: int, key: int) -> Row:
        """Plus or minus the scale."""
        message = opened(self, data, n_values)
        head = 4 * n_buckets(n_values, self._width(n_values))
        scale = floats_from("the scale of a bucket", message[:head])
        if scale.min() < 0:
            raise Refused(f"the scale of a bucket must be at least 0, got {scale.min()}")
        return self._values(unpacked(message[head:], n_values, 1), scale)

    def coded(self, row: Row, key: int) -> Row:
        """What arrives, without packing."""
        below, scale = self._signs(row)
        return self._values(below.view(np.uint8), scale)

    def n_bits(self, n_values: int) -> int:
        """1 a value, and 32 a bucket."""
        check_count(n_values)
        return 32 * n_buckets(n_values, self._width(n_values)) + 8 * n_packed(n_values, 1)

    def _width(self, n_values: int) -> int:
        return n_values if self.bucket is None else self.bucket

    def _signs(self, row: Row) -> tuple[NDArray[np.bool_], Row]:
        """Which are below 0 (P,), and s of every bucket."""
        row = checked(row)
        width = min(self._width(len(row)), len(row))
        total = np.abs(in_buckets(row, width)).sum(axis=1, dtype=np.float64)
        count = np.full(len(total), width)
        count[-1] = len(row) - width * (len(total) - 1)
        return row < 0, (total / count).astype(np.float32)

    def _values(self, below: NDArray[np.unsignedinteger], scale: Row) -> Row:
        one = below.astype(np.float32)
        one *= np.float32(-2)
        one += np.float32(1)
        return spread(one, scale, self._width(len(one)))

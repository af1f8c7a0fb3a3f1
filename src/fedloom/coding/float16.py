"""Every value in half precision (IEEE 754 binary16): 5 bits of exponent, 11 of significand, rounded to nearest, ties to even.

n_bits(P) = 16 P

Relative error at most 2^-11 from 6.1e-5 to 65504; absolute error at most 2^-25 below. Values beyond 65504 arrive as 65504.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedloom.coding.interface import Row, check_count, checked, in_bounds, opened

MOST = np.float32(65504.0)


@dataclass(frozen=True)
class Float16:
    """Rows in half precision."""

    def encode(self, row: Row, key: int) -> bytes:
        """2 bytes a value."""
        return _halves(row).astype("<f2", copy=False).tobytes()

    def decode(self, data: bytes, n_values: int, key: int) -> Row:
        """The values; those of halves that are no finite number are refused."""
        row = np.frombuffer(opened(self, data, n_values), dtype="<f2").astype(np.float32)
        in_bounds("a value in half precision", row)
        return row

    def coded(self, row: Row, key: int) -> Row:
        """Rounded to halves."""
        return _halves(row).astype(np.float32)

    def n_bits(self, n_values: int) -> int:
        """16 a value."""
        check_count(n_values)
        return 16 * n_values


def _halves(row: Row) -> NDArray[np.float16]:
    return np.clip(checked(row), -MOST, MOST).astype(np.float16)

"""Every value as bfloat16: the upper 16 bits of a float32 (8 bits of exponent, 8 of significand), rounded to nearest, ties
to even.

n_bits(P) = 16 P

Relative error at most 2^-8, for values of any size that a float32 has at full precision.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedloom.coding.interface import Row, check_count, checked, in_bounds, opened


@dataclass(frozen=True)
class BFloat16:
    """Rows as the upper halves of their floats."""

    def encode(self, row: Row, key: int) -> bytes:
        """2 bytes a value."""
        return _rounded(row).astype("<u2").tobytes()

    def decode(self, data: bytes, n_values: int, key: int) -> Row:
        """The values; those that are no finite number are refused."""
        row = _floats(np.frombuffer(opened(self, data, n_values), dtype="<u2").astype(np.uint32))
        in_bounds("a value as bfloat16", row)
        return row

    def coded(self, row: Row, key: int) -> Row:
        """Rounded to 8 bits of significand."""
        return _floats(_rounded(row))

    def n_bits(self, n_values: int) -> int:
        """16 a value."""
        check_count(n_values)
        return 16 * n_values


def _rounded(row: Row) -> NDArray[np.uint32]:
    """The upper halves: half of the last place is added, less one bit where the last place is even."""
    bits = checked(row).view(np.uint32)
    out = bits >> np.uint32(16)
    out &= np.uint32(1)
    out += np.uint32(0x7FFF)
    out += bits
    out >>= np.uint32(16)
    return out


def _floats(upper: NDArray[np.uint32]) -> Row:
    return (upper << np.uint32(16)).view(np.float32)

"""Every value in half precision (IEEE 754 binary16): 5 bits of exponent, 11 of significand, rounded to nearest, ties to even.

n_bits(P) = 16 P

Relative error at most 2^-11 from 6.1e-5 to 65504; absolute error at most 2^-25 below. Values beyond 65504 arrive as 65504.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedloom.coding.interface import Row, check_count, checked, in_bounds, opened

MOST = np.float32(65504.0).view(np.uint32)
LEAST_NORMAL = np.float32(2.0**-14).view(np.uint32)
HALF = np.float32(0.5)
BLOCK = 65536  # values at a time, whose intermediate results stay in the cache


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
    """What np.clip(row, -65504, 65504).astype(np.float16) gives, which takes more than twice as long where values are small."""
    row = checked(row)
    out = np.empty(len(row), dtype=np.uint16)
    for begun in range(0, len(row), BLOCK):
        out[begun : begun + BLOCK] = _half_bits(row[begun : begun + BLOCK].view(np.uint32))
    return out.view(np.float16)


def _half_bits(bits: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """Bits of halves of the bits of floats.

    Normal numbers: half of the last place that stays is added, less one bit where that place is even, and the exponent is counted
    from -14, not from -126. Smaller ones: a half is so many times 2^-24, which is the last place of a float between 0.5 and 1.
    """
    magnitude = bits & np.uint32(0x7FFFFFFF)
    np.minimum(magnitude, MOST, out=magnitude)
    normal = magnitude >> np.uint32(13)
    normal &= np.uint32(1)
    normal += magnitude
    normal += np.uint32(0xFFF)
    normal >>= np.uint32(13)
    normal -= np.uint32(112 << 10)
    small = (magnitude.view(np.float32) + HALF).view(np.uint32)
    small -= HALF.view(np.uint32)
    out = np.where(magnitude < LEAST_NORMAL, small, normal)
    out |= (bits >> np.uint32(16)) & np.uint32(0x8000)
    return out

"""Every value in half precision (IEEE 754 binary16): 5 bits of exponent, 11 of significand, rounded to nearest, ties to even.

n_bits(P) = 16 P

Relative error at most 2^-11 from 6.1e-5 to 65504; absolute error at most 2^-25 below. Values beyond 65504 arrive as 65504.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedloom.coding.interface import Row, check_count, checked, in_bounds, opened

FLOATS = np.arange(1 << 16, dtype=np.uint16).view(np.float16).astype(np.float32)  # of every half
MAGNITUDE, MOST = 0x7FFFFFFF, np.float32(65504.0).view(np.int32)
HALF = np.float32(0.5)
BLOCK = 32768  # values at a time, whose intermediate results stay in the cache
LEAST_NORMAL = np.full(BLOCK, 1 << 10, dtype=np.int32)  # 2^-14, many times: numpy is slower with a single number


@dataclass(frozen=True)
class Float16:
    """Rows in half precision."""

    def encode(self, row: Row, key: int) -> bytes:
        """2 bytes a value."""
        return _halves(row).astype("<u2", copy=False).tobytes()

    def decode(self, data: bytes, n_values: int, key: int) -> Row:
        """The values; those of halves that are no finite number are refused."""
        row = _floats(np.frombuffer(opened(self, data, n_values), dtype="<u2").astype(np.uint16, copy=False))
        in_bounds("a value in half precision", row)
        return row

    def coded(self, row: Row, key: int) -> Row:
        """Rounded to halves."""
        return _floats(_halves(row))

    def n_bits(self, n_values: int) -> int:
        """16 a value."""
        check_count(n_values)
        return 16 * n_values


def _halves(row: Row) -> NDArray[np.uint16]:
    """The bits of np.clip(row, -65504, 65504).astype(np.float16), which takes three times as long where values are small."""
    row = checked(row)
    out = np.empty(len(row), dtype=np.uint16)
    for begun in range(0, len(row), BLOCK):
        block = slice(begun, begun + BLOCK)
        _half_bits(row[block].view(np.int32), out[block])
    return out


def _half_bits(bits: NDArray[np.int32], out: NDArray[np.uint16]) -> None:
    """Bits of halves, into `out`, of the bits of floats.

    Normal numbers: half of the last place that stays is added, less one bit where that place is even, and the exponent is counted
    from -14, not from -126. Smaller ones: a half is so many times 2^-24, which is the last place of a float between 0.5 and 1.
    Where one is right, the other is at most that, if the second one goes no further than the least normal number: so the larger
    is taken, which needs no choice for each value.
    """
    magnitude = bits & MAGNITUDE
    if magnitude.max() > MOST:
        np.minimum(magnitude, MOST, out=magnitude)
    normal = magnitude >> 13
    normal &= 1
    normal += magnitude
    normal += 0xFFF - (112 << 23)
    normal >>= 13
    floats = magnitude.view(np.float32)
    floats += HALF
    magnitude -= HALF.view(np.int32)
    np.minimum(magnitude, LEAST_NORMAL[: len(bits)], out=magnitude)
    np.maximum(normal, magnitude, out=normal)
    sign = np.right_shift(bits, 16, out=magnitude)
    sign &= 0x8000
    np.bitwise_or(normal, sign, out=out, casting="unsafe")


def _floats(halves: NDArray[np.uint16]) -> Row:
    """halves.view(np.float16).astype(np.float32), in half of the time."""
    out = np.empty(len(halves), dtype=np.float32)
    for begun in range(0, len(halves), BLOCK):
        block = slice(begun, begun + BLOCK)
        FLOATS.take(
            halves[block], out=out[block], mode="clip"
        )  # with the default mode it would write into a copy first
    return out

"""Stochastic quantisation to b bits a value: each goes to one of the two grid points beside it, so that its mean is the value.

    m   = max |v_i| in a bucket of d values                       sent as float32
    x_i = (v_i / m + 1) / 2 * L                                   in 0..L, L = 2^b - 2 (1 for b = 1)
    c_i = floor(x_i + u_i), u_i uniform in [0, 1)                 sent in b bits
    v_i' = (2 c_i / L - 1) m                                      E v_i' = v_i

    n_bits(P) = 32 ceil(P / d) + 8 bytes of P numbers of b bits (fedloom.coding.packing: P b bits, filled up to bytes)

Dan Alistarh, Demjan Grubic, Jerry Li, Ryota Tomioka, Milan Vojnovic: QSGD: Communication-Efficient SGD via Gradient
Quantization and Encoding, 2017. For b > 1 the grid is theirs: a sign and 2^(b-1) - 1 levels above 0, which is a point.
Ours: the largest magnitude in the place of the 2-norm (it is never larger, so the points lie closer and the variance is
smaller); numbers of fixed length in the place of Elias codes (so that the bits are known beforehand); b = 1, where no bit
is left for a level, has the points -m and m.

x_i + u_i is formed in fixed point, so the mean is exact but for what float32 cannot tell beside m: the bias is below 2^-22 m.
A bucket whose largest magnitude is below 2^-96 is sent as zeros.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedloom import _check, _kernels
from fedloom._random import bits_in_blocks, state_of
from fedloom.coding.buckets import in_buckets, n_buckets, spread
from fedloom.coding.interface import LARGEST, Row, check_count, floats_from, floats_to, in_bounds, opened, shaped
from fedloom.coding.packing import n_packed, packed, unpacked
from fedloom.gate import Refused

MOST_BITS = 16
SMALLEST = 2.0**-96  # 2^30 / m must be a float32
BLOCK = 32768  # values at a time, whose intermediate results stay in the cache

Codes = NDArray[np.unsignedinteger]


@dataclass(frozen=True, kw_only=True)
class QSGD:
    """Rows on a random grid."""

    bits: int = 4
    """A value, 1 to 16."""
    bucket: int = 512
    """Values that share a scale."""

    def __post_init__(self) -> None:
        _check.whole("bits", self.bits)
        _check.whole("bucket", self.bucket)
        if self.bits > MOST_BITS:
            raise ValueError(f"bits must be 1 to {MOST_BITS}, got {self.bits}; for more use float32")

    def encode(self, row: Row, key: int) -> bytes:
        """The largest magnitude of every bucket, then the numbers of the grid points."""
        codes, largest = self._quantised(row, key)
        return floats_to(largest) + packed(codes, self.bits)

    def decode(self, data: bytes, n_values: int, key: int) -> Row:
        """The grid points; a number that is none is refused."""
        message = opened(self, data, n_values)
        head = 4 * n_buckets(n_values, self.bucket)
        largest = floats_from("the largest magnitude of a bucket", message[:head])
        if largest.min() < 0:
            raise Refused(f"the largest magnitude of a bucket must be at least 0, got {largest.min()}")
        codes = unpacked(message[head:], n_values, self.bits)
        if codes.max() > self._last:
            raise Refused(f"grid points of {self.bits} bits have the numbers 0..{self._last}, got {codes.max()}")
        return self._points(codes, largest)

    def coded(self, row: Row, key: int) -> Row:
        """What arrives, without packing."""
        return self._points(*self._quantised(row, key))

    def n_bits(self, n_values: int) -> int:
        """bits a value, and 32 a bucket."""
        check_count(n_values)
        return 32 * n_buckets(n_values, self.bucket) + 8 * n_packed(n_values, self.bits)

    @property
    def _last(self) -> int:
        """L, the number of the last grid point."""
        return max(1, (1 << self.bits) - 2)

    @property
    def _fraction(self) -> int:
        """Bits behind the point: sums in fixed point stay under 2^31."""
        return 31 - max(2, self.bits)

    def _quantised(self, row: Row, key: int) -> tuple[Codes, Row]:
        """c (P,) and m of every bucket."""
        row = shaped(row)
        n, width = len(row), min(self.bucket, len(row))
        codes: Codes = np.empty(n, dtype=np.uint8 if self.bits <= 8 else np.uint16)
        largest = np.empty(n_buckets(n, width), dtype=np.float32)
        kernels = _kernels.compiled()
        if kernels is None:
            good = self._by_blocks(row, key, codes, largest)
        else:
            grid = (width, self._last, self._fraction, SMALLEST, LARGEST)
            good = kernels.grid_points(row, state_of(key), *grid, codes, largest)
        if not good:
            in_bounds("a row to be coded", row)
        return codes, largest

    def _by_blocks(self, row: Row, key: int, codes: Codes, largest: Row) -> bool:
        """The same with numpy, a block of buckets at a time; whether values are in bounds."""
        n, width = len(row), min(self.bucket, len(row))
        block = max(2, BLOCK // width // 2 * 2) * width
        for begun, draws in zip(range(0, n, block), bits_in_blocks(key, n, block)):
            values = in_buckets(row[begun : begun + block], width)
            most = _largest(values)
            if not most.max() <= LARGEST:
                return False
            first = begun // width
            largest[first : first + len(values)] = most
            codes[begun : begun + block] = self._places(values, most, draws)
        return True

    def _places(self, values: Row, largest: Row, draws: NDArray[np.uint32]) -> NDArray[np.int32]:
        """c of the values (buckets, width), as many of them as there are draws, which are used up."""
        fraction = self._fraction
        whole = self._last * 2.0 ** (fraction - 1)
        scale = np.divide(whole, largest, out=np.zeros(len(largest)), where=largest > 0).astype(np.float32)
        fixed = (values * scale[:, None]).astype(np.int32).reshape(-1)[: len(draws)]
        draws >>= np.uint32(32 - fraction)
        fixed += draws.view(np.int32)
        fixed += np.int32(whole)
        fixed >>= np.int32(fraction)
        return np.clip(fixed, 0, self._last, out=fixed)  # m itself may be rounded up

    def _points(self, codes: Codes, largest: Row) -> Row:
        """v' (P,), a block of buckets at a time."""
        n, width = len(codes), min(self.bucket, len(codes))
        block = max(1, BLOCK // width) * width
        row = np.empty(n, dtype=np.float32)
        scale = largest * np.float32(2 / self._last)
        for begun in range(0, n, block):
            part = row[begun : begun + block]
            part[...] = codes[begun : begun + block]
            part -= np.float32(self._last / 2)
            spread(part, scale[begun // width : (begun + block) // width], width)
        return row


def _largest(values: Row) -> Row:
    """m of every bucket. Magnitudes have the same order as their bits as whole numbers, of which the largest is found sooner; NaN
    is larger than all of them."""
    largest = (values.view(np.uint32) & np.uint32(0x7FFFFFFF)).max(axis=1).view(np.float32)
    return np.where(largest < SMALLEST, np.float32(0), largest)

"""Whole numbers of b bits each, packed: n of them in about n b / 8 bytes, without a loop over bits.

b is written as a sum of the widths 16, 8, 4, 2, 1 (13 = 8 + 4 + 1). The lowest bits of all numbers, as many as the first
width, come first, then the next ones: one plane after the other. A plane of width 16 or 8 is an array of such numbers. In a
plane of width w < 8 a byte holds m = 8 / w numbers: with L = ceil(n / m) bytes, byte j holds the numbers j, j + L, j + 2 L,
..., the first in its lowest bits. So all work is on whole arrays in one piece. What is left over in the last numbers of a
plane is zero, and refused if it is not.
"""

import numpy as np
from numpy.typing import NDArray

from fedloom.gate import Refused

WIDTHS = (16, 8, 4, 2, 1)

Whole = NDArray[np.unsignedinteger]


def n_packed(n: int, bits: int) -> int:
    """Bytes that n numbers of 1..31 bits take."""
    return sum(-(-n * width // 8) for width in _planes(bits))


def packed(values: Whole, bits: int) -> bytes:
    """Numbers (n,) below 2^bits, of 1..31 bits, as n_packed(n, bits) bytes.

    >>> packed(np.array([1, 2, 3], dtype=np.uint8), 4).hex()
    '3102'
    """
    parts, done = [], 0
    for width in _planes(bits):
        plane = values >> done if done else values
        if width >= 8:
            parts.append(plane.astype(f"<u{width // 8}").tobytes())
        else:
            parts.append(_few_bits(plane.astype(np.uint8) & np.uint8((1 << width) - 1), width))
        done += width
    return b"".join(parts)


def unpacked(data: memoryview, n: int, bits: int) -> Whole:
    """The n numbers that n_packed(n, bits) bytes stand for, as uint8, uint16 or uint32, the smallest that holds them."""
    kind: type[np.unsignedinteger] = np.uint8 if bits <= 8 else np.uint16 if bits <= 16 else np.uint32
    values: Whole = np.zeros(n, dtype=kind)
    begun = done = 0
    for width in _planes(bits):
        end = begun + -(-n * width // 8)
        if width >= 8:
            plane: Whole = np.frombuffer(data[begun:end], dtype=f"<u{width // 8}").astype(kind)
        else:
            plane = _from_few_bits(data[begun:end], n, width).astype(kind, copy=False)
        values |= plane << done
        begun, done = end, done + width
    return values


def _planes(bits: int) -> tuple[int, ...]:
    """The widths that add up to so many bits."""
    return tuple(width for width in WIDTHS if bits & width)


def _few_bits(values: NDArray[np.uint8], width: int) -> bytes:
    """A plane of less than 8 bits."""
    per_byte = 8 // width
    length = -(-len(values) // per_byte)
    filled = np.zeros(length * per_byte, dtype=np.uint8)
    filled[: len(values)] = values
    layers = filled.reshape(per_byte, length)
    out: NDArray[np.uint8] = layers[0].copy()
    for i in range(1, per_byte):
        out |= layers[i] << (i * width)
    return out.tobytes()


def _from_few_bits(data: memoryview, n: int, width: int) -> NDArray[np.uint8]:
    per_byte = 8 // width
    whole = np.frombuffer(data, dtype=np.uint8)
    layers = np.empty((per_byte, len(whole)), dtype=np.uint8)
    for i in range(per_byte):
        layers[i] = (whole >> (i * width)) & ((1 << width) - 1)
    values = layers.reshape(-1)
    if values[n:].any():
        raise Refused(
            f"bits behind the last of {n:,} numbers of {width} bits must be 0, and some are 1; is the message damaged?"
        )
    return values[:n]

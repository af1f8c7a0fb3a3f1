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
        if width >= 8:
            plane = values >> done if done else values
            parts.append(plane.astype(f"<u{width // 8}", copy=False).tobytes())
        elif values.itemsize == 1:
            parts.append(_few_bits(values, done, width))
        else:
            parts.append(_few_bits((values >> done).astype(np.uint8), 0, width))
        done += width
    return b"".join(parts)


def unpacked(data: memoryview, n: int, bits: int) -> Whole:
    """The n numbers that n_packed(n, bits) bytes stand for, as uint8, uint16 or uint32, the smallest that holds them."""
    kind: type[np.unsignedinteger] = np.uint8 if bits <= 8 else np.uint16 if bits <= 16 else np.uint32
    values: Whole = np.zeros(n, dtype=kind)  # untouched memory: costs nothing where the first plane takes its place
    begun = done = 0
    for width in _planes(bits):
        end = begun + -(-n * width // 8)
        if values.itemsize == 1 and width < 8:
            _add_few_bits(values, data[begun:end], done, width)
        elif width < 8:
            few = np.zeros(n, dtype=np.uint8)
            _add_few_bits(few, data[begun:end], 0, width)
            values |= few.astype(kind) << done
        else:
            plane = np.frombuffer(data[begun:end], dtype=f"<u{width // 8}").astype(kind)
            if done == 0:
                values = plane
            else:
                values |= plane << done
        begun, done = end, done + width
    return values


def _planes(bits: int) -> tuple[int, ...]:
    """The widths that add up to so many bits."""
    return tuple(width for width in WIDTHS if bits & width)


def _few_bits(values: NDArray[np.uint8], low: int, width: int) -> bytes:
    """A plane of less than 8 bits: those from `low` on of every number. Eight numbers at a time, in words of 64 bits."""
    length = -(-len(values) * width // 8)
    out = np.zeros(-(-length // 8), dtype=np.uint64)
    layer = np.zeros_like(out)
    for i in range(8 // width):
        part = values[i * length : (i + 1) * length]
        layer.view(np.uint8)[: len(part)] = part
        layer.view(np.uint8)[len(part) :] = 0
        layer &= _in_every_byte(((1 << width) - 1) << low)
        out |= _moved(layer, i * width - low)
    return out.view(np.uint8)[:length].tobytes()


def _add_few_bits(values: NDArray[np.uint8], data: memoryview, low: int, width: int) -> None:
    """The numbers of a plane, times 2^low, into values (n,)."""
    n, length = len(values), len(data)
    words = np.zeros(-(-length // 8), dtype=np.uint64)
    words.view(np.uint8)[:length] = np.frombuffer(data, dtype=np.uint8)
    for i in range(8 // width):
        layer = _moved(words, low - i * width)
        layer &= _in_every_byte(((1 << width) - 1) << low)
        part = values[i * length : (i + 1) * length]
        part |= layer.view(np.uint8)[: len(part)]
        if layer.view(np.uint8)[len(part) :].any():
            raise Refused(
                f"bits behind the last of {n:,} numbers of {width} bits must be 0, and some are 1; is the message damaged?"
            )


def _moved(words: NDArray[np.uint64], bits: int) -> NDArray[np.uint64]:
    """To the left, or to the right if it is less than 0."""
    return words << np.uint64(bits) if bits >= 0 else words >> np.uint64(-bits)


def _in_every_byte(value: int) -> np.uint64:
    return np.uint64(value * 0x0101010101010101)

"""What a codec is, and what every codec refuses.

A codec writes a row (P,) float32 as a message of so many bytes as it says beforehand, and reads it again:

    decode(encode(row, key), P, key) == coded(row, key)        to the bit, and near the row
    8 * len(encode(row, key))        == n_bits(P)              whatever the values

The key (fedloom._random.key_of: seed, purpose, device, round, ...) is what sender and receiver agree on without a message;
all draws of a codec come from it, so that the same row and key give the same bytes. Numbers on the wire are little-endian.

Values must be finite and at most 2^126 in magnitude, on both sides, so that no arithmetic of a codec overflows. What comes
from outside and cannot be such a row is refused with `fedloom.gate.Refused`: a message that is too short or too long, bits
behind the end that are set, numbers that are not finite.
"""

from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from fedloom import _check
from fedloom.gate import Refused
from fedloom.gate.finite import finite, in_range

Row = NDArray[np.float32]

LARGEST = 2.0**126
MOST_VALUES = 2**32


@runtime_checkable
class Codec(Protocol):
    """How rows are written on the wire. Any frozen record with these functions is one; none of them changes its arguments."""

    def encode(self, row: Row, key: int) -> bytes:
        """The message for a row (P,)."""

    def decode(self, data: bytes, n_values: int, key: int) -> Row:
        """The row (P,) of P = n_values that a message stands for, or Refused."""

    def coded(self, row: Row, key: int) -> Row:
        """What arrives of a row (P,): decode(encode(row, key), P, key), by a shorter way where there is one."""

    def n_bits(self, n_values: int) -> int:
        """8 times the bytes of a message for P = n_values."""


def checked(row: Row) -> Row:
    """A row that can be coded, in one piece of memory."""
    row = shaped(row)
    in_bounds("a row to be coded", row)
    return row


def shaped(row: Row) -> Row:
    """A row in one piece of memory, whose values may be any."""
    if not isinstance(row, np.ndarray) or row.dtype != np.float32 or row.ndim != 1:
        got = f"{row.dtype} of shape {row.shape}" if isinstance(row, np.ndarray) else type(row).__name__
        raise Refused(f"a row to be coded must be float32 of shape (P,), got {got}")
    check_count(len(row))
    return np.ascontiguousarray(row)


def check_count(n_values: int) -> None:
    """A number of values that a row can have."""
    _check.whole("the number of values of a row", n_values)
    if n_values >= MOST_VALUES:
        raise Refused(f"a row must have fewer than {MOST_VALUES:,} values, got {n_values:,}")


def in_bounds(what: str, values: Row) -> None:
    """Finite, and at most 2^126 in magnitude."""
    if values.size and not (values.min() >= -LARGEST and values.max() <= LARGEST):
        finite(what, values)
        in_range(what, values, -LARGEST, LARGEST)


def opened(codec: Codec, data: bytes, n_values: int) -> memoryview:
    """The bytes of a message, which are as many as there must be."""
    check_count(n_values)
    n_bytes = codec.n_bits(n_values) // 8
    if len(data) != n_bytes:
        raise Refused(f"a message of {codec} for {n_values:,} values has {n_bytes:,} bytes, got {len(data):,}")
    return memoryview(data)


def floats_from(what: str, data: memoryview) -> Row:
    """Numbers of 32 bits each out of a message."""
    values = np.frombuffer(data, dtype="<f4").astype(np.float32)
    in_bounds(what, values)
    return values


def floats_to(values: Row) -> bytes:
    """Numbers of 32 bits each for a message."""
    return values.astype("<f4", copy=False).tobytes()

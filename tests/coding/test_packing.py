"""Numbers of few bits, packed."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedloom.coding.packing import n_packed, packed, unpacked
from fedloom.gate import Refused


def by_bits(values, bits):
    """The same bytes, bit by bit, from the description."""
    out, low = [], 0
    for width in (16, 8, 4, 2, 1):
        if not bits & width:
            continue
        parts = [(v >> low) & ((1 << width) - 1) for v in values]
        if width >= 8:
            out += [byte for part in parts for byte in part.to_bytes(width // 8, "little")]
        else:
            per_byte = 8 // width
            length = -(-len(parts) // per_byte)
            plane = [0] * length
            for i, part in enumerate(parts):
                plane[i % length] |= part << (width * (i // length))
            out += plane
        low += width
    return bytes(out)


@given(bits=st.integers(1, 31), data=st.data())
def test_what_is_packed_is_unpacked(bits, data):
    values = data.draw(st.lists(st.integers(0, 2**bits - 1), min_size=1, max_size=50))
    message = packed(np.array(values, dtype=np.uint32), bits)
    assert message == by_bits(values, bits) and len(message) == n_packed(len(values), bits)
    assert len(values) * bits <= 8 * len(message) < len(values) * bits + 3 * 8
    assert unpacked(memoryview(message), len(values), bits).tolist() == values


@pytest.mark.parametrize("n", [63, 64, 65, 1000])
@pytest.mark.parametrize("bits", range(1, 17))
def test_long_rows_are_packed_as_short_ones(bits, n):
    kind = np.uint8 if bits <= 8 else np.uint16
    values = np.random.default_rng(n).integers(0, 2**bits, n).astype(kind)
    message = packed(values, bits)
    assert message == by_bits(values.tolist(), bits)
    found = unpacked(memoryview(message), n, bits)
    assert found.dtype == kind and np.array_equal(found, values)


@pytest.mark.parametrize("bits", [1, 2, 3, 4, 5, 6, 7])
def test_a_bit_behind_the_end_is_found_wherever_it_is(bits):
    """1001 numbers: every bit that no number has, of every plane, set alone."""
    message = packed(np.zeros(1001, dtype=np.uint8), bits)
    ones = int.from_bytes(packed(np.full(1001, 2**bits - 1, dtype=np.uint8), bits), "little")
    unused = [i for i in range(8 * len(message)) if not ones >> i & 1]
    assert len(unused) == 8 * len(message) - 1001 * bits > 0
    for i in unused:
        with pytest.raises(Refused, match=r"bits behind the last of 1,001 numbers of \d bits must be 0"):
            unpacked(memoryview((1 << i).to_bytes(len(message), "little")), 1001, bits)


def test_by_hand():
    assert packed(np.array([1, 0, 1], dtype=np.uint8), 1) == bytes([0b101])
    assert packed(np.array([1, 2, 3, 0, 1], dtype=np.uint8), 2) == bytes([0b01_11_01 & 0xFF, 0b00_10])  # 1, 3, 1 | 2, 0
    assert packed(np.array([0x1A, 0x0B], dtype=np.uint8), 5) == bytes([0xBA, 0b01])
    assert packed(np.array([0xABC], dtype=np.uint16), 12) == bytes([0xBC, 0xA])


@pytest.mark.parametrize("bits", [1, 2, 3, 4, 5, 12, 20])
def test_bits_behind_the_end_must_be_zero(bits):
    message = bytearray(packed(np.zeros(3, dtype=np.uint32), bits))
    message[-1] |= 0x80
    with pytest.raises(Refused, match=r"bits behind the last of 3 numbers of \d bits must be 0, and some are 1"):
        unpacked(memoryview(bytes(message)), 3, bits)

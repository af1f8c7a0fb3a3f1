"""Laws of every codec: what is decoded is what is coded, in the bits that were promised, by the key alone."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedloom._random import bits_in_blocks, bits_of, key_of
from fedloom.coding import CODECS, Codec, Float32, Masked, codec
from fedloom.coding.interface import LARGEST
from fedloom.gate import Refused

TEXTS = (
    *("float32", "float16", "bfloat16", "sign", "sign:bucket=3", "topk:share=0.1", "topk:share=0.9", "topk:k=1", "randomk:k=1"),
    *("randomk:share=0.5", "randomk:share=0.25:unbiased=true", *(f"qsgd:bits={b}:bucket=5" for b in range(1, 17)), "qsgd"),
)  # fmt: skip
every_codec = pytest.mark.parametrize("text", TEXTS)

moderate = st.floats(-(2.0**100), 2.0**100, width=32)
rows = st.lists(moderate, min_size=1, max_size=70).map(lambda values: np.array(values, dtype=np.float32))
keys = st.integers(0, 2**64 - 1)


def same(a, b):
    return a.dtype == b.dtype == np.float32 and np.array_equal(a.view(np.uint32), b.view(np.uint32))


@settings(max_examples=15)
@every_codec
@given(row=rows, key=keys)
def test_what_is_decoded_is_what_is_coded_to_the_bit(text, row, key):
    it, before = codec(text), row.copy()
    message = it.encode(row, key)
    coded = it.coded(row, key)
    assert isinstance(message, bytes) and 8 * len(message) == it.n_bits(len(row))
    assert same(it.decode(message, len(row), key), coded)
    assert np.isfinite(coded).all() and coded.shape == row.shape
    assert it.encode(row, key) == message and same(row, before)


@every_codec
def test_rows_of_any_length_come_through(text):
    for n in (1, 7, 8, 9, 511, 512, 513, 20_000):
        comes_through(text, n)


def comes_through(text, n):
    it, row, key = codec(text), np.random.default_rng(n).normal(size=n).astype(np.float32), key_of(1, "test", n)
    message = it.encode(row, key)
    assert 8 * len(message) == it.n_bits(n)
    assert same(it.decode(message, n, key), it.coded(row, key))


@settings(max_examples=25)
@every_codec
@given(data=st.binary(max_size=60), n=st.integers(1, 40), key=keys, fits=st.booleans())
def test_any_bytes_are_a_finite_row_or_refused(text, data, n, key, fits):
    it = codec(text)
    if fits:
        n_bytes = it.n_bits(n) // 8
        data = (data * n_bytes)[:n_bytes].ljust(n_bytes, b"\0")
    try:
        row = it.decode(data, n, key)
    except Refused as error:
        assert str(error) and "\n" not in str(error)
    else:
        assert row.shape == (n,) and row.dtype == np.float32 and np.isfinite(row).all()


@every_codec
def test_a_message_of_another_length_is_refused(text):
    it, row = codec(text), np.linspace(-1, 1, 40, dtype=np.float32)
    message = it.encode(row, 3)
    for wrong in (b"", message[:-1], message + b"\0", message * 2):
        with pytest.raises(Refused, match=f"for 40 values has {len(message)} bytes, got {len(wrong)}"):
            it.decode(wrong, 40, 3)


@pytest.mark.parametrize("text", [t for t in TEXTS if "k=1" not in t])
def test_a_message_for_another_number_of_values_is_refused(text):
    it = codec(text)
    with pytest.raises(Refused, match="for 80 values has"):
        it.decode(it.encode(np.ones(40, dtype=np.float32), 3), 80, 3)


@every_codec
def test_values_that_are_not_finite_or_too_large_are_refused(text):
    for bad in (np.nan, np.inf, -np.inf, 1.5 * LARGEST, -1.5 * LARGEST):
        refused(text, bad)


def refused(text, bad):
    row = np.ones(20, dtype=np.float32)
    row[13] = bad
    for use in (codec(text).encode, codec(text).coded):
        with pytest.raises(Refused, match=r"a row to be coded must .* at index 13"):
            use(row, 1)


@every_codec
def test_what_is_no_row_is_refused(text):
    for row in (np.ones(3), np.ones((2, 2), np.float32), [1.0], np.ones(0, np.float32)):
        with pytest.raises(ValueError, match=r"float32 of shape \(P,\), got|at least 1, got 0"):
            codec(text).encode(row, 1)


@every_codec
def test_a_number_of_values_that_cannot_be_is_refused(text):
    for n in (0, -1, 1.5, True, 2**32):
        for use in (codec(text).n_bits, lambda n: codec(text).decode(b"", n, 1)):
            with pytest.raises(ValueError, match=r"whole number of at least 1|fewer than 4,294,967,296 values"):
                use(n)


@pytest.mark.parametrize("text", [t for t in TEXTS if "unbiased" not in t])  # which makes values larger
def test_the_largest_and_the_smallest_values_come_through(text):
    for size in (LARGEST, 2.0**-126, 2.0**-149):
        row = np.array([size, -size, 0, size / 2, -size / 2], dtype=np.float32)
        found = codec(text).coded(row, 5)
        assert np.isfinite(found).all() and float(np.abs(found).max()) <= size
        assert np.isfinite(row - found).all()  # what is left to send can be held


@every_codec
def test_zeros_arrive_as_zeros(text):
    assert not codec(text).coded(np.zeros(700, dtype=np.float32), 1).any()


@every_codec
def test_a_codec_is_a_record_that_keeps_the_interface(text):
    it = codec(text)
    assert isinstance(it, Codec) and it == codec(text) and hash(it) == hash(codec(text))


def test_only_the_key_decides_what_is_drawn():
    row = np.random.default_rng(0).normal(size=300).astype(np.float32)
    for text in ("qsgd:bits=2", "randomk:share=0.2"):
        one, again, other = (codec(text).encode(row, key_of(1, "up", 4, n)) for n in (7, 7, 8))
        assert one == again and one != other
    for text in ("float32", "float16", "bfloat16", "sign", "topk:share=0.2"):
        assert codec(text).encode(row, 1) == codec(text).encode(row, 2)


def test_bits_by_a_key_are_the_raw_stream_of_sfc64():
    words = np.random.SFC64(9).random_raw(3)
    assert [b.tolist() for b in bits_in_blocks(9, 5, 2)] == [bits_of(9, 5)[i : i + 2].tolist() for i in (0, 2, 4)]
    assert bits_of(9, 5).tolist() == [part for w in words.tolist() for part in (w & 0xFFFFFFFF, w >> 32)][:5]


@given(
    values=st.lists(
        st.floats(width=32, allow_nan=False, min_value=-LARGEST, max_value=LARGEST), min_size=1, max_size=30
    )
)
def test_float32_is_the_identity(values):
    row = np.array(values, dtype=np.float32)
    assert same(Float32().coded(row, 0), row) and same(Float32().decode(row.tobytes(), len(row), 0), row)


@settings(max_examples=60)
@given(row=rows, key=keys, data=st.data(), text=st.sampled_from(TEXTS))
def test_only_what_is_trained_is_coded(row, key, data, text):
    mask = np.array(data.draw(st.lists(st.booleans(), min_size=len(row), max_size=len(row))), dtype=np.bool_)
    inner, it = codec(text), Masked(codec(text), mask)
    message, coded = it.encode(row, key), it.coded(row, key)
    assert 8 * len(message) == it.n_bits(len(row)) and same(it.decode(message, len(row), key), coded)
    assert same(coded[~mask], row[~mask]) and message.endswith(row[~mask].tobytes())
    if mask.any():
        assert same(coded[mask], inner.coded(row[mask], key))
        assert it.n_bits(len(row)) == inner.n_bits(int(mask.sum())) + 32 * int((~mask).sum())


def test_a_mask_that_does_not_fit_is_refused():
    it = Masked(Float32(), np.array([True, False, True]))
    for use in (lambda: it.encode(np.ones(4, np.float32), 1), lambda: it.coded(np.ones(2, np.float32), 1)):
        with pytest.raises(Refused, match=r"a mask for 3 values does not fit a row of"):
            use()
    for use in (lambda: it.decode(bytes(16), 4, 1), lambda: it.n_bits(4)):
        with pytest.raises(Refused, match=r"a mask for 3 values does not fit a row of 4"):
            use()
    with pytest.raises(Refused, match=r"Masked\(Float32\(\), 2 trained of 3\) for 3 values has 12 bytes, got 11"):
        it.decode(bytes(11), 3, 1)
    with pytest.raises(Refused, match=r"a value that is not trained must be finite, got nan"):
        it.decode(bytes(8) + np.float32(np.nan).tobytes(), 3, 1)
    with pytest.raises(ValueError, match=r"trainable must be bool of shape \(P,\), got float64 \(3,\)"):
        Masked(Float32(), np.ones(3))


def test_every_codec_is_known_by_its_name():
    assert {text.partition(":")[0] for text in TEXTS} == set(CODECS) - {
        "gaussian"
    }  # which is not near the row, and has tests of its own

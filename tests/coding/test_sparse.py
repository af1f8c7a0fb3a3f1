"""Top-k and random-k: which values are sent, how they are written, and what is refused."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedloom.coding import RandomK, TopK, codec
from fedloom.coding.largest import largest, where_true
from fedloom.gate import Refused

few_kinds = st.lists(st.sampled_from([0.0, -0.0, 1.0, -1.0, 2.0, -2.0, 3.5]), min_size=1, max_size=40)


@given(values=few_kinds, data=st.data())
def test_top_k_are_the_largest_magnitudes_and_of_equal_ones_the_first(values, data):
    row, k = np.array(values, dtype=np.float32), data.draw(st.integers(1, len(values)))
    chosen = sorted(range(len(row)), key=lambda i: (-abs(values[i]), i))[:k]
    wanted = np.zeros_like(row)
    wanted[chosen] = row[chosen]
    assert np.array_equal(TopK(k=k).coded(row, 0).view(np.uint32), wanted.view(np.uint32))


@given(seed=st.integers(0, 10**6), n=st.integers(1, 3000), share=st.floats(1e-4, 1))
def test_top_k_of_random_rows(seed, n, share):
    row = np.random.default_rng(seed).normal(size=n).astype(np.float32)
    k = max(1, round(share * n))
    sent = TopK(share=share).coded(row, 0) != 0
    assert sent.sum() == k and (k == n or np.abs(row[sent]).min() >= np.abs(row[~sent]).max())


def by_sorting(numbers, k):
    """Where the k largest are; of equal ones the first."""
    return np.sort(np.argsort(-numbers.astype(np.int64), kind="stable")[:k])


@settings(max_examples=40)
@given(
    seed=st.integers(0, 10**6),
    n=st.integers(1_900, 20_000),
    share=st.floats(1e-4, 1),
    kinds=st.sampled_from([3, 900, 2**32]),
)
def test_the_largest_of_many_are_those_of_sorting(seed, n, share, kinds):
    numbers = np.random.default_rng(seed).integers(0, kinds, n).astype(np.uint32)
    k = max(1, round(share * n))
    assert np.array_equal(largest(numbers, k), by_sorting(numbers, k))


@pytest.mark.parametrize("k", [1, 40, 100, 400, 2_000])
def test_a_sample_that_misleads_changes_nothing(k):
    """One of 61 numbers is looked at first: here these are the largest, the smallest, and all there is."""
    rest = np.random.default_rng(k).integers(100, 10**6, 10_000).astype(np.uint32)
    for looked_at in (0, 2**32 - 1, np.arange(10_000 // 61 + 1)):
        numbers = rest.copy()
        numbers[::61] = looked_at
        assert np.array_equal(largest(numbers, k), by_sorting(numbers, k))
    alone = np.zeros(10_000, dtype=np.uint32)
    alone[::61] = 7
    assert np.array_equal(largest(alone, k), by_sorting(alone, k))


@pytest.mark.parametrize("share", [0, 0.01, 0.03, 0.04, 0.07, 0.1, 0.11, 0.5, 1])
@pytest.mark.parametrize("n", [1, 7, 10, 60, 1000, 5003])
def test_where_a_mask_is_true(n, share):
    mask = np.random.default_rng(n).permutation(n) < round(share * n)
    assert np.array_equal(where_true(mask), np.flatnonzero(mask))


def test_the_message_of_top_k_by_hand():
    row = np.array([0.5, -4, 0.25, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0], dtype=np.float32)
    few = TopK(k=2).encode(row, 0)  # 5 bits an index: a nibble plane and a bit plane, against 3 bytes of a bitmap
    assert few == bytes([0x31, 0b00]) + np.array([-4, 3], dtype="<f4").tobytes()
    more = TopK(k=5).encode(row, 0)  # 3 + 1 bytes of indices, against 3 of a bitmap
    bitmap = [0, 0, 0]
    for i in (0, 1, 2, 3, 15):
        bitmap[i % 3] |= 1 << (i // 3)
    assert more == bytes(bitmap) + np.array([0.5, -4, 0.25, 3, 1], dtype="<f4").tobytes()


def test_indices_are_sent_where_a_bitmap_is_as_long():
    row = np.array(
        [0, 5, 0, 6, 0, 0, 7, 8, 0, 0, 0, 0, 0, 0, 0, 0], dtype=np.float32
    )  # 4 indices of 4 bits, 16 bits of a bitmap
    assert TopK(k=4).encode(row, 0)[:2] == bytes([0x61, 0x73])  # 1, 3, 6, 7 in two bytes: 1 and 6, 3 and 7


def test_bits_are_those_of_indices_or_of_a_bitmap_whichever_are_fewer():
    n = 1_000_000
    assert TopK(k=10_000).n_bits(n) == 10_000 * (32 + 20)
    assert TopK(k=50_000).n_bits(n) == 50_000 * 32 + n  # 20 bits an index are as many
    assert TopK(k=60_000).n_bits(n) == 60_000 * 32 + n
    assert TopK(k=1).n_bits(1) == 32 + 8 and TopK(k=1).n_bits(2) == 32 + 8 and TopK(k=3).n_bits(5) == 3 * 32 + 8
    assert RandomK(share=0.01).n_bits(n) == 320_000


@pytest.mark.parametrize("indices", [[3, 3], [4, 2], [0, 17], [31, 31]])
def test_indices_that_do_not_ascend_or_leave_the_row_are_refused(indices):
    planes = bytes([(indices[0] & 15) | (indices[1] & 15) << 4, indices[0] >> 4 | (indices[1] >> 4) << 1])
    with pytest.raises(Refused, match="indices of 2 values must ascend from 0 to at most 16, and these do not"):
        TopK(k=2).decode(planes + bytes(8), 17, 0)


def test_a_bitmap_of_another_number_of_values_is_refused():
    with pytest.raises(Refused, match="a message of 5 values must mark as many as sent, got 4"):
        TopK(k=5).decode(bytes([0b1111]) + bytes(20), 8, 0)


@pytest.mark.parametrize("it", [TopK(k=1), RandomK(k=1)])
def test_a_value_that_is_not_finite_is_refused(it):
    head = b"\0" * (it.n_bits(8) // 8 - 4)
    with pytest.raises(Refused, match="a value must be finite, got inf at index 0"):
        it.decode(head + np.float32(np.inf).tobytes(), 8, 0)


@pytest.mark.parametrize("kind", [TopK, RandomK])
def test_shares_and_numbers_that_cannot_be_are_refused(kind):
    for options, wanted in (
        ({}, "give either a share of the values or their number k, not both; got share=None, k=None"),
        ({"share": 0.1, "k": 3}, "not both; got share=0.1, k=3"),
        ({"k": 0}, "k must be a whole number of at least 1, got 0"),
        ({"share": 0.0}, "share must be above 0 and at most 1, got 0"),
        ({"share": 1.5}, "share must be above 0 and at most 1, got 1.5"),
        ({"share": math.nan}, "share must be above 0 and at most 1, got nan"),
    ):
        with pytest.raises(ValueError, match=wanted):
            kind(**options)
    with pytest.raises(Refused, match="k must be at most the number of values, 10, got 11; give a share instead"):
        kind(k=11).encode(np.ones(10, dtype=np.float32), 0)


@given(n=st.integers(1, 200), data=st.data(), key=st.integers(0, 2**64 - 1))
def test_random_k_sends_k_values_as_they_are(n, data, key):
    k = data.draw(st.integers(1, n))
    row = np.arange(1, n + 1, dtype=np.float32)
    found = RandomK(k=k).coded(row, key)
    sent = found != 0
    assert sent.sum() == k and (found[sent] == row[sent]).all()
    assert RandomK(k=k).encode(row, key) == row[sent].tobytes()


def test_random_k_needs_the_key_to_be_read():
    row = np.arange(1, 1001, dtype=np.float32)
    message = RandomK(k=10).encode(row, 1)
    assert not np.array_equal(RandomK(k=10).decode(message, 1000, 2), RandomK(k=10).coded(row, 1))


@pytest.mark.parametrize("k", [1, 3, 9])
def test_random_k_chooses_every_value_equally_often(k):
    """2,500 keys: the number of times is binomial; 7 deviations, so any stretch of keys passes."""
    row, p = np.ones(10, dtype=np.float32), k / 10
    times = sum(RandomK(k=k).coded(row, key) for key in range(2_500))
    assert (np.abs(times - 2_500 * p) < 7 * math.sqrt(2_500 * p * (1 - p))).all()


def test_unbiased_random_k_has_the_row_as_its_mean():
    """Of 2,500 keys; within 7 deviations of the mean of values that are v P / k with probability k / P and 0 otherwise."""
    row = np.array([1, -2, 3, 0.5], dtype=np.float32)
    it = codec("randomk:k=1:unbiased=true")
    mean = sum(it.coded(row, key).astype(np.float64) for key in range(2_500)) / 2_500
    assert (np.abs(mean - row) < 7 * np.abs(row) * math.sqrt(3 / 2_500)).all()
    with pytest.raises(Refused, match="a value times P / k must lie in"):
        it.coded(np.full(4, 2.0**125, dtype=np.float32), 0)

"""Codecs that keep every value to some precision: each against a slow loop of its formulas, its bias and its bounds."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fedloom._random import bits_of, key_of
from fedloom.coding import QSGD, BFloat16, Float16, Sign, qsgd
from fedloom.gate import Refused

seeds = st.integers(0, 10**6)


@given(row=st.lists(st.floats(-(2.0**126), 2.0**126, width=32), min_size=1, max_size=40))
def test_bfloat16_is_that_of_torch(row):
    row = np.array(row, dtype=np.float32)
    wanted = torch.from_numpy(row).to(torch.bfloat16).to(torch.float32).numpy()
    assert np.array_equal(BFloat16().coded(row, 0).view(np.uint32), wanted.view(np.uint32))


@given(row=st.lists(st.floats(-65504, 65504, width=32), min_size=1, max_size=40))
def test_float16_is_that_of_torch(row):
    row = np.array(row, dtype=np.float32)
    wanted = torch.from_numpy(row).to(torch.float16).to(torch.float32).numpy()
    assert np.array_equal(Float16().coded(row, 0).view(np.uint32), wanted.view(np.uint32))


def test_float16_is_that_of_numpy_for_values_of_every_size():
    """Random bits as floats: every exponent and sign; and halves with what lies halfway between them."""
    bits = bits_of(5, 200_000) & np.uint32(0xBFFFFFFF)
    halves = np.arange(0x7C00, dtype=np.uint16).view(np.float16).astype(np.float32)
    rows = (bits.view(np.float32), halves, -halves, (halves[1:] + halves[:-1]) / 2, np.nextafter(halves, np.float32(0)))
    for row in rows:
        wanted = np.clip(row, -65504, 65504).astype(np.float16)
        assert Float16().encode(row, 0) == wanted.tobytes()


def test_values_beyond_a_half_arrive_as_the_largest_half():
    row = np.array([1e6, -1e37, 65519, 65504, -65504], dtype=np.float32)
    assert Float16().coded(row, 0).tolist() == [65504, -65504, 65504, 65504, -65504]


@pytest.mark.parametrize(
    ("it", "bits"), [(Float16(), 0x7C00), (Float16(), 0x7E01), (BFloat16(), 0xFF80), (BFloat16(), 0x7FC0)]
)
def test_an_infinite_half_is_refused(it, bits):
    with pytest.raises(Refused, match=r"must be finite, got -?(inf|nan) at index 1"):
        it.decode(bytes(2) + bits.to_bytes(2, "little"), 2, 0)


def qsgd_by_loop(row, bits, bucket, key):
    """From the docstring, one value after the other, with exact fractions of the draws."""
    last = 1 if bits == 1 else 2**bits - 2
    n_draw = 31 - max(2, bits)
    draws = [(d >> (32 - n_draw)) / 2**n_draw for d in bits_of(key, len(row)).tolist()]
    out = []
    for begun in range(0, len(row), bucket):
        part = [float(v) for v in row[begun : begun + bucket]]
        most = max(map(abs, part))
        for v, u in zip(part, draws[begun:]):
            x = (v / most + 1) / 2 * last if most else last / 2
            out.append((2 * math.floor(x + u) / last - 1) * most)
    return np.array(out)


@given(seed=seeds, bits=st.integers(1, 16), bucket=st.integers(1, 40), n=st.integers(1, 100))
def test_qsgd_is_its_formulas(seed, bits, bucket, n):
    """A value whose sum with its draw lies next to a whole number may fall to either side in another arithmetic; few do."""
    row = np.random.default_rng(seed).normal(size=n).astype(np.float32)
    found = QSGD(bits=bits, bucket=bucket).coded(row, seed)
    wanted = qsgd_by_loop(row, bits, bucket, seed)
    near = np.isclose(found, wanted, rtol=1e-5, atol=1e-6)
    assert near.mean() >= (1 if bits <= 8 else 0.9)
    step = 2 * np.abs(row).max() / max(1, 2**bits - 2)
    assert (np.abs(found - wanted) <= step * 1.001).all()


@pytest.mark.parametrize("bucket", [1, 3, 512, 40_000, 10**9])
def test_how_many_values_are_worked_on_at_a_time_does_not_matter(bucket, monkeypatch):
    row = np.random.default_rng(4).normal(size=100_001).astype(np.float32)
    wanted, arrives = QSGD(bucket=bucket).encode(row, 3), QSGD(bucket=bucket).coded(row, 3)
    monkeypatch.setattr(qsgd, "BLOCK", 5000)
    assert QSGD(bucket=bucket).encode(row, 3) == wanted
    assert np.array_equal(QSGD(bucket=bucket).decode(wanted, len(row), 3), arrives)


@pytest.mark.parametrize("bad", [np.nan, -np.inf, 2.0**127])
def test_a_bad_value_is_named_wherever_it_is(bad):
    row = np.ones(100_001, dtype=np.float32)
    row[70_003] = bad
    for use in (QSGD().encode, QSGD().coded, Float16().encode):
        with pytest.raises(Refused, match=r"a row to be coded must .* at index 70003$"):
            use(row, 1)


@settings(max_examples=10)
@pytest.mark.parametrize("bits", [1, 2, 3, 8, 12, 16])
@given(seed=seeds)
def test_qsgd_is_a_grid_point_beside_the_value(bits, seed):
    row = np.random.default_rng(seed).normal(size=130).astype(np.float32)
    found = QSGD(bits=bits, bucket=40).coded(row, seed)
    for begun in range(0, 130, 40):
        part, most = row[begun : begun + 40], np.abs(row[begun : begun + 40]).max()
        step = 2 * most / max(1, 2**bits - 2)
        assert (np.abs(found[begun : begun + 40] - part) <= step * (1 + 1e-5) + 2e-7 * most).all()
        assert np.abs(found[begun : begun + 40]).max() <= most * (1 + 1e-6)


@settings(max_examples=10)
@pytest.mark.parametrize("bits", [1, 2, 4, 8, 16])
@given(seed=seeds)
def test_qsgd_is_unbiased(bits, seed):
    """By Hoeffding's inequality the mean of n independent numbers within a step of each other strays by t with a probability
    of at most 2 exp(-2 n t^2 / step^2): 2e-12 at this t, so any seed passes."""
    n = 40_000
    kinds = np.random.default_rng(seed).uniform(-1, 1, size=8).astype(np.float32)
    kinds[0] = 1.0
    row = np.tile(kinds, n)
    found = QSGD(bits=bits, bucket=len(row)).coded(row, key_of(seed, "test")).reshape(n, 8).astype(np.float64)
    step = 2 / max(1, 2**bits - 2)
    t = step * math.sqrt(math.log(1e12) / (2 * n))
    assert (np.abs(found.mean(axis=0) - kinds) <= t + 2**-22).all()
    if bits <= 4:
        assert (found[:, 1:].std(axis=0) > 0).any()  # draws decide


@pytest.mark.parametrize("bits", range(1, 17))
def test_qsgd_keeps_a_value_that_is_alone_in_its_bucket(bits):
    """It is the largest: an end of the grid, even where its place is rounded up. Rounded down, it may be the point before."""
    row = np.random.default_rng(bits).normal(size=5000).astype(np.float32)
    it = QSGD(bits=bits, bucket=1)
    found = it.decode(it.encode(row, 9), 5000, 9)
    assert np.allclose(found, row, rtol=3e-7 if bits <= 8 else 2.1 / (2**bits - 2), atol=0)
    assert np.mean(np.isclose(found, row, rtol=3e-7, atol=0)) > 0.99


def test_small_values_beside_a_large_one_are_not_lost_on_average():
    """A thousandth of a step: 1,000,000 draws raise it 1,000 times on average, 700 to 1,300 for any key (9 deviations)."""
    row = np.full(1_000_000, 1e-3, dtype=np.float32)
    row[0] = 1.0
    raised = np.count_nonzero(QSGD(bits=2, bucket=len(row)).coded(row, 11)[1:])
    assert 700 <= raised <= 1300


def test_draws_of_neighbours_are_independent():
    """Agreement of two neighbours in half of all cases: 50,000 +- 158, within 7 deviations."""
    row = np.full(100_001, 0.5, dtype=np.float32)
    row[0] = 1.0
    up = QSGD(bits=2, bucket=len(row)).coded(row, 3) > 0.5
    assert abs(np.count_nonzero(up[1:] == up[:-1]) - 50_000) < 1107


def test_the_message_of_qsgd_by_hand():
    """Two buckets: largest 2 and 3. Values on the grid are there whatever is drawn: with 3 bits, -3..3 times m / 3, as 0..6."""
    row = np.array([2, -2, 0, 3, 1], dtype=np.float32)
    message = QSGD(bits=3, bucket=3).encode(row, 77)
    codes = [6, 0, 3, 6, 4]
    low, high = [c & 3 for c in codes], [c >> 2 for c in codes]
    planes = [low[0] | low[2] << 2 | low[4] << 4, low[1] | low[3] << 2, sum(b << i for i, b in enumerate(high))]
    assert message == np.array([2, 3], dtype="<f4").tobytes() + bytes(planes)
    assert np.allclose(QSGD(bits=3, bucket=3).decode(message, 5, 0), row, rtol=1e-6)


@pytest.mark.parametrize("bits", range(2, 17))
def test_a_number_that_is_no_grid_point_is_refused(bits):
    it = QSGD(bits=bits, bucket=8)
    message = it.encode(np.ones(8, dtype=np.float32), 0)
    with pytest.raises(
        Refused, match=f"grid points of {bits} bits have the numbers 0..{2**bits - 2}, got {2**bits - 1}"
    ):
        it.decode(message[:4] + b"\xff" * bits, 8, 0)


@pytest.mark.parametrize("it", [QSGD(bits=1), Sign()])
def test_a_scale_below_zero_or_not_finite_is_refused(it):
    for scale, wanted in (
        (-1.0, "must be at least 0, got -1.0"),
        (np.nan, "be finite, got nan"),
        (2.0**127, "must lie in"),
    ):
        with pytest.raises(Refused, match=wanted):
            it.decode(np.float32(scale).tobytes() + b"\0", 8, 0)


@pytest.mark.parametrize(
    ("bits", "wanted"), [(0, "at least 1, got 0"), (17, "bits must be 1 to 16, got 17"), (2.0, "whole")]
)
def test_bits_outside_1_to_16_are_refused(bits, wanted):
    with pytest.raises(ValueError, match=wanted):
        QSGD(bits=bits)


@given(seed=seeds, bucket=st.none() | st.integers(1, 50), n=st.integers(1, 100))
def test_sign_is_the_mean_magnitude_of_its_bucket_with_a_sign(seed, bucket, n):
    row = np.random.default_rng(seed).normal(size=n).astype(np.float32)
    row[::7] = 0
    found, width = Sign(bucket=bucket).coded(row, 0), bucket or n
    for begun in range(0, n, width):
        part = row[begun : begun + width]
        scale = sum(map(abs, part.tolist())) / len(part)
        wanted = [-scale if v < 0 else scale for v in part]
        assert np.allclose(found[begun : begun + width], wanted, rtol=1e-6)


def test_bits_by_formula():
    assert QSGD(bits=4).n_bits(1_000_000) == 32 * 1954 + 4 * 1_000_000
    assert QSGD(bits=3, bucket=100).n_bits(101) == 32 * 2 + 8 * (
        26 + 13
    )  # planes of 2 bits and 1 bit, each in whole bytes
    assert Sign().n_bits(1_000_000) == 32 + 1_000_000 and Sign(bucket=512).n_bits(9) == 32 + 16
    assert Float16().n_bits(10) == BFloat16().n_bits(10) == 160

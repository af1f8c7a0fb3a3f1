"""Noise and clipping are exactly those of the Gaussian mechanism, at clients and at aggregators."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import kstest

from fedloom.coding import Coding, Gaussian, codec
from fedloom.mixing import Arrivals, ByRows, EdgeWeights, Linear
from fedloom.mixing.private_mean import PrivateMean, private_mean


def arrivals(n_samples, occasion=(3, 0, 1, 0, 0)):
    one = np.ones(len(n_samples), dtype=np.int64)
    return Arrivals(
        client=np.arange(len(n_samples)),
        n_samples=np.array(n_samples),
        n_reached=one,
        staleness=0 * one,
        occasion=occasion,
    )


def test_a_long_change_is_cut_and_a_short_one_stays():
    row = np.array([3, 4], dtype=np.float32)
    assert Gaussian(clip=1, noise=0).coded(row, 1).tolist() == pytest.approx([3 / 5, 4 / 5])
    assert Gaussian(clip=9, noise=0).coded(row, 1).tolist() == [3, 4]


def test_noise_is_normal_with_the_mechanisms_deviation():
    """200,000 draws against the normal law: a wrong deviation of 1 % or a wrong shape would be seen."""
    n, clip, noise = 200_000, 0.5, 0.8
    row = np.full(n, 0.1 / np.sqrt(n), dtype=np.float32)
    drawn = (Gaussian(clip=clip, noise=noise).coded(row, 7) - row) / (noise * clip)
    assert kstest(drawn, "norm").pvalue > 0.01
    assert abs(drawn.std() - 1) < 4 / np.sqrt(2 * n)
    other = (Gaussian(clip=clip, noise=noise).coded(row, 8) - row) / (noise * clip)
    assert abs(np.corrcoef(drawn, other)[0, 1]) < 4 / np.sqrt(n)


@given(st.lists(st.floats(-1e3, 1e3, width=32), min_size=1, max_size=20), st.integers(0, 2**64 - 1))
def test_a_message_is_what_arrives_and_the_same_key_gives_the_same(values, key):
    row, mechanism = np.array(values, dtype=np.float32), Gaussian(clip=2, noise=0.3)
    message = mechanism.encode(row, key)
    assert 8 * len(message) == mechanism.n_bits(len(row))
    assert np.array_equal(mechanism.decode(message, len(row), 0), mechanism.coded(row, key))


def test_a_merge_by_hand():
    """Two clients with weights 1/4 and 3/4 change by (3, 4) and (0, 1); cut to 1 the first is (0.6, 0.8)."""
    starts = np.array([[1, 1], [2, 2]], dtype=np.float32)
    rows = starts + np.array([[3, 4], [0, 1]], dtype=np.float32)
    rule = PrivateMean(clip=1, noise=0)
    found = rule(arrivals([10, 30]), np.zeros(2, np.float32), rows, starts)
    assert found.tolist() == pytest.approx([0.25 * 1.6 + 0.75 * 2, 0.25 * 1.8 + 0.75 * 3])


def test_noise_of_a_merge_is_that_of_the_client_that_counts_most():
    n, rule = 100_000, PrivateMean(clip=2, noise=0.5)
    rows = np.zeros((2, n), dtype=np.float32)
    found = rule(arrivals([10, 30]), rows[0], rows, rows) / (0.5 * 2 * 0.75)
    assert kstest(found, "norm").pvalue > 0.01
    again = rule(arrivals([10, 30]), rows[0], rows, rows) / (0.5 * 2 * 0.75)
    assert np.array_equal(found, again)
    other = rule(arrivals([10, 30], (3, 0, 2, 0, 0)), rows[0], rows, rows) / (0.5 * 2 * 0.75)
    assert abs(np.corrcoef(found, other)[0, 1]) < 4 / np.sqrt(n)


def test_without_noise_and_with_room_a_private_mean_is_the_mean():
    rng = np.random.default_rng(1)
    rows, starts = (rng.normal(size=(5, 7)).astype(np.float32) for _ in range(2))

    def weigh(arrived):
        return EdgeWeights(own=0.1, model=np.full(5, 0.14), start=np.full(5, 0.04))

    found = private_mean(Linear(weigh), PrivateMean(clip=1e6, noise=0)).rule(arrivals([1] * 5), rows[0], rows, starts)
    assert np.allclose(found, 0.1 * rows[0] + 0.14 * rows.sum(0) + 0.04 * starts.sum(0), atol=1e-6)


def test_what_makes_no_sense_is_refused():
    with pytest.raises(ValueError, match="clip must be"):
        Gaussian(clip=0)
    with pytest.raises(ValueError, match="noise must be finite"):
        codec("gaussian:noise=inf")
    with pytest.raises(ValueError, match="down must not be gaussian"):
        Coding(down=Gaussian())
    with pytest.raises(ValueError, match="goes with merges by weights"):
        private_mean(ByRows(lambda *_: np.zeros(1)), PrivateMean())

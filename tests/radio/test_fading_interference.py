"""Rayleigh and Rician fading, and power from neighbouring cells."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import stats

from fedloom import radio

N = 200_000


@pytest.mark.parametrize("antennas", [1, 4])
@pytest.mark.parametrize("k_db", [-10.0, 0.0, 9.0])
def test_rician_gains_have_mean_one_and_the_variance_of_their_k(k_db, antennas):
    """Var |h|^2 / L = (1 + 2 K) / (L (1 + K)^2); four standard errors, of the mean and (roughly) of the variance, are allowed."""
    k = 10 ** (k_db / 10)
    gains = radio.rician_gain(np.full(N, k), np.random.default_rng(1), antennas)
    variance = (1 + 2 * k) / (antennas * (1 + k) ** 2)
    assert gains.mean() == pytest.approx(1, abs=4 * np.sqrt(variance / N))
    assert gains.var() == pytest.approx(variance, rel=0.03)


def test_rician_gains_have_the_law_of_a_sum_of_rays():
    """A ray of K / (K + 1) and complex Gaussian ones of 1 / (K + 1), drawn one by one."""
    rng, k = np.random.default_rng(2), 4.0
    rays = (rng.normal(size=(20_000, 2)) + 1j * rng.normal(size=(20_000, 2))) / np.sqrt(2)
    sums = np.sqrt(k / (k + 1)) * np.exp(1j) + rays / np.sqrt(k + 1)
    gains = radio.rician_gain(np.full(20_000, k), rng, 2)
    assert stats.ks_2samp(gains, (np.abs(sums) ** 2).mean(axis=1)).pvalue > 0.001


@pytest.mark.parametrize("antennas", [1, 3])
def test_without_a_direct_ray_rician_is_rayleigh(antennas):
    rng = np.random.default_rng(3)
    one = radio.rician_gain(np.zeros(20_000), rng, antennas)
    other = radio.rayleigh_gain((20_000,), rng, antennas)
    assert stats.ks_2samp(one, other).pvalue > 0.001


def test_with_a_strong_direct_ray_nothing_fades():
    np.testing.assert_allclose(radio.rician_gain(np.full(100, 1e10), np.random.default_rng(0)), 1, atol=1e-4)


def test_power_of_other_cells_by_hand():
    """2 W; at device 0 gains of 0.5, 0.25 and 0.125, half of the time: who listens to the first hears 0.5 x 2 x 0.375 W."""
    found = radio.from_other_cells_w(2.0, [[0.5, 1.0], [0.25, 0.0], [0.125, 0.0]], 0.5)
    assert found.tolist() == [[0.375, 0.0], [0.625, 1.0], [0.75, 1.0]]


def test_power_of_other_cells_devices_by_hand():
    """At cell 0: devices 1 and 2 of cell 1 arrive with 0.5 x 0.5 and 1 x 0.25 W, 0.25 W on average; device 3 of cell 2 with
    0.1 W; device 4 takes no part. 0.8 of 0.35 W."""
    gain = np.array([[9.0, 0.5, 0.25, 0.1, 5.0], [0.2, 9.0, 9.0, 0.3, 5.0], [0.0, 0.0, 0.0, 9.0, 5.0]])
    power, home = np.array([2.0, 0.5, 1.0, 1.0, 1.0]), np.array([0, 1, 1, 2, -1])
    found = radio.from_other_devices_w(power, gain, home, 0.8)
    np.testing.assert_allclose(found, [0.8 * 0.35, 0.8 * (0.4 + 0.3), 0.0], rtol=1e-12)


GAINS = hnp.arrays(np.float64, hnp.array_shapes(min_dims=2, max_dims=2, max_side=6), elements=st.floats(0, 1))


@given(GAINS, st.floats(0, 1), st.integers(0, 2**32))
def test_interference_is_that_of_loops_and_grows_with_load(gain, load, seed):
    n, k = gain.shape
    rng = np.random.default_rng(seed)
    home, power = rng.integers(-1, n, k), rng.uniform(0, 2, k)
    down = [[load * sum(3.0 * gain[m, j] for m in range(n) if m != c) for j in range(k)] for c in range(n)]
    np.testing.assert_allclose(radio.from_other_cells_w(3.0, gain, load), down, rtol=1e-12, atol=1e-300)
    up = [0.0] * n
    for c in range(n):
        for m in range(n):
            of_cell = [power[j] * gain[c, j] for j in range(k) if home[j] == m]
            if m != c and of_cell:
                up[c] += load * sum(of_cell) / len(of_cell)
    found = radio.from_other_devices_w(power, gain, home, load)
    np.testing.assert_allclose(found, up, rtol=1e-12, atol=1e-300)
    assert (radio.from_other_devices_w(power, gain, home, 1.0) >= found).all()


def test_a_weak_neighbour_is_not_lost_beside_ones_own_cell():
    """Of 1 + 1e-20 nothing would be left."""
    assert radio.from_other_cells_w(1.0, [[1.0], [1e-20]], 1.0)[0, 0] == 1e-20


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: radio.from_other_cells_w(1.0, [[1.0]], 1.5), "load must be a share in 0..1, got 1.5"),
        (lambda: radio.from_other_cells_w(-1.0, [[1.0]], 1.0), "power_w must be at least 0, got -1"),
        (lambda: radio.from_other_cells_w(1.0, [1.0], 1.0), "gain must have shape (any, any), got (1,)"),
        (
            lambda: radio.from_other_devices_w(1.0, [[1.0]], np.array([0, 0]), 1.0),
            "gain must have shape (any, 2), got (1, 1)",
        ),
        (lambda: radio.rician_gain(-1.0, np.random.default_rng(0)), "k must be at least 0, got -1"),
        (
            lambda: radio.rayleigh_gain((1,), np.random.default_rng(0), 0),
            "antennas must be a whole number of at least 1, got 0",
        ),
    ],
)
def test_what_makes_no_sense_is_refused(call, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        call()

"""Gains, SNR matrix and uplink noise of CAMU: a case by hand, fading, and what arrives of a model."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedloom import radio

STATION = [-50.0, 0.0, 10.0]


def rng(seed=0):
    return np.random.default_rng(seed)


def test_g5_the_uplink_at_50_metres():
    gains = radio.channel_gains([[0.0, 0.0], [3.0, 4.0]], [50.0, 0.0])
    assert gains.up[0] == pytest.approx(2.1519762964e-11, rel=1e-9)
    assert gains.between[0, 1] == pytest.approx(radio.free_space_gain(5.0, gain_tx=1.0), rel=1e-12)
    matrix = radio.snr_matrix(0.5, gains, 1e-14)
    assert matrix[0, 0] == pytest.approx(1075.9881482, rel=1e-9)
    assert radio.ratio_to_db(matrix[0, 0]) == pytest.approx(30.3180749, rel=1e-8)
    assert radio.noise_std(0.5, gains.up[0], 1e-14) == pytest.approx(0.0304857059, rel=1e-8)
    assert radio.noise_std(0.5, gains.up[0], 1e-14, "literal") == pytest.approx(0.0431132988, rel=1e-8)


def test_the_published_noise_drowns_everything():
    gains = radio.channel_gains([[0.0, 0.0]], [50.0, 0.0], n_antennas=1)
    assert radio.ratio_to_db(radio.snr_matrix(0.5, gains, 1e-4))[0, 0] == pytest.approx(-81.4, abs=0.05)
    combined = radio.channel_gains([[0.0, 0.0]], [50.0, 0.0])
    assert radio.ratio_to_db(radio.snr_matrix(0.5, combined, 1e-4))[0, 0] == pytest.approx(-69.7, abs=0.05)
    assert radio.noise_std(0.5, combined.up[0], 1e-4) == pytest.approx(3.0e3, rel=0.02)
    assert radio.noise_std(0.5, combined.up[0], 1e-4, "literal") == pytest.approx(4.3e3, rel=0.02)


def test_the_matrix_has_the_sender_in_the_column():
    position = [[0.0, 0.0, 0.0], [4.0, 0.0, 0.0], [0.0, 7.0, 0.0]]
    gains = radio.channel_gains(position, STATION)
    power = np.array([0.1, 0.5, 0.2])
    matrix = radio.snr_matrix(power, gains, 2e-14)
    for j in range(3):
        for k in range(3):
            gain = gains.up[k] if j == k else gains.between[j, k]
            assert matrix[j, k] == pytest.approx(power[k] * gain / 2e-14, rel=1e-12)
    same = radio.snr_matrix(0.5, gains, 2e-14)
    np.testing.assert_array_equal(same, same.T)
    assert (gains.between.diagonal() == 0).all()


def test_rayleigh_fading_has_mean_one_and_is_reciprocal():
    position = rng(1).uniform(0, 20, (300, 2))
    plain = radio.channel_gains(position, [50.0, 0.0])
    faded = radio.channel_gains(position, [50.0, 0.0], fading="rayleigh", rng=rng(2))
    np.testing.assert_array_equal(faded.between, faded.between.T)
    up = faded.up / plain.up
    pairs = np.triu_indices(300, 1)
    between = (faded.between / np.where(plain.between > 0, plain.between, 1))[pairs]
    # |g|^2 of one antenna: mean 1, variance 1; the mean of 15: variance 1/15
    assert up.mean() == pytest.approx(1, abs=4 * np.sqrt(1 / 15 / 300))
    assert up.var() == pytest.approx(1 / 15, rel=0.35)
    assert between.mean() == pytest.approx(1, abs=4 / np.sqrt(len(between)))
    assert between.var() == pytest.approx(1, rel=0.1)
    again = radio.channel_gains(position, [50.0, 0.0], fading="rayleigh", rng=rng(2))
    np.testing.assert_array_equal(again.up, faded.up)


@given(st.floats(1e-6, 10), st.floats(1e-14, 1e-8), st.floats(1e-16, 1e-10))
def test_noise_is_one_over_the_root_of_the_snr(power, gain, noise):
    assert radio.noise_std(power, gain, noise) == pytest.approx(radio.snr(power, gain, noise) ** -0.5, rel=1e-12)
    assert radio.noise_std(power, gain, noise, "literal") == pytest.approx(
        radio.noise_std(power**2, gain, noise), rel=1e-12
    )


def test_nothing_sent_is_all_noise_and_no_noise_is_none():
    np.testing.assert_array_equal(radio.noise_std([0.0, 1.0], [1.0, 0.0], 1e-14), [np.inf, np.inf])
    assert radio.noise_std(0.5, 1e-11, 0.0) == 0


def test_the_noise_of_the_average_has_the_predicted_variance():
    weight, snr = np.array([0.5, 0.3, 0.2]), np.array([2000.0, 1000.0, 400.0])
    n = 100_000
    zero, all_of_it = np.zeros(n), np.ones(n, dtype=bool)
    random = rng(3)
    cloud = sum(g * radio.noisy(zero, float(s**-0.5), all_of_it, random) for g, s in zip(weight, snr))
    assert (weight**2 / snr).sum() == pytest.approx(3.15e-4, rel=1e-12)
    assert cloud.var() == pytest.approx(3.15e-4, rel=0.03)


def test_buffers_arrive_unharmed_and_the_model_at_hand_stays():
    row = np.arange(6, dtype=np.float32)
    trainable = np.array([True, True, True, True, False, False])
    out = radio.noisy(row, 0.1, trainable, rng(0))
    assert out.dtype == np.float32
    np.testing.assert_array_equal(out[4:], row[4:])
    assert (out[:4] != row[:4]).all()
    np.testing.assert_array_equal(row, np.arange(6))
    np.testing.assert_array_equal(radio.noisy(row, 0.0, trainable, rng(0)), row)
    np.testing.assert_array_equal(radio.noisy(row, 0.1, trainable, rng(0)), out)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: radio.channel_gains([[0, 0]], [1, 2, 3]), "station_m must have shape (2), got (3,)"),
        (
            lambda: radio.channel_gains([[0, 0]], [1, 2], fading="rice"),
            "fading must be one of none, rayleigh; got 'rice'",
        ),
        (lambda: radio.channel_gains([[0, 0]], [1, 2], fading="rayleigh"), "pass a generator as rng"),
        (lambda: radio.noise_std(1, 1, 1, "amplitude"), "reading must be one of default, literal"),
        (lambda: radio.noise_std(-1, 1, 1), "power_w must be at least 0, got -1"),
        (
            lambda: radio.noisy(np.zeros(3), 1.0, np.ones(2, bool), rng()),
            "must have the same shape (P,), got (3,) and (2,)",
        ),
        (lambda: radio.noisy(np.zeros(3), -1.0, np.ones(3, bool), rng()), "std must be at least 0, got -1"),
    ],
)
def test_wrong_arguments_say_what_is_wrong(call, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        call()

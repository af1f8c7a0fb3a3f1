"""How much noise: the figures of CAMU's radio, and a search on curves whose answer is known."""

import math
import re

import numpy as np
import pytest

from fedloom.allocation import aggregate_noise_std, calibrate_noise, noise_for_std

WEIGHT = [0.5, 0.3, 0.2]
GAIN = [4.1452179275e-11, 2.1519762964e-11, 0.7576689713e-11]


def test_the_noise_of_the_average_of_benchmark_2():
    std = aggregate_noise_std(WEIGHT, [0.5] * 3, GAIN, 1e-14)
    assert std**2 == pytest.approx(3.0985197234e-4, rel=1e-8)
    assert noise_for_std(std, WEIGHT, [0.5] * 3, GAIN) == pytest.approx(1e-14, rel=1e-12)
    literal = aggregate_noise_std(WEIGHT, [0.5] * 3, GAIN, 1e-14, "literal")
    assert literal**2 == pytest.approx(2 * std**2, rel=1e-12)


@pytest.mark.parametrize("critical_w", [3e-18, 2e-14, 7e-11])
def test_the_noise_that_costs_four_points_is_found(critical_w):
    calls = []

    def accuracy(noise_w):
        calls.append(noise_w)
        return 0.9 - 0.8 * noise_w / (noise_w + 20 * critical_w)

    found = calibrate_noise(accuracy, n_runs=20)
    assert 0.03 <= found.loss <= 0.05
    assert found.loss == pytest.approx(0.9 - accuracy(found.noise_w))
    assert 0.5 * critical_w < found.noise_w < 2 * critical_w
    assert calls[0] == 0 and [w for w, _ in found.runs] == calls[:-1]


def test_a_jump_is_refused_with_all_runs():
    with pytest.raises(
        ValueError, match=r"no noise cost between 0.03 and 0.05 of accuracy in 6 runs \(0 W: 0.9000, 1e-14 W"
    ):
        calibrate_noise(lambda noise_w: 0.9 if noise_w < 5e-14 else 0.1, n_runs=6)


def test_the_bisection_is_in_decibels():
    runs = []

    def accuracy(noise_w):
        runs.append(noise_w)
        return 0.9 if noise_w < 5e-14 else 0.1

    with pytest.raises(ValueError, match="no noise cost"):
        calibrate_noise(accuracy, n_runs=4)
    assert runs[1:] == pytest.approx([1e-14, 1e-13, math.sqrt(1e-27)])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"least": 0.05, "most": 0.03}, "least must be below most, got 0.05 and 0.03"),
        ({"start_w": 0.0}, "start_w must be above 0, got 0"),
        ({"n_runs": 1}, "n_runs must be a whole number of at least 2, got 1"),
    ],
)
def test_wrong_arguments_say_what_is_wrong(arguments, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        calibrate_noise(lambda noise_w: 0.5, **arguments)


def test_std_must_be_positive():
    with pytest.raises(ValueError, match="std must be above 0, got 0"):
        noise_for_std(0.0, WEIGHT, np.full(3, 0.5), GAIN)

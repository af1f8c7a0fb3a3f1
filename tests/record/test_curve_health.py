"""Which curves can be believed."""

import numpy as np
import pytest

from fedloom.record.curve_health import curve_warnings, oscillates

# accuracies after every edge round at a rate that is too large
UNSTABLE = [68.0, 73.2, 67.8, 73.4, 69.8, 72.0, 70.0, 71.7, 70.3, 73.5, 71.0]
WILD = [52.5, 63.9, 52.4, 66.0, 52.6, 67.3, 51.7, 66.4, 54.1]


def learning(n: int, noise: float, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return 0.1 + 0.6 * (1 - np.exp(-np.arange(n) / (n / 5))) + noise * rng.standard_normal(n)


@pytest.mark.parametrize("values", [UNSTABLE, WILD])
def test_real_curves_at_an_unstable_rate_oscillate(values):
    assert oscillates(values) and oscillates([v / 100 for v in values]) and oscillates(values[::-1])
    (warning,) = curve_warnings(values)
    assert warning.startswith("its curve oscillates") and "smaller training.lr" in warning


def test_a_zigzag_at_the_end_of_a_long_run_is_seen_and_one_at_its_start_is_not():
    steady = list(np.linspace(0.6, 0.7, 30))
    zigzag = [0.6 + 0.04 * (-1) ** k for k in range(30)]
    assert oscillates([0.1, *steady, *zigzag])
    assert not oscillates([0.1, *zigzag, *steady])


def test_the_start_of_a_short_run_does_not_hide_a_zigzag():
    assert oscillates([0.1, 0.4, *(0.5 + 0.05 * (-1) ** k for k in range(10))])


@pytest.mark.parametrize("n", [5, 8, 12, 20, 60, 200])
def test_a_monotone_curve_is_sound(n):
    assert curve_warnings(learning(n, 0.0, 0)) == []
    assert curve_warnings(np.exp(-3 * np.arange(n) / n), higher_is_better=False) == []
    assert curve_warnings([0.5] * n) == [] and curve_warnings([0.0] * n) == []


@pytest.mark.parametrize("n", [8, 12, 20, 60, 200])
def test_noise_is_rarely_taken_for_a_fault(n):
    rng = np.random.default_rng(n)
    plateaus = 0.7 + 0.03 * rng.standard_normal((1000, n))
    assert sum(map(oscillates, plateaus)) <= 5  # one in a thousand is expected
    assert sum(bool(curve_warnings(v)) for v in plateaus) <= 20
    assert sum(bool(curve_warnings(learning(n, 0.015, seed))) for seed in range(1000)) <= 20


def test_a_zigzag_too_small_to_matter_is_no_fault():
    assert not oscillates([0.7 + 0.002 * (-1) ** k for k in range(20)])
    assert oscillates([0.7 + 0.02 * (-1) ** k for k in range(20)])


def test_a_collapse_is_seen():
    risen = list(learning(30, 0.005, 1))
    (warning,) = curve_warnings([*risen, 0.3, 0.31, 0.3])
    assert warning.startswith("its final value is far below its best: 0.3 at the end, 0.69")
    (warning,) = curve_warnings([0.1, 0.4, 0.6, 0.7, 0.2])  # also of a short run, at its very end
    assert (
        warning
        == "its final value is far below its best: 0.2 at the end, 0.7 1 evaluation before; judge it by neither alone"
    )
    assert curve_warnings([0.5, 0.4, 0.3, 0.2, 0.1]) != []  # it was never better than at its start
    assert curve_warnings([*risen, 0.68]) == []  # a little below


def test_an_error_that_grows_again_is_seen():
    (warning,) = curve_warnings([10, 5, 2, 1, 0.5, 0.4, 2.0], higher_is_better=False)
    assert warning.startswith("its final value is far above its best: 2 at the end, 0.4 1 evaluation before")
    assert curve_warnings([10, 5, 2, 1, 0.5, 0.4, 0.41], higher_is_better=False) == []


def test_few_values_and_values_that_are_not_finite_are_no_reason():
    assert curve_warnings([]) == curve_warnings([0.1]) == curve_warnings([0.1, 0.9, 0.1]) == []
    assert not oscillates([1.0, 2.0] * 3)
    assert oscillates([float("nan"), *UNSTABLE, float("nan")])

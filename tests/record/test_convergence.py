"""When a run has converged and how much sooner than another: curves by hand, invariants, short and noisy curves."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedloom.bounds import models_sent, overall_time
from fedloom.pacing import n_rounds
from fedloom.record.convergence import converged_step, first_step_at, gain, window


def rising(rate, n=81, every=25):
    """a_k = .9 - .8 rate^k at steps 0, every, 2 every, ..."""
    return every * np.arange(n), 0.9 - 0.8 * rate ** np.arange(n)


HFL, HHFL = rising(0.88), rising(0.8)


def time_and_data(step, n_links):
    n_edge, n_cloud = n_rounds([(0, 5, 5)], step)
    return overall_time(step, n_edge, n_cloud, 0.2, 10, 1), models_sent(n_edge, n_links, 57)


def converged_by_loop(steps, accuracy, threshold):
    """The mean of the last W differences per 25 steps, evaluation by evaluation."""
    every = steps[1] - steps[0]
    w = max(3, int(np.ceil(250 / every)))
    for k in range(w, len(steps)):
        differences = [accuracy[j] - accuracy[j - 1] for j in range(k - w + 1, k + 1)]
        if sum(differences) / w * 25 / every < threshold:
            return steps[k]
    return None


def test_gc6():
    assert converged_step(*HFL) == 1050 and converged_step(*HHFL) == 750
    # slopes at T* and before it: a_k - a_{k-10} over 10
    for (_, a), k, slope in ((HFL, 42, 0.00096554), (HHFL, 30, 0.00082330)):
        assert (a[k] - a[k - 10]) / 10 == pytest.approx(slope, abs=5e-9)
        assert (a[k - 1] - a[k - 11]) / 10 >= 0.001
    result = gain(HFL, HHFL)
    assert (result.steps_reference, result.steps_contender, result.gain_steps) == (1050, 750, 1.4)
    assert result.tau == pytest.approx(0.896272976, abs=5e-10)
    assert (result.common_reference, result.common_contender) == (1050, 625)
    assert result.gain_common == 1.68
    assert result.not_converged == ()


def test_gc6_times_and_data():
    (slow_s, slow_sent), (fast_s, fast_sent) = time_and_data(1050, 57), time_and_data(750, 75)
    common_s, common_sent = time_and_data(625, 75)
    assert (slow_s, fast_s, common_s) == pytest.approx((2352, 1680, 1400), rel=1e-14)
    assert (slow_sent, fast_sent, common_sent) == (23940, 22500, 18750)
    assert (fast_sent / slow_sent, common_sent / slow_sent) == pytest.approx((0.93985, 0.78321), abs=5e-6)


def test_gc6_with_rare_evaluations():
    assert window(100) == 3
    assert converged_step(*rising(0.7, n=41, every=100)) == 1400


@pytest.mark.parametrize(("every", "n"), [(1, 250), (25, 10), (26, 10), (30, 9), (83, 4), (84, 3), (100, 3), (1000, 3)])
def test_the_window_spans_250_steps_and_three_evaluations(every, n):
    assert window(every) == n


@given(st.integers(0, 2**32), st.integers(2, 60), st.sampled_from([10, 25, 40, 100, 400]), st.floats(0, 0.05))
def test_convergence_matches_a_loop_on_noisy_curves(seed, n, every, noise):
    steps, accuracy = rising(0.9, n, every)
    accuracy = accuracy + noise * np.random.default_rng(seed).normal(size=n)
    assert converged_step(steps, accuracy, 0.00137) == converged_by_loop(steps, accuracy, 0.00137)


@given(st.integers(0, 2**32), st.integers(1, 60), st.sampled_from([10, 25, 100]), st.floats(0, 0.05), st.floats(0.3, 1))
def test_equal_curves_have_gains_of_exactly_one(seed, n, every, noise, rate):
    steps, accuracy = rising(rate, n, every)
    curve = steps, accuracy + noise * np.random.default_rng(seed).normal(size=n)
    result = gain(curve, curve)
    assert result.gain_common == 1.0 and result.common_reference == result.common_contender
    assert result.gain_steps == (1.0 if converged_step(*curve) else None)


def test_gains_swap_to_their_inverse():
    there, back = gain(HFL, HHFL), gain(HHFL, HFL)
    assert back.gain_steps == pytest.approx(1 / 1.4, rel=1e-15) and back.gain_common == pytest.approx(
        1 / 1.68, rel=1e-15
    )
    assert back.tau == there.tau


def test_a_slope_at_the_threshold_is_not_below_it():
    steps = 25 * np.arange(31)
    for first in (0.1, 0.29, 0.57, 0.7):  # one more sample of 1000 each time; sums round either way
        assert converged_step(steps, first + np.arange(31) / 1000) is None
        assert converged_step(steps, first + np.arange(31) / 1000 * 0.999) == 250


def test_a_higher_threshold_is_met_sooner():
    found = [converged_step(*HFL, threshold=x) for x in (0.0005, 0.001, 0.005, 0.01)]
    assert found == sorted(found, reverse=True) and len(set(found)) == 4


def test_a_flat_curve_converges_with_its_first_window():
    flat = 25 * np.arange(20), np.full(20, 0.1)
    assert converged_step(*flat) == 250
    assert gain(flat, flat).gain_common == 1.0  # both are at tau from the start


def test_a_contender_at_the_common_accuracy_from_the_start_has_no_ratio():
    flat = 25 * np.arange(20), np.full(20, 0.5)
    low = 25 * np.arange(81), HFL[1] - 0.3
    result = gain(low, flat)
    assert result.tau == 0.5 and result.common_contender == 0 < result.common_reference
    assert result.gain_common is None
    assert gain(flat, low).gain_common == 0.0


@pytest.mark.parametrize("n", [1, 2, 10, 11, 42])
def test_a_curve_too_short_has_not_converged(n):
    steps, accuracy = HFL
    assert converged_step(steps[:n], accuracy[:n]) is None
    assert converged_step(steps[:43], accuracy[:43]) == 1050


def test_a_reference_that_has_not_converged_gives_its_last_accuracy():
    steps, accuracy = HFL
    result = gain((steps[:21], accuracy[:21]), HHFL)  # a_20 = .9 - .8 .88^20 = .838
    assert result.steps_reference is None and result.steps_contender == 750
    assert result.not_converged == ("reference",) and result.gain_steps is None
    assert result.tau == accuracy[20] == pytest.approx(0.9 - 0.8 * 0.88**20)
    # .8^k <= .88^20: k >= 20 ln .88 / ln .8 = 11.46
    assert (result.common_reference, result.common_contender) == (500, 300)
    assert result.gain_common == pytest.approx(500 / 300)


def test_neither_has_converged():
    short = HFL[0][:9], HFL[1][:9]
    result = gain(short, short)
    assert result.not_converged == ("reference", "contender")
    assert (result.gain_steps, result.gain_common, result.common_reference) == (None, 1.0, 200)


def test_first_step_at_a_target():
    steps, accuracy = [0, 3, 10, 11], [0.1, 0.5, 0.4, 0.7]  # uneven is fine here
    assert first_step_at(steps, accuracy, 0.5) == 3
    assert first_step_at(steps, accuracy, 0.51) == 11
    assert first_step_at(steps, accuracy, 0.05) == 0
    assert first_step_at(steps, accuracy, 0.71) is None


@pytest.mark.parametrize(
    ("steps", "accuracy", "message"),
    [
        ([0, 25, 60], [0, 0, 0], "evaluations at even distances from step 0 on, got steps 0, 25, 60; evaluate at"),
        ([25, 50, 75], [0, 0, 0], "evaluations at even distances from step 0 on, got steps 25, 50, 75"),
        (range(10), [0] * 9 + [np.nan], "accuracy must be finite, got nan at index [9]"),
        ([0, 25], [0.1], "accuracy must have shape (2), got (1,)"),
        ([], [], "a curve needs at least one evaluation, got none"),
        ([0, 25, 25], [0, 0, 0], "steps must be whole numbers that rise, got 0, 25, 25"),
        ([0, 0.5, 1], [0, 0, 0], "steps must be whole numbers that rise, got 0, 0.5, 1"),
    ],
    ids=lambda x: None,
)
def test_wrong_curves_say_what_is_wrong(steps, accuracy, message):
    for function in (converged_step, lambda s, a: gain(HFL, (s, a)), lambda s, a: gain((s, a), HFL)):
        with pytest.raises(ValueError, match=re.escape(message)):
            function(steps, accuracy)


def test_wrong_numbers_say_what_is_wrong():
    with pytest.raises(ValueError, match="threshold must be above 0, got 0"):
        converged_step(*HFL, threshold=0)
    with pytest.raises(ValueError, match="eval_every must be a whole number of at least 1, got 0"):
        window(0)

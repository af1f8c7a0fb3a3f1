"""Problem P1: cases by hand, the bound against loops, and what a wrong problem says."""

import dataclasses
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from instance import BENCHMARK_2, ENERGY_J, g6, random_problem

from fedloom.allocation import update_energy_j
from fedloom.bounds import camu_bound
from fedloom.radio import airtime_s, energy_j, free_space_gain, shannon_rate

SNR = np.array([2000.0, 1000.0, 400.0])
SEEDS = st.integers(0, 2**32)


def g4(**changes):
    """Gains such that 1 W gives the SNRs of the case by hand."""
    return g6(gain=SNR * 1e-14, **changes)


def test_g4_progress_and_learning_rates():
    problem = g4()
    np.testing.assert_allclose(problem.progress, [0.0087975, 0.004919371875, 0.0041118], rtol=1e-12)
    np.testing.assert_allclose(problem.lr_limits()[0], [2.2222222, 8.0808081, 2.3809524], rtol=1e-7)
    np.testing.assert_allclose(problem.lr_limits()[1], 2 / (2 * np.array([1.2 * 0.5, 1.1 * 0.25, 1.4])), rtol=1e-12)
    assert problem.noise([1, 1, 1]) == pytest.approx(3.15e-4, rel=1e-12)


@pytest.mark.parametrize(
    ("n_local", "contraction", "for_ever", "after_20"),
    [
        ([1, 1, 1], 0.982171328125, 0.0176681697, 0.0053389214),
        ([3, 6, 1], 0.93997946875, 0.0052482041, 0.0037263323),
        ([1, 6, 1], 0.95757446875, 0.0074247744, 0.0043049193),
    ],
)
def test_g4_contraction_and_gap(n_local, contraction, for_ever, after_20):
    n = np.array(n_local) - 1
    assert g4().contraction(n) == pytest.approx(contraction, rel=1e-12)
    assert g4().gap([1, 1, 1], n) == pytest.approx(for_ever, rel=1e-8)
    twenty = g4(horizon=20)
    assert twenty.gap([1, 1, 1], n) == pytest.approx(after_20, rel=1e-8)
    noise, b = g4().noise([1, 1, 1]), g4().progress
    found = camu_bound(2.0, b, n_local, rounds=20, noise=noise)
    assert found == pytest.approx(2 * contraction**20 + after_20, rel=1e-8)
    assert camu_bound(2.0, b, n_local, rounds=None, noise=noise) == pytest.approx(for_ever, rel=1e-8)


def test_g4_a_gate_makes_the_bound_worse():
    assert g4().gap([1, 1, 1], [0, 5, 0]) > g4().gap([1, 1, 1], [2, 5, 0])


def test_g5_energy_of_a_round():
    cover = np.ones((1, 3), dtype=bool)
    one = {"cycles": 1e5, "cpu_hz": [1e9, 2e9, 0.8e9]}
    default_j = update_energy_j(cover, work=[2000, 1500, 2500], **one)
    literal_j = update_energy_j(cover, work=21_880, **one)
    assert default_j[0] == pytest.approx(0.029375, rel=1e-12)
    assert literal_j[0] == pytest.approx(0.30085, rel=1e-12)
    alone = {
        "weight": [1.0],
        "delta_c": [1.2],
        "concentration": [0.5],
        "gain": 15 * free_space_gain(np.array([50.0])),
        "cap": [9],
        "energy_budget_j": 1.0,
        "bandwidth_hz": 1e6,
    }
    default = g6(update_j=default_j, **alone)
    assert default.upload_bits == 700_160
    assert default.upload_s([0.5])[0] == pytest.approx(0.0695100595, rel=1e-8)
    assert default.upload_j([0.5])[0] == pytest.approx(0.0347550298, rel=1e-8)
    assert default.energy_j([0.5], [3]) == pytest.approx(0.1522550298, rel=1e-8)
    literal = g6(update_j=literal_j, reading="literal", **alone)
    assert literal.upload_j([0.5])[0] == pytest.approx(1.0860946798e-3, rel=1e-8)
    assert literal.energy_j([0.5], [3]) == pytest.approx(0.9036360947, rel=1e-8)


def test_g6_constants_and_benchmark_2():
    problem = g6()
    np.testing.assert_allclose(problem.snr_per_w, [4145.2179275, 2151.9762964, 757.6689713], rtol=1e-8)
    np.testing.assert_allclose(problem.noise_cost, [6.0310460e-5, 4.1822022e-5, 5.2793504e-5], rtol=1e-7)
    power, n = BENCHMARK_2
    np.testing.assert_allclose(problem.upload_j(power), [0.03177367, 0.03475503, 0.04085316], rtol=2e-7)
    assert problem.energy_j(power, n) == pytest.approx(ENERGY_J, rel=1e-9)
    assert problem.noise(power) == pytest.approx(3.0985197234e-4, rel=1e-9)
    assert problem.gap(power, n) == pytest.approx(5.1624330e-3, rel=1e-7)
    found = problem.allocation(power, n)
    assert found.binding == ("energy", "power")


def test_uploads_cost_what_the_radio_says():
    problem, power = g6(), np.array([0.1, 0.5, 2.0])
    seconds = airtime_s(700_160, shannon_rate(1e6, power * problem.snr_per_w))
    np.testing.assert_allclose(problem.upload_s(power), seconds, rtol=1e-12)
    np.testing.assert_allclose(problem.upload_j(power), energy_j(power, seconds), rtol=1e-12)


def test_the_printed_reading_takes_p_for_an_amplitude_and_a_power():
    problem = g6(reading="literal", energy_budget_j=1.0)
    power = np.array([0.5, 0.4, 0.3])
    g, s, h = np.array([0.5, 0.3, 0.2]), 1e-14, np.asarray(problem.gain)
    assert problem.noise(power) == pytest.approx((g**2 * s / (power**2 * h)).sum(), rel=1e-12)
    assert problem.power_w(power) == pytest.approx((power**2).sum(), rel=1e-12)
    assert problem.compute_j([2, 5, 0]) == pytest.approx(2 * 0.04 + 5 * 0.02, rel=1e-12)


def test_the_corrected_bound_scales_the_noise_only():
    assert g6(bound="corrected").gap(*BENCHMARK_2) == pytest.approx(21_880 * 2 / 2 * g6().gap(*BENCHMARK_2), rel=1e-12)


def test_more_different_gradients_lower_the_contraction():
    values = [g6(delta=d).contraction([0, 0, 0]) for d in (1.0, 2.0, 4.0)]
    assert values == pytest.approx([0.988, 0.976, 0.954], abs=6e-4)


@given(SEEDS)
def test_the_contraction_falls_by_b_with_every_update_and_the_horizon_only_helps(seed):
    problem = random_problem(seed, horizon=50)
    n = problem.n_clusters
    zero, power = np.zeros(n), np.full(n, 0.3)
    for c in range(n):
        more = zero.copy()
        more[c] = 1
        assert problem.contraction(zero) - problem.contraction(more) == pytest.approx(problem.progress[c], abs=1e-14)
    if 0 < problem.contraction(zero) < 1:
        assert problem.gap(power, zero) <= dataclasses.replace(problem, horizon=None).gap(power, zero) * (1 + 1e-12)


@given(SEEDS, st.floats(1e-6, 10), st.floats(1e-6, 10))
def test_energy_grows_with_power_from_a_positive_least(seed, one, two):
    problem = random_problem(seed)
    low, high = sorted((one, two))
    n = problem.n_clusters
    least = problem.unit_j / problem.snr_per_w
    assert (problem.upload_j(np.full(n, low)) <= problem.upload_j(np.full(n, high)) * (1 + 1e-12)).all()
    assert (problem.upload_j(np.full(n, low)) >= least * (1 - 1e-12)).all()


@given(SEEDS)
def test_upload_energy_is_log_convex_in_log_power_and_concave_in_power(seed):
    problem = random_problem(seed)
    steps = np.linspace(np.log(1e-4), np.log(10), 40)
    logs = np.array([np.log(problem.upload_j(np.full(problem.n_clusters, np.exp(u)))) for u in steps])
    assert (np.diff(logs, 2, axis=0) > -1e-9).all()
    plain = np.array([problem.upload_j(np.full(problem.n_clusters, p)) for p in np.linspace(0.01, 5, 40)])
    assert (np.diff(plain, 2, axis=0) < 1e-9).all()


def test_violations_name_every_broken_limit():
    problem = g6()
    assert problem.violations(*BENCHMARK_2) == []
    said = problem.violations([1.0, 1.0, 1.0], [3, 6, 0])
    assert len(said) == 3
    assert re.search(r"extra updates .* between 0 and the caps", said[0])
    assert re.search(r"energy 0\.\d+ J exceeds the budget of 0\.377382 J", said[1])
    assert "power 3 W exceeds the budget of 1.5 W" in said[2]
    assert problem.violations([1e-7, 1, 1], [0, 0, 0]) == ["powers must be at least 1e-06 W, got 1e-07 W"]
    steep = g6(mu=0.99, lr=0.2, power_budget_w=9.0, energy_budget_j=9.0, cap=[9, 9, 9])
    assert "the contraction A is" in steep.violations([1, 1, 1], [9, 9, 9])[0]
    with pytest.raises(ValueError, match="this allocation is not feasible: power 3 W exceeds"):
        g6(energy_budget_j=9.0).allocation([1, 1, 1], [0, 0, 0])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"weight": [0.5, 0.3, 0.3]}, "weight must sum to 1, got 1.1"),
        ({"gain": [1e-11, 1e-11]}, "gain must have shape (3), got (2,)"),
        ({"gain": [1e-11, 0, 1e-11]}, "gain must be above 0, got 0"),
        ({"cap": [1, 1.5, 0]}, "cap must be whole numbers, got [1.0, 1.5, 0.0]"),
        ({"update_j": [-1, 0, 0]}, "update_j must be at least 0, got -1"),
        ({"delta_c": [0.9, 1, 1]}, "delta and delta_c are at least 1"),
        ({"lr": 2.5}, "lr 2.5 is too large for the bound to hold: cluster 0 needs less than 2.22"),
        ({"lr": 1.0, "mu": 2.0}, "one update of each cluster already gives A = "),
        ({"reading": "printed"}, "reading must be one of default, literal; got 'printed'"),
        ({"bound": "right"}, "bound must be one of printed, corrected; got 'right'"),
        ({"horizon": 0}, "horizon must be a whole number of at least 1, got 0"),
        ({"energy_budget_j": 0.0}, "energy_budget_j must be above 0, got 0"),
    ],
)
def test_a_wrong_problem_says_what_is_wrong(changes, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        g6(**changes)


def test_an_impossible_problem_says_what_to_change():
    with pytest.raises(
        ValueError, match=r"energy budget of 0\.09 J is not enough: .* raise energy_budget_j above 0\.09\d+ J"
    ):
        g6(energy_budget_j=0.09).check_feasible()
    with pytest.raises(ValueError, match=r"the power budget of 2e-06 W is below 3e-06 W, .* raise power_budget_w"):
        g6(power_budget_w=2e-6).check_feasible()

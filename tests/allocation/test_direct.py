"""The direct solver: the instance by hand, every other way to solve small problems, and feasibility always."""

import dataclasses
import itertools
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from instance import BENCHMARK_2, ENERGY_J, g6, random_problem
from scipy.optimize import minimize

from fedloom.allocation import allocate, least_noise, project, to_whole

SEEDS = st.integers(0, 2**32)
READINGS = st.sampled_from(["default", "literal"])


def random_feasible(problem, random):
    """A feasible allocation: any powers and updates, projected."""
    power = np.exp(random.uniform(np.log(1e-5), np.log(5), problem.n_clusters))
    return project(problem, power, random.uniform(0, problem.cap))


def best_by_enumeration(problem):
    """All whole updates, the power step in each."""
    best = None
    for n in itertools.product(*(range(int(c) + 1) for c in problem.cap)):
        try:
            found = allocate(problem, n_extra=n)
        except ValueError as error:
            assert "not feasible at any power" in str(error)
            continue
        if best is None or found.gap < best.gap:
            best = found
    return best


@pytest.mark.parametrize(
    ("share", "power_budget", "n", "power", "gap", "binding"),
    [
        (1.0, 1.5, [2, 5, 0], [0.5418406, 0.4512090, 0.5069504], 5.1338239e-3, ("power",)),
        (1.0, np.inf, [0, 5, 0], [1.0950298, 0.8694613, 0.9213682], 3.7825492e-3, ("energy",)),
        (0.7, 1.5, [0, 3, 0], [0.5418406, 0.4512090, 0.5069504], 9.4558212e-3, ("power",)),
    ],
)
def test_g6_whole(share, power_budget, n, power, gap, binding):
    problem = g6(energy_budget_j=share * ENERGY_J, power_budget_w=power_budget)
    found = allocate(problem)
    assert found.n_extra.tolist() == n
    np.testing.assert_allclose(found.power_w, power, rtol=1e-5)
    assert found.gap == pytest.approx(gap, rel=1e-7)
    assert found.binding == binding


def test_g6_noise_of_the_first_optimum():
    problem = g6()
    assert problem.noise(allocate(problem).power_w) == pytest.approx(3.0813483656e-4, rel=1e-9)


@pytest.mark.parametrize(
    ("share", "power_budget", "n_2", "gap"), [(1.0, np.inf, 4.7235, 3.7786451e-3), (0.7, 1.5, 3.3597, 8.9772419e-3)]
)
def test_g6_real(share, power_budget, n_2, gap):
    problem = g6(energy_budget_j=share * ENERGY_J, power_budget_w=power_budget)
    found = allocate(problem, whole=False)
    assert found.n_extra == pytest.approx([0, n_2, 0], abs=2e-4)
    assert found.gap == pytest.approx(gap, rel=1e-7)
    assert found.gap <= allocate(problem).gap


def test_the_closed_form_where_energy_is_plenty():
    problem = g6(energy_budget_j=100.0)
    root = np.sqrt(problem.noise_cost)
    power = least_noise(problem, 99.0)
    np.testing.assert_allclose(power, 1.5 * root / root.sum(), rtol=1e-12)
    assert problem.noise(power) == pytest.approx(root.sum() ** 2 / 1.5, rel=1e-12)
    literal = g6(energy_budget_j=100.0, reading="literal")
    np.testing.assert_allclose(least_noise(literal, 99.0) ** 2, 1.5 * root / root.sum(), rtol=1e-12)


@settings(max_examples=25)
@given(SEEDS, READINGS)
def test_the_power_step_agrees_with_slsqp(seed, reading):
    problem = random_problem(seed, reading=reading)
    n = problem.n_clusters
    upload_j = problem.energy_budget_j - problem.compute_j(np.zeros(n))
    power = least_noise(problem, upload_j)
    floor = np.log(problem.power_floor_w)
    scale = problem.noise(power)
    limits = [{"type": "ineq", "fun": lambda u: 1 - problem.upload_j(np.exp(u)).sum() / upload_j}]
    if np.isfinite(problem.power_budget_w):
        limits.append({"type": "ineq", "fun": lambda u: 1 - problem.power_w(np.exp(u)) / problem.power_budget_w})
    found = minimize(
        lambda u: np.log(problem.noise(np.exp(u)) / scale),
        np.full(n, floor + 1),
        method="SLSQP",
        bounds=[(floor, 5)] * n,
        constraints=limits,
        options={"ftol": 1e-13, "maxiter": 500},
    )
    feasible = all(limit["fun"](found.x) > -1e-7 for limit in limits)
    if feasible:  # SLSQP may stop early, but never below
        assert found.fun > -1e-6
    assert problem.upload_j(power).sum() <= upload_j * (1 + 1e-9)
    assert problem.power_w(power) <= problem.power_budget_w * (1 + 1e-9)


@settings(max_examples=25)
@given(SEEDS, READINGS)
def test_whole_updates_agree_with_enumeration(seed, reading):
    problem = random_problem(seed, n=2 + seed % 2, reading=reading)
    assert allocate(problem).gap == pytest.approx(best_by_enumeration(problem).gap, rel=1e-9)


@pytest.mark.slow
@settings(max_examples=16)
@given(SEEDS, READINGS, st.booleans())
def test_every_allocation_is_feasible_and_no_random_point_is_better(seed, reading, whole):
    problem = random_problem(seed, reading=reading)
    found = allocate(problem, whole=whole)
    assert problem.violations(found.power_w, found.n_extra) == []
    assert found.energy_j <= problem.energy_budget_j * (1 + 1e-9)
    random = np.random.default_rng(seed)
    for _ in range(200):
        power, n = random_feasible(problem, random)
        if whole:
            power, n = to_whole(problem, power, n)
            np.testing.assert_array_equal(n, np.rint(n))
        assert problem.violations(power, n) == []
        assert found.gap <= problem.gap(power, n) * (1 + 1e-9)


@pytest.mark.slow
@settings(max_examples=8)
@given(SEEDS)
def test_real_updates_are_a_lower_bound_and_more_budget_never_hurts(seed):
    problem = random_problem(seed)
    whole = allocate(problem)
    assert allocate(problem, whole=False).gap <= whole.gap * (1 + 1e-9)
    for name in ("energy_budget_j", "power_budget_w"):
        richer = dataclasses.replace(problem, **{name: 1.3 * getattr(problem, name)})
        assert allocate(richer).gap <= whole.gap * (1 + 1e-9)


def test_the_reference_is_never_better_where_it_is_feasible():
    problem = g6()
    assert allocate(problem).gap <= problem.gap(*BENCHMARK_2)
    gated = dataclasses.replace(problem, cap=[0, 5, 0])
    assert allocate(gated).gap >= allocate(problem).gap


def test_updates_alone_fill_the_energy_that_given_powers_leave():
    problem = g6(cap=[9, 9, 9])
    found = allocate(problem, power_w=[0.5, 0.5, 0.5])
    assert found.power_w.tolist() == [0.5, 0.5, 0.5]
    # 0.18 J are left for extra updates: b per joule is 0.220, 0.246, 0.137
    assert found.n_extra.tolist() == [0, 9, 0]
    assert allocate(g6(), power_w=[0.5] * 3).n_extra.tolist() == [2, 5, 0]  # all of benchmark 2
    real = allocate(problem, power_w=[0.5, 0.5, 0.5], whole=False)
    assert real.n_extra == pytest.approx([0, 9, 0], abs=1e-6)
    assert real.gap <= found.gap * (1 + 1e-9)


def test_without_caps_all_computing_goes_to_one_cluster():
    found = allocate(g6(cap=[50, 50, 50], energy_budget_j=0.6), whole=False)
    assert (found.n_extra > 1e-9).sum() == 1


def test_the_contraction_stays_above_zero():
    problem = g6(mu=0.9, lr=0.3, cap=[9, 9, 9], energy_budget_j=5.0, power_budget_w=9.0)
    assert problem.contraction([9, 9, 9]) < 0
    for whole in (True, False):
        found = allocate(problem, whole=whole)
        assert found.contraction + 1e-9 >= 0
    assert allocate(problem).gap == pytest.approx(best_by_enumeration(problem).gap, rel=1e-9)
    assert allocate(problem, whole=False).contraction == pytest.approx(0, abs=1e-9)


def test_free_updates_are_all_done():
    problem = g6(update_j=[0.0, 0.02, 0.0], cap=[4, 4, 4])
    for whole in (True, False):
        assert allocate(problem, whole=whole).n_extra[[0, 2]].tolist() == [4, 4]


def test_the_optimum_for_ever_depends_neither_on_mu_nor_on_the_missing_factor():
    problem = g6(power_budget_w=np.inf)
    for other in (g6(power_budget_w=np.inf, mu=0.05), g6(power_budget_w=np.inf, bound="corrected")):
        np.testing.assert_allclose(allocate(other).power_w, allocate(problem).power_w, rtol=1e-9)
        assert allocate(other).n_extra.tolist() == allocate(problem).n_extra.tolist()


def test_twelve_clusters_are_solved():
    problem = random_problem(5, n=12, cap=9)
    found = allocate(problem)
    assert allocate(problem, whole=False).gap <= found.gap * (1 + 1e-9)


def test_projection_keeps_what_is_feasible_and_mends_the_rest():
    problem = g6()
    power, n = project(problem, [0.4, 0.4, 0.4], [1.0, 2.5, 0.0])
    assert power.tolist() == [0.4] * 3 and n.tolist() == [1.0, 2.5, 0.0]
    power, n = project(problem, [1.0, 2.0, 3.0], [9, 9, 9])
    np.testing.assert_allclose(power, [0.25, 0.5, 0.75], rtol=1e-9)
    assert n[0] / n[1] == pytest.approx(2 / 5) and n[2] == 0
    tight = g6(energy_budget_j=0.12, power_budget_w=50.0)
    power, n = project(tight, [10.0, 20.0, 20.0], [2, 5, 0])
    assert n.tolist() == [0, 0, 0] and power[1] == pytest.approx(2 * power[0])
    assert tight.energy_j(power, n) == pytest.approx(0.12, rel=1e-9)


@settings(max_examples=50)
@given(SEEDS, READINGS)
def test_projection_of_anything_is_feasible_and_of_that_the_same(seed, reading):
    problem = random_problem(seed, reading=reading)
    random = np.random.default_rng(seed)
    power, n = project(
        problem, 10 ** random.uniform(-8, 3, problem.n_clusters), random.uniform(-2, 20, problem.n_clusters)
    )
    assert problem.violations(power, n) == []
    again = project(problem, power, n)
    np.testing.assert_allclose(again[0], power, rtol=1e-9)
    np.testing.assert_allclose(again[1], n, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: allocate(g6(energy_budget_j=0.09)), "raise energy_budget_j above"),
        (lambda: allocate(g6(), power_w=[1] * 3, n_extra=[0] * 3), "give power_w or n_extra, not both"),
        (lambda: allocate(g6(), n_extra=[3, 0, 0]), "these extra updates are not feasible at any power: extra updates"),
        (lambda: allocate(g6(), power_w=[1, 1, 1]), "this allocation is not feasible: power 3 W exceeds the budget"),
        (lambda: least_noise(g6(), 1e-4), "J however low the power, and 0.0001 J is left for them"),
    ],
)
def test_what_cannot_be_is_refused(call, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        call()


def test_what_rounding_down_saves_is_sent_with():
    problem = g6(power_budget_w=np.inf)
    power, n = to_whole(problem, [0.5, 0.5, 0.5], [1.5, 4.4, 0])
    np.testing.assert_array_equal(n, [1, 4, 0])
    assert problem.energy_j(power, n) == pytest.approx(problem.energy_budget_j, rel=1e-9) and (power > 0.5).all()
    assert power == pytest.approx(power[0])  # by one factor
    limited, _ = to_whole(g6(power_budget_w=1.6), [0.5, 0.5, 0.5], [1.5, 4.4, 0])
    assert limited.sum() == pytest.approx(1.6, rel=1e-9) and limited.sum() <= 1.6
    same, n = to_whole(problem, [0.1, 0.2, 0.3], [1, 2, 0])  # whole and affordable: as it is
    np.testing.assert_allclose(same, [0.1, 0.2, 0.3], rtol=1e-15)


@settings(max_examples=60)
@given(SEEDS)
def test_powers_that_use_the_budget_up_leave_no_extra_updates(seed):
    # energy spent to the last digit: rounding may leave less than nothing, also where computing is free
    problem = random_problem(seed)
    power = np.random.default_rng(seed).uniform(0.1, 1.0, problem.n_clusters)
    for update_j in (problem.update_j, np.zeros(problem.n_clusters)):
        now = dataclasses.replace(problem, update_j=update_j, power_budget_w=np.inf)
        spent = float(now.upload_j(power).sum()) + now.compute_j(np.zeros(now.n_clusters))
        for budget in (spent, np.nextafter(spent, 0)):
            found = allocate(dataclasses.replace(now, energy_budget_j=float(budget)), power_w=power)
            assert not (np.asarray(update_j) * found.n_extra).any()

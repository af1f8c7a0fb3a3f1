"""PPO on the instance by hand: as good as the direct solver, repeatable, and without traces."""

import builtins
import random
import re

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.utils.env_checker import check_env
from instance import BENCHMARK_2, ENERGY_J, g6

from fedloom.allocation import PpoSettings, allocate, learn_allocation, random_allocation
from fedloom.allocation.environment import AllocationEnv
from fedloom.allocation.projection import project, top_power_w

SHORT = PpoSettings(n_episodes=4, episode=16, rollout=32, batch=32)


def env_of(**changes):
    return AllocationEnv(g6(**changes), BENCHMARK_2, penalty=10.0, episode=3)


@pytest.mark.full  # each takes half a minute
@pytest.mark.parametrize(
    "changes",
    [{}, {"power_budget_w": np.inf}, {"energy_budget_j": 0.7 * ENERGY_J}],
    ids=["i", "ii", "iii"],
)
def test_it_comes_within_two_percent_of_the_optimum(changes):
    problem = g6(**changes)
    found = learn_allocation(problem, BENCHMARK_2, seed=0)
    assert found.n_evaluations <= 10_000
    best = allocate(problem).gap
    assert 1 - 1e-9 <= found.best.gap / best <= 1.02
    assert found.final.gap / best <= 1.05
    drawn = random_allocation(problem, n_evaluations=2000, rng=np.random.default_rng(0))
    assert found.best.gap <= drawn.gap


def test_the_same_seed_gives_the_same_allocation_and_progress_is_told():
    told = []
    one = learn_allocation(g6(), BENCHMARK_2, settings=SHORT, seed=3, progress=lambda n, gap: told.append((n, gap)))
    two = learn_allocation(g6(), BENCHMARK_2, settings=SHORT, seed=3)
    other = learn_allocation(g6(), BENCHMARK_2, settings=SHORT, seed=4)
    np.testing.assert_array_equal(one.best.power_w, two.best.power_w)
    np.testing.assert_array_equal(one.final.power_w, two.final.power_w)
    assert (one.best.power_w != other.best.power_w).any()
    assert [n for n, _ in told] == [32, 64] and one.n_evaluations == 64
    assert told[0][1] >= told[1][1] >= one.best.gap
    assert g6().violations(one.best.power_w, one.best.n_extra) == []
    assert one.best.gap <= one.final.gap


def test_threads_and_global_generators_are_as_before():
    threads = torch.get_num_threads()
    states = random.getstate(), np.random.get_state()[1].copy(), torch.get_rng_state()  # noqa: NPY002
    learn_allocation(g6(), BENCHMARK_2, settings=SHORT, seed=1)
    assert torch.get_num_threads() == threads
    assert random.getstate() == states[0]
    np.testing.assert_array_equal(np.random.get_state()[1], states[1])  # noqa: NPY002
    assert torch.equal(torch.get_rng_state(), states[2])


def test_without_the_extra_the_error_names_it(monkeypatch):
    real = builtins.__import__

    def without(name, *rest):
        if name.split(".")[0] == "stable_baselines3":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ImportError, match=re.escape("pip install 'fedloom[allocation]'")):
        learn_allocation(g6(), BENCHMARK_2)


def test_random_search_is_feasible_and_no_better_than_the_optimum():
    problem = g6()
    found = random_allocation(problem, n_evaluations=50, rng=np.random.default_rng(1))
    assert problem.violations(found.power_w, found.n_extra) == []
    assert found.gap >= allocate(problem).gap * (1 - 1e-9)
    again = random_allocation(problem, n_evaluations=100, rng=np.random.default_rng(1))
    assert again.gap <= found.gap


@pytest.mark.filterwarnings("ignore:.*(recommend using a symmetric|infinity):UserWarning")  # actions before a sigmoid
def test_the_environment_is_one_of_gymnasium():
    check_env(env_of(), skip_render_check=True)


def test_the_first_state_is_the_reference():
    state, _ = env_of().reset()
    np.testing.assert_allclose(state, [1, 1, 1, 1, 1, 0, 0, 1], atol=1e-6)


def test_actions_span_powers_and_updates():
    env = env_of()
    power, n = env.proposal(np.full(6, -50.0))
    np.testing.assert_allclose(power, 1e-6, rtol=1e-9)
    np.testing.assert_allclose(n, 0, atol=1e-9)
    power, n = env.proposal(np.full(6, 50.0))
    np.testing.assert_allclose(power, 1.5, rtol=1e-9)
    np.testing.assert_allclose(n, [2, 5, 0], rtol=1e-9)
    power, n = env.proposal(np.zeros(6))
    np.testing.assert_allclose(power, np.sqrt(1e-6 * 1.5), rtol=1e-9)


def test_the_reward_is_the_gap_of_the_projection_less_the_overuse_of_the_proposal():
    env, problem = env_of(), g6()
    env.reset()
    action = np.array([4.0, 3.0, 3.5, 1.0, 2.0, 0.0])
    power, n = env.proposal(action)
    energy, used = problem.energy_j(power, n), problem.power_w(power)
    assert used > 1.5
    mended = project(problem, power, n)
    over = max(0, energy / problem.energy_budget_j - 1) + used / 1.5 - 1
    expected = -np.log(problem.gap(*mended) / problem.gap(*BENCHMARK_2)) - 10 * over
    state, reward, terminated, truncated, _ = env.step(action)
    assert reward == pytest.approx(expected, rel=1e-9)
    assert not terminated and not truncated
    np.testing.assert_allclose(state[:3], mended[0] / 0.5, rtol=1e-5)
    env.step(action)
    assert env.step(action)[3]  # three steps are an episode
    assert env.n_steps == 3 and env.best is not None
    np.testing.assert_array_equal(env.best.n_extra, np.rint(env.best.n_extra))


def test_without_a_power_budget_the_energy_limits_proposals():
    problem = g6(power_budget_w=np.inf)
    top = top_power_w(problem)
    assert problem.upload_j(np.full(3, top)).min() == pytest.approx(problem.energy_budget_j, rel=1e-9)
    assert isinstance(AllocationEnv(problem, BENCHMARK_2).action_space, gymnasium.spaces.Box)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: PpoSettings(n_episodes=0), "n_episodes must be a whole number of at least 1, got 0"),
        (lambda: PpoSettings(discount=1.0), "discount must be in [0, 1), got 1"),
        (lambda: PpoSettings(lr=0.0), "lr must be above 0, got 0"),
        (
            lambda: learn_allocation(g6(), ([0.5], [1]), settings=SHORT),
            "reference powers must have shape (3), got (1,)",
        ),
        (lambda: learn_allocation(g6(energy_budget_j=0.05), BENCHMARK_2), "raise energy_budget_j above"),
    ],
)
def test_wrong_arguments_say_what_is_wrong(call, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        call()

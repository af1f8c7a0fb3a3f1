"""An instance of CAMU's P1 that was worked out by hand, and random ones."""

import dataclasses

import numpy as np

from fedloom.allocation import Problem
from fedloom.radio import free_space_gain

BENCHMARK_2 = ([0.5, 0.5, 0.5], [2, 5, 0])
ENERGY_J = 0.3773818580


def g6(**changes):
    """Three clusters at 42, 50 and 66 m; the energy of benchmark 2, 1.5 W in all."""
    problem = Problem(
        weight=[0.5, 0.3, 0.2],
        delta_c=[1.2, 1.1, 1.4],
        concentration=[0.5, 0.25, 1.0],
        gain=15 * free_space_gain(np.array([42.0, 50.0, 66.0])),
        update_j=[0.04, 0.02, 0.03],
        cap=[2, 5, 0],
        energy_budget_j=1.0,
        power_budget_w=1.5,
        n_params=21_880,
        lr=0.05,
    )
    return dataclasses.replace(problem, **{"energy_budget_j": problem.energy_j(*BENCHMARK_2), **changes})


def random_problem(seed, n=None, **changes):
    """Budgets between the least possible and what everything would take; either, both or none may bind."""
    random = np.random.default_rng(seed)
    n = n or int(random.integers(1, 5))
    weight = random.dirichlet(np.full(n, 3.0)).clip(0.01)
    problem = Problem(
        weight=weight / weight.sum(),
        delta_c=random.uniform(1, 1.5, n),
        concentration=random.uniform(0.1, 1, n),
        gain=15 * free_space_gain(random.uniform(40, 75, n)),
        update_j=random.uniform(0, 0.1, n),
        cap=random.integers(0, 5, n),
        energy_budget_j=1.0,
        power_budget_w=1.0,
        n_params=int(random.integers(1000, 40_000)),
        lr=float(random.uniform(0.01, 0.2)),
        bandwidth_hz=random.uniform(0.5e6, 2e6, n),
        horizon=None if random.uniform() < 0.5 else int(random.integers(1, 300)),
    )
    problem = dataclasses.replace(problem, **changes)
    floor = np.full(n, problem.power_floor_w)
    least = problem.energy_j(floor, np.zeros(n))
    most = problem.energy_j(np.full(n, 1.0), problem.cap)
    return dataclasses.replace(
        problem,
        energy_budget_j=least + float(random.uniform(0.02, 1.2)) * (most - least),
        power_budget_w=float(np.inf if random.uniform() < 0.2 else n * 10 ** random.uniform(-3, 0.3)),
    )

"""Power and updates by the direct solver and by PPO, on an instance of CAMU's P1 by hand: GAP over the optimum, and seconds.

Target: PPO within 2 % of the optimum after at most 10,000 proposals. Random search makes as many.

python benchmarks/allocation.py [--json] [--small]
"""

import dataclasses
import json
import sys
import time

import numpy as np

from conditions import conditions
from fedloom.allocation import PpoSettings, Problem, allocate, learn_allocation, random_allocation
from fedloom.radio import free_space_gain

REFERENCE = ([0.5, 0.5, 0.5], [2, 5, 0])
CASES = {"1.5 W": (1.0, 1.5), "no power limit": (1.0, np.inf), "0.7 of the energy": (0.7, 1.5)}


def instance(share: float, power_budget_w: float) -> Problem:
    problem = Problem(
        weight=np.array([0.5, 0.3, 0.2]),
        delta_c=np.array([1.2, 1.1, 1.4]),
        concentration=np.array([0.5, 0.25, 1.0]),
        gain=15 * free_space_gain(np.array([42.0, 50.0, 66.0])),
        update_j=np.array([0.04, 0.02, 0.03]),
        cap=np.array([2.0, 5.0, 0.0]),
        energy_budget_j=1.0,
        power_budget_w=power_budget_w,
        n_params=21_880,
        lr=0.05,
    )
    return dataclasses.replace(problem, energy_budget_j=share * problem.energy_j(*REFERENCE))


def main() -> None:
    settings = PpoSettings(n_episodes=50) if "--small" in sys.argv else PpoSettings()
    out: dict[str, object] = {}
    allocate(instance(1.0, 1.5))  # imports
    for name, (share, power_budget_w) in CASES.items():
        problem = instance(share, power_budget_w)
        start = time.perf_counter()
        whole = allocate(problem)
        middle = time.perf_counter()
        real = allocate(problem, whole=False)
        real_s = time.perf_counter() - middle
        cpu, wall = time.process_time(), time.perf_counter()
        learned = learn_allocation(problem, REFERENCE, settings=settings, seed=0)
        cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
        drawn = random_allocation(problem, n_evaluations=learned.n_evaluations, rng=np.random.default_rng(0))
        out[name] = {
            "direct_s": middle - start,
            "real_s": real_s,
            "ppo_s": wall,
            "ppo_cpu_s": cpu,
            "proposals": learned.n_evaluations,
            "gap": whole.gap,
            "real_over_whole": real.gap / whole.gap,
            "ppo_over_whole": learned.best.gap / whole.gap,
            "ppo_final_over_whole": learned.final.gap / whole.gap,
            "random_over_whole": drawn.gap / whole.gap,
        }
        if "--json" not in sys.argv:
            print(
                f"{name}: GAP {whole.gap:.4e} in {middle - start:.3f} s; "
                f"real updates {real.gap / whole.gap:.4f} in {real_s:.2f} s; "
                f"PPO {learned.best.gap / whole.gap:.4f} (its last policy {learned.final.gap / whole.gap:.4f}) in {wall:.0f} s, "
                f"{cpu:.0f} s of CPU, {learned.n_evaluations:,} proposals; random {drawn.gap / whole.gap:.4f}",
                flush=True,
            )
    where = conditions()
    print(json.dumps(out | where) if "--json" in sys.argv else " ".join(where.values()))


if __name__ == "__main__":
    main()

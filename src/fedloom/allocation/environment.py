"""P1 as a game of a learner: propose powers and updates, see what they cost and give (CAMU, eqs 24 to 27).

    state   P / P_ref, n / cap, log10(GAP / GAP_ref), E / E_total     of the step before; first: the reference allocation
    action  2 C real numbers; a sigmoid maps them to ln P and to n
    reward  -ln(GAP / GAP_ref) - penalty (overuse of energy + overuse of power)

GAP is that of the projected proposal, overuse that of the proposal itself, as a share of the budget. Needs gymnasium.
"""

from typing import Any

import gymnasium
import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedloom import _check
from fedloom.allocation.problem import Allocation, Problem
from fedloom.allocation.projection import project, to_whole, top_power_w

Floats = NDArray[np.float64]
State = NDArray[np.float32]

REACH = 10.0  # of an action: sigmoid(10) is 1 up to 5e-5


class AllocationEnv(gymnasium.Env[State, State]):
    """The game; `best` is the best allocation of whole updates seen so far, `n_steps` the proposals made."""

    def __init__(
        self, problem: Problem, reference: tuple[ArrayLike, ArrayLike], *, penalty: float = 0.3, episode: int = 32
    ) -> None:
        """reference: powers (C,) and extra updates (C,) by which states and rewards are scaled; it need not be feasible."""
        problem.check_feasible()
        _check.positive("penalty", penalty, zero=True)
        _check.whole("episode", episode)
        n = problem.n_clusters
        self.problem, self.penalty, self.episode = problem, penalty, episode
        self.reference_w = _check.array("reference powers", reference[0], (n,))
        self.reference_n = _check.array("reference updates", reference[1], (n,))
        self.reference_gap = problem.gap(self.reference_w, self.reference_n)
        self.top_w = top_power_w(problem)
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (2 * n + 2,), np.float32)
        self.action_space = gymnasium.spaces.Box(-REACH, REACH, (2 * n,), np.float32)
        self.best: Allocation | None = None
        self.n_steps = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[State, dict[str, Any]]:
        super().reset(seed=seed)
        self._left = self.episode
        return self._state(self.reference_w, self.reference_n), {}

    def step(self, action: State) -> tuple[State, float, bool, bool, dict[str, Any]]:
        power, n = self.proposal(action)
        problem = self.problem
        over = max(0.0, problem.energy_j(power, n) / problem.energy_budget_j - 1)
        over += max(0.0, problem.power_w(power) / problem.power_budget_w - 1)
        power, n = project(problem, power, n)
        reward = -float(np.log(problem.gap(power, n) / self.reference_gap)) - self.penalty * over
        self.keep(power, n)
        self.n_steps += 1
        self._left -= 1
        return self._state(power, n), reward, False, self._left == 0, {}

    def proposal(self, action: State) -> tuple[Floats, Floats]:
        """Powers (C,) between the floor and the most, and real updates (C,) up to the caps, of an action (2 C,)."""
        share = 1 / (1 + np.exp(-np.asarray(action, dtype=np.float64)))
        low, high = np.log(self.problem.power_floor_w), np.log(self.top_w)
        half = len(share) // 2
        return np.exp(low + share[:half] * (high - low)), share[half:] * self.problem.cap

    def keep(self, power: Floats, n: Floats) -> Allocation:
        """The allocation of whole updates near this one, remembered if it is the best."""
        whole = self.problem.allocation(*to_whole(self.problem, power, n))
        if self.best is None or whole.gap < self.best.gap:
            self.best = whole
        return whole

    def _state(self, power: Floats, n: Floats) -> State:
        return np.concatenate(
            [
                power / self.reference_w,
                n / np.maximum(self.problem.cap, 1),
                [np.log10(self.problem.gap(power, n) / self.reference_gap)],
                [self.problem.energy_j(power, n) / self.problem.energy_budget_j],
            ]
        ).astype(np.float32)

"""P1 by proximal policy optimisation, as published, with stable-baselines3 (CAMU, eqs 28 to 31).

    advantage   A_n = r_n + discount V(s_n+1) - V(s_n), normalised in each batch
    objective   mean of min(ratio A, clip(ratio, 1 - eps, 1 + eps) A)
    value       mean of (V(s_n) - (r_n + discount V(s_n+1)))^2

Only eps = 0.2 is published; the rest are our defaults. The direct solver in `direct` is faster and exact: this is here
to be compared with it. Needs the extra `allocation`. The result depends on the seed and the problem alone; one thread
is used, and torch's threads and all global random generators are as before afterwards.
"""

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fedloom import _check
from fedloom.allocation.problem import Allocation, Problem
from fedloom.allocation.projection import to_whole, top_power_w

Progress = Callable[[int, float], None]


@dataclass(frozen=True, kw_only=True)
class PpoSettings:
    """Proposals are n_episodes x episode; the networks are updated every `rollout` of them, `epochs` times over.

    penalty: of a proposal's overuse. Projection keeps the budgets anyway, so a little is enough: without any the policy gets lost
    where all energy would go into uploads, with 10 it stays away from the budgets, where the best allocations are.
    """

    n_episodes: int = 300
    episode: int = 32
    rollout: int = 64
    epochs: int = 10
    batch: int = 64
    lr: float = 1e-3
    discount: float = 0.9
    clip: float = 0.2
    entropy: float = 0.01
    most_gradient: float = 0.5
    log_std: float = -0.5
    hidden: tuple[int, ...] = (64, 64)
    penalty: float = 0.3

    def __post_init__(self) -> None:
        for name in ("n_episodes", "episode", "rollout", "epochs", "batch"):
            _check.whole(name, getattr(self, name))
        for name in ("lr", "clip", "most_gradient"):
            _check.positive(name, getattr(self, name))
        if not 0 <= self.discount < 1:
            raise ValueError(f"discount must be in [0, 1), got {self.discount:g}")


@dataclass(frozen=True, kw_only=True, eq=False)
class PpoResult:
    """best: the best allocation of whole updates proposed; final: what the trained policy proposes in the first state."""

    best: Allocation
    final: Allocation
    n_evaluations: int


def learn_allocation(
    problem: Problem,
    reference: tuple[ArrayLike, ArrayLike],
    *,
    settings: PpoSettings | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> PpoResult:
    """The best allocation a learner finds. reference: powers (C,) and extra updates (C,) that states and rewards are
    scaled by.

    progress: called after every rollout with the proposals made so far and the smallest GAP.
    """
    settings = settings or PpoSettings()
    try:
        from stable_baselines3 import PPO
        from stable_baselines3.common.callbacks import BaseCallback

        from fedloom.allocation.environment import AllocationEnv
    except ImportError as error:
        raise ImportError(
            f"PPO needs gymnasium and stable-baselines3 ({error.name} is missing); install the extra: "
            "pip install 'fedloom[allocation]'. The direct solver, allocate(), needs neither"
        ) from error

    class Report(BaseCallback):
        def _on_step(self) -> bool:
            return True

        def _on_rollout_end(self) -> None:
            if progress is not None and env.best is not None:
                progress(env.n_steps, env.best.gap)

    env = AllocationEnv(problem, reference, penalty=settings.penalty, episode=settings.episode)
    with _untouched():
        model: Any = PPO(
            "MlpPolicy",
            env,
            learning_rate=settings.lr,
            n_steps=settings.rollout,
            batch_size=settings.batch,
            n_epochs=settings.epochs,
            gamma=settings.discount,
            gae_lambda=0.0,
            clip_range=settings.clip,
            ent_coef=settings.entropy,
            max_grad_norm=settings.most_gradient,
            policy_kwargs={"net_arch": list(settings.hidden), "log_std_init": settings.log_std},
            seed=seed,
            device="cpu",
        )
        model.learn(settings.n_episodes * settings.episode, callback=Report())
        action, _ = model.predict(env.reset()[0], deterministic=True)
    final = env.keep(*env.proposal(action))
    return PpoResult(best=env.best or final, final=final, n_evaluations=env.n_steps)


def random_allocation(problem: Problem, *, n_evaluations: int, rng: np.random.Generator) -> Allocation:
    """The best of as many proposals, even over ln P and n, each projected and made whole: what a learner must beat."""
    _check.whole("n_evaluations", n_evaluations)
    problem.check_feasible()
    low, high = np.log(problem.power_floor_w), np.log(top_power_w(problem))

    def draw() -> Allocation:
        power = np.exp(rng.uniform(low, high, problem.n_clusters))
        return problem.allocation(*to_whole(problem, power, rng.uniform(0, problem.cap)))

    return min((draw() for _ in range(n_evaluations)), key=lambda found: found.gap)


@contextmanager
def _untouched() -> Iterator[None]:
    """One thread, and random generators that are afterwards as they were."""
    import torch

    threads, states = torch.get_num_threads(), (random.getstate(), np.random.get_state(), torch.get_rng_state())  # noqa: NPY002
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
        random.setstate(states[0])
        np.random.set_state(states[1])  # noqa: NPY002
        torch.set_rng_state(states[2])

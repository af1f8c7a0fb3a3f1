"""Server optimisers: what is done with the step from the old model to the merged one, instead of just taking it.

    D = merged - old                                             the step
    momentum   m = beta m + D                                    move = lr m
    adagrad    m = beta_1 m + (1 - beta_1) D,  v = v + D^2       move = lr m / (sqrt(v) + tau)
    adam       m as above,  v = beta_2 v + (1 - beta_2) D^2      move as above
    yogi       m as above,  v = v - (1 - beta_2) D^2 sign(v - D^2)
    new = old + move

Momentum: T.-M. H. Hsu, H. Qi, M. Brown, "Measuring the Effects of Non-Identical Data Distribution for Federated Visual
Classification", 2019. The others: S. J. Reddi et al., "Adaptive Federated Optimization", ICLR 2021, Algorithm 2, without
correction of the bias, v beginning at tau^2. The new model is written as merged + (move - D), so that a momentum of zero with
lr 1 gives the merged model to the bit. Values that are not trained (statistics of normalisations) are the merged model's.

An optimiser is an option of a merge: CloudLinear(then=Adam()) at the cloud, Linear(then=Momentum()) at every aggregator, each
with moments of its own, which begin anew when aggregators do. The step of a merge of late or asynchronous updates is one as any
other. m and v are kept as float32, as models are.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from fedloom import _check

Floats = NDArray[np.float64]
MOST_TAU = 1e6


class ServerStep(Protocol):
    """begins: the value that each moment has in the beginning, everywhere."""

    @property
    def begins(self) -> tuple[float, ...]: ...
    def moments(self, step: Floats, before: Sequence[Floats]) -> tuple[Floats, ...]:
        """The moments (P,) after a step (P,), from those before it."""
        ...

    def move(self, step: Floats, moments: Sequence[Floats]) -> Floats:
        """By how much the model changes (P,), from the moments after the step."""
        ...


@dataclass(frozen=True, kw_only=True)
class Momentum:
    """m = beta m + D, move = lr m."""

    lr: float = 1.0
    """How much of the moment is taken; more than 1 goes farther than the clients did."""
    beta: float = 0.9
    """How much of the moment before is kept, 0 to 1."""

    def __post_init__(self) -> None:
        _check.positive("lr", self.lr)
        _share("beta", self.beta)

    @property
    def begins(self) -> tuple[float, ...]:
        return (0.0,)

    def moments(self, step: Floats, before: Sequence[Floats]) -> tuple[Floats, ...]:
        return (self.beta * before[0] + step,)

    def move(self, step: Floats, moments: Sequence[Floats]) -> Floats:
        return self.lr * moments[0]


@dataclass(frozen=True, kw_only=True)
class _Adaptive:
    """What Adagrad, Adam and Yogi have in common."""

    lr: float = 0.03
    """Size of a move where the step is as usual: each value moves by about lr."""
    beta_1: float = 0.9
    """How much of the mean of steps before is kept."""
    tau: float = 1e-3
    """Steps smaller than this are not blown up."""

    @property
    def begins(self) -> tuple[float, ...]:
        return (0.0, self.tau**2)

    def move(self, step: Floats, moments: Sequence[Floats]) -> Floats:
        mean, square = moments
        return np.asarray(self.lr * mean / (np.sqrt(square) + self.tau))

    def _mean(self, step: Floats, before: Floats) -> Floats:
        return self.beta_1 * before + (1 - self.beta_1) * step


@dataclass(frozen=True, kw_only=True)
class Adagrad(_Adaptive):
    """v = v + D^2."""

    def __post_init__(self) -> None:
        _checked(self)

    def moments(self, step: Floats, before: Sequence[Floats]) -> tuple[Floats, ...]:
        return self._mean(step, before[0]), before[1] + step**2


@dataclass(frozen=True, kw_only=True)
class Adam(_Adaptive):
    """v = beta_2 v + (1 - beta_2) D^2."""

    beta_2: float = 0.99
    """How much of the mean of squares before is kept."""

    def __post_init__(self) -> None:
        _checked(self)
        _share("beta_2", self.beta_2)

    def moments(self, step: Floats, before: Sequence[Floats]) -> tuple[Floats, ...]:
        return self._mean(step, before[0]), self.beta_2 * before[1] + (1 - self.beta_2) * step**2


@dataclass(frozen=True, kw_only=True)
class Yogi(_Adaptive):
    """v = v - (1 - beta_2) D^2 sign(v - D^2): it grows as Adam's, and falls no faster than the squares are."""

    beta_2: float = 0.99
    """As Adam's."""

    def __post_init__(self) -> None:
        _checked(self)
        _share("beta_2", self.beta_2)

    def moments(self, step: Floats, before: Sequence[Floats]) -> tuple[Floats, ...]:
        square = step**2
        grown = before[1] - (1 - self.beta_2) * square * np.sign(before[1] - square)
        return self._mean(step, before[0]), grown


def stepped(then: ServerStep, old: Floats, merged: Floats, before: Sequence[Floats]) -> Floats:
    """The new model (P,), from the old and the merged one and the moments before the step."""
    step = merged - old
    return np.asarray(merged + (then.move(step, then.moments(step, before)) - step))


def _checked(then: _Adaptive) -> None:
    _check.positive("lr", then.lr)
    _check.positive("tau", then.tau)
    if then.tau > MOST_TAU:
        raise ValueError(f"tau must be at most {MOST_TAU:g}, as steps are small, got {then.tau:g}")
    _share("beta_1", then.beta_1)


def _share(name: str, value: float) -> None:
    if not 0 <= value < 1:
        raise ValueError(f"{name} must be at least 0 and less than 1, got {value:g}")

"""How a client trains: learning rate and its schedule, momentum, weight decay, proximal term, clipping.

    g_j = grad F(w_j; batch) + proximal (w_j - w_start)
    g_j = g_j min(1, clip_norm / (||g_j|| + 1e-6))            if clip_norm (as torch.nn.utils.clip_grad_norm_)
    m_j = momentum m_{j-1} + g_j + weight_decay w_j,  m_{-1} = 0   (as torch.optim.SGD, buffers fresh in every job)
    w_{j+1} = w_j - lr(t) m_j

`t` counts local steps of the model's history, so all clients of a round share one schedule.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from fedloom import _check


@dataclass(frozen=True, kw_only=True)
class Constant:
    """lr(t) = lr_0."""

    def factor(self, t: NDArray[np.int64]) -> NDArray[np.float64]:
        return np.ones(len(t))


@dataclass(frozen=True, kw_only=True)
class Exponential:
    """lr(t) = lr_0 ratio^floor(t / every_steps); with the steps of an epoch in `every_steps`, a decay per epoch."""

    ratio: float
    every_steps: int

    def __post_init__(self) -> None:
        _check.positive("ratio of the learning-rate decay", self.ratio)
        _check.whole("every_steps of the learning-rate decay", self.every_steps)

    def factor(self, t: NDArray[np.int64]) -> NDArray[np.float64]:
        return self.ratio ** (t // self.every_steps).astype(np.float64)


@dataclass(frozen=True, kw_only=True)
class InverseTime:
    """lr(t) = lr_0 / (1 + t / delay_steps), i.e. beta / (t + alpha) with alpha = delay_steps, beta = lr_0 alpha."""

    delay_steps: float

    def __post_init__(self) -> None:
        _check.positive("delay_steps of the learning-rate decay", self.delay_steps)

    def factor(self, t: NDArray[np.int64]) -> NDArray[np.float64]:
        return 1.0 / (1.0 + t / self.delay_steps)


Schedule = Constant | Exponential | InverseTime


@dataclass(frozen=True, kw_only=True)
class LocalRule:
    """The constants of the formulas above."""

    lr: float = 0.1
    schedule: Schedule = field(default_factory=Constant)
    momentum: float = 0.0
    weight_decay: float = 0.0
    proximal: float = 0.0
    clip_norm: float | None = None

    def __post_init__(self) -> None:
        _check.positive("lr", self.lr)
        if self.clip_norm is not None:
            _check.positive("clip_norm", self.clip_norm)
        for name in ("momentum", "weight_decay", "proximal"):
            _check.positive(name, getattr(self, name), zero=True)

    def rates(self, first_step: int, n_steps: int) -> NDArray[np.float64]:
        """Learning rates of steps first_step .. first_step + n_steps - 1, (n_steps,)."""
        return self.lr * self.schedule.factor(np.arange(first_step, first_step + n_steps))

"""How a client trains: learning rate and its schedule, momentum, weight decay, proximal term, a rule with state, clipping.

    g_j = grad F(w_j; batch) + proximal (w_j - w_start)
    g_j = what the client rule makes of it                    if there is one (fedloom.training.state)
    g_j = g_j min(1, clip_norm / (||g_j|| + 1e-6))            if clip_norm (as torch.nn.utils.clip_grad_norm_)
    m_j = momentum m_{j-1} + g_j + weight_decay w_j,  m_{-1} = 0   (as torch.optim.SGD, buffers fresh in every job)
    w_{j+1} = w_j - lr(t) m_j

With an optimiser of torch the last two lines are its, with the learning rate lr(t) and a state that is fresh in every job.

`t` counts local steps of the model's history, so all clients of a round share one schedule.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fedloom import _check
from fedloom.training.state import ClientRule

if TYPE_CHECKING:
    import torch


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


@dataclass(frozen=True)
class Optimiser:
    """One of torch.optim by the name of its class, with options, or a function that makes one of parameters.

    >>> Optimiser("AdamW", {"weight_decay": 0.1})
    Optimiser(make='AdamW', options={'weight_decay': 0.1})
    """

    make: "str | Callable[..., torch.optim.Optimizer]"
    options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if callable(self.make):
            return
        import torch

        kind = getattr(torch.optim, self.make, None)
        if not (isinstance(kind, type) and issubclass(kind, torch.optim.Optimizer)) or self.make in _UNFIT:
            fit = sorted(
                name
                for name, value in vars(torch.optim).items()
                if isinstance(value, type) and issubclass(value, torch.optim.Optimizer) and name not in _UNFIT
            )
            raise ValueError(f"optimiser must be one of {', '.join(fit)}, or a function; got {self.make!r}")
        try:
            self.of([torch.zeros(1, requires_grad=True)])
        except (TypeError, ValueError) as error:
            raise ValueError(f"options of optimiser {self.make}: {error}") from None

    def of(self, params: "Sequence[torch.Tensor]") -> "torch.optim.Optimizer":
        """A new one, without state."""
        import torch

        make: Any = self.make if callable(self.make) else getattr(torch.optim, self.make)
        optimiser: torch.optim.Optimizer = make(params, **self.options)
        return optimiser


_UNFIT = ("Optimizer", "LBFGS", "SparseAdam")  # these take several gradients a step, or other ones


@dataclass(frozen=True, kw_only=True)
class LocalRule:
    """The constants of the formulas above."""

    lr: float = 0.1
    schedule: Schedule = field(default_factory=Constant)
    momentum: float = 0.0
    weight_decay: float = 0.0
    proximal: float = 0.0
    clip_norm: float | None = None
    optimiser: Optimiser | None = None
    client: ClientRule | None = None

    def __post_init__(self) -> None:
        _check.positive("lr", self.lr)
        if self.clip_norm is not None:
            _check.positive("clip_norm", self.clip_norm)
        for name in ("momentum", "weight_decay", "proximal"):
            _check.positive(name, getattr(self, name), zero=True)
        if self.optimiser is not None and (self.momentum or self.weight_decay):
            raise ValueError(
                "momentum and weight_decay belong to the optimiser, if there is one: give them as its options"
            )

    def rates(self, first_step: int, n_steps: int) -> NDArray[np.float64]:
        """Learning rates of steps first_step .. first_step + n_steps - 1, (n_steps,)."""
        return self.lr * self.schedule.factor(np.arange(first_step, first_step + n_steps))

"""SCAFFOLD: clients correct their gradients by what they know of everybody's, so that they do not drift apart.

    y   <- y - lr (grad F_i(y) - c_i + c)                     a local step; y begins at the model x
    c_i' = c_i - c + (x - y) / (K lr)                         option II of the control update, K local steps
    c   <- c + sum_{i in S} (n_i / n) (c_i' - c_i)            S: those who were merged, n: samples of all

S. P. Karimireddy, S. Kale, M. Mohri, S. J. Reddi, S. U. Stich, A. T. Suresh, "SCAFFOLD: Stochastic Controlled Averaging for
Federated Learning", ICML 2020. A client keeps c_i; c travels beside the model, down as it is and up as c + c_i' - c_i, so models
take twice the bytes both ways. Clients count by samples, as in every average here; with equal sizes that is the published 1 / N.
K lr is the sum of the learning rates, if they change. In a hierarchy c is merged as the model is, at edges and at the cloud.
Buffers have no control variates. As published for SGD: with momentum or another optimiser (x - y) / (K lr) is not a mean
gradient.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from fedloom import _check
from fedloom.training.state import Job, State

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class Scaffold:
    """Control variates."""

    correction: float = 1.0
    """How much of c - c_i is added to a gradient: 1 as published; with 0 models are trained as without."""

    states: ClassVar[tuple[State, ...]] = (State("own"), State("everybodys", shared=True, by_share=True))
    trainings: ClassVar[int] = 1

    def __post_init__(self) -> None:
        _check.positive("correction", self.correction, zero=True)

    def gradient(self, gradient: "Tensor", job: Job) -> "Tensor":
        """grad F_i(y) - c_i + c."""
        return gradient + self.correction * (job.state["everybodys"] - job.state["own"])

    def after(self, job: Job) -> "Mapping[str, Tensor]":
        """c_i', and what is sent of c. Who did nothing has learnt nothing."""
        if job.n_steps == 0:
            return {}
        own, everybodys = job.state["own"], job.state["everybodys"]
        new = job.trained * (own - everybodys + (job.start - job.model) / job.lr_sum)
        return {"own": new, "everybodys": everybodys + (new - own)}

"""Ditto: every client has a personal model beside the shared one, and keeps it near.

    v_k <- v_k - lr (grad F_k(v_k) + pull (v_k - w))     v_k: the personal model, w: the shared one as it was fetched

T. Li, S. Hu, A. Beirami, V. Smith, "Ditto: Fair and Robust Federated Learning Through Personalization", ICML 2021, Algorithm 1.
The shared model is trained and merged as if there were no personal ones, by any method. A personal model begins as the model
that its client is sent first, is trained with as many steps on the same mini-batches, and is never sent: bytes are the same, and
computing takes twice as long. Its accuracy is measured (`personal_accuracy`, `local_by_personal`). pull = 0: everybody alone.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from fedloom import _check
from fedloom.training.state import Job, State

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class Ditto:
    """Personal models."""

    pull: float = 0.1
    """lambda: how strongly a personal model is drawn to the shared one."""

    states: ClassVar[tuple[State, ...]] = (State("personal", begins="model", measured=True),)
    trainings: ClassVar[int] = 2

    def __post_init__(self) -> None:
        _check.positive("pull", self.pull, zero=True)

    def gradient(self, gradient: "Tensor", job: Job) -> "Tensor":
        """The shared model is trained as it is."""
        return gradient

    def after(self, job: Job) -> "Mapping[str, Tensor]":
        """The personal model after its own steps."""

        def drawn(gradient: "Tensor", model: "Tensor") -> "Tensor":
            return gradient + self.pull * job.trained * (model - job.start)

        return {"personal": job.train(job.state["personal"], drawn)}

"""What a user should know when the first cloud round is over: a time box that does not fit, noise that drowns the model."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from fedloom.methods import Method
from fedloom.mixing.noise import noise_note
from fedloom.pacing import box_note
from fedloom.simulator.setting import Setting
from fedloom.simulator.world import CloudRound
from fedloom.training import rows

if TYPE_CHECKING:
    from fedloom.training.rows import AnyModel


def first_round_notes(
    state: CloudRound, method: Method, setting: Setting, *, noise_is_felt: bool
) -> Iterator[str | None]:
    """Sentences, or None where all is well. noise_is_felt: not in a dry run."""
    if method.edge.box_s is not None:
        yield box_note(method.edge.box_s, state.group_rounds, setting.world.edge_rounds)
    if state.noise_std and noise_is_felt:
        yield noise_note([state.noise_std], [1.0], _model_size(setting.model, setting.dataset.shape))


def _model_size(model: "AnyModel", shape: tuple[int, ...]) -> float:
    """Root mean square of a model's parameters. Of one that begins at zero: the size at which noise on its parameters is as loud
    in its outputs as inputs of size 1; shape: of an input."""
    trained = rows.to_row(model)[rows.trainable_mask(model)]
    rms = float(np.sqrt(np.mean(trained.astype(np.float64) ** 2)))
    return rms or float(np.prod(shape)) ** -0.5

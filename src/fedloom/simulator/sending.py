"""Models on their way: what arrives of one that is coded, and what its sender keeps for the next.

Up goes the difference to the model that had been sent down (fedloom.coding.difference), with what was left over of the sender's
last message if there is feedback; down goes the model itself. What arrives and what is left are models of the book like any
other: they are computed when somebody looks, and are in checkpoints. Where a way is not coded nothing is noted, and the model
itself arrives.

All draws of a codec come from the key of (seed, kind of message, sender, how many of this kind it had sent before).
"""

import numpy as np
from numpy.typing import NDArray

from fedloom._random import key_of
from fedloom.coding import Codec, Coding, difference, masked, restored, with_feedback
from fedloom.simulator.book import Model, Recipe, Row, derive

UPLOAD, REPORT, FETCH, HAND_DOWN = "upload", "report", "fetch", "hand-down"
"""Messages of clients to aggregators, of aggregators to the cloud, and back; those of an aggregator are the same for all its
clients."""


class Sending:
    """trainable (P,): what is coded; the rest goes as it is."""

    def __init__(self, coding: Coding, seed: int, trainable: NDArray[np.bool_] | None) -> None:
        self.coding, self._seed = coding, seed
        self._up, self._down = masked(coding.up, trainable), masked(coding.down, trainable)
        self._trainable = None if trainable is None or trainable.all() else trainable
        self._n_sent: dict[tuple[str, int], int] = {}
        self._residuals: dict[tuple[str, int], Model] = {}

    @property
    def residuals(self) -> list[Model]:
        """What senders keep for their next messages, in a fixed order."""
        return [self._residuals[sender] for sender in sorted(self._residuals)]

    def forget_aggregators(self) -> None:
        """There are new ones, who have sent nothing yet."""
        self._residuals = {sender: kept for sender, kept in self._residuals.items() if sender[0] != REPORT}

    def up(self, kind: str, sender: int, model: Model, reference: Model) -> Model:
        """What arrives of a model for which its sender had been sent the reference; what does not is its residual."""
        if not self.coding.codes_up:
            return model
        key, parts = self._key(kind, sender), [model, reference]
        if (kind, sender) in self._residuals:
            parts.append(self._residuals[kind, sender])
        if self.coding.feedback:
            self._residuals[kind, sender] = derive(parts, _left_over(self._up, key, self._trainable), steps=0)
        return derive(parts, _arrived(self._up, key, self._trainable), model.steps)

    def down(self, kind: str, sender: int, model: Model) -> Model:
        """What arrives of a model."""
        if not self.coding.codes_down:
            return model
        codec, key = self._down, self._key(kind, sender)
        return derive([model], lambda rows: codec.coded(rows[0], key), model.steps)

    def _key(self, kind: str, sender: int) -> int:
        number = self._n_sent.get((kind, sender), 0)
        self._n_sent[kind, sender] = number + 1
        return key_of(self._seed, kind, sender, number)


def _sent(codec: Codec, key: int, trainable: NDArray[np.bool_] | None, rows: list[Row]) -> tuple[Row, Row]:
    """What arrives and what is left, of a model, its reference and, if there is one, the residual of the last message."""
    change = difference(rows[0], rows[1], trainable)
    return with_feedback(codec, change, rows[2] if len(rows) > 2 else np.zeros_like(change), key)


def _arrived(codec: Codec, key: int, trainable: NDArray[np.bool_] | None) -> Recipe:
    return lambda rows: restored(_sent(codec, key, trainable, rows)[0], rows[1], trainable)


def _left_over(codec: Codec, key: int, trainable: NDArray[np.bool_] | None) -> Recipe:
    return lambda rows: _sent(codec, key, trainable, rows)[1]

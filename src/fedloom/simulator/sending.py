"""Models on their way: what arrives of one that is coded, and what its sender keeps for the next.

Up goes the difference to the model that had been sent down (fedloom.coding.difference), with what was left over of the sender's
last message if there is feedback; down goes the model itself. What arrives and what is left are models of the book like any
other: they are computed when somebody looks, and are in checkpoints. Where a way is not coded nothing is noted, and the model
itself arrives. The rules of such models say how they travel (`Rounded`, `Arrived`, `LeftOver`), for who really sends them.

All draws of a codec come from the key of (seed, kind of message, sender, how many of this kind it had sent before).
"""

import weakref
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedloom._random import key_of
from fedloom.coding import Codec, Coding, difference, masked, restored, with_feedback
from fedloom.gate import Refused
from fedloom.simulator.book import Model, Row, derive

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

    def forget(self, kind: str, sender: int) -> None:
        """Nobody knows what a sender that fell silent still has: it begins anew."""
        self._residuals.pop((kind, sender), None)

    def up(
        self, kind: str, sender: int, model: Model, reference: Model, refused: Callable[[], None] | None = None
    ) -> Model:
        """What arrives of a model for which its sender had been sent the reference; what does not is its residual. refused: is
        called if its values are too large to be coded, and then nothing is sent; None: that is an error."""
        if not self.coding.codes_up:
            return model
        message, parts = Message(self._up, self._key(kind, sender), self._trainable, refused), [model, reference]
        if (kind, sender) in self._residuals:
            parts.append(self._residuals[kind, sender])
        arrived = derive(parts, Arrived(message), model.steps)
        if self.coding.keeps:
            left = self._residuals[kind, sender] = derive(parts, LeftOver(message), steps=0)
            message.pair(arrived, left)
        return arrived

    def down(self, kind: str, sender: int, model: Model) -> Model:
        """What arrives of a model."""
        if not self.coding.codes_down:
            return model
        return derive([model], Rounded(kind, self._down, self._key(kind, sender)), model.steps)

    def _key(self, kind: str, sender: int) -> int:
        number = self._n_sent.get((kind, sender), 0)
        self._n_sent[kind, sender] = number + 1
        return key_of(self._seed, kind, sender, number)


class Message:
    """What goes up of a model, its reference and, if there is one, the residual of the last message. It is coded once: what
    arrives and what is left are both made when the first of them is asked for, and the other is kept until it is."""

    def __init__(
        self,
        codec: Codec,
        key: int,
        trainable: NDArray[np.bool_] | None,
        refused: Callable[[], None] | None = None,
    ) -> None:
        self.key, self._codec, self._trainable, self._refused = key, codec, trainable, refused
        self._models: tuple[weakref.ref[Model], weakref.ref[Model]] | None = None
        self._kept: dict[bool, Row] = {}  # by whether it is what is left

    def pair(self, arrived: Model, left: Model) -> None:
        """The models that are made of it."""
        self._models = weakref.ref(arrived), weakref.ref(left)

    @property
    def left(self) -> Model | None:
        """What its sender keeps of it, if it does and anybody still refers to that."""
        return None if self._models is None else self._models[1]()

    def made(self, rows: list[Row], *, left: bool) -> Row:
        """What arrives (P,), or what is left."""
        if left in self._kept:
            return self._kept.pop(left)
        with np.errstate(over="ignore", invalid="ignore"):
            change = difference(rows[0], rows[1], self._trainable)
        residual = rows[2] if len(rows) > 2 else np.zeros_like(change)
        try:
            sent, leaves = with_feedback(self._codec, change, residual, self.key)
            both = restored(sent, rows[1], self._trainable), leaves
        except Refused:
            if self._refused is None:
                raise
            self._refused()
            both = rows[1], residual
        if self._models is not None and self._models[not left]() is not None:
            self._kept[not left] = both[not left]
        return both[left]


@dataclass(frozen=True, eq=False)
class Arrived:
    """The rule of what arrives of a message that goes up."""

    message: Message

    def __call__(self, rows: list[Row]) -> Row:
        return self.message.made(rows, left=False)


def message_of(arrived: Model) -> Message:
    """The message that a model arrives in."""
    assert isinstance(arrived.rule, Arrived)
    return arrived.rule.message


@dataclass(frozen=True, eq=False)
class LeftOver:
    """The rule of what its sender keeps of it."""

    message: Message

    def __call__(self, rows: list[Row]) -> Row:
        return self.message.made(rows, left=True)


@dataclass(frozen=True, eq=False)
class Rounded:
    """The rule of what arrives of a model that is sent down."""

    kind: str
    codec: Codec
    key: int

    def __call__(self, rows: list[Row]) -> Row:
        return self.codec.coded(rows[0], self.key)

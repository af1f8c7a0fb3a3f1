"""Moments of server optimisers, of the cloud and of aggregators: models of the book like any other, so they are computed when
somebody looks, and are in checkpoints."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedloom.methods import Method
from fedloom.mixing.server import ServerStep, stepped
from fedloom.simulator.book import Model, Recipe, Row, derive

Floats = NDArray[np.float64]
CLOUD = -1  # beside aggregators 0, 1, ...


class Moments:
    """first: a model, for its size. trainable (P,): what an optimiser moves; the rest is as merged."""

    def __init__(self, method: Method, first: Model, trainable: NDArray[np.bool_] | None) -> None:
        self._method, self._first, self._trainable = method, first, trainable
        self._kept: dict[int, list[Model]] = {}

    @property
    def live(self) -> list[Model]:
        """Those that the next steps begin with, in a fixed order."""
        return [m for n in sorted(self._kept) for m in self._kept[n]]

    def forget_aggregators(self) -> None:
        """There are new ones."""
        self._kept = {n: kept for n, kept in self._kept.items() if n == CLOUD}

    def stepped(self, n: int, old: Model, merged: Model) -> Model:
        """The new model of aggregator n, or of the cloud, after a merge; its moments are those after this step."""
        then = self._then(n)
        if then is None:
            return merged
        parts = [merged, old, *self._before(n, then)]
        self._kept[n] = [derive(parts, _moment(then, i), steps=0) for i in range(len(parts) - 2)]
        return derive(parts, Moved(then, self._trainable, tuple(self._kept[n])), merged.steps)

    def would(self, n: int, old: Model, merged: Model) -> Model:
        """The same, and nothing is noted."""
        then = self._then(n)
        if then is None:
            return merged
        return derive([merged, old, *self._before(n, then)], Moved(then, self._trainable), merged.steps)

    def _then(self, n: int) -> ServerStep | None:
        return self._method.merge_cloud.then if n == CLOUD else self._method.merge_edge.then

    def _before(self, n: int, then: ServerStep) -> list[Model]:
        return self._kept.get(n) or [_filled(self._first, value) for value in then.begins]


@dataclass(frozen=True, eq=False)
class Moved:
    """The rule of a model after a step: of the merged one, the old one and the moments before. trainable (P,): what is moved; the
    rest is as merged. after: the moments after it, if they are noted."""

    then: ServerStep
    trainable: NDArray[np.bool_] | None
    after: tuple[Model, ...] = ()

    def __call__(self, rows: list[Row]) -> Floats:
        merged, old, *before = (row.astype(np.float64) for row in rows)
        new = stepped(self.then, old, merged, before)
        return new if self.trainable is None else np.where(self.trainable, new, merged)


def _moment(then: ServerStep, i: int) -> Recipe:
    return lambda rows: moments_after(then, rows[1], rows[0], rows[2:])[i]


def moments_after(then: ServerStep, old: Row, merged: Row, before: Sequence[Row]) -> tuple[Floats, ...]:
    """The moments after a step."""
    step = merged.astype(np.float64) - old.astype(np.float64)
    return then.moments(step, [moment.astype(np.float64) for moment in before])


def _filled(like: Model, value: float) -> Model:
    """A model all of whose values are this one."""
    return derive([like], lambda rows: np.full(len(rows[0]), value), steps=0)

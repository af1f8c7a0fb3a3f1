"""Moments of server optimisers, of the cloud and of aggregators: models of the book like any other, so they are computed when
somebody looks, and are in checkpoints."""

from collections.abc import Callable

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
        then, new = self._then(n), self.would(n, old, merged)
        if then is not None:
            before = self._before(n, then)
            self._kept[n] = [
                derive([merged, old, *before], _wide(_moment(then, i)), steps=0) for i in range(len(before))
            ]
        return new

    def would(self, n: int, old: Model, merged: Model) -> Model:
        """The same, and nothing is noted."""
        then, trainable = self._then(n), self._trainable
        if then is None:
            return merged

        def move(rows: list[Floats]) -> Floats:
            new = stepped(then, rows[1], rows[0], rows[2:])
            return new if trainable is None else np.where(trainable, new, rows[0])

        return derive([merged, old, *self._before(n, then)], _wide(move), merged.steps)

    def _then(self, n: int) -> ServerStep | None:
        return self._method.merge_cloud.then if n == CLOUD else self._method.merge_edge.then

    def _before(self, n: int, then: ServerStep) -> list[Model]:
        return self._kept.get(n) or [_filled(self._first, value) for value in then.begins]


def _wide(rule: Callable[[list[Floats]], Floats]) -> Recipe:
    def of(rows: list[Row]) -> Floats:
        return rule([row.astype(np.float64) for row in rows])

    return of


def _moment(then: ServerStep, i: int) -> Callable[[list[Floats]], Floats]:
    return lambda rows: then.moments(rows[0] - rows[1], rows[2:])[i]


def _filled(like: Model, value: float) -> Model:
    """A model all of whose values are this one."""
    return derive([like], lambda rows: np.full(len(rows[0]), value), steps=0)

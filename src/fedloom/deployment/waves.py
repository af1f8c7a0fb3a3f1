"""In which order a station adds up updates, so that its sums are the simulator's to the bit.

The simulator computes models when they are looked at, at the end of a cloud round, in waves: jobs whose starts are of the same
depth are added up together, and waves one after the other. Where timing does not decide, the same waves follow from the notes.
Else all updates of a merge are one wave, as in a simulation that computes every merge when it happens.
"""

import weakref
from collections import defaultdict

from fedloom.deployment import naming
from fedloom.simulator.book import Dispatch, Model

Wave = list[list[str | float]]


class Waves:
    """lockstep: nobody is left out for being late, and the cloud waits for all."""

    def __init__(self, *, lockstep: bool) -> None:
        self._lockstep = lockstep
        self._depth: weakref.WeakKeyDictionary[Model, int] = weakref.WeakKeyDictionary()

    def of(self, model: Model) -> list[Wave]:
        """The updates of a merge with their weights, wave by wave, each in canonical order: by client, then step counter."""
        found: dict[int, list[tuple[int, int, float]]] = defaultdict(list)
        for dispatch, at, weights in model.jobs:
            for j, weight in zip(at.tolist(), weights.tolist()):
                depth = self._depth_of_job(dispatch, j) if self._lockstep else 1
                found[depth].append((int(dispatch.client[j]), int(dispatch.first_step[j]), weight))
        below = [self._depth_of(part) for part, _ in model.models]
        if self._lockstep:
            self._depth[model] = max([*below, *found])
        return [
            [[naming.update(client, first), weight] for client, first, weight in sorted(wave)]
            for _, wave in sorted(found.items())
        ]

    def note(self, dispatch: Dispatch, j: int) -> None:
        """A job is ordered whose client has states: what it keeps then is as deep as what it trains."""
        if self._lockstep and dispatch.own is not None:
            self._depth[dispatch.kept(j)] = self._depth_of_job(dispatch, j)

    def same(self, model: Model, other: Model) -> None:
        """A model is as deep as another that it is made of."""
        if self._lockstep:
            self._depth[model] = self._depth_of(other)

    def looked(self) -> None:
        """All models are computed: what follows builds on them."""
        self._depth.clear()

    def _depth_of_job(self, dispatch: Dispatch, j: int) -> int:
        own = [] if dispatch.own is None else [dispatch.own[j]]
        return 1 + max(self._depth_of(part) for part in [dispatch.starts[int(dispatch.start[j])], *own])

    def _depth_of(self, model: Model) -> int:
        if model in self._depth or model.settled:
            return self._depth.get(model, 0)
        return max((self._depth_of(part) for part, _ in model.models), default=0)

"""States of a client rule (fedloom.training.state): what clients keep, and shared values that move by the share of those who were
merged. Models of the book like any other, so they are computed when somebody looks, and are in checkpoints."""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from fedloom.mixing import Arrivals
from fedloom.simulator.book import Dispatch, Model, derive
from fedloom.simulator.sick import Sick
from fedloom.training.state import Layout

Ints = NDArray[np.int64]


class States:
    """layout: None if there is no client rule; then nothing is kept. sick: of jobs that may be left out."""

    def __init__(self, layout: Layout | None, sick: Sick | None = None) -> None:
        self.layout, self._sick = layout, sick
        self._kept: dict[int, Model] = {}
        self._before: dict[int, Model | None] = {}  # what clients had before their last jobs

    @property
    def kept(self) -> Mapping[int, Model]:
        """By client, in a fixed order, its own states after the last job it was sent to do."""
        return {k: self._kept[k] for k in sorted(self._kept)}

    @property
    def live(self) -> list[Model]:
        """What the rest of the run may refer to, in a fixed order."""
        before = [self._before[k] for k in sorted(self._before)]
        return [*self.kept.values(), *(model for model in before if model is not None)]

    def dispatch(self, starts: list[Model], start: Ints, clients: Ints, n_steps: Ints, first_step: Ints) -> Dispatch:
        """Jobs of clients (m,), who begin with the states that they have and have others then."""
        own = (
            None if self.layout is None else [self._own(k, starts[s]) for k, s in zip(clients.tolist(), start.tolist())]
        )
        jobs = Dispatch(starts, start, clients, n_steps, first_step, own, self._sick)
        for j, k in enumerate(clients.tolist() if own is not None else []):
            self._before[k], self._kept[k] = self._kept.get(k), jobs.kept(j)
        return jobs

    def withdraw(self, clients: Sequence[int]) -> None:
        """What clients were sent to do is not waited for: they have the states that they had before, if they had any."""
        for k in clients:
            if k in self._before:
                before = self._before.pop(k)
                if before is None:
                    del self._kept[k]
                else:
                    self._kept[k] = before

    def slowed(self, old: Model, merged: Model, arrivals: Arrivals) -> Model:
        """The merged model of an aggregator, with shared states that have moved by the share of its samples that was merged."""
        if self.layout is None:
            return merged
        share = float(arrivals.n_samples.sum()) / arrivals.total if arrivals.total else 1.0
        recipe = self.layout.by_share(share)
        return merged if recipe is None else derive([old, merged], recipe, merged.steps)

    def _own(self, client: int, start: Model) -> Model:
        layout = self.layout
        assert layout is not None
        if client in self._kept:
            return self._kept[client]
        return derive([start], lambda rows: layout.first_own(rows[0]), steps=0)

"""The jobs of a chain of waves, taken from their dispatches (fedloom.training.chain)."""

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fedloom.training.engine import Jobs, Mix

if TYPE_CHECKING:
    from fedloom.simulator.book import Dispatch, Model, Row

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


class Slots:
    """Numbers of models in a chain: those that are made on the way, then others as they come, whose rows are known."""

    def __init__(self, made: "list[Model]") -> None:
        self._of, self._n_made = {model: i for i, model in enumerate(made)}, len(made)
        self.rows: list[Row] = []

    def of(self, model: "Model") -> int:
        found = self._of.get(model)
        if found is None:
            assert model.row is not None
            found = self._of[model] = self._n_made + len(self.rows)
            self.rows.append(model.row)
        return found


class Gathered:
    """The jobs of a chain, taken from their dispatches without looking at each of them."""

    def __init__(self, slots: Slots) -> None:
        self._slots = slots
        self._first: dict[Dispatch, int] = {}  # the number of its first job
        self._begin: list[int] = []  # of each dispatch, its first start
        self._starts: list[tuple[Model, int]] = []  # and wave (negative: not in this chain)
        self._n_jobs = 0
        self._uses: list[tuple[int, int, Ints, Floats]] = []

    def add(self, target: int, dispatch: "Dispatch", at: Ints, weights: Floats, waves: list[int]) -> None:
        """Jobs `at` of a dispatch count for a target; waves: of its starts."""
        first = self._first.get(dispatch)
        if first is None:
            first = self._first[dispatch] = self._n_jobs
            self._n_jobs += len(dispatch.client)
            self._begin.append(len(self._starts))
            self._starts += zip(dispatch.starts, waves)
        self._uses.append((target, first, at, weights))

    def arrays(self, n_targets: int) -> tuple[Jobs, Ints, Mix]:
        """The jobs that count for somebody, their waves, and for whom they count."""
        dispatches = list(self._first)
        wave = np.array([w for _, w in self._starts], dtype=np.int64)
        steps = np.array([model.steps for model, _ in self._starts], dtype=np.int64)
        start = np.concatenate([d.start for d in dispatches]) + np.repeat(
            self._begin, [len(d.client) for d in dispatches]
        )
        of_target, first, at, weights = zip(*self._uses)
        counts = [len(positions) for positions in at]
        job = np.concatenate(at) + np.repeat(first, counts)
        target, weight = np.repeat(of_target, counts), np.concatenate(weights)
        here = wave[start[job]] >= 0
        if not here.all():
            job, target, weight = job[here], target[here], weight[here]
        used = np.zeros(self._n_jobs, dtype=np.bool_)
        used[job] = True
        jobs = Jobs(
            start=self._slots_of(start[job])[start],
            client=np.concatenate([d.client for d in dispatches]),
            n_steps=np.concatenate([d.n_steps for d in dispatches]),
            first_step=np.concatenate([d.first_step for d in dispatches]),
            lr_step=steps[start],
        )
        if not used.all():
            which = np.flatnonzero(used)
            jobs, start, job = jobs.pick(which), start[which], (np.cumsum(used) - 1)[job]
        return jobs, wave[start], Mix(n_targets=n_targets, target=target, job=job, weight=weight)

    def _slots_of(self, needed: Ints) -> Ints:
        """Slots of the starts, -1 for those that no job needs: after a restart their rows may not be known."""
        slot = np.full(len(self._starts), -1)
        for i in np.unique(needed).tolist():
            slot[i] = self._slots.of(self._starts[i][0])
        return slot

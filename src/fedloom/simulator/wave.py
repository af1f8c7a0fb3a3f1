"""One wave of jobs of a client rule with state: those whose start models and own states are known, and for whom they count."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from fedloom.training.engine import Jobs, Mix, Rows

if TYPE_CHECKING:
    from fedloom.simulator.book import Dispatch, Model


class Wave:
    """number: of the wave; level: the waves before each model that is not settled can be made. targets: what gets weighted sums
    of the jobs' results, in the order in which they were added."""

    def __init__(self, number: int, level: "Mapping[Model, int]") -> None:
        self._number, self._level = number, level
        self.targets: list[Model] = []
        self._place: dict[tuple[Dispatch, int], int] = {}
        self._entries: list[tuple[int, int, float]] = []

    def __len__(self) -> int:
        return len(self._place)

    def add(self, model: "Model") -> None:
        """Its jobs that are of this wave."""
        mine = [
            (self.place(dispatch, j), weight)
            for dispatch, at, weights in model.jobs
            for j, weight in zip(at.tolist(), weights.tolist())
            if self._is_now(dispatch, j)
        ]
        if mine:
            self._entries += [(len(self.targets), job, weight) for job, weight in mine]
            self.targets.append(model)

    def place(self, dispatch: "Dispatch", position: int) -> int:
        """The number of a job, which is trained in this wave."""
        return self._place.setdefault((dispatch, position), len(self._place))

    def arrays(self) -> tuple[Rows, Jobs, Mix, Rows]:
        """For an engine: rows to start from, jobs, for whom they count, and own states (J, kept) to begin with."""
        jobs = list(self._place)
        starts = [d.starts[d.start[j]] for d, j in jobs]
        row = {model: i for i, model in enumerate(dict.fromkeys(starts))}
        target, job, weight = zip(*self._entries) if self._entries else ((), (), ())
        return (
            np.stack([model.row for model in row if model.row is not None]),
            Jobs(
                start=np.array([row[model] for model in starts], dtype=np.int64),
                client=np.array([d.client[j] for d, j in jobs], dtype=np.int64),
                n_steps=np.array([d.n_steps[j] for d, j in jobs], dtype=np.int64),
                first_step=np.array([d.first_step[j] for d, j in jobs], dtype=np.int64),
                lr_step=np.array([model.steps for model in starts], dtype=np.int64),
            ),
            Mix(
                n_targets=len(self.targets),
                target=np.array(target, dtype=np.int64),
                job=np.array(job, dtype=np.int64),
                weight=np.array(weight, dtype=np.float64),
            ),
            np.stack([self._own(d, j) for d, j in jobs]),
        )

    def _is_now(self, dispatch: "Dispatch", position: int) -> bool:
        parts = [dispatch.starts[dispatch.start[position]]]
        if dispatch.own is not None:
            parts.append(dispatch.own[position])
        return max(self._level.get(part, 0) for part in parts) == self._number

    @staticmethod
    def _own(dispatch: "Dispatch", position: int) -> Rows:
        assert dispatch.own is not None
        row = dispatch.own[position].row
        assert row is not None
        return row

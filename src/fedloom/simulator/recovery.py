"""Going on without updates that are sick (fedloom.simulator.sick), in the middle of a settlement (fedloom.simulator.book).

A wave that does not stay finite gives nothing: those of its jobs whose clients are under suspicion are trained by themselves,
each that does not stay finite is noted, and the wave is trained without them. Models that were to be made of them are made of
what `Model.leave_out` says. All of it follows from the recipes and the register, so that a run that is gone on with does the
same.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fedloom.simulator.sick import NOT_FINITE, Sick
from fedloom.training.engine import Engine, Jobs, KeepsState, Mix, NotFinite

if TYPE_CHECKING:
    from fedloom.simulator.book import Dispatch, Model

Floats = NDArray[np.float64]


class Recovery:
    """order: models that are not settled; level: the waves before each can be made; sums: what trained jobs gave to those that
    wait for more. careful: waves are trained one at a time. found: clients that did not stay finite."""

    def __init__(
        self, order: "Sequence[Model]", level: "Mapping[Model, int]", sums: "dict[Model, Floats]", sick: Sick | None
    ) -> None:
        self._order, self._level, self._sums, self._sick = order, level, sums, sick
        self._suspects = set() if sick is None else set(sick.suspects)
        self.careful = bool(self._suspects)
        self._found: set[int] = set()
        self._n_known = 0  # of the register, so many are taken into account

    def suspect(self, error: NotFinite) -> bool:
        """Clients are tried by themselves from now on; False if they were, or nobody may be left out."""
        if self._sick is None or (self.careful and self._suspects.issuperset(error.clients)):
            return False
        self._suspects |= set(error.clients)
        self.careful = True
        return True

    def try_suspects(self, engine: Engine, wave: int) -> bool:
        """Find those of a wave whose models do not stay finite, and make do without them. Whether anything is left to train."""
        left = False
        for dispatch, j in dict.fromkeys(self._jobs_of(wave)):
            client = int(dispatch.client[j])
            if client in self._suspects and self._sick is not None and not _stays_finite(engine, dispatch, j):
                self._sick.add(dispatch.update(j), NOT_FINITE)
                self._found.add(client)
            else:
                left = True
        self.leave_out(engine, wave)
        return left

    def leave_out(self, engine: Engine | None, wave: int) -> None:
        """What waits for an update that is sick is made without it; sums that it was meant to be in are formed anew, unless there
        is no engine: then they were."""
        if self._sick is None or len(self._sick) == self._n_known:
            return
        self._n_known = len(self._sick)
        for model in self._order:
            found = None if model.settled or model.leave_out is None else model.leave_out()
            if found is not None:
                model.models, model.jobs = found
                model.rule = None  # if it was another model, that was of an update
                self.careful = True
                if model in self._sums and engine is not None:
                    del self._sums[model]
                    self._sum_again(engine, model, wave)

    def end(self) -> None:
        """The next settlement begins with the suspects of this one."""
        if self._sick is not None:
            self._sick.suspects = self._found

    def _jobs_of(self, wave: int) -> "Iterator[tuple[Dispatch, int]]":
        """The jobs of a wave that somebody waits for, some perhaps twice."""
        for model in self._order:
            if model.settled:
                continue
            for dispatch, at, _ in model.jobs:
                yield from ((dispatch, j) for j in at.tolist() if self._wave_of(dispatch, j) == wave)
            if model.kept is not None and not model.models and self._wave_of(*model.kept) == wave:
                yield model.kept

    def _wave_of(self, dispatch: "Dispatch", position: int) -> int:
        own = [] if dispatch.own is None else [dispatch.own[position]]
        return max(self._level.get(model, 0) for model in [dispatch.starts[dispatch.start[position]], *own])

    def _sum_again(self, engine: Engine, model: "Model", waves: int) -> None:
        """What the jobs of a model gave that were trained in the first so many waves."""
        jobs = [(d, j, w) for d, at, weights in model.jobs for j, w in zip(at.tolist(), weights.tolist())]
        for wave in range(waves):
            mine = [(d, j, w) for d, j, w in jobs if self._wave_of(d, j) == wave]
            if mine:
                total = _summed(engine, [(d, j) for d, j, _ in mine], [w for _, _, w in mine])
                self._sums[model] = self._sums[model] + total if model in self._sums else total


def _stays_finite(engine: Engine, dispatch: "Dispatch", position: int) -> bool:
    try:
        _summed(engine, [(dispatch, position)], [1.0])
    except NotFinite:
        return False
    return True


def _summed(engine: Engine, jobs: "Sequence[tuple[Dispatch, int]]", weights: Sequence[float]) -> Floats:
    """The weighted sum (P,) of what jobs give, trained by themselves."""
    starts = [d.starts[d.start[j]] for d, j in jobs]
    place = {model: i for i, model in enumerate(dict.fromkeys(starts))}
    rows = np.stack([model.row for model in place if model.row is not None])
    n = len(jobs)
    found = Jobs(
        start=np.array([place[model] for model in starts], dtype=np.int64),
        client=np.array([d.client[j] for d, j in jobs], dtype=np.int64),
        n_steps=np.array([d.n_steps[j] for d, j in jobs], dtype=np.int64),
        first_step=np.array([d.first_step[j] for d, j in jobs], dtype=np.int64),
        lr_step=np.array([model.steps for model in starts], dtype=np.int64),
    )
    mix = Mix(n_targets=1, target=np.zeros(n, dtype=np.int64), job=np.arange(n), weight=np.array(weights))
    own = [d.own[j].row for d, j in jobs if d.own is not None]
    if not own:
        return np.asarray(engine.train_average(rows, found, mix)[0])
    assert isinstance(engine, KeepsState)
    given = np.stack([row for row in own if row is not None])
    return np.asarray(engine.train_with_state(rows, found, mix, given).sums[0])

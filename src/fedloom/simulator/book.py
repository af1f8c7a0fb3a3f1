"""Models that are written down first and computed when somebody looks.

The clock never needs a model's values, so the simulator only notes what each model is made of: weights times other
models, and weights times the results of training jobs, which start from models in turn. When a model is needed
(evaluation, checkpoint), `settle` trains everything it depends on in as few batches as the dependencies allow: jobs
whose starts are known run together, whichever aggregator or round they belong to. What nobody refers to any more is
freed by Python. A dry run settles models without values.

Where weights depend on the models themselves, a model is a function of the rows of others (`derive`), which is called when
they are known.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from fedloom.training.engine import Engine, Jobs, Mix

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Row = NDArray[np.float32]
Recipe = Callable[[list[Row]], NDArray[np.floating]]


class Model:
    """One model: settled (its row is known, or None in a dry run), or a recipe of models and job results.

    steps: local steps in its history, the argument of learning-rate schedules. rule: what makes it of the rows of its
    models, if not their weighted sum.
    """

    __slots__ = ("__weakref__", "jobs", "models", "row", "rule", "settled", "steps")

    def __init__(self, row: Row | None = None, *, steps: int = 0, settled: bool = True) -> None:
        self.row, self.steps, self.settled = row, steps, settled
        self.models: list[tuple[Model, float]] = []
        self.jobs: list[tuple[Dispatch, Ints, Floats]] = []
        self.rule: Recipe | None = None


class Dispatch:
    """m jobs that were sent out together: client (m,), n_steps (m,), first_step (m,), start (m,) into `starts`."""

    __slots__ = ("__weakref__", "_results", "client", "first_step", "n_steps", "start", "starts")

    def __init__(self, starts: list[Model], start: Ints, client: Ints, n_steps: Ints, first_step: Ints) -> None:
        self.starts, self.start = starts, start
        self.client, self.n_steps, self.first_step = client, n_steps, first_step
        self._results: dict[int, Model] = {}

    def result(self, position: int) -> Model:
        """What one of the jobs gives, as a model of its own."""
        if position not in self._results:
            steps = int(self.steps_after()[position])
            self._results[position] = combine([], [(self, np.array([position]), np.ones(1))], steps)
        return self._results[position]

    def starts_of(self, at: Ints) -> list[Model]:
        """The models that the jobs `at` start from, each once."""
        used = [0] if len(self.starts) == 1 else np.unique(self.start[at]).tolist()
        return [self.starts[s] for s in used]

    def steps_after(self) -> Ints:
        """Local steps in the history of each result, (m,)."""
        return np.array([m.steps for m in self.starts], dtype=np.int64)[self.start] + self.n_steps


def combine(models: list[tuple[Model, float]], jobs: list[tuple[Dispatch, Ints, Floats]], steps: int) -> Model:
    """A model out of weighted models and weighted results of jobs. If it is just another model, that one is returned."""
    models = [(model, weight) for model, weight in models if weight != 0.0]
    if not jobs and len(models) == 1 and models[0][1] == 1.0:
        return models[0][0]
    out = Model(steps=steps, settled=False)
    out.models, out.jobs = models, jobs
    return out


def derive(models: list[Model], rule: Recipe, steps: int) -> Model:
    """A model that is a function of the rows of others."""
    out = Model(steps=steps, settled=False)
    out.models, out.rule = [(model, 1.0) for model in models], rule
    return out


class Settlement:
    """Models on their way to being computed, wave by wave: jobs whose starts are known are trained together.

    waves: so many are trained. Between two waves it may be written down (`waiting`) and gone on with later (`skip`).
    """

    def __init__(self, target: Model) -> None:
        self.target, self.waves = target, 0
        self._order = _unsettled(target)
        self._level: dict[Model, int] = {}
        self._sums: dict[Model, Floats] = {}  # what trained jobs gave to models that wait for more of them
        for model in self._order:  # dependencies come first
            after_models = [self._level.get(m, 0) for m, _ in model.models]
            after_jobs = [1 + self._level.get(s, 0) for d, at, _ in model.jobs for s in d.starts_of(at)]
            self._level[model] = max(after_models + after_jobs, default=0)

    @property
    def waiting(self) -> dict[int, Floats]:
        """Sums (P,) of models that wait for more jobs, by their place in the order, which depends on the recipes only."""
        return {i: self._sums[model] for i, model in enumerate(self._order) if model in self._sums}

    def skip(self, waves: int, waiting: Mapping[int, Floats]) -> None:
        """Take so many waves as trained: mark the models that they finished, whose rows the caller knows."""
        if not (0 <= waves <= max(self._level.values(), default=0) and all(0 <= i < len(self._order) for i in waiting)):
            raise ValueError(f"{waves} waves with sums of {sorted(waiting)} do not fit {len(self._order)} models")
        for model in self._order:
            if self._level[model] < waves:
                _finish(model, None, None)
        self.waves, self._sums = waves, {self._order[i]: total for i, total in waiting.items()}

    def finish(
        self, engine: Engine | None, batches: list[int] | None = None, on_wave: Callable[[], None] | None = None
    ) -> None:
        """Compute the rest (without an engine: only mark it). on_wave is called after every wave that was trained."""
        last = max(self._level.values(), default=-1)
        for wave in range(self.waves, last + 1):
            for model in self._order:
                if self._level[model] == wave:
                    _finish(model, self._sums.pop(model, None), engine)
            if engine is not None and wave < last:
                later = [m for m in self._order if self._level[m] > wave]
                n_jobs = _train_wave(later, self._level, wave, self._sums, engine)
                self.waves = wave + 1
                if batches is not None:
                    batches.append(n_jobs)
                if on_wave is not None:
                    on_wave()
        for model in self._order:
            model.models, model.jobs, model.rule = [], [], None


def settle(target: Model, engine: Engine | None, batches: list[int] | None = None) -> Row | None:
    """Compute `target` and all it depends on (without an engine: only mark them). Returns its row (P,).

    batches: gets the number of jobs of every batch that was trained.
    """
    Settlement(target).finish(engine, batches)
    return target.row


def settle_all(targets: Iterable[Model], engine: Engine | None, batches: list[int] | None = None) -> None:
    """Compute several models together, in as few batches as one would take."""
    settle(together(targets), engine, batches)


def together(targets: Iterable[Model]) -> Model:
    """A model without values that needs all of these."""
    return derive(list(targets), lambda rows: np.zeros(0), steps=0)


def settled_below(roots: list[Model]) -> list[Model]:
    """The settled models that the roots are, or depend on, each once, in an order that depends on the recipes only."""
    found: dict[Model, None] = {}
    for root in roots:
        for model in _walk(root):
            if model.settled:
                found[model] = None
    return list(found)


def _finish(model: Model, from_jobs: Floats | None, engine: Engine | None) -> None:
    if engine is not None and model.rule is not None:
        model.row = model.rule([part.row for part, _ in model.models if part.row is not None]).astype(np.float32)
    elif engine is not None:
        total = np.zeros(()) if from_jobs is None else from_jobs
        for part, weight in model.models:
            assert part.row is not None
            total = total + weight * part.row.astype(np.float64)
        model.row = total.astype(np.float32)
    model.settled = True


def _train_wave(
    models: list[Model], level: dict[Model, int], wave: int, sums: dict[Model, Floats], engine: Engine
) -> int:
    """Train the jobs of these models whose starts are of this wave; add the results to the models' sums. Returns their
    number."""
    wanted: dict[Dispatch, list[tuple[int, Ints, Floats]]] = defaultdict(list)
    targets: list[Model] = []
    for model in models:
        used = False
        for dispatch, at, weights in model.jobs:
            of_wave = np.array([level.get(s, 0) == wave for s in dispatch.starts])[dispatch.start[at]]
            if of_wave.any():
                wanted[dispatch].append((len(targets), at[of_wave], weights[of_wave]))
                used = True
        if used:
            targets.append(model)
    starts: dict[Model, int] = {}
    columns: list[tuple[Ints, Ints, Ints, Ints, Ints]] = []
    entries: list[tuple[Ints, Ints, Floats]] = []
    n_jobs = 0
    for dispatch, uses in wanted.items():
        at = np.unique(np.concatenate([positions for _, positions, _ in uses]))
        start = np.array([starts.setdefault(dispatch.starts[s], len(starts)) for s in dispatch.start[at].tolist()])
        lr_step = np.array([dispatch.starts[s].steps for s in dispatch.start[at].tolist()])
        columns.append((start, dispatch.client[at], dispatch.n_steps[at], dispatch.first_step[at], lr_step))
        for target, positions, weights in uses:
            jobs = n_jobs + np.searchsorted(at, positions)
            entries.append((np.full(len(jobs), target), jobs, weights))
        n_jobs += len(at)
    start, client, n_steps, first_step, lr_step = (np.concatenate(c) for c in zip(*columns))
    target_of, job_of, weight_of = (np.concatenate(e) for e in zip(*entries))
    rows = [m.row for m in starts]
    averages = engine.train_average(
        np.stack([r for r in rows if r is not None]),
        Jobs(start=start, client=client, n_steps=n_steps, first_step=first_step, lr_step=lr_step),
        Mix(n_targets=len(targets), target=target_of, job=job_of, weight=weight_of),
    )
    for model, average in zip(targets, averages):
        sums[model] = sums[model] + average if model in sums else average
    return n_jobs


def _unsettled(target: Model) -> list[Model]:
    """Unsettled models below and including `target`, each after those it depends on."""
    return [m for m in _walk(target) if not m.settled]


def _walk(root: Model) -> Iterator[Model]:
    """All models below and including `root`, each once, dependencies first; does not look behind settled ones."""
    seen = {root}
    stack = [(root, _parts(root))]
    while stack:
        model, parts = stack[-1]
        for part in parts:
            if part not in seen:
                seen.add(part)
                stack.append((part, _parts(part)))
                break
        else:
            stack.pop()
            yield model


def _parts(model: Model) -> Iterator[Model]:
    if not model.settled:
        for part, _ in model.models:
            yield part
        for dispatch, at, _ in model.jobs:
            yield from dispatch.starts_of(at)

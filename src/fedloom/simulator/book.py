"""Models that are written down first and computed when somebody looks.

The clock never needs a model's values, so the simulator only notes what each model is made of: weights times other
models, and weights times the results of training jobs, which start from models in turn. When a model is needed
(evaluation, checkpoint), `settle` trains everything it depends on in as few batches as the dependencies allow: jobs
whose starts are known run together, whichever aggregator or round they belong to, and several such waves in one call of the
engine where it can (fedloom.training.chain). What nobody refers to any more is freed by Python. A dry run settles models
without values.

Where weights depend on the models themselves, a model is a function of the rows of others (`derive`), which is called when
they are known.

An update that does not stay finite is found when it is trained. What waits for it is then made without it (`Model.leave_out`);
without such a way, or a register of what is left out (fedloom.simulator.sick), training ends there.
"""

import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from fedloom.simulator.gathering import Gathered, Slots
from fedloom.simulator.recovery import Recovery
from fedloom.simulator.sick import Sick, Update
from fedloom.simulator.walking import begun_with, unsettled
from fedloom.simulator.wave import Wave
from fedloom.training.chain import Chain, Limits, takes_chains, wave_by_wave, weighted
from fedloom.training.engine import Engine, KeepsState, NotFinite

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Row = NDArray[np.float32]
Recipe = Callable[[list[Row]], NDArray[np.floating]]
Ingredients = tuple[list[tuple["Model", float]], list[tuple["Dispatch", Ints, Floats]]]
"""Weighted models, and weighted results of jobs."""

CALL_S = 0.5  # wall seconds after which a call of the engine begins no further wave: Ctrl-C and checkpoints wait for it


class Model:
    """One model: settled (its row is known, or None in a dry run), or a recipe of models and job results.

    steps: local steps in its history, the argument of learning-rate schedules. rule: what makes it of the rows of its
    models, if not their weighted sum. kept: it is no model, but the own states of a client after one of these jobs
    (fedloom.training.state). leave_out: what it is made of without updates that are known to be sick by now; None if nothing has
    changed.
    """

    __slots__ = ("__weakref__", "jobs", "kept", "leave_out", "models", "row", "rule", "settled", "steps")

    def __init__(self, row: Row | None = None, *, steps: int = 0, settled: bool = True) -> None:
        self.row, self.steps, self.settled = row, steps, settled
        self.models: list[tuple[Model, float]] = []
        self.jobs: list[tuple[Dispatch, Ints, Floats]] = []
        self.rule: Recipe | None = None
        self.kept: tuple[Dispatch, int] | None = None
        self.leave_out: Callable[[], Ingredients | None] | None = None

    def forget(self) -> None:
        """It is settled, and its recipe is of no use any more."""
        self.settled = True
        self.models, self.jobs, self.rule, self.kept, self.leave_out = [], [], None, None, None


class Dispatch:
    """m jobs that were sent out together: client (m,), n_steps (m,), first_step (m,), start (m,) into `starts`. own (m,): the own
    states that their clients begin with, if there is a client rule with state. sick: where it is noted which of them are left
    out; None: none may be."""

    __slots__ = (
        "__weakref__",
        "_kept",
        "_results",
        "client",
        "first_step",
        "n_steps",
        "own",
        "sick",
        "start",
        "starts",
    )

    def __init__(
        self,
        starts: list[Model],
        start: Ints,
        client: Ints,
        n_steps: Ints,
        first_step: Ints,
        own: list[Model] | None = None,
        sick: Sick | None = None,
    ) -> None:
        self.starts, self.start, self.own, self.sick = starts, start, own, sick
        self.client, self.n_steps, self.first_step = client, n_steps, first_step
        self._results: weakref.WeakValueDictionary[int, Model] | None = None  # they refer to this
        self._kept: weakref.WeakValueDictionary[int, Model] | None = None

    def kept(self, position: int) -> Model:
        """The own states of a client after one of the jobs; the same as long as anybody refers to them."""
        if self._kept is None:
            self._kept = weakref.WeakValueDictionary()
        found = self._kept.get(position)
        if found is None:
            found = self._kept[position] = Model(settled=False)
            found.kept = self, position
            if self.own is not None:
                found.leave_out = self._instead(position, self.own[position])
        return found

    def result(self, position: int) -> Model:
        """What one of the jobs gives, as a model of its own; the same one as long as anybody refers to it."""
        if self._results is None:
            self._results = weakref.WeakValueDictionary()
        found = self._results.get(position)
        if found is None:
            steps = int(self.steps_after()[position])
            found = self._results[position] = combine([], [(self, np.array([position]), np.ones(1))], steps)
            found.leave_out = self._instead(position, self.starts[self.start[position]])
        return found

    def update(self, position: int) -> Update:
        """By which one of the jobs is named."""
        return "client", int(self.client[position]), int(self.first_step[position])

    def _instead(self, position: int, before: Model) -> Callable[[], Ingredients | None] | None:
        """What a client is left with of a job that is left out: what it had before."""
        sick, update = self.sick, self.update(position)
        return None if sick is None else lambda: ([(before, 1.0)], []) if update in sick else None

    def starts_of(self, at: Ints) -> list[Model]:
        """The models that the jobs `at` start from, each once."""
        used = [0] if len(self.starts) == 1 else np.unique(self.start[at]).tolist()
        return [self.starts[s] for s in used]

    def steps_after(self) -> Ints:
        """Local steps in the history of each result, (m,)."""
        return np.array([m.steps for m in self.starts], dtype=np.int64)[self.start] + self.n_steps

    def most_steps_after(self, at: Ints) -> int:
        """The largest of these of the jobs `at`."""
        if len(self.starts) > 1:
            return int(self.steps_after()[at].max())
        mine = self.n_steps if len(at) == len(self.n_steps) else self.n_steps[at]
        return self.starts[0].steps + int(mine.max())


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

    The level of a model is the number of waves before it can be made. Waves are handed to the engine together as far as what is
    made between them is linear, if it takes such chains (fedloom.training.chain). waves: so many are trained. Between two calls
    of the engine it may be written down (`waiting`) and gone on with later (`skip`). What is looked at one time after the other,
    with nothing in between that needs it, may be computed together (`add`).

    If a client's model does not stay finite, waves are trained one at a time from there on, with the suspects tried before.
    """

    def __init__(self, models: Iterable[Model]) -> None:
        self.waves = 0
        self.looks: list[list[Model]] = []  # what is looked at, one time after the other
        self._order: list[Model] = []
        self._level: dict[Model, int] = {}
        self._sums: dict[Model, Floats] = {}  # what trained jobs gave to models that wait for more of them
        self._ends: list[int] = []  # of each look, the level at which all of it is known
        looked_at = list(models)
        self._look_at(looked_at, unsettled(looked_at))

    def add(self, models: Sequence[Model]) -> bool:
        """Look at these too, after the others; every wave has the jobs that it would have if all others were computed before.
        False, and nothing has changed, if that cannot be so, or rules and states of clients have to be looked at in between."""
        new = unsettled(models, self._level)
        if self._look_at(list(models), new):
            return True
        for model in new:
            del self._level[model]
        del self.looks[-1], self._ends[-1], self._order[len(self._order) - len(new) :]
        return False

    @property
    def n_models(self) -> int:
        """That are not computed yet."""
        return len(self._order)

    @property
    def _last(self) -> int:
        return self._ends[-1] if self._ends else 0

    def _look_at(self, models: list[Model], new: list[Model]) -> bool:
        """Whether all new ones are made by weights, of jobs that are all trained in the wave before them."""
        before, level, plain = self._last, self._level, True
        for model in new:  # dependencies come first
            begun = begun_with(model)
            after_models = [level.get(m, before) for m, _ in model.models]
            after_jobs = [1 + max(before, level.get(s, before)) for s in begun]
            level[model] = at = max([before, *after_models, *after_jobs])
            own = model.kept is not None or any(dispatch.own is not None for dispatch, _, _ in model.jobs)
            plain &= not own and model.rule is None and all(level.get(s, -1) == at - 1 for s in begun)
        self._order += new
        self.looks.append(models)
        self._ends.append(max([level[model] for model in new], default=before))
        return plain

    def _begin(self) -> None:
        """All looks are known."""
        dispatches = dict.fromkeys(dispatch for model in self._order for dispatch, _, _ in model.jobs)
        self._starts = {  # levels; -1: not known, and of jobs that nobody needs
            d: [self._level.get(s, 0 if s.settled else -1) for s in d.starts] for d in dispatches
        }
        self._merges: list[Model] = []  # if there are states: all models, in the order that they have without
        if any(d.own is not None for d in dispatches) or any(model.kept is not None for model in self._order):
            looked_at = [model for look in self.looks for model in look]
            self._merges = list(dict.fromkeys([*unsettled(looked_at, states=False), *self._order]))
        sick = next((d.sick for d in dispatches if d.sick is not None), None)
        self._recovery = Recovery(self._order, self._level, self._sums, sick)
        self._of_level: list[list[Model]] = [[] for _ in range(self._last + 1)]
        for model, level in self._level.items():
            self._of_level[level].append(model)

    @property
    def waiting(self) -> dict[int, Floats]:
        """Sums (P,) of models that wait for more jobs, by their place in the order, which depends on the recipes only."""
        return {i: self._sums[model] for i, model in enumerate(self._order) if model in self._sums}

    def skip(self, waves: int, waiting: Mapping[int, Floats]) -> None:
        """Take so many waves as trained: mark the models that they finished, whose rows the caller knows."""
        self._begin()
        if not (0 <= waves <= self._last and all(0 <= i < len(self._order) for i in waiting)):
            raise ValueError(f"{waves} waves with sums of {sorted(waiting)} do not fit {len(self._order)} models")
        for models in self._of_level[:waves]:
            for model in models:
                model.settled = True
        for model in self._of_level[waves] if waves else []:
            model.settled |= model.kept is not None  # they are known as soon as their job is done
        self.waves = waves
        self._sums |= {self._order[i]: total for i, total in waiting.items()}
        self._recovery.leave_out(None, waves)

    def finish(
        self,
        engine: Engine | None,
        batches: list[int] | None = None,
        on_wave: Callable[[], None] | None = None,
        call_s: float = CALL_S,
        on_look: Callable[[], None] | None = None,
    ) -> None:
        """Compute the rest (without an engine: only mark it). batches: gets the number of jobs of every wave. on_wave is called
        after every call of the engine, which begins no further wave after call_s wall seconds; on_look, when one of several looks
        is trained, but for the last."""
        if not self.waves:
            self._begin()
        ends = self._ends[:-1]
        if engine is not None:
            self._recovery.leave_out(engine, self.waves)
        while engine is not None and self.waves <= self._last:
            self._make_all(engine)
            if self.waves == self._last:
                break
            n_jobs = self._train(engine, call_s)
            if batches is not None:
                batches += n_jobs
            if on_wave is not None:
                on_wave()
            while ends and self.waves >= ends[0]:
                ends.pop(0)
                if on_look is not None:
                    on_look()
        if engine is not None:
            self._recovery.end()
        for model in self._order:
            model.forget()

    def _make_all(self, engine: Engine, states: bool = False) -> None:
        """The models of this level; states: only what clients keep in place of states that were left out."""
        for model in self._of_level[self.waves]:
            if not model.settled and (model.kept is not None or not states):
                self._make(model, engine)
                self._recovery.leave_out(engine, self.waves)

    def _make(self, model: Model, engine: Engine) -> None:
        """All it is made of is known, but for what only those need who are left without others."""
        for part, _ in model.models:
            if not part.settled:
                Settlement([part]).finish(engine)
        parts = [(part.row, weight) for part, weight in model.models if part.row is not None]
        if model.rule is None:
            model.row = weighted(self._sums.pop(model, None), parts)
        else:
            model.row = model.rule([row for row, _ in parts]).astype(np.float32)
        model.settled = True

    def _train(self, engine: Engine, call_s: float) -> list[int]:
        """The next wave, or as many as the engine takes at once. Returns the number of jobs of each."""
        while True:
            careful = self._recovery.careful
            try:
                if careful and not self._recovery.try_suspects(engine, self.waves):
                    self.waves += 1
                    n_jobs = [0]
                elif self._merges:
                    assert isinstance(engine, KeepsState)
                    n_jobs = [self._train_with_state(engine)]
                else:
                    n_jobs = self._train_chain(engine, call_s, careful)
            except NotFinite as error:
                if not self._recovery.suspect(error):
                    raise
                continue
            if careful and self._merges:
                self._make_all(engine, states=True)
            return n_jobs

    def _train_chain(self, engine: Engine, call_s: float, one: bool) -> list[int]:
        """one: the next wave alone."""
        most = engine.chain_limits() if takes_chains(engine) and not one else Limits(0, 0)
        chain, targets = self._chain(self._end(most))
        if takes_chains(engine) and (chain.n_waves > 1 or len(chain.jobs) <= engine.chain_limits().jobs):
            trained = engine.train_chain(chain, call_s)
        else:
            trained = wave_by_wave(engine, chain)
        for model, row in zip(targets, trained.rows):
            model.row, model.settled = row, True
        for t in chain.sums:
            del self._sums[targets[t]]
        self._sums |= {targets[t]: total for t, total in trained.sums.items()}
        self.waves += trained.n_waves
        n_jobs: list[int] = np.bincount(chain.wave, minlength=trained.n_waves)[: trained.n_waves].tolist()
        return n_jobs

    def _train_with_state(self, engine: KeepsState) -> int:
        """The next wave of jobs of a client rule with state. Returns their number."""
        wave = Wave(self.waves, self._level)
        for model in self._merges:
            wave.add(model)
        states = [m for m in self._of_level[self.waves + 1] if m.kept is not None and not m.settled and not m.models]
        places = [wave.place(*model.kept) for model in states if model.kept is not None]
        found = engine.train_with_state(*wave.arrays())
        for model, total in zip(wave.targets, found.sums):
            self._sums[model] = self._sums[model] + total if model in self._sums else total
        for model, at in zip(states, places):
            model.row, model.settled = found.own[at], True
        self.waves += 1
        return len(wave)

    def _end(self, most: Limits) -> int:
        """The wave before which the chain that begins now has to stop: rules that look at rows, waves that are large enough to be
        handed over by themselves, and memory end it."""
        n_jobs = [0] * (self._last + 1)
        for dispatch, levels in self._starts.items():
            for level in set(levels) - {-1}:
                n_jobs[level] += len(dispatch.client)
        end, n_models = self.waves + 1, 0
        while end < self._last and max(n_jobs[end - 1], n_jobs[end]) <= most.jobs:
            n_models += len(self._of_level[end])
            if n_models > most.models or any(model.rule is not None for model in self._of_level[end]):
                break
            end += 1
        return end

    def _chain(self, end: int) -> tuple[Chain, list[Model]]:
        """The waves from now to before `end`, and the models that its targets are: first those that are made on the way."""
        made = [model for models in self._of_level[self.waves + 1 : end] for model in models]
        later = [m for m in self._order if self._level[m] >= end and self._jobs_before(m, end)]
        slots, targets = Slots(made), [*made, *later]
        parts = [(i, slots.of(part), weight) for i, m in enumerate(made) for part, weight in m.models]
        gathered = Gathered(slots)
        for t, model in enumerate(targets):
            for dispatch, at, weights in self._jobs_before(model, end):
                waves = [level - self.waves if level < end else -1 for level in self._starts[dispatch]]
                gathered.add(t, dispatch, at, weights, waves)
        jobs, wave, mix = gathered.arrays(len(targets))
        part_model, part_slot, part_weight = zip(*parts) if parts else ((), (), ())
        return Chain(
            n_waves=end - self.waves,
            rows=np.stack(slots.rows),
            jobs=jobs,
            wave=wave,
            mix=mix,
            ready=np.array([self._level[m] - self.waves for m in made], dtype=np.int64),
            part_model=np.array(part_model, dtype=np.int64),
            part_slot=np.array(part_slot, dtype=np.int64),
            part_weight=np.array(part_weight, dtype=np.float64),
            sums={t: self._sums[m] for t, m in enumerate(targets) if m in self._sums},
        ), targets

    def _jobs_before(self, model: Model, end: int) -> list[tuple[Dispatch, Ints, Floats]]:
        """The jobs of a model of which some are trained from now to before `end`."""
        return [jobs for jobs in model.jobs if any(self.waves <= level < end for level in self._starts[jobs[0]])]


def settle(target: Model, engine: Engine | None, batches: list[int] | None = None) -> Row | None:
    """Compute `target` and all it depends on (without an engine: only mark them). Returns its row (P,).

    batches: gets the number of jobs of every batch that was trained.
    """
    settle_all([target], engine, batches)
    return target.row


def settle_all(targets: Iterable[Model], engine: Engine | None, batches: list[int] | None = None) -> None:
    """Compute several models together, in as few batches as one would take."""
    Settlement(targets).finish(engine, batches)

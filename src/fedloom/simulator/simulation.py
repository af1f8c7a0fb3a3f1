"""Running a scenario with a method: the clock, the training it asks for, and what is measured."""

import functools
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fedloom import data
from fedloom._blas import one_thread
from fedloom.grouping.view import FEATURES
from fedloom.methods import Method
from fedloom.methods.by_name import make_method
from fedloom.pacing import ladder_note
from fedloom.simulator.book import Model, settle
from fedloom.simulator.carrying import Carrier, Computes, Imagined
from fedloom.simulator.driver import Driver
from fedloom.simulator.evaluation import Evaluation, clocked, noted
from fedloom.simulator.first_round import first_round_notes
from fedloom.simulator.poisoning import backdoor_task
from fedloom.simulator.refusing import refuse_too_large
from fedloom.simulator.result import Checkpoint, Measures, Place, Result
from fedloom.simulator.scenarios import EveryEdgeRounds, Scenario
from fedloom.simulator.setting import make_setting, screened_by
from fedloom.simulator.sick import Sick
from fedloom.simulator.theory import Theory
from fedloom.simulator.validation import spare_samples
from fedloom.simulator.world import CloudRound
from fedloom.training import rows
from fedloom.training.choose import check_choice, make_engine
from fedloom.training.engine import Engine, NotFinite, Task
from fedloom.training.rule import LocalRule

if TYPE_CHECKING:
    from torch import nn

    from fedloom.training.rows import AnyModel

MakeEngine = Callable[[Task, LocalRule, int], tuple[Engine, str]]


class Simulation:
    """One run: scenario, method, seed. Use it once: `for measures in simulation.rounds(): ...`.

    Own data, model, partition and loss (a function of outputs and targets, fedloom.training.losses) may be given; otherwise they
    come from the scenario. In a dry run nothing is trained or evaluated, and clock and ledger are the same. timeline: keep what
    each client did when; by default all but dry runs do, as it grows with every round. engine: auto, native, torch, or a
    function of (task, rule, seed) that makes one and says what it is, such as fedloom.scale.engine.on_ray("auto"). device: where
    torch trains (auto, cpu, cuda, mps); together: how many clients at once, by default one on cpu and what fits elsewhere
    (fedloom.training.torch_together). carrier: who trains and merges in its place, in a world where that really happens
    (fedloom.deployment).
    """

    def __init__(
        self,
        scenario: Scenario,
        method: Method,
        seed: int = 0,
        *,
        dataset: data.Dataset | None = None,
        model: "AnyModel | None" = None,
        parts: Sequence[NDArray[np.integer]] | None = None,
        loss: Callable[..., Any] | None = None,
        directory: str | None = None,
        n_workers: int | None = None,
        engine: str | MakeEngine = "auto",
        device: str = "cpu",
        together: int | None = None,
        dry_run: bool = False,
        timeline: bool | None = None,
        carrier: Carrier | None = None,
    ) -> None:
        if not 0 <= seed < 2**63:
            raise ValueError(f"seed must be in 0..2^63-1, got {seed}")
        method = screened_by(method, scenario)
        refuse_too_large(scenario, method, dry_run=dry_run, dataset=dataset, model=model, n_workers=n_workers)
        self.scenario, self.method, self.seed, self.dry_run = scenario, method, seed, dry_run
        self._keep_timeline = not dry_run if timeline is None else timeline
        self.own_model = model is not None
        setting = self.setting = make_setting(
            scenario, method, seed, dataset=dataset, model=model, parts=parts, directory=directory, loss=loss
        )
        self.dataset, self.parts, self.label_counts = setting.dataset, setting.parts, setting.label_counts
        self.rule, self.world = setting.rule, setting.world
        self.n_params = rows.n_values(setting.model)
        self.engine, self.engine_name = self._make_engine(engine, n_workers, device, together)
        self._carrier = carrier
        local = setting.features(self.engine)
        self._features = local if carrier is None else carrier.features(local)
        self._evaluation: Evaluation | None = None
        self._backdoor: Engine | None = None
        if self.engine is not None:
            task = backdoor_task(setting.clean_task, self.world.hostility)
            if task is not None:
                self._backdoor, _ = self._engine_of(task, engine, n_workers, device, together)
            self._evaluation = Evaluation(
                self.engine,
                self.dataset,
                self.label_counts,
                scenario.evaluation,
                seed,
                self.world.layout,
                self._backdoor,
            )
        self._theory: Theory | None = None
        if self._evaluation is not None and scenario.evaluation.theory:
            self._theory = Theory(self._evaluation.engine, self.world.n_samples, scenario.training.lr)
        self.federation = self._new_federation()
        self._computing = self._new_computing()
        self.measures: list[Measures] = []
        self.places: list[Place] = []
        self.cloud_rounds_done = 0
        self._looks_done = 0  # evaluations since the last cloud round
        self._last_row: NDArray[np.float32] | None = None
        self._evaluation_s = 0.0
        self._so_far = 0, 0  # batches trained, and updates left out, when the last cloud round was over
        self.costs: list[tuple[int, Mapping[str, list[str] | NDArray[np.generic]]]] = []
        """Of every cloud round (its number first) what it cost, by aggregator, hop and direction; not in a dry run."""
        self.warnings: list[str] = []
        """What a user should know of this combination of scenario and method."""
        self._warn(ladder_note(method.edge.rounds, self.world.lr, scenario.training.cloud_rounds))

    def rounds(self, resume: Checkpoint | None = None) -> Generator[Measures | None, None, None]:
        """Run to the end; yields once before any training and after every cloud round what was measured, if anything.

        What is measured between cloud rounds stands in `measures` when the next one is over.
        """
        try:
            with one_thread():
                yield from self._rounds(resume)
        finally:
            for one in (self.engine, self._backdoor):
                if one is not None:
                    one.close()

    def _rounds(self, resume: Checkpoint | None) -> Generator[Measures | None, None, None]:
        if resume is None:
            yield self._measure(None)
        else:
            self._go_on_from(resume)
        for state in self.federation.cloud_rounds(self.scenario.training.cloud_rounds):
            now = (self.cloud_rounds_done, self._looks_done)
            replayed = resume is not None and now < (resume.cloud_round, resume.looks)
            whole = resume is None or state.cloud_round > resume.cloud_round + 1
            if replayed:
                self._computing.mark(_looked_at(state))
            elif whole and self._may_wait(state):
                self._computing.wait(_looked_at(state))
            else:
                self._computing.compute(_looked_at(state))
            if not state.between:
                self._look_for_sick(may_refuse=whole and self._carrier is None)
            if state.between:
                if not replayed:
                    self._measure(state)
                self._looks_done += 1
                continue
            self._note(state)
            self.cloud_rounds_done, self._looks_done = state.cloud_round, 0
            if resume is not None and not resume.waves and state.cloud_round == resume.cloud_round:
                self._computing.restore()
            if not replayed:
                yield self._measure(state) if self._is_due(state) else None
        if self.federation.deserted:
            self._warn(
                f"nobody is left: no device that is waited for comes after {self.federation.clock.now_s:.6g} s, "
                f"so the run ended in cloud round {self.cloud_rounds_done} of {self.scenario.training.cloud_rounds}"
            )
        if self._computing.resume is not None:
            raise ValueError(
                f"the checkpoint is of cloud round {self._computing.resume.cloud_round}, and this run is over after "
                f"{self.cloud_rounds_done}: it belongs to another run; delete it to start again"
            )

    def checkpoint(self) -> Checkpoint:
        """The state after the round that was yielded last, or, in `on_wave`, after the wave that was trained last. Computes what
        waits (`up_to_date`)."""
        self._computing.flush()
        return Checkpoint(
            cloud_round=self.cloud_rounds_done,
            measures=list(self.measures),
            decisions=dict(self.federation.decisions),
            scores=dict(self.federation.scores),
            verdicts=dict(self.federation.auditing.verdicts),
            looks=self._looks_done,
            last_row=self._last_row,
            sick=[] if self._sick is None else self._sick.table,
            **self._computing.state(),
        )

    def result(self) -> Result:
        """What there is so far. Computes what waits (`up_to_date`)."""
        self._computing.flush()
        return Result(
            measures=self.measures,
            places=self.places,
            ledger=self.federation.ledger,
            row=None if self.federation.model.row is None else self.federation.model.row[: self.n_params],
        )

    @property
    def up_to_date(self) -> bool:
        """Whether the models of all rounds so far are computed: those that nobody looks at may wait for the next ones."""
        return self._computing.up_to_date

    @functools.cached_property
    def model(self) -> "nn.Module":
        """The module that is trained, with its first values; a named network becomes one when it is asked for."""
        from fedloom.training.models import as_module

        return as_module(self.setting.model)

    @property
    def on_wave(self) -> Callable[[], None] | None:
        """Called after every call of the engine inside a cloud round; `checkpoint` may be taken there."""
        return self._computing.on_wave

    @on_wave.setter
    def on_wave(self, call: Callable[[], None] | None) -> None:
        self._computing.on_wave = call

    @property
    def call_s(self) -> float:
        """Wall seconds after which a call of the engine begins no further wave of training; 0: every wave is a call."""
        return self._computing.call_s

    @call_s.setter
    def call_s(self, seconds: float) -> None:
        self._computing.call_s = seconds

    @property
    def engine_s(self) -> float:
        """Wall seconds spent training and evaluating."""
        return self._computing.wall_s + self._evaluation_s

    @property
    def batches(self) -> list[int]:
        """Jobs of every wave that was trained."""
        return self._computing.batches

    def _make_engine(
        self, engine: str | MakeEngine, n_workers: int | None, device: str, together: int | None
    ) -> tuple[Engine | None, str]:
        check_choice(engine if isinstance(engine, str) else "auto", device, together)
        if not isinstance(engine, str) and (device, together) != ("cpu", None):
            raise ValueError(
                "device and together belong to engines by name; an engine of one's own has its own settings"
            )
        if self.dry_run:
            return None, "none (dry run)"
        return self._engine_of(self.setting.task, engine, n_workers, device, together)

    def _engine_of(
        self, task: Task, engine: str | MakeEngine, n_workers: int | None, device: str, together: int | None
    ) -> tuple[Engine, str]:
        if isinstance(engine, str):
            return make_engine(task, self.rule, self.seed, n_workers, engine, device=device, together=together)
        return engine(task, self.rule, self.seed)

    def _new_federation(self, saved: Checkpoint | None = None) -> Driver:
        evaluation = self.scenario.evaluation
        every = evaluation.every
        return Driver(
            self.method,
            self.world,
            Model(None if self.dry_run else self.setting.first_row),
            self._features,
            None if saved is None else saved.decisions,
            self._score,
            None if saved is None else saved.scores,
            look_every=every.edge_rounds if isinstance(every, EveryEdgeRounds) else None,
            keep_devices=evaluation.models == "devices" and not self.dry_run,
            keep_timeline=self._keep_timeline,
            carrier=self._carrier,
            verdicts=None if saved is None else saved.verdicts,
            compute=lambda models: self._computing.compute(models),
        )

    def _new_computing(self) -> Computes:
        carrier = self._carrier or Imagined(at_once=False)
        computing = carrier.computing(self.engine, lambda: self.federation.live_models())
        computing.on_look = lambda: self._look_for_sick(may_refuse=True)
        return computing

    def _may_wait(self, state: CloudRound) -> bool:
        """Nobody needs the models of this cloud round before the next: not to measure or to group, nor are some left out."""
        looked_at = state.between or self._is_due(state) or bool(self.method.needs & set(FEATURES.values()))
        return self.engine is not None and not looked_at and not self._sick

    def _go_on_from(self, saved: Checkpoint) -> None:
        """The clock is run again, without training, up to there."""
        if saved.models.shape[1:] != (self.setting.width,):
            raise ValueError(
                f"the checkpoint holds models of shape {saved.models.shape[1:]}, this run needs ({self.setting.width},): it "
                f"belongs to another run or version; delete it to start again"
            )
        self._computing.resume = saved
        self.measures, self._last_row = list(saved.measures), saved.last_row
        self.federation = self._new_federation(saved)
        if self._sick is not None:
            self._sick.restore(saved.sick)

    @property
    def _sick(self) -> Sick | None:
        return self.federation.held.sick

    def _look_for_sick(self, *, may_refuse: bool) -> None:
        """A cloud round in which nobody's model stayed finite is no matter of a few sick clients: the training is at fault."""
        (n_before, sick_before), sick = self._so_far, self._sick
        self._so_far = len(self.batches), 0 if sick is None else len(sick)
        nobody = self._so_far[1] > sick_before and not any(self.batches[n_before:])
        if nobody and may_refuse and sick is not None:
            raise NotFinite(sorted({k for _, k, *_ in sick.table}), self.rule.lr)

    def _score(self, model: Model) -> float:
        """Accuracy on training samples that no client has; 0 in a dry run."""
        if self.engine is None:
            settle(model, None)
            return 0.0
        chosen = spare_samples(self.method.name, self.dataset, self.parts, self.seed)
        self._computing.compute([model])
        assert model.row is not None
        return float(self.engine.evaluate(model.row[None], "train").correct[0][chosen].mean())

    def _is_due(self, state: CloudRound) -> bool:
        every = self.scenario.evaluation.every
        return isinstance(every, EveryEdgeRounds) or state.cloud_round % every == 0 or state.last

    def _measure(self, state: CloudRound | None) -> Measures:
        """Measures after a cloud round, or of the initial model."""
        measures = clocked(self.federation.ledger, state) | self._given_away()
        if self._evaluation is not None:
            row = (self.federation.model if state is None else state.model).row
            assert row is not None
            row = row[: self.n_params]
            before = time.perf_counter()
            measures |= self._evaluation.measure(row, state)
            self._evaluation_s += time.perf_counter() - before
            if self._theory is not None:
                measures |= self._theory.measure(row, self._last_row, state)
                self._last_row = row
        measures |= noted(state)
        self.measures.append(measures)
        return measures

    def _given_away(self) -> Measures:
        """Epsilon of the client that has given away most: to its aggregators, and to everybody else."""
        found = self.epsilons()
        names = {"edge": "epsilon_edge", "others": "epsilon"}
        return {names[whom]: float(values.max()) for whom, values in found.items()}

    def epsilons(self) -> dict[str, NDArray[np.float64]]:
        """Of every client (K,), to whom, so far; empty where no noise protects clients."""
        return self.federation.held.spending.epsilons(self.scenario.evaluation.delta)

    def _note(self, state: CloudRound) -> None:
        """Who was where, what it cost, and what a user should know."""
        place = Place(
            cloud_round=state.cloud_round,
            topology=state.topology,
            home=state.snapshot.home,
            position_m=state.snapshot.position_m,
            up_s=state.up_s,
        )
        if not self.places or not place.same_as(self.places[-1]):
            self.places.append(place)
        if not self.dry_run:
            self.costs.append((state.cloud_round, state.costs))
        if state.cloud_round == 1:
            for sentence in first_round_notes(state, self.method, self.setting, noise_is_felt=not self.dry_run):
                self._warn(sentence)

    def _warn(self, sentence: str | None) -> None:
        if sentence is not None and sentence not in self.warnings:
            self.warnings.append(sentence)


def simulate(scenario: Scenario, method: str | Method = "hierfedavg", seed: int = 0, **options: Any) -> Result:
    """Run to the end and return what was measured. `options` as for Simulation: dataset, model, parts, dry_run, ..."""
    simulation = Simulation(scenario, make_method(method) if isinstance(method, str) else method, seed, **options)
    for _ in simulation.rounds():
        pass
    return simulation.result()


def _looked_at(state: CloudRound) -> list[Model]:
    """The models that are computed after a cloud round. Residuals and states, as each of them would keep all before it if it were
    not."""
    shown = [state.model, *state.reported_models, *state.cluster_models, *state.device_models.values()]
    return [*shown, *state.residuals, *state.states.values()]

"""Running a scenario with a method: the clock, the training it asks for, and what is measured."""

import time
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from torch import nn

from fedloom import _check, bounds, data
from fedloom._random import stream
from fedloom.fleet import Fleet
from fedloom.grouping import Topology
from fedloom.methods import Method
from fedloom.methods.by_name import make_method
from fedloom.mixing.noise import noise_note
from fedloom.pacing import box_note, ladder_note
from fedloom.simulator.book import Model, Settlement, settle, settle_all, settled_below, together
from fedloom.simulator.driver import Driver
from fedloom.simulator.estimate import refuse_too_large
from fedloom.simulator.features import Features
from fedloom.simulator.ledger import Ledger
from fedloom.simulator.scenarios import (
    LOCAL_STEPS,
    EveryEdgeRounds,
    ExponentialDecay,
    InverseTimeDecay,
    Scenario,
)
from fedloom.simulator.world import CloudRound, Decision, World
from fedloom.training import models, rows
from fedloom.training.batches import steps_per_pass
from fedloom.training.choose import ENGINES, make_engine
from fedloom.training.engine import Engine, Scores, Task
from fedloom.training.rule import Constant, Exponential, InverseTime, LocalRule, Schedule

if TYPE_CHECKING:
    import polars

Measures = dict[str, float | int]
VALIDATION = 2000  # samples
EVALUATED = 64  # models at a time: what they predict is kept until they are scored
MakeEngine = Callable[[Task, LocalRule, int], tuple[Engine, str]]


@dataclass(frozen=True, kw_only=True, eq=False)
class Checkpoint:
    """Enough to go on after `cloud_round` rounds, or in the middle of the next one: what was measured, and the rows of the
    models still in use (M, P).

    The clock is not stored: it does not depend on the models but by groupings that were decided on features, which are
    kept in `decisions`, and by accuracies that a bound on staleness went by, kept in `scores`; so it is run again without
    training, which is quick.

    In the middle of a cloud round: looks, evaluations between cloud rounds since the last one; waves, batches of the training
    under way that are done (0: between cloud rounds), and the sums they gave (P,) to models that wait for more of them, by
    their place in the book's order. last_row (P,): of the model measured last, if theory is.
    """

    cloud_round: int
    measures: list[Measures]
    models: NDArray[np.float32]
    decisions: dict[int, Decision] = field(default_factory=dict)
    scores: dict[int, float] = field(default_factory=dict)
    looks: int = 0
    waves: int = 0
    sums: dict[int, NDArray[np.float64]] = field(default_factory=dict)
    last_row: NDArray[np.float32] | None = None

    @property
    def moment(self) -> tuple[int, int, int, int]:
        """Of two checkpoints of a run, the later one has the larger."""
        return self.cloud_round, self.looks, len(self.scores), self.waves


@dataclass(frozen=True, kw_only=True, eq=False)
class Place:
    """Who was where from `cloud_round` on: topology, home cells (K,), positions (K, D), seconds up to the aggregator (K,)."""

    cloud_round: int
    topology: Topology
    home: NDArray[np.int64]
    position_m: NDArray[np.float64]
    up_s: NDArray[np.float64]

    def same_as(self, other: "Place") -> bool:
        pairs = [
            (self.topology.cover, other.topology.cover),
            (self.topology.host, other.topology.host),
            (self.home, other.home),
            (self.position_m, other.position_m),
        ]
        return self.topology.kind == other.topology.kind and all(a is b or np.array_equal(a, b) for a, b in pairs)


@dataclass(frozen=True, kw_only=True, eq=False)
class Result:
    """What a run gives: measures per evaluation, who was where (the first round of every change), the ledger, and the
    global model's row (P,), None in a dry run."""

    measures: list[Measures]
    places: list[Place]
    ledger: Ledger
    row: NDArray[np.float32] | None

    @property
    def metrics(self) -> "polars.DataFrame":
        """One line per evaluation."""
        import polars

        return polars.DataFrame(self.measures, infer_schema_length=None)


class Simulation:
    """One run: scenario, method, seed. Use it once: `for measures in simulation.rounds(): ...`.

    Own data, model and partition may be given; otherwise they come from the scenario. In a dry run nothing is trained
    or evaluated, and clock and ledger are the same. timeline: keep what each client did when; by default all but dry runs do, as
    it grows with every round. engine: auto, native, torch, or a function of (task, rule, seed) that
    makes one and says what it is, such as fedloom.scale.engine.on_ray("auto").
    """

    def __init__(
        self,
        scenario: Scenario,
        method: Method,
        seed: int = 0,
        *,
        dataset: data.Dataset | None = None,
        model: nn.Module | None = None,
        parts: Sequence[NDArray[np.integer]] | None = None,
        directory: str | None = None,
        n_workers: int | None = None,
        engine: str | MakeEngine = "auto",
        dry_run: bool = False,
        timeline: bool | None = None,
    ) -> None:
        if not 0 <= seed < 2**63:
            raise ValueError(f"seed must be in 0..2^63-1, got {seed}")
        refuse_too_large(scenario, method, dry_run=dry_run, dataset=dataset, model=model, n_workers=n_workers)
        self.scenario, self.method, self.seed, self.dry_run = scenario, method, seed, dry_run
        self._keep_timeline = not dry_run if timeline is None else timeline
        settings, training = scenario.task, scenario.training
        self.dataset = dataset or data.load(
            settings.dataset, directory, settings.data_limit, gaussian=settings.gaussian, magnet=settings.magnet
        )
        fleet = Fleet.from_settings(scenario.fleet, seed)
        self.parts = self._parts(parts, fleet.snapshot(0).home)
        n_outputs = self.dataset.n_classes or self.dataset.y_train.shape[1]
        options = settings.model.model_dump(exclude={"kind"}, exclude_none=True)
        self.own_model = model is not None
        self.model = model or models.build(settings.model.kind, self.dataset.shape, n_outputs, seed, **options)
        self.n_params = rows.n_values(self.model)
        n_samples = np.array([len(part) for part in self.parts], dtype=np.int64)
        self.label_counts = self._label_counts()
        self.rule = LocalRule(
            lr=training.lr,
            schedule=_schedule(training.lr_decay, n_samples, training.batch_size, training.drop_last),
            momentum=training.momentum,
            weight_decay=training.weight_decay,
            proximal=method.local.proximal,
            clip_norm=training.clip_norm,
        )
        self.world = World(
            fleet=fleet,
            n_samples=n_samples,
            label_counts=self.label_counts,
            batch_size=training.batch_size,
            model_bits=scenario.model_bits or 32.0 * self.n_params,
            seed=seed,
            drop_last=training.drop_last,
            local_steps=training.local_steps or LOCAL_STEPS,
            local_epochs=training.local_epochs,
            edge_rounds=training.edge_rounds,
            participation=training.participation,
            clients_per_round=training.clients_per_round,
            total_steps=training.total_steps,
            lr=lambda step: float(self.rule.rates(step, 1)[0]),
            trainable=rows.trainable_mask(self.model),
        )
        self.engine: Engine | None = None
        self.engine_name = "none (dry run)"
        if isinstance(engine, str):
            _check.one_of("engine", engine, ENGINES)
        if not dry_run:
            if isinstance(engine, str):
                self.engine, self.engine_name = make_engine(self._task(), self.rule, seed, n_workers, engine)
            else:
                self.engine, self.engine_name = engine(self._task(), self.rule, seed)
        self._local_tests = self._make_local_tests()
        self._features = Features(
            model=self.model,
            engine=self.engine,
            parts=self.parts,
            label_counts=self.label_counts,
            n_outputs=n_outputs,
            batch_size=training.batch_size,
            inputs=lambda: self.dataset.inputs("train"),
            labels=self.dataset.labels,
        )
        self.federation = self._new_federation()
        self.measures: list[Measures] = []
        self.places: list[Place] = []
        self.cloud_rounds_done = 0
        self._looks_done = 0  # evaluations since the last cloud round
        self._settlement: Settlement | None = None  # the training under way
        self._resume: Checkpoint | None = None  # until its models are back
        self.on_wave: Callable[[], None] | None = None
        """Called after every batch of training inside a cloud round; `checkpoint` may be taken there."""
        self._last_row: NDArray[np.float32] | None = None
        self.engine_s = 0.0  # wall seconds spent training and evaluating
        self.batches: list[int] = []  # jobs of every batch that was trained
        self.costs: list[tuple[int, Mapping[str, list[str] | NDArray[np.generic]]]] = []
        """Of every cloud round (its number first) what it cost, by aggregator, hop and direction; not in a dry run."""
        self.warnings: list[str] = []
        """What a user should know of this combination of scenario and method."""
        self._warn(ladder_note(method.edge.rounds, self.world.lr, training.cloud_rounds))

    def rounds(self, resume: Checkpoint | None = None) -> Generator[Measures | None, None, None]:
        """Run to the end; yields once before any training and after every cloud round what was measured, if anything.

        What is measured between cloud rounds stands in `measures` when the next one is over.
        """
        every = self.scenario.evaluation.every
        self._resume = resume
        try:
            if resume is None:
                yield self._measure(None)
            else:
                self.measures = list(resume.measures)
                self.federation = self._new_federation(resume.decisions, resume.scores)
            for state in self.federation.cloud_rounds(self.scenario.training.cloud_rounds):
                now = (self.cloud_rounds_done, self._looks_done)
                replayed = resume is not None and now < (resume.cloud_round, resume.looks)
                self._settle(self._looked_at(state), replayed)
                if state.between:
                    if not replayed:
                        self._measure(state)
                    self._looks_done += 1
                    continue
                self._note_place(state)
                self._look_out(state)
                self.cloud_rounds_done, self._looks_done = state.cloud_round, 0
                if resume is not None and not resume.waves and state.cloud_round == resume.cloud_round:
                    self._load(resume)
                if not replayed:
                    due = isinstance(every, EveryEdgeRounds) or state.cloud_round % every == 0 or state.last
                    yield self._measure(state) if due else None
            if self._resume is not None:
                raise ValueError(
                    f"the checkpoint is of cloud round {self._resume.cloud_round}, and this run is over after "
                    f"{self.cloud_rounds_done}: it belongs to another run; delete it to start again"
                )
        finally:
            if self.engine is not None:
                self.engine.close()

    def _new_federation(
        self, decisions: Mapping[int, Decision] | None = None, scores: Mapping[int, float] | None = None
    ) -> Driver:
        first = Model(None if self.dry_run else rows.to_row(self.model))
        evaluation = self.scenario.evaluation
        every = evaluation.every
        return Driver(
            self.method,
            self.world,
            first,
            self._features,
            decisions,
            self._score,
            scores,
            look_every=every.edge_rounds if isinstance(every, EveryEdgeRounds) else None,
            keep_devices=evaluation.models == "devices" and not self.dry_run,
            keep_timeline=self._keep_timeline,
        )

    def _looked_at(self, state: CloudRound) -> list[Model]:
        """The models that are computed after a cloud round."""
        return [state.model, *state.reported_models, *state.cluster_models, *state.device_models.values()]

    def _score(self, model: Model) -> float:
        """Accuracy on at most VALIDATION training samples that no client has; 0 in a dry run."""
        if self.engine is None:
            settle(model, None)
            return 0.0
        spare = np.setdiff1d(np.arange(len(self.dataset.y_train)), np.concatenate(self.parts))
        if not (len(spare) and self.dataset.n_classes):
            raise ValueError(
                f"{self.method.name} adapts its bound on staleness by the accuracy on training samples that no client has, "
                f"and here the clients have all {len(self.dataset.y_train)} (or there are no classes); take a partition that "
                f"leaves some, or keep the bound fixed (adapt=false)"
            )
        chosen = stream(self.seed, "validation").permutation(spare)[:VALIDATION]
        self._timed_settle([model])
        assert model.row is not None
        return float(self.engine.evaluate(model.row[None], "train").correct[0][chosen].mean())

    def checkpoint(self) -> Checkpoint:
        """The state after the round that was yielded last, or, in `on_wave`, after the batch that was trained last."""
        under_way = self._settlement
        return Checkpoint(
            cloud_round=self.cloud_rounds_done,
            measures=list(self.measures),
            models=np.stack([m.row for m in self._in_use() if m.row is not None]),
            decisions=dict(self.federation.decisions),
            scores=dict(self.federation.scores),
            looks=self._looks_done,
            waves=0 if under_way is None else under_way.waves,
            sums={} if under_way is None else under_way.waiting,
            last_row=self._last_row,
        )

    def result(self) -> Result:
        """What there is so far."""
        return Result(
            measures=self.measures,
            places=self.places,
            ledger=self.federation.ledger,
            row=self.federation.model.row,
        )

    def _parts(
        self, parts: Sequence[NDArray[np.integer]] | None, home: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], ...]:
        n_devices = self.scenario.fleet.n_devices
        if parts is None:
            rng = stream(self.seed, "partition")
            parts = data.make_partition(self.scenario.task.partition, self.dataset, n_devices, rng, home=home)
        if len(parts) != n_devices:
            raise ValueError(f"the partition is for {len(parts)} clients, but the fleet has {n_devices} devices")
        return tuple(np.asarray(part, dtype=np.int64) for part in parts)

    def _label_counts(self) -> NDArray[np.int64]:
        if self.dataset.labels is None:
            return np.zeros((len(self.parts), 0), dtype=np.int64)
        return data.label_counts(self.dataset.labels, self.parts, self.dataset.n_labels)

    def _task(self) -> Task:
        settings, training = self.scenario.task, self.scenario.training
        return Task(
            model=self.model,
            x_train=self.dataset.inputs("train", standardise=settings.standardise),
            y_train=self.dataset.y_train,
            x_test=self.dataset.inputs("test", standardise=settings.standardise),
            y_test=self.dataset.y_test,
            parts=self.parts,
            loss="cross-entropy" if self.dataset.n_classes else "mse",
            batch_size=training.batch_size,
            drop_last=training.drop_last,
        )

    def _make_local_tests(self) -> list[NDArray[np.int64]]:
        n = self.scenario.evaluation.local_samples
        if self.dry_run or not n or not self.dataset.n_classes:
            return []
        return data.local_tests(self.dataset.y_test, self.label_counts, stream(self.seed, "local tests"), n)

    def _warn(self, sentence: str | None) -> None:
        if sentence is not None and sentence not in self.warnings:
            self.warnings.append(sentence)

    def _look_out(self, state: CloudRound) -> None:
        """Warn of what can be known after the first cloud round: a time box that does not fit, noise that drowns the model."""
        if state.cloud_round > 1:
            return
        if self.method.edge.box_s is not None:
            self._warn(box_note(self.method.edge.box_s, state.group_rounds, self.world.edge_rounds))
        if state.noise_std and not self.dry_run:
            trained = rows.to_row(self.model)[rows.trainable_mask(self.model)]
            rms = float(np.sqrt(np.mean(trained.astype(np.float64) ** 2)))
            self._warn(noise_note([state.noise_std], [1.0], rms))

    def _settle(self, models: list[Model], replayed: bool) -> None:
        """Compute models, or only mark them as computed where a run that is gone on with had computed them."""
        if replayed:
            settle_all(models, None)
        else:
            self._timed_settle(models)

    def _timed_settle(self, models: list[Model]) -> None:
        before = time.perf_counter()
        outside_s = 0.0

        def on_wave() -> None:
            nonlocal outside_s
            if self.on_wave is not None:
                left = time.perf_counter()
                self.on_wave()
                outside_s += time.perf_counter() - left

        self._settlement = Settlement(together(models))
        if self._resume is not None:  # the checkpoint was taken in the middle of this
            self._settlement.skip(self._resume.waves, self._resume.sums)
            self._load(self._resume)
        self._settlement.finish(self.engine, self.batches, on_wave)
        self._settlement = None
        self.engine_s += time.perf_counter() - before - outside_s

    def _in_use(self) -> list[Model]:
        """The settled models that the rest of the run, or the training under way, may refer to, in a fixed order."""
        under_way = [] if self._settlement is None else [self._settlement.target]
        return settled_below([*self.federation.live_models(), *under_way])

    def _load(self, checkpoint: Checkpoint) -> None:
        """Give the models of the clock that was run again the rows that were saved."""
        live = self._in_use()
        if checkpoint.models.shape != (len(live), self.n_params):
            raise ValueError(
                f"the checkpoint holds {checkpoint.models.shape} values, this run needs ({len(live)}, {self.n_params}): "
                f"it belongs to another run or version; delete it to start again"
            )
        for model, row in zip(live, checkpoint.models):
            model.row = row
        self._last_row = checkpoint.last_row
        self._resume = None

    def _note_place(self, state: CloudRound) -> None:
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

    def _measure(self, state: CloudRound | None) -> Measures:
        """Measures after a cloud round, or of the initial model."""
        ledger = self.federation.ledger
        measures: Measures = {
            "cloud_round": state.cloud_round if state else 0,
            "edge_round": state.edge_rounds if state else 0,
            "local_steps": state.local_steps if state else 0,
            "time_s": state.time_s if state else 0.0,
            "energy_j": ledger.total_j,
            "bytes": ledger.total_bytes,
            "models_unicast": ledger.client_models("unicast"),
            "models_once": ledger.client_models("once"),
            "updates": state.n_updates if state else 0,
            "late": state.n_late if state else 0,
            "handovers": state.handovers if state else 0,
        }
        if state is not None and state.s_max is not None:
            measures["staleness_bound"] = state.s_max
        if self.engine is not None:
            row = (self.federation.model if state is None else state.model).row
            assert row is not None
            before = time.perf_counter()
            scores = self.engine.evaluate(row[None])
            errors = self._errors(row)
            if self.dataset.n_classes:
                measures["accuracy"] = float(scores.accuracy[0])
                if self._local_tests:
                    measures["local_accuracy"] = float(
                        np.mean([scores.correct[0][t].mean() for t in self._local_tests])
                    )
            else:
                measures |= {"rmse": float(scores.rmse[0]), "mae": float(scores.mae[0])}
            measures |= self._other_models(scores, state)
            self.engine_s += time.perf_counter() - before
            measures |= errors
            measures["loss"] = float(scores.loss[0])
            measures["edge_drift"] = _edge_drift(state.edges) if state else 0.0
            if self.scenario.evaluation.theory:
                measures |= self._theory(row, state)
        measures |= _notes(state)
        self.measures.append(measures)
        return measures

    def _other_models(self, whole: Scores, state: CloudRound | None) -> dict[str, float]:
        """How good the models are that aggregators and devices hold, beside the global one, of which `whole` tells.

        On the whole test set, mean and worst over aggregators with clients (edge_...) and devices (device_...). And the mean
        over clients of the accuracy on the test samples whose label the client has (local_by_...): by the global model, by
        the model of its cluster before it went into the global one, and by the last one its aggregator reported."""
        first = _Score.of(whole, 0, self.dataset)
        if self.scenario.evaluation.models == "global":
            return self._local_by(first, {})
        if state is None:  # everybody has the first model
            everybodys = [first] * len(self.parts)
            return _mean_and_worst("edge", [first]) | self._local_by(first, {"cluster": everybodys, "edge": everybodys})
        own = np.where(state.topology.cover.any(axis=0), state.topology.cover.argmax(axis=0), -1)
        used = np.flatnonzero(state.topology.cover.any(axis=1)).tolist()
        alone = state.topology.kind == "cloud" and state.topology.cluster is None
        edges = [state.model if alone else state.reported_models[n] for n in used]
        clusters = [state.model if alone else state.cluster_models[n] for n in used]
        scored = self._scored([*edges, *clusters, *state.device_models.values()], {state.model: first})
        found = _mean_and_worst("edge", [scored[m] for m in edges])
        found |= _mean_and_worst("device", [scored[m] for m in state.device_models.values()])
        by = {}
        for name, models_ in (("cluster", clusters), ("edge", edges)):
            of_aggregator = {-1: first} | {n: scored[m] for n, m in zip(used, models_)}
            by[name] = [of_aggregator[n] for n in own.tolist()]
        return found | self._local_by(first, by)

    def _scored(self, wanted: list[Model], known: "dict[Model, _Score]") -> "dict[Model, _Score]":
        """How good each model is on the test set; of some it is known."""
        found, others = dict(known), [m for m in dict.fromkeys(wanted) if m not in known]
        assert self.engine is not None
        for at in range(0, len(others), EVALUATED):
            part = others[at : at + EVALUATED]
            several = self.engine.evaluate(np.stack([m.row for m in part if m.row is not None]))
            found |= {m: _Score.of(several, j, self.dataset) for j, m in enumerate(part)}
        return found

    def _local_by(self, first: "_Score", by: "Mapping[str, list[_Score]]") -> dict[str, float]:
        """Accuracies on the clients' own labels, by the global model and by the models (K,) of `by`."""
        if not self.dataset.n_classes:
            return {}
        n_test = np.bincount(self.dataset.y_test, minlength=self.dataset.n_classes)
        held = (self.label_counts > 0) & (n_test > 0)  # (K, C)
        known = held.any(axis=1)

        def local(right: NDArray[np.float64]) -> float:
            """right (C,) or (K, C): samples of each class that are right by a client's model."""
            return float(((held * right).sum(axis=1)[known] / (held @ n_test)[known]).mean())

        own = {f"local_by_{name}": local(np.stack([s.right for s in scores])) for name, scores in by.items()}
        return {"local_by_global": local(first.right)} | own

    def _theory(self, row: NDArray[np.float32], state: CloudRound | None) -> dict[str, float]:
        """What bounds are made of: training loss at `row` (P,), and of the cloud round that led there, the mean local steps
        of a sample's owner and the mismatch of gradients at its start, in means over clusters and over clients."""
        assert self.engine is not None
        before, self._last_row = self._last_row, row
        found = {"train_loss": float(self.engine.evaluate(row[None], "train").loss[0])}
        if state is None or before is None:
            return found | {"step_mass": 0.0, "mismatch_cluster": 0.0, "mismatch_client": 0.0}
        inside = np.flatnonzero(state.topology.cover.any(axis=0))  # devices may be left out
        gradients = self.engine.gradient(before[None], [(0, k) for k in inside.tolist()])
        used = state.topology.cover[state.topology.cover.any(axis=1)][:, inside]
        n_samples, client_steps = self.world.n_samples[inside], state.client_steps[inside]
        return found | {
            "step_mass": float(n_samples @ client_steps / n_samples.sum()),
            "mismatch_cluster": float(bounds.cluster_mismatch(gradients, used, n_samples).mean()),
            "mismatch_client": float(bounds.client_mismatch(gradients, used, n_samples).mean()),
        }

    def _errors(self, row: NDArray[np.float32]) -> dict[str, float]:
        """The dataset's own measures of the model `row` (P,) on the test split."""
        if not self.dataset.errors:
            return {}
        assert self.engine is not None
        predictions = self.engine.outputs(row[None])[0]
        return {name: error(predictions, self.dataset.y_test) for name, error in self.dataset.errors.items()}


@dataclass(frozen=True, eq=False)
class _Score:
    """Of one model on the test set: its measure, and for classes the samples of each that are right (C,)."""

    name: str
    value: float
    right: NDArray[np.float64]

    @classmethod
    def of(cls, scores: Scores, j: int, dataset: data.Dataset) -> "_Score":
        if not dataset.n_classes:
            return cls("rmse", float(scores.rmse[j]), np.zeros(0))
        right = np.bincount(dataset.y_test[scores.correct[j]], minlength=dataset.n_classes)
        return cls("accuracy", float(scores.accuracy[j]), right.astype(np.float64))


def _mean_and_worst(whose: str, scores: Sequence[_Score]) -> dict[str, float]:
    """Measures such as edge_accuracy and edge_accuracy_worst; none without models."""
    if not scores:
        return {}
    name, values = scores[0].name, [s.value for s in scores]
    worst = min(values) if name == "accuracy" else max(values)
    return {f"{whose}_{name}": float(np.mean(values)), f"{whose}_{name}_worst": worst}


def _notes(state: CloudRound | None) -> dict[str, float]:
    """Means over all aggregators of what the grouping noted, infinite if it is for one of them (a cluster whose links are
    down), and how many these are; and of the edge rounds they ran."""
    if state is None or not state.topology.notes:
        return {}
    values = {name: np.atleast_1d(value) for name, value in state.topology.notes.items()}
    means = {name: float(v.mean()) for name, v in values.items() if not np.isnan(v).any()}
    dead = {"dead_clusters": float(np.isinf(values["round_s"]).sum())} if "round_s" in values else {}
    rounds = {"rounds_mean": float(state.group_rounds.mean()), "rounds_max": float(state.group_rounds.max())}
    return means | dead | rounds


def _edge_drift(edges: list[tuple[Model, float]]) -> float:
    """How far apart the aggregators' models were when they were averaged: mean squared distance from their mean."""
    known = [(m.row, weight) for m, weight in edges if m.row is not None]
    return bounds.drift(np.stack([row for row, _ in known]), [weight for _, weight in known]) if len(known) > 1 else 0.0


def simulate(scenario: Scenario, method: str | Method = "hierfedavg", seed: int = 0, **options: Any) -> Result:
    """Run to the end and return what was measured. `options` as for Simulation: dataset, model, parts, dry_run, ..."""
    simulation = Simulation(scenario, make_method(method) if isinstance(method, str) else method, seed, **options)
    for _ in simulation.rounds():
        pass
    return simulation.result()


def _schedule(
    decay: ExponentialDecay | InverseTimeDecay | None,
    n_samples: NDArray[np.int64],
    batch_size: int,
    drop_last: bool,
) -> Schedule:
    if decay is None:
        return Constant()
    if isinstance(decay, InverseTimeDecay):
        return InverseTime(delay_steps=decay.delay_steps)
    epoch = steps_per_pass(round(float(n_samples.mean())), batch_size, drop_last)
    return Exponential(ratio=decay.ratio, every_steps=decay.every_steps or epoch)

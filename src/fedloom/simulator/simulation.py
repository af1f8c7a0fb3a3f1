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
from fedloom.methods import METHODS, Method
from fedloom.simulator.book import Model, settle, settle_all, settled_below
from fedloom.simulator.features import Features
from fedloom.simulator.federation import CloudRound, Decision, Federation, World
from fedloom.simulator.ledger import Ledger
from fedloom.simulator.scenarios import ExponentialDecay, InverseTimeDecay, Scenario
from fedloom.training import models, rows
from fedloom.training.batches import steps_per_pass
from fedloom.training.choose import ENGINES, make_engine
from fedloom.training.engine import Engine, Task
from fedloom.training.rule import Constant, Exponential, InverseTime, LocalRule, Schedule

if TYPE_CHECKING:
    import polars

Measures = dict[str, float | int]
VALIDATION = 2000  # samples
MakeEngine = Callable[[Task, LocalRule, int], tuple[Engine, str]]


@dataclass(frozen=True, kw_only=True, eq=False)
class Checkpoint:
    """Enough to go on after `cloud_round` rounds: what was measured, and the rows of the models still in use (M, P).

    The clock is not stored: it does not depend on the models but by groupings that were decided on features, which are
    kept in `decisions`, and by accuracies that a bound on staleness went by, kept in `scores`; so it is run again without
    training, which is quick.
    """

    cloud_round: int
    measures: list[Measures]
    models: NDArray[np.float32]
    decisions: dict[int, Decision] = field(default_factory=dict)
    scores: dict[int, float] = field(default_factory=dict)


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
    or evaluated, and clock and ledger are the same. engine: auto, native, torch, or a function of (task, rule, seed) that
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
    ) -> None:
        if not 0 <= seed < 2**63:
            raise ValueError(f"seed must be in 0..2^63-1, got {seed}")
        self.scenario, self.method, self.seed, self.dry_run = scenario, method, seed, dry_run
        settings, training = scenario.task, scenario.training
        self.dataset = dataset or data.load(
            settings.dataset, directory, settings.data_limit, gaussian=settings.gaussian, magnet=settings.magnet
        )
        fleet = Fleet.from_settings(scenario.fleet, seed)
        self.parts = self._parts(parts, fleet.snapshot(0).home)
        n_outputs = self.dataset.n_classes or self.dataset.y_train.shape[1]
        options = settings.model.model_dump(exclude={"kind"}, exclude_none=True)
        self.model = model or models.build(settings.model.kind, self.dataset.shape, n_outputs, seed, **options)
        self.n_params = rows.n_values(self.model)
        n_samples = np.array([len(part) for part in self.parts], dtype=np.int64)
        self.label_counts = self._label_counts()
        self.rule = LocalRule(
            lr=training.lr,
            schedule=_schedule(training.lr_decay, n_samples, training.batch_size, training.drop_last),
            momentum=training.momentum,
            weight_decay=training.weight_decay,
            proximal=method.proximal,
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
            local_steps=training.local_steps or 5,
            local_epochs=training.local_epochs,
            edge_rounds=training.edge_rounds,
            participation=training.participation,
            clients_per_round=training.clients_per_round,
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
        self._last_row: NDArray[np.float32] | None = None
        self.engine_s = 0.0  # wall seconds spent training and evaluating
        self.batches: list[int] = []  # jobs of every batch that was trained

    def rounds(self, resume: Checkpoint | None = None) -> Generator[Measures | None, None, None]:
        """Run to the end; yields once before any training and after every cloud round what was measured, if anything."""
        last = self.scenario.training.cloud_rounds
        try:
            if resume is None:
                yield self._measure(None)
            else:
                self.measures = list(resume.measures)
                self.federation = self._new_federation(resume.decisions, resume.scores)
            for state in self.federation.cloud_rounds(last):
                self._note_place(state)
                done = state.cloud_round
                if resume is not None and done <= resume.cloud_round:
                    settle_all(self._looked_at(state), None)
                    if done == resume.cloud_round:
                        self._load(resume)
                        self._last_row = state.model.row
                    self.cloud_rounds_done = done
                    continue
                self._timed_settle(self._looked_at(state))
                self.cloud_rounds_done = done
                due = done % self.scenario.evaluation.every == 0 or done == last
                yield self._measure(state) if due else None
        finally:
            if self.engine is not None:
                self.engine.close()

    def _new_federation(
        self, decisions: Mapping[int, Decision] | None = None, scores: Mapping[int, float] | None = None
    ) -> Federation:
        first = Model(None if self.dry_run else rows.to_row(self.model))
        return Federation(self.method, self.world, first, self._features, decisions, self._score, scores)

    def _looked_at(self, state: CloudRound) -> list[Model]:
        """The models that are computed after a cloud round."""
        return [state.model, *state.reported_models, *state.cluster_models]

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
        """The state after the round that was yielded last."""
        live = [m.row for m in settled_below(self.federation.live_models())]
        return Checkpoint(
            cloud_round=self.cloud_rounds_done,
            measures=list(self.measures),
            models=np.stack([row for row in live if row is not None]),
            decisions=dict(self.federation.decisions),
            scores=dict(self.federation.scores),
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

    def _timed_settle(self, models: list[Model]) -> None:
        before = time.perf_counter()
        settle_all(models, self.engine, self.batches)
        self.engine_s += time.perf_counter() - before

    def _load(self, checkpoint: Checkpoint) -> None:
        """Give the models of the clock that was run again the rows that were saved."""
        live = settled_below(self.federation.live_models())
        if len(live) != len(checkpoint.models) or checkpoint.models.shape[1:] != (self.n_params,):
            raise ValueError(
                f"the checkpoint holds {checkpoint.models.shape} values, this run needs ({len(live)}, {self.n_params}): "
                f"it belongs to another scenario or version; start again without --resume"
            )
        for model, row in zip(live, checkpoint.models):
            model.row = row

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
            row = self.federation.model.row
            assert row is not None
            before = time.perf_counter()
            scores = self.engine.evaluate(row[None])
            errors = self._errors(row)
            self.engine_s += time.perf_counter() - before
            if self.dataset.n_classes:
                measures["accuracy"] = float(scores.accuracy[0])
                if self._local_tests:
                    measures["local_accuracy"] = float(
                        np.mean([scores.correct[0][t].mean() for t in self._local_tests])
                    )
                measures |= self._local_by(scores.correct[0], state)
            else:
                measures |= {"rmse": float(scores.rmse[0]), "mae": float(scores.mae[0])}
            measures |= errors
            measures["loss"] = float(scores.loss[0])
            measures["edge_drift"] = _edge_drift(state.edges) if state else 0.0
            if self.scenario.evaluation.theory:
                measures |= self._theory(row, state)
        measures |= _notes(state)
        self.measures.append(measures)
        return measures

    def _local_by(self, global_correct: NDArray[np.bool_], state: CloudRound | None) -> dict[str, float]:
        """Mean over clients of the accuracy on the test samples whose label the client has: by the global model, by the
        model of its cluster before it went into the global one, and by the last one its aggregator reported."""
        if not self.dataset.n_classes:
            return {}
        n_test = np.bincount(self.dataset.y_test, minlength=self.dataset.n_classes)
        held = (self.label_counts > 0) & (n_test > 0)  # (K, C)
        known = held.any(axis=1)

        def local(right: NDArray[np.float64]) -> float:
            """right (C,) or (K, C): samples of each class that are right by a client's model."""
            return float(((held * right).sum(axis=1)[known] / (held @ n_test)[known]).mean())

        def per_class(correct: NDArray[np.bool_]) -> NDArray[np.float64]:
            return np.bincount(self.dataset.y_test[correct], minlength=self.dataset.n_classes).astype(np.float64)

        found = {"local_by_global": local(per_class(global_correct))}
        if not self.scenario.evaluation.models:
            return found
        if state is None or (state.topology.kind == "cloud" and state.topology.cluster is None):
            return found | {"local_by_cluster": found["local_by_global"], "local_by_edge": found["local_by_global"]}
        assert self.engine is not None
        own = np.where(state.topology.cover.any(axis=0), state.topology.cover.argmax(axis=0), -1)
        used = np.unique(own[own >= 0]).tolist()
        wanted = dict.fromkeys(m for n in used for m in (state.cluster_models[n], state.reported_models[n]))
        right = {state.model: per_class(global_correct)}
        others = [m for m in wanted if m is not state.model]
        if others:
            rows_ = np.stack([m.row for m in others if m.row is not None])
            right |= dict(zip(others, map(per_class, self.engine.evaluate(rows_).correct)))
        for name, models_ in (("cluster", state.cluster_models), ("edge", state.reported_models)):
            mine = np.stack([right[models_[n] if n >= 0 else state.model] for n in own])
            found[f"local_by_{name}"] = local(mine)
        return found

    def _theory(self, row: NDArray[np.float32], state: CloudRound | None) -> dict[str, float]:
        """What bounds are made of: training loss at `row` (P,), and of the cloud round that led there, the mean local steps
        of a sample's owner and the mismatch of gradients at its start, in means over clusters and over clients."""
        assert self.engine is not None
        before, self._last_row = self._last_row, row
        found = {"train_loss": float(self.engine.evaluate(row[None], "train").loss[0])}
        if state is None or before is None:
            return found | {"step_mass": 0.0, "mismatch_cluster": 0.0, "mismatch_client": 0.0}
        n_samples = self.world.n_samples
        gradients = self.engine.gradient(before[None], [(0, k) for k in range(len(self.parts))])
        used = state.topology.cover[state.topology.cover.any(axis=1)]
        return found | {
            "step_mass": float(n_samples @ state.client_steps / n_samples.sum()),
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


def _notes(state: CloudRound | None) -> dict[str, float]:
    """Means of what the grouping noted, over the aggregators for which it is finite, and of the edge rounds they ran."""
    if state is None or not state.topology.notes:
        return {}
    values = {name: np.atleast_1d(value) for name, value in state.topology.notes.items()}
    means = {name: float(v[np.isfinite(v)].mean()) for name, v in values.items() if np.isfinite(v).any()}
    return means | {"rounds_mean": float(state.group_rounds.mean()), "rounds_max": float(state.group_rounds.max())}


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


def make_method(text: str) -> Method:
    """A method by name, with options after colons: "fedprox:mu=0.1:flat=true"."""
    import difflib
    import inspect

    import yaml

    name, *options = text.split(":")
    if name not in METHODS:
        close = difflib.get_close_matches(name, METHODS, n=1)
        hint = f"; did you mean {close[0]}?" if close else "."
        raise ValueError(f"unknown method {name!r}{hint} Known: {', '.join(METHODS)}")
    known = inspect.signature(METHODS[name]).parameters
    values = {}
    for option in options:
        key, equals, value = option.partition("=")
        if not equals or key not in known:
            wanted = ", ".join(f"{p.name}={p.default}" for p in known.values()) or "none"
            raise ValueError(f"option {option!r} of method {name} is not known; options with defaults: {wanted}")
        try:
            values[key] = yaml.safe_load(value)
        except yaml.YAMLError as error:
            raise ValueError(f"the value of option {key} of method {name} cannot be read: {error}") from None
    try:
        return METHODS[name](**values)
    except (TypeError, ValueError) as error:
        raise ValueError(f"method {text}: {error}") from None


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

"""What is measured after a cloud round, or between two: clock, costs, and how good models are that somebody holds."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedloom import bounds, data
from fedloom._random import stream
from fedloom.simulator.book import Model
from fedloom.simulator.ledger import Ledger
from fedloom.simulator.result import Measures
from fedloom.simulator.scenarios import EvaluationSettings
from fedloom.simulator.world import CloudRound
from fedloom.training.engine import Engine, Scores
from fedloom.training.state import Layout

EVALUATED = 64  # models at a time: what they predict is kept until they are scored


def clocked(ledger: Ledger, state: CloudRound | None) -> Measures:
    """What needs no model: how far the run is, and what it has cost. state: None before the first round."""
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
    if state is not None and state.sick:  # nothing to tell otherwise
        measures["rejected"] = len(state.sick)
    if state is not None and state.found is not None:
        measures["found"] = state.found
    if state is not None and state.s_max is not None:
        measures["staleness_bound"] = state.s_max
    if state is not None and state.uncovered is not None:
        measures["uncovered"] = state.uncovered
    return measures | (dict(state.failures) | dict(state.masks) if state else {})


class Evaluation:
    """How good models are on the test split of a dataset; label_counts (K, C): what each client has."""

    def __init__(
        self,
        engine: Engine,
        dataset: data.Dataset,
        label_counts: NDArray[np.int64],
        settings: EvaluationSettings,
        seed: int,
        layout: Layout | None = None,
        backdoor: Engine | None = None,
    ) -> None:
        """layout: of the states of a client rule, of which some may be models that are measured. backdoor: of a task whose test
        samples have a trigger, and are right if they are taken for its target."""
        self._layout, self._backdoor = layout, backdoor
        self.engine, self.dataset, self.label_counts, self._settings = engine, dataset, label_counts, settings
        self._local_tests: list[NDArray[np.int64]] = []
        if settings.local_samples and dataset.one_class:
            rng = stream(seed, "local tests")
            self._local_tests = data.local_tests(dataset.y_test, label_counts, rng, settings.local_samples)

    def measure(self, row: NDArray[np.float32], state: CloudRound | None) -> dict[str, float]:
        """Of the global model `row` (P,), and of those that aggregators and devices hold."""
        scores, others = self._scored(row, self._held(state))
        errors = self._errors(row)
        measures: dict[str, float] = {}
        if self.dataset.n_classes:
            measures["accuracy"] = float(scores.accuracy[0])
            if self._local_tests:
                measures["local_accuracy"] = float(np.mean([scores.correct[0][t].mean() for t in self._local_tests]))
        else:
            measures |= {"rmse": float(scores.rmse[0]), "mae": float(scores.mae[0])}
        first = _Score.of(scores, 0, self.dataset)
        measures |= self._other_models(first, others, state) | self._kept_by_clients(first, state) | errors
        if self._backdoor is not None:
            measures["backdoor_success"] = float(self._backdoor.evaluate(row[None]).accuracy[0])
        drift = _edge_drift(state.edges, len(row)) if state else 0.0
        return measures | {"loss": float(scores.loss[0]), "edge_drift": drift}

    def _errors(self, row: NDArray[np.float32]) -> dict[str, float]:
        """The dataset's own measures of the model `row` (P,) on the test split."""
        if not self.dataset.errors:
            return {}
        predictions = self.engine.outputs(row[None])[0]
        return {name: error(predictions, self.dataset.y_test) for name, error in self.dataset.errors.items()}

    def _held(self, state: CloudRound | None) -> list[Model]:
        """The models that aggregators and devices hold, each once and without the global one, if they are looked at."""
        if state is None or self._settings.models == "global":
            return []
        wanted = [*_edges(state), *_clusters(state), *_devices(state)]
        return [m for m in dict.fromkeys(wanted) if m is not state.model]

    def _scored(self, row: NDArray[np.float32], models: Sequence[Model]) -> "tuple[Scores, dict[Model, _Score]]":
        """All scores of the global model `row` (P,), the first ones, and how good each of the other models is.

        In one call of the engine, so that its workers share all of it; in several if there are many models, as what they
        predict is kept until they are scored."""
        rows = [row, *(m.row[: len(row)] for m in models if m.row is not None)]
        first, found = None, {}
        for at in range(0, len(rows), EVALUATED):
            several = self.engine.evaluate(np.stack(rows[at : at + EVALUATED]))
            first = first or several
            for j in range(0 if at else 1, len(several.loss)):
                found[models[at + j - 1]] = _Score.of(several, j, self.dataset)
        assert first is not None
        return first, found

    def _other_models(
        self, first: "_Score", others: "Mapping[Model, _Score]", state: CloudRound | None
    ) -> dict[str, float]:
        """How good the models are that aggregators and devices hold, beside the global one, of which `first` tells.

        On the whole test set, mean and worst over aggregators with clients (edge_...) and devices (device_...). And the mean
        over clients of the accuracy on the test samples whose label the client has (local_by_...): by the global model, by
        the model of its cluster before it went into the global one, and by the last one its aggregator reported."""
        if self._settings.models == "global":
            return self._local_by(first, {})
        if state is None:  # everybody has the first model
            everybodys = [first] * len(self.label_counts)
            return _mean_and_worst("edge", [first]) | self._local_by(first, {"cluster": everybodys, "edge": everybodys})
        own = np.where(state.topology.cover.any(axis=0), state.topology.cover.argmax(axis=0), -1)
        used = _used(state)
        edges, clusters, devices = _edges(state), _clusters(state), _devices(state)
        scored = {state.model: first, **others}
        found = _mean_and_worst("edge", [scored[m] for m in edges])
        found |= _mean_and_worst("device", [scored[m] for m in devices])
        by = {}
        for name, models_ in (("cluster", clusters), ("edge", edges)):
            of_aggregator = {-1: first} | {n: scored[m] for n, m in zip(used, models_)}
            by[name] = [of_aggregator[n] for n in own.tolist()]
        return found | self._local_by(first, by)

    def _kept_by_clients(self, first: "_Score", state: CloudRound | None) -> dict[str, float]:
        """How good the models are that clients keep for a client rule, such as personal ones: on the whole test set, mean and
        worst over those who have one, and the mean over clients of the accuracy on their own labels; who has none has the global
        one, of which `first` tells."""
        found: dict[str, float] = {}
        known = {} if state is None else {k: m.row for k, m in state.states.items() if m.row is not None}
        if state is not None and not known:  # with real devices, who show nobody what they keep
            return found
        for kept, place in self._layout.places(shared=False) if self._layout is not None else ():
            if not kept.measured:
                continue
            scores = [
                _Score.of(several, j, self.dataset)
                for several in self._evaluated([row[place] for row in known.values()])
                for j in range(len(several.loss))
            ]
            of_client = dict.fromkeys(range(len(self.label_counts)), first) | dict(zip(known, scores))
            found |= _mean_and_worst(kept.name, scores or [first])
            found |= self._local_by(first, {kept.name: list(of_client.values())})
        return found

    def _evaluated(self, rows: list[NDArray[np.float32]]) -> Iterator[Scores]:
        for at in range(0, len(rows), EVALUATED):
            yield self.engine.evaluate(np.stack(rows[at : at + EVALUATED]))

    def _local_by(self, first: "_Score", by: "Mapping[str, list[_Score]]") -> dict[str, float]:
        """Accuracies on the clients' own labels, by the global model and by the models (K,) of `by`."""
        if not self.dataset.one_class:
            return {}
        n_test = np.bincount(self.dataset.y_test, minlength=self.dataset.n_classes)
        held = (self.label_counts > 0) & (n_test > 0)  # (K, C)
        known = held.any(axis=1)

        def local(right: NDArray[np.float64]) -> float:
            """right (C,) or (K, C): samples of each class that are right by a client's model."""
            return float(((held * right).sum(axis=1)[known] / (held @ n_test)[known]).mean())

        own = {f"local_by_{name}": local(np.stack([s.right for s in scores])) for name, scores in by.items()}
        return {"local_by_global": local(first.right)} | own


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
        if not dataset.one_class:
            return cls("accuracy", float(scores.accuracy[j]), np.zeros(0))
        right = np.bincount(dataset.y_test[scores.correct[j]], minlength=dataset.n_classes)
        return cls("accuracy", float(scores.accuracy[j]), right.astype(np.float64))


def _used(state: CloudRound) -> list[int]:
    """Aggregators with clients."""
    used: list[int] = np.flatnonzero(state.topology.cover.any(axis=1)).tolist()
    return used


def _edges(state: CloudRound) -> list[Model]:
    """What the aggregators with clients reported last; the cloud itself has the global model."""
    return [state.model if _alone(state) else state.reported_models[n] for n in _used(state)]


def _clusters(state: CloudRound) -> list[Model]:
    """The models of their clusters before they went into the global one."""
    return [state.model if _alone(state) else state.cluster_models[n] for n in _used(state)]


def _devices(state: CloudRound) -> list[Model]:
    """What devices trained last, as far as it is looked at: real devices keep theirs to themselves."""
    return [m for m in state.device_models.values() if m.row is not None]


def _alone(state: CloudRound) -> bool:
    return state.topology.kind == "cloud" and state.topology.cluster is None


def _mean_and_worst(whose: str, scores: Sequence[_Score]) -> dict[str, float]:
    """Measures such as edge_accuracy and edge_accuracy_worst; none without models."""
    if not scores:
        return {}
    name, values = scores[0].name, [s.value for s in scores]
    worst = min(values) if name == "accuracy" else max(values)
    return {f"{whose}_{name}": float(np.mean(values)), f"{whose}_{name}_worst": worst}


def noted(state: CloudRound | None) -> dict[str, float]:
    """Means over all aggregators of what the grouping noted, infinite if it is for one of them (a cluster whose links are
    down), and how many these are; and of the edge rounds they ran."""
    if state is None or not state.topology.notes:
        return {}
    values = {name: np.atleast_1d(value) for name, value in state.topology.notes.items()}
    means = {name: float(v.mean()) for name, v in values.items() if not np.isnan(v).any()}
    dead = {"dead_clusters": float(np.isinf(values["round_s"]).sum())} if "round_s" in values else {}
    rounds = {"rounds_mean": float(state.group_rounds.mean()), "rounds_max": float(state.group_rounds.max())}
    return means | dead | rounds


def _edge_drift(edges: list[tuple[Model, float]], n_values: int) -> float:
    """How far apart the aggregators' models were when they were averaged: mean squared distance from their mean."""
    known = [(m.row[:n_values], weight) for m, weight in edges if m.row is not None]
    return bounds.drift(np.stack([row for row, _ in known]), [weight for _, weight in known]) if len(known) > 1 else 0.0

"""What is trained: the task of a scenario, as simulated, or that of the user's own ClientApp, whose data only devices know."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from flwr.app import ArrayRecord
from numpy.typing import NDArray

from fedloom.deployment.collecting import Collecting
from fedloom.deployment.conductor import Conductor
from fedloom.fleet import Fleet
from fedloom.flower.arrays import Layout, Row, layout_of_arrays, layout_of_model
from fedloom.flower.introductions import Introduction, label_counts
from fedloom.grouping import Need
from fedloom.methods import Method
from fedloom.simulator.book import Model
from fedloom.simulator.driver import Driver
from fedloom.simulator.features import Layers
from fedloom.simulator.scenarios import EveryEdgeRounds, Scenario
from fedloom.simulator.setting import local_rule, make_setting, make_world
from fedloom.simulator.simulation import Simulation

Ints = NDArray[np.int64]
Done = tuple[int, Row, Mapping[str, float | int] | None]
"""A cloud round: its number, the cloud's model, and what was measured of it."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Task:
    """label_counts (K, C). columns: positions in a row of the values that a feature is about. lr: at a step of a model's history.
    rounds: the run, carried out by a conductor."""

    layout: Layout
    label_counts: Ints
    columns: Callable[[Layers], Ints]
    lr: Callable[[int], float]
    rounds: Callable[[Conductor], Iterator[Done]]


def task_of_scenario(scenario: Scenario, method: Method, seed: int, own: Mapping[str, Any]) -> Task:
    """As it is simulated: data, partition and model are the scenario's (own: or these), and the ServerApp has them too."""
    if isinstance(scenario.evaluation.every, EveryEdgeRounds):
        raise ValueError(
            "evaluation.every counts edge rounds, and with Flower models are measured after cloud rounds; set it to a number "
            "of them"
        )
    if scenario.evaluation.models == "devices":
        raise ValueError(
            "evaluation.models is devices, which Flower's ServerApp does not look at; set it to edges or global"
        )
    if scenario.hostile is not None:
        raise ValueError(
            "hostile participants are simulated, or deployed by fedloom itself; leave hostile out for Flower"
        )
    setting = make_setting(scenario, method, seed, **own)

    def rounds(conductor: Conductor) -> Iterator[Done]:
        simulation = Simulation(scenario, method, seed, n_workers=1, carrier=conductor, **own)
        for measures in simulation.rounds():
            row = simulation.federation.model.row
            assert row is not None
            yield simulation.cloud_rounds_done, row, measures

    return Task(
        layout=layout_of_model(setting.model),
        label_counts=setting.label_counts,
        columns=setting.features(None).columns,
        lr=setting.world.lr,
        rounds=rounds,
    )


def task_of_devices(
    scenario: Scenario, method: Method, seed: int, arrays: ArrayRecord, introduced: Sequence[Introduction]
) -> Task:
    """The user's own: a model given by its first values, and data of which devices have told sizes and labels."""
    check_own(method)
    layout = layout_of_arrays(arrays)
    first = layout.row(arrays)
    n_samples = np.array([one.n_samples for one in introduced], dtype=np.int64)
    labels = label_counts(introduced, Need.LABELS in method.needs)
    fleet = Fleet.from_settings(scenario.fleet, seed)
    rule = local_rule(scenario, method, n_samples)
    world = make_world(scenario, seed, fleet, n_samples, labels, rule, layout.n_values)
    sizes = OwnSizes(layout, [np.arange(n) for n in n_samples], labels)

    def rounds(conductor: Conductor) -> Iterator[Done]:
        features = Collecting(conductor, sizes)
        driver = Driver(method, world, Model(first), features, carrier=conductor, keep_timeline=False)
        looking = conductor.computing(None, driver.live_models)
        yield 0, first, None
        for state in driver.cloud_rounds(scenario.training.cloud_rounds):
            looking.compute([state.model, *state.reported_models, *state.cluster_models])
            assert state.model.row is not None
            yield state.cloud_round, state.model.row, {"time_s": state.time_s, "updates": state.n_updates}

    return Task(layout=layout, label_counts=labels, columns=sizes.columns, lr=world.lr, rounds=rounds)


def check_own(method: Method) -> None:
    """Say at start why a method cannot work with a ClientApp of the user's own."""
    unknown = sorted({Need.PREDICTIONS, Need.SIGNATURES} & method.needs)
    if unknown:
        raise ValueError(
            f"{method.name} groups devices by their {', '.join(unknown)}, which only fedloom.flower.client_app can tell; use it, "
            "or a method that needs sizes, labels, updates or gradients"
        )
    bound = getattr(method.cloud, "bound", None)
    if bound is not None and bound.adapt_every:
        raise ValueError(
            f"{method.name} adapts its bound on staleness by an accuracy that the ServerApp would measure, and it has no data; "
            "keep the bound fixed (adapt=false), or use fedloom.flower.client_app"
        )


@dataclass(frozen=True, eq=False)
class OwnSizes:
    """Features of devices of which the ServerApp knows but the sizes (fedloom.deployment.collecting.Sizes)."""

    layout: Layout
    parts: Sequence[Ints]
    label_counts: Ints

    def size(self, kind: str, layers: Layers) -> float:
        n = self.label_counts.shape[1] if kind == "labels" else len(self.columns(layers))
        return n / self.layout.n_values

    def work(self, kind: str, local_steps: Ints, pass_steps: Ints) -> NDArray[np.floating]:
        if kind == "labels":
            return np.zeros(len(pass_steps))
        return (local_steps if kind == "update" else pass_steps).astype(np.float64)

    def columns(self, layers: Layers) -> Ints:
        if isinstance(layers, int):
            raise ValueError(
                "the smallest convolutions of a model are asked for, and arrays do not tell which they are; use "
                "fedloom.flower.client_app, or features of the whole model"
            )
        return np.arange(self.layout.n_values) if layers is None else self.layout.columns(layers)

"""What a scenario, a method and a seed come to: data, partition, model, local rule, and the world of the clock."""

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fedloom import data
from fedloom._random import stream
from fedloom.coding import Coding
from fedloom.fleet import Fleet
from fedloom.methods import Method
from fedloom.mixing import Screen
from fedloom.privacy.accounting import epsilon
from fedloom.simulator import roots
from fedloom.simulator.features import Features
from fedloom.simulator.hostility import hostility
from fedloom.simulator.masking import check_masking
from fedloom.simulator.poisoning import poisoned
from fedloom.simulator.scenarios import LOCAL_STEPS, ExponentialDecay, InverseTimeDecay, Scenario
from fedloom.simulator.world import World
from fedloom.training import networks, rows
from fedloom.training.batches import steps_per_pass
from fedloom.training.engine import Engine, Task
from fedloom.training.rule import Constant, Exponential, InverseTime, LocalRule, Schedule
from fedloom.training.state import layout_of

if TYPE_CHECKING:
    from fedloom.training.rows import AnyModel


@dataclass(frozen=True, kw_only=True, eq=False)
class Setting:
    """parts: the samples of each of K clients; label_counts (K, C). model: one's own module, or a named network as a record.
    loss: one's own, or None for that of the dataset. root: samples that servers train on, as one more client."""

    scenario: Scenario
    dataset: data.Dataset
    parts: tuple[NDArray[np.int64], ...]
    label_counts: NDArray[np.int64]
    model: "AnyModel"
    rule: LocalRule
    world: World
    loss: Callable[..., Any] | None = None
    root: NDArray[np.int64] | None = None

    @property
    def n_outputs(self) -> int:
        return self.dataset.n_outputs

    @property
    def width(self) -> int:
        """Values of a model with its shared states."""
        return rows.n_values(self.model) if self.world.layout is None else self.world.layout.width

    @property
    def first_row(self) -> NDArray[np.float32]:
        """The first model, with shared states of a client rule as they begin."""
        row, layout = rows.to_row(self.model), self.world.layout
        return row if layout is None else layout.widened(row)

    @property
    def task(self) -> Task:
        """For an engine: as clients train it, with what hostile ones made of their data."""
        n_classes = self.dataset.n_classes if self.dataset.one_class else 0
        task = poisoned(self.clean_task, self.world.hostility, n_classes, self.world.seed)
        return task if self.root is None else replace(task, parts=(*task.parts, self.root))

    @property
    def clean_task(self) -> Task:
        """As the data are."""
        settings, training = self.scenario.task, self.scenario.training
        return Task(
            model=self.model,
            x_train=self.dataset.inputs("train", standardise=settings.standardise),
            y_train=self.dataset.y_train,
            x_test=self.dataset.inputs("test", standardise=settings.standardise),
            y_test=self.dataset.y_test,
            parts=self.parts,
            loss=self.loss or self.dataset.loss,
            batch_size=training.batch_size,
            drop_last=training.drop_last,
        )

    def features(self, engine: Engine | None) -> Features:
        """How clients compute what they reveal."""
        return Features(
            model=self.model,
            engine=engine,
            parts=self.parts,
            label_counts=self.label_counts,
            n_outputs=self.n_outputs,
            batch_size=self.scenario.training.batch_size,
            inputs=lambda: self.dataset.inputs("train"),
            labels=self.dataset.labels,
        )


def make_setting(
    scenario: Scenario,
    method: Method,
    seed: int,
    *,
    dataset: data.Dataset | None = None,
    model: "AnyModel | None" = None,
    parts: Sequence[NDArray[np.integer]] | None = None,
    directory: str | None = None,
    loss: Callable[..., Any] | None = None,
) -> Setting:
    """Own data, model, partition and loss may be given; otherwise they come from the scenario."""
    settings = scenario.task
    if dataset is None:
        dataset = data.load(
            settings.dataset,
            directory,
            settings.data_limit,
            gaussian=settings.gaussian,
            magnet=settings.magnet,
            text=settings.text,
        )
    fleet = Fleet.from_settings(scenario.fleet, seed)
    own = _partition(scenario, dataset, parts, fleet.snapshot(0).home, seed)
    root = None
    if n_trusted := roots.wanted(method):
        own, root = roots.taken(own, len(dataset.y_train), n_trusted, seed)
    if model is None:
        options = settings.model.model_dump(exclude={"kind"}, exclude_none=True)
        options |= {"n_tokens": dataset.n_tokens, "per_token": dataset.loss == "tokens"}
        model = networks.network(settings.model.kind, dataset.shape, dataset.n_outputs, seed, **options)
    n_samples = np.array([len(part) for part in own], dtype=np.int64)
    label_counts = _label_counts(dataset, own)
    rule = local_rule(scenario, method, n_samples)
    world = make_world(
        scenario,
        seed,
        fleet,
        n_samples,
        label_counts,
        rule,
        rows.n_values(model),
        rows.trainable_mask(model),
        method.coding,
    )
    _check_private(method, world)
    if world.secure is not None:
        check_masking(method)
    return Setting(
        scenario=scenario,
        dataset=dataset,
        parts=own,
        label_counts=label_counts,
        model=model,
        rule=rule,
        world=world,
        loss=loss,
        root=root,
    )


def _check_private(method: Method, world: World) -> None:
    """Refuse what noise would not cover: values that are not trained, and states that travel beside a model."""
    if not method.protects:
        return
    epsilon([1.0], 0.1)  # or say at once what is not installed
    if world.layout is not None and world.layout.width > world.layout.n_values:
        raise ValueError(
            f"noise protects a model, and {method.local.rule} sends states beside it as they are; leave the rule or the noise out"
        )
    if world.trainable is not None and not world.trainable.all():
        raise ValueError(
            f"noise protects what is trained, and {int((~world.trainable).sum()):,} of the model's values are not (statistics of "
            "BatchNorm, frozen layers): they would be sent as they are; take a network without them, such as resnet20 or lenet5"
        )


def screened_by(method: Method, scenario: Scenario) -> Method:
    """The method with what the scenario looks at before any merge."""
    return method if scenario.screen is None else method.with_(screen=Screen(**scenario.screen.model_dump()))


def local_rule(scenario: Scenario, method: Method, n_samples: NDArray[np.int64]) -> LocalRule:
    """How clients with so many samples (K,) train."""
    training = scenario.training
    return LocalRule(
        lr=training.lr,
        schedule=_schedule(training.lr_decay, n_samples, training.batch_size, training.drop_last),
        momentum=training.momentum,
        weight_decay=training.weight_decay,
        proximal=method.local.proximal,
        clip_norm=training.clip_norm,
        optimiser=None if training.optimiser is None else training.optimiser.rule(),
        client=method.local.rule,
    )


def make_world(
    scenario: Scenario,
    seed: int,
    fleet: Fleet,
    n_samples: NDArray[np.int64],
    label_counts: NDArray[np.int64],
    rule: LocalRule,
    n_values: int,
    trainable: NDArray[np.bool_] | None = None,
    coding: Coding | None = None,
) -> World:
    """For the clock: K clients with so many samples (K,) and labels (K, C), and models of n_values numbers."""
    training = scenario.training
    plain_bits = scenario.model_bits or 32.0 * n_values
    layout, coded = layout_of(rule.client, n_values), trainable
    coding = Coding() if coding is None else coding
    width = n_values if layout is None else layout.width
    if layout is not None and width > n_values:
        trained = np.ones(n_values, dtype=np.bool_) if trainable is None else trainable
        trainable, coded = layout.mask(trained, of_shared=False), layout.mask(trained, of_shared=True)
    as_it_is = coding.plain and width == n_values
    return World(
        fleet=fleet,
        n_samples=n_samples,
        label_counts=label_counts,
        batch_size=training.batch_size,
        model_bits=plain_bits,
        seed=seed,
        drop_last=training.drop_last,
        local_steps=training.local_steps or LOCAL_STEPS,
        local_epochs=training.local_epochs,
        edge_rounds=training.edge_rounds,
        participation=training.participation,
        clients_per_round=training.clients_per_round,
        total_steps=training.total_steps,
        lr=functools.lru_cache(maxsize=16)(lambda step: float(rule.rates(step, 1)[0])),  # asked for by every group
        trainable=trainable,
        coded=coded,
        coded_bits=None if as_it_is else coding.bits(n_values, plain_bits, coded, width),
        layout=layout,
        trainings=1 if rule.client is None else rule.client.trainings,
        drop_sick=scenario.on_sick == "drop",
        hostility=hostility(scenario.hostile, fleet.snapshot(0), seed),
        secure=None if scenario.secure_aggregation is None else scenario.secure_aggregation.part(),
    )


def _partition(
    scenario: Scenario,
    dataset: data.Dataset,
    parts: Sequence[NDArray[np.integer]] | None,
    home: NDArray[np.int64],
    seed: int,
) -> tuple[NDArray[np.int64], ...]:
    n_devices = scenario.fleet.n_devices
    if parts is None:
        parts = data.make_partition(scenario.task.partition, dataset, n_devices, stream(seed, "partition"), home=home)
    if len(parts) != n_devices:
        raise ValueError(f"the partition is for {len(parts)} clients, but the fleet has {n_devices} devices")
    return tuple(np.asarray(part, dtype=np.int64) for part in parts)


def _label_counts(dataset: data.Dataset, parts: tuple[NDArray[np.int64], ...]) -> NDArray[np.int64]:
    if dataset.labels is None:
        return np.zeros((len(parts), 0), dtype=np.int64)
    return data.label_counts(dataset.labels, parts, dataset.n_labels)


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

"""Sizes of what a run works with: samples, values of a sample and of a model, without making any of them."""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fedloom.data import DATASETS, Dataset
from fedloom.data.settings import ClassesPartition, DrawnPartition, DualLayerPartition
from fedloom.data.sources import plain
from fedloom.simulator.scenarios import Scenario
from fedloom.training import networks, rows

if TYPE_CHECKING:
    from fedloom.training.rows import AnyModel

MAGNET_OUTPUTS = 6


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """Of a scenario: samples of the splits (all, and those used), values and bytes of a sample, outputs, values of a model."""

    n_train: float
    n_test: float
    n_loaded: float
    values: float
    raw_bytes: float
    n_outputs: int
    n_params: float


def sizes(scenario: Scenario, dataset: Dataset | None, model: "AnyModel | None") -> Sizes:
    """Of the scenario's data and model, or of those given instead."""
    task = scenario.task
    raw_bytes, tokens = 4.0, (0, False)
    if dataset is not None:
        raw_bytes = 0.0  # it is there already
        n_loaded, n_test, shape = dataset.n_train, dataset.n_test, dataset.shape
        n_outputs, tokens = dataset.n_outputs, (dataset.n_tokens, dataset.loss == "tokens")
    elif task.dataset == "gaussian" and task.gaussian is not None:
        generated = task.gaussian
        n_loaded, n_test, shape = generated.n_train, generated.n_test, (generated.n_features,)
        n_outputs = generated.n_classes
    elif plain(task.dataset) in DATASETS:  # files of one's own are taken to be as large as the published ones
        about = DATASETS[plain(task.dataset)]
        n_loaded, n_test, shape = about.n_train, about.n_test, about.shape
        n_outputs, tokens = about.n_classes or MAGNET_OUTPUTS, (about.n_tokens, about.per_token)
        if task.dataset == "magnet" and task.magnet is not None:
            n_loaded, n_test = task.magnet.n_train, task.magnet.n_test
        if task.dataset == "text" and (of := task.text) is not None:
            n_loaded, n_test, shape = of.n_authors * of.n_train, of.n_authors * of.n_test, (of.length,)
        raw_bytes = 1.0 if len(shape) == 3 else 4.0
    else:  # unknown: who loads it will say so
        n_loaded, n_test, shape, n_outputs = 0, 0, (1,), 1
    limit = math.inf if dataset is not None or task.data_limit is None else task.data_limit
    values = float(math.prod(shape))
    return Sizes(
        n_train=min(n_loaded, limit),
        n_test=min(n_test, limit),
        n_loaded=float(n_loaded),
        values=values,
        raw_bytes=raw_bytes * values,
        n_outputs=n_outputs,
        n_params=_n_params(scenario, shape, n_outputs, model, *tokens),
    )


def _n_params(
    scenario: Scenario,
    shape: tuple[int, ...],
    n_outputs: int,
    model: "AnyModel | None",
    n_tokens: int,
    per_token: bool,
) -> float:
    """Values of the model; the scenario's is made without its values."""
    if model is not None:
        return float(rows.n_values(model))
    settings = scenario.task.model
    try:
        options = settings.model_dump(exclude={"kind"}, exclude_none=True)
        options |= {"n_tokens": n_tokens, "per_token": per_token}
        return float(rows.n_values(networks.network(settings.kind, shape, n_outputs, 0, **options)))
    except ValueError:  # it does not suit the data: who builds it will say so
        return 0.0
    except OverflowError:  # its size is beyond what can be counted
        return math.inf


def samples_of_each(scenario: Scenario, size: Sizes) -> float:
    """Of one device, on average."""
    partition = scenario.task.partition
    if isinstance(partition, DrawnPartition):
        return float(partition.samples_per_client)
    even = size.n_train / scenario.fleet.n_devices
    if isinstance(partition, ClassesPartition | DualLayerPartition) and partition.samples_per_class is not None:
        return min(even, float(partition.classes_per_client * partition.samples_per_class))
    return even

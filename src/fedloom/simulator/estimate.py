"""What a run will take, before it is made: seconds, memory and disk, term by term.

`estimate` is a pure function of settings: it makes no arrays, so that a run of 1e8 devices or 1e15 local steps is refused at once
(`refuse_too_large`) and not when the machine is full. Terms are what surely stands side by side, so that what could just fit is
not refused; K devices, N cells, P values of a model, all sizes in bytes.
"""

import copy
import math
import os
import re
import shutil
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn

from fedloom.data import DATASETS, Dataset
from fedloom.data.settings import DrawnPartition, UserPartition
from fedloom.grouping import Need
from fedloom.methods import Method
from fedloom.simulator.scenarios import LOCAL_STEPS, EveryEdgeRounds, Scenario
from fedloom.training import models, rows
from fedloom.training.batches import steps_per_pass
from fedloom.training.choose import MOST_VALUES, make_engine
from fedloom.training.engine import Jobs, Mix, Task, n_cores
from fedloom.training.rule import LocalRule
from fedloom.training.torch_engine import CHUNK, RING

if TYPE_CHECKING:
    from fedloom.simulator.simulation import Simulation

PROGRAM = 3e8  # Python, torch and polars themselves
OF_DEVICE = 400  # positions, links to the cloud, list of samples, counts
OF_PAIR = 34  # a device and a cell: distance, rates up and down, reach, weights
OF_JOB = 50  # in the notes of a cloud round: who, from which model, how many steps, what weight
OF_AGGREGATOR = 600  # in the notes of an edge round
OF_MEASURE = 1200  # of one evaluation, kept to the end
OF_LINE = 45  # of the timeline, on disk
MAGNET_OUTPUTS = 6
YEAR_S = 365.25 * 86400
LONGEST_S = 10 * YEAR_S
PEAK_FLOPS = 1e11  # of a core: more than any has in training
USUAL_FLOPS = 1e10  # of a core, where nothing was measured
CLOCK_S = 2e-7  # of the clock for one job: less than it ever takes
LARGE = 2e8  # values of a model that is not tried
MEASURE_S = 0.4  # seconds spent on measuring the speed, about


class TooLarge(ValueError):
    """The run needs more than the machine has."""


class NoRoom(RuntimeError):
    """The run needs more disk than is free now."""


@dataclass(frozen=True, kw_only=True)
class Term:
    """So many bytes for one thing, and which settings make it less."""

    what: str
    n_bytes: float
    change: str


@dataclass(frozen=True, kw_only=True)
class Work:
    """What is computed: training jobs (a client sent to work), local steps and samples in them, samples that models are
    evaluated on, and operations of training on one sample, at least: two in each of three passes for every value of a model."""

    jobs: float
    steps: float
    samples: float
    evaluated: float
    sample_flops: float


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """Of one run."""

    memory: tuple[Term, ...]
    disk: tuple[Term, ...]
    work: Work

    @property
    def memory_bytes(self) -> float:
        return sum(term.n_bytes for term in self.memory)

    @property
    def disk_bytes(self) -> float:
        return sum(term.n_bytes for term in self.disk)


@dataclass(frozen=True, kw_only=True)
class Speed:
    """Samples a second in training and evaluation, with all workers; measured here, or assumed."""

    trained_s: float
    evaluated_s: float
    measured: bool

    def seconds(self, work: Work) -> float:
        """Of training and evaluation."""
        return work.samples / self.trained_s + work.evaluated / self.evaluated_s


@dataclass(frozen=True, kw_only=True)
class _Sizes:
    """Of a scenario: samples of the splits (all, and those used), values and bytes of a sample, outputs, values of a model."""

    n_train: float
    n_test: float
    n_loaded: float
    values: float
    raw_bytes: float
    n_outputs: int
    n_params: float


def estimate(
    scenario: Scenario,
    method: Method,
    *,
    dry_run: bool = False,
    dataset: Dataset | None = None,
    model: nn.Module | None = None,
    n_workers: int | None = None,
    steps: float | None = None,
    aggregators: int | None = None,
) -> Estimate:
    """What a run of the scenario takes. dataset, model: if they are not the scenario's. steps: local steps of all clients, and
    aggregators: how many there are, where a clock has counted them; else as the settings say."""
    training, fleet = scenario.training, scenario.fleet
    k, n_cells = float(fleet.n_devices), float(fleet.cells.n_cells)
    size = _sizes(scenario, dataset, model)
    workers = n_workers or n_cores()
    edge_rounds, cloud_rounds = _rounds(scenario, method), float(training.cloud_rounds)
    share = training.participation if training.clients_per_round is None else 1.0
    senders = max(1.0, min(k * share, float(training.clients_per_round or k) * n_cells))
    job_steps = _job_steps(scenario, size)
    jobs = senders * edge_rounds * cloud_rounds
    n_models = float(aggregators or n_cells)
    every = scenario.evaluation.every
    evaluations = 1 + (
        cloud_rounds * max(1.0, edge_rounds / every.edge_rounds)
        if isinstance(every, EveryEdgeRounds)
        else cloud_rounds / every
    )
    per_evaluation = 1.0 + (0.0 if scenario.evaluation.models == "global" else n_models)
    keeps_devices = scenario.evaluation.models == "devices" or method.start.share is not None
    n_rows = 1 + 3 * n_models + (k if keeps_devices else 0)
    if scenario.evaluation.models == "devices":
        per_evaluation += k
    total_steps = jobs * job_steps if steps is None else steps
    work = Work(
        jobs=jobs,
        steps=total_steps,
        samples=total_steps * min(training.batch_size, max(1.0, size.n_train / k)),
        evaluated=evaluations * per_evaluation * size.n_test,
        sample_flops=6 * size.n_params,
    )
    noted = min(edge_rounds, every.edge_rounds) if isinstance(every, EveryEdgeRounds) else edge_rounds
    row = 4.0 * size.n_params
    fewer = "fewer fleet.n_devices"
    memory = [
        Term(what="the program", n_bytes=PROGRAM, change="nothing"),
        Term(
            what=f"{size.n_loaded + size.n_test:,.0f} samples",
            n_bytes=(size.n_loaded + size.n_test) * size.raw_bytes
            + (0 if dry_run else 4 * (size.n_train + size.n_test) * size.values),
            change="a smaller dataset" if scenario.task.dataset in ("gaussian", "magnet") else "task.data_limit",
        ),
        Term(
            what=f"a fleet of {k:,.0f} devices and {n_cells:,.0f} cells",
            n_bytes=k * OF_DEVICE
            + k * n_cells * OF_PAIR
            + n_cells * OF_AGGREGATOR
            + 8 * k * (size.n_outputs + _samples_of_each(scenario, size)),
            change=f"{fewer} or cells",
        ),
        Term(
            what=f"the notes of {noted:,.0f} edge rounds of {senders:,.0f} devices",
            n_bytes=noted * (senders * OF_JOB + n_models * OF_AGGREGATOR),
            change="fewer training.edge_rounds and more cloud_rounds, or a smaller participation",
        ),
        Term(
            what=f"the measures of {evaluations:,.0f} evaluations",
            n_bytes=evaluations * OF_MEASURE,
            change="fewer training.cloud_rounds or a larger evaluation.every",
        ),
    ]
    if Need.LINKS in method.needs:
        memory.append(
            Term(
                what=f"links between {k:,.0f} x {k:,.0f} devices",
                n_bytes=24 * k * k,
                change=f"{fewer}, or a method that groups by cells",
            )
        )
    if dry_run:
        memory.append(
            Term(what=f"a model of {_count(size.n_params)} values", n_bytes=1.25 * row, change="a smaller task.model")
        )
    else:
        buffers = 4 * workers + (RING * CHUNK * workers + 16 if size.n_params > MOST_VALUES else 0)
        memory += [
            Term(
                what=f"the steps of a job, {job_steps:,.0f}", n_bytes=8 * job_steps, change="fewer training.local_steps"
            ),
            Term(
                what=f"{n_rows:,.0f} models of {_count(size.n_params)} values",
                n_bytes=n_rows * row + 2 * n_models * row,
                change="a smaller task.model, fewer cells, or evaluation.models: global",
            ),
            Term(
                what=f"buffers of {workers} workers for models of {_count(size.n_params)} values",
                n_bytes=buffers * row,
                change="a smaller task.model or fewer --workers",
            ),
        ]
        if method.needs & {Need.UPDATES, Need.GRADIENTS}:
            memory.append(
                Term(
                    what=f"updates or gradients of {k:,.0f} devices, {_count(size.n_params)} values each",
                    n_bytes=k * row,
                    change=f"a smaller task.model or {fewer}",
                )
            )
    disk = [
        Term(
            what=f"two checkpoints of {n_rows:,.0f} models, and the model",
            n_bytes=2 * n_rows * row + row,
            change="a smaller task.model, or evaluation.models: global",
        ),
        Term(
            what=f"a timeline of {jobs:,.0f} lines",
            n_bytes=OF_LINE * jobs,
            change="fewer training.cloud_rounds or edge_rounds, or a smaller participation",
        ),
        Term(
            what=f"measures of {evaluations:,.0f} evaluations",
            n_bytes=150 * evaluations,
            change="fewer training.cloud_rounds or a larger evaluation.every",
        ),
    ]
    return Estimate(memory=tuple(memory), disk=() if dry_run else tuple(disk), work=work)


def refuse_too_large(
    scenario: Scenario,
    method: Method,
    *,
    dry_run: bool = False,
    dataset: Dataset | None = None,
    model: nn.Module | None = None,
    n_workers: int | None = None,
    memory_bytes: float | None = None,
) -> Estimate:
    """Raise TooLarge if the run needs more memory than there is (by default: than this machine has free), or more than ten
    years, whatever the machine; else what it needs."""
    found = estimate(scenario, method, dry_run=dry_run, dataset=dataset, model=model, n_workers=n_workers)
    what = "this dry run" if dry_run else "this run"
    there = free_memory_bytes() if memory_bytes is None else memory_bytes
    if found.memory_bytes - PROGRAM > there:
        raise TooLarge(_words(f"{what} would need about {_size(found.memory_bytes)} of memory", there, found.memory))
    work = found.work
    least_s = work.jobs * CLOCK_S
    if not dry_run:
        least_s += (work.samples + work.evaluated / 3) * work.sample_flops / (PEAK_FLOPS * n_cores())
    if least_s > LONGEST_S:
        raise TooLarge(
            f"{what} would take more than {least_s / YEAR_S:,.0f} years: {work.jobs:,.0f} jobs of clients with {work.steps:,.0f} "
            f"local steps in all; use fewer training.cloud_rounds, edge_rounds or local_steps, or fewer devices"
        )
    _enough_samples(scenario, dataset)
    return found


def refuse_full_disk(found: Estimate, folder: Path, n_runs: int = 1) -> None:
    """Raise NoRoom if so many such runs would not fit on the disk of the folder."""
    needed, there = n_runs * found.disk_bytes, free_disk_bytes(folder)
    if needed > there:
        runs = "this run" if n_runs == 1 else f"these {n_runs} runs"
        words = _words(f"{runs} would need about {_size(needed)} of disk in {folder}", there, found.disk)
        raise NoRoom(f"{words}, make room there, or choose another --out")


def measured_speed(simulation: "Simulation", n_workers: int | None = None, engine: str = "auto") -> Speed:
    """How fast this machine trains and evaluates the model of a run, by a few steps on made-up data; of a model of which even a
    step takes long, by a single sample; of a huge one assumed."""
    settings = simulation.scenario.training
    shape, n_classes = simulation.dataset.shape, simulation.dataset.n_classes
    batch = int(min(settings.batch_size, simulation.world.n_samples.max()))
    workers = n_workers or n_cores()
    if simulation.n_params > LARGE:
        usual = USUAL_FLOPS * workers / (6 * simulation.n_params)
        return Speed(trained_s=usual, evaluated_s=3 * usual, measured=False)
    sample_s = _forward_s(simulation.model, shape)
    if 3 * sample_s * batch > MEASURE_S:  # a step takes long: by what a single sample takes
        return Speed(trained_s=workers / (3 * sample_s), evaluated_s=workers / sample_s, measured=True)
    n_clients = 2 * workers
    rng = np.random.default_rng(0)
    x = rng.random((n_clients * batch, *shape), dtype=np.float32)
    y: Any = (
        rng.integers(n_classes, size=len(x)) if n_classes else simulation.dataset.y_train[:1].repeat(len(x), axis=0)
    )
    task = Task(
        model=simulation.model,
        x_train=x,
        y_train=y,
        x_test=x,
        y_test=y,
        parts=tuple(np.arange(k * batch, (k + 1) * batch) for k in range(n_clients)),
        loss="cross-entropy" if n_classes else "mse",
        batch_size=batch,
    )
    rule = LocalRule(lr=1e-9, momentum=simulation.rule.momentum, clip_norm=simulation.rule.clip_norm)
    made, _ = make_engine(task, rule, 0, workers, engine)
    row = rows.to_row(simulation.model)[None]
    try:
        trained_s = evaluated_s = 0.0
        n_steps = 1
        while trained_s < MEASURE_S / 4:
            zeros = np.zeros(n_clients, dtype=np.int64)
            everyone = np.arange(n_clients)
            jobs = Jobs(start=zeros, client=everyone, n_steps=zeros + n_steps, first_step=zeros, lr_step=zeros)
            before = time.perf_counter()
            made.train_average(row, jobs, Mix(n_targets=1, target=zeros, job=everyone, weight=np.ones(n_clients)))
            trained_s, n_trained = time.perf_counter() - before, n_clients * n_steps * batch
            n_steps *= 4
        n_evaluated = 0
        before = time.perf_counter()
        while evaluated_s < MEASURE_S / 8:
            made.evaluate(row)
            n_evaluated += len(x)
            evaluated_s = time.perf_counter() - before
    finally:
        made.close()
    return Speed(trained_s=n_trained / trained_s, evaluated_s=n_evaluated / evaluated_s, measured=True)


def _forward_s(model: nn.Module, shape: tuple[int, ...]) -> float:
    """Seconds of a forward pass of one sample on one core."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        mine, x = copy.deepcopy(model).eval(), torch.zeros((1, *shape))
        with torch.inference_mode():
            mine(x)
            before = time.perf_counter()
            mine(x)
            return time.perf_counter() - before
    finally:
        torch.set_num_threads(threads)


def real_run(
    simulation: "Simulation", clock_s: float, n_workers: int | None = None, engine: str = "auto"
) -> dict[str, Any]:
    """Of a dry run that is over and took clock_s: what the real run takes, in seconds and bytes, with the terms."""
    place = simulation.places[-1] if simulation.places else None
    found = estimate(
        simulation.scenario,
        simulation.method,
        dataset=simulation.dataset,
        model=simulation.model,
        n_workers=n_workers,
        steps=simulation.federation.steps_done,
        aggregators=None if place is None else int(place.topology.cover.any(axis=1).sum()),
    )
    speed = measured_speed(simulation, n_workers, engine)
    return {
        "seconds": clock_s + speed.seconds(found.work),
        "memory_bytes": found.memory_bytes,
        "disk_bytes": found.disk_bytes,
        "free_memory_bytes": free_memory_bytes(),
        "memory": [asdict(term) for term in found.memory],
        "disk": [asdict(term) for term in found.disk],
        "work": asdict(found.work),
        "speed": asdict(speed),
    }


def free_memory_bytes() -> float:
    """What this machine, or the group of processes this one is in, has left; infinite if the system does not say."""
    found = [math.inf]
    try:
        text = Path("/proc/meminfo").read_text()
        kilobytes = {name: float(n) for name, n in re.findall(r"^(\w+):\s+(\d+) kB", text, re.MULTILINE)}
        found.append(1024 * (kilobytes["MemAvailable"] + kilobytes.get("SwapFree", 0.0)))
    except (OSError, KeyError):
        pass
    try:
        limit = Path("/sys/fs/cgroup/memory.max").read_text().strip()
        if limit != "max":
            found.append(float(limit) - float(Path("/sys/fs/cgroup/memory.current").read_text()))
    except (OSError, ValueError):
        pass
    return min(found)


def free_disk_bytes(folder: Path) -> float:
    """Where the folder is, or will be."""
    place = folder.absolute()
    while not place.exists():
        place = place.parent
    return float(shutil.disk_usage(place).free) if os.access(place, os.R_OK) else math.inf


def _sizes(scenario: Scenario, dataset: Dataset | None, model: nn.Module | None) -> _Sizes:
    task = scenario.task
    raw_bytes = 4.0
    if dataset is not None:
        raw_bytes = 0.0  # it is there already
        n_loaded, n_test, shape = dataset.n_train, dataset.n_test, dataset.shape
        n_outputs = dataset.n_classes or dataset.y_train.shape[1]
    elif task.dataset == "gaussian" and task.gaussian is not None:
        generated = task.gaussian
        n_loaded, n_test, shape = generated.n_train, generated.n_test, (generated.n_features,)
        n_outputs = generated.n_classes
    elif task.dataset in DATASETS:
        about = DATASETS[task.dataset]
        n_loaded, n_test, shape = about.n_train, about.n_test, about.shape
        n_outputs = about.n_classes or MAGNET_OUTPUTS
        if task.dataset == "magnet" and task.magnet is not None:
            n_loaded, n_test = task.magnet.n_train, task.magnet.n_test
        raw_bytes = 1.0 if len(shape) == 3 else 4.0
    else:  # unknown: who loads it will say so
        n_loaded, n_test, shape, n_outputs = 0, 0, (1,), 1
    limit = math.inf if dataset is not None or task.data_limit is None else task.data_limit
    values = float(math.prod(shape))
    return _Sizes(
        n_train=min(n_loaded, limit),
        n_test=min(n_test, limit),
        n_loaded=float(n_loaded),
        values=values,
        raw_bytes=raw_bytes * values,
        n_outputs=n_outputs,
        n_params=_n_params(scenario, shape, n_outputs, model),
    )


def _n_params(scenario: Scenario, shape: tuple[int, ...], n_outputs: int, model: nn.Module | None) -> float:
    """Values of the model; the scenario's is made without its values."""
    if model is not None:
        return float(rows.n_values(model))
    settings = scenario.task.model
    try:
        with torch.device("meta"):
            options = settings.model_dump(exclude={"kind"}, exclude_none=True)
            return float(rows.n_values(models.build(settings.kind, shape, n_outputs, 0, **options)))
    except ValueError:  # it does not suit the data: who builds it will say so
        return 0.0
    except (RuntimeError, OverflowError, TypeError):  # its size is beyond what can be counted
        return math.inf


def _rounds(scenario: Scenario, method: Method) -> float:
    """Edge rounds of a cloud round; at least 1 where the method decides."""
    rounds = method.edge.rounds
    if not isinstance(rounds, int | None) or method.edge.box_s is not None or method.allot is not None:
        return 1.0
    return float(scenario.training.edge_rounds if rounds is None else rounds)


def _job_steps(scenario: Scenario, size: _Sizes) -> float:
    training = scenario.training
    if training.local_epochs is None:
        return float(training.local_steps or LOCAL_STEPS)
    samples = max(1, int(_samples_of_each(scenario, size)))
    return float(training.local_epochs) * steps_per_pass(samples, training.batch_size, training.drop_last)


def _samples_of_each(scenario: Scenario, size: _Sizes) -> float:
    partition = scenario.task.partition
    if isinstance(partition, DrawnPartition):
        return float(partition.samples_per_client)
    return size.n_train / scenario.fleet.n_devices


def _enough_samples(scenario: Scenario, dataset: Dataset | None) -> None:
    """Every device needs a sample; that there are too few is seen before a fleet is made."""
    size = _sizes(scenario, dataset, nn.Identity())
    fits = isinstance(scenario.task.partition, DrawnPartition | UserPartition)
    if not fits and 0 < size.n_train < scenario.fleet.n_devices:
        raise ValueError(
            f"{scenario.fleet.n_devices:,} devices (fleet.n_devices) cannot share {size.n_train:,.0f} training samples: each "
            f"needs one; use fewer devices, more data, or task.partition: {{kind: drawn}}"
        )


def _words(needs: str, there: float, terms: tuple[Term, ...]) -> str:
    largest = max(terms, key=lambda term: term.n_bytes)
    return (
        f"{needs}, and {_size(there)} are free: most of it for {largest.what} ({_size(largest.n_bytes)}); "
        f"use {largest.change}"
    )


def _count(n: float) -> str:
    return f"{n:,.0f}" if math.isfinite(n) else "countless"


def _size(n_bytes: float) -> str:
    if n_bytes >= 1e27:
        return "more than all machines' memory"
    for size, unit in ((1e24, "YB"), (1e21, "ZB"), (1e18, "EB"), (1e15, "PB"), (1e12, "TB"), (1e9, "GB"), (1e6, "MB")):
        if n_bytes >= size:
            return f"{n_bytes / size:,.3g} {unit}"
    return f"{n_bytes:,.0f} bytes"

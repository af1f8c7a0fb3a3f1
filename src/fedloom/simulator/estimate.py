"""What a run will take, before it is made: memory, disk and work, term by term.

`estimate` is a pure function of settings: it makes no arrays, so that a run of 1e8 devices or 1e15 local steps is refused at once
(`refusing`) and not when the machine is full. Terms are what surely stands side by side, so that what could just fit is
not refused; K devices, N cells, P values of a model, all sizes in bytes.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fedloom.data import Dataset
from fedloom.grouping import Need
from fedloom.methods import Method
from fedloom.simulator.run_sizes import Sizes, samples_of_each, sizes
from fedloom.simulator.scenarios import LOCAL_STEPS, EveryEdgeRounds, Scenario
from fedloom.training.batches import steps_per_pass
from fedloom.training.choose import MOST_VALUES
from fedloom.training.engine import n_cores
from fedloom.training.ring import chunk_size, ring_size
from fedloom.training.state import layout_of

if TYPE_CHECKING:
    from fedloom.training.rows import AnyModel

PROGRAM = 3e8  # Python, torch and polars themselves
OF_DEVICE = 400  # positions, links to the cloud, list of samples, counts
OF_PAIR = 34  # a device and a cell: distance, rates up and down, reach, weights
OF_JOB = 50  # in the notes of a cloud round: who, from which model, how many steps, what weight
OF_AGGREGATOR = 600  # in the notes of an edge round
OF_MEASURE = 1200  # of one evaluation, kept to the end
OF_LINE = 45  # of the timeline, on disk
MOST_COUNTED = 2**53  # values of a model
OF_PAGE = 1.9e6  # the report, on disk: most of it the code that draws it


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


def estimate(
    scenario: Scenario,
    method: Method,
    *,
    dry_run: bool = False,
    dataset: Dataset | None = None,
    model: "AnyModel | None" = None,
    n_workers: int | None = None,
    steps: float | None = None,
    aggregators: int | None = None,
) -> Estimate:
    """What a run of the scenario takes. dataset, model: if they are not the scenario's. steps: local steps of all clients, and
    aggregators: how many there are, where a clock has counted them; else as the settings say."""
    size = sizes(scenario, dataset, model)
    counts = _counted(scenario, method, size, aggregators)
    total_steps = counts.jobs * counts.job_steps if steps is None else steps
    work = Work(
        jobs=counts.jobs,
        steps=total_steps,
        samples=total_steps * min(scenario.training.batch_size, max(1.0, size.n_train / counts.devices)),
        evaluated=counts.evaluations * counts.per_evaluation * size.n_test,
        sample_flops=6 * size.n_params * (1 if method.local.rule is None else method.local.rule.trainings),
    )
    memory = [*_always(scenario, method, size, counts, dry_run)]
    if dry_run:
        what = f"a model of {_count(size.n_params)} values"
        memory.append(Term(what=what, n_bytes=1.25 * counts.row_bytes, change="a smaller task.model"))
        return Estimate(memory=tuple(memory), disk=(), work=work)
    memory += _training(method, size, counts, n_workers or n_cores())
    return Estimate(memory=tuple(memory), disk=tuple(_on_disk(counts)), work=work)


@dataclass(frozen=True, kw_only=True)
class _Counts:
    """Devices, cells, aggregators; devices sent to work in an edge round, in all (jobs) and the local steps of one; edge rounds
    that are noted before they are computed; evaluations, and models in each; models that are held, and those that coded
    uploads take: what was trained, what arrives and what is left of each; bytes of a model."""

    devices: float
    cells: float
    aggregators: float
    senders: float
    jobs: float
    job_steps: float
    noted: float
    evaluations: float
    per_evaluation: float
    rows: float
    coded_rows: float
    row_bytes: float


def _counted(scenario: Scenario, method: Method, size: Sizes, aggregators: int | None) -> _Counts:
    training, every, models = scenario.training, scenario.evaluation.every, scenario.evaluation.models
    k, n_cells = float(scenario.fleet.n_devices), float(scenario.fleet.cells.n_cells)
    edge_rounds, cloud_rounds = _rounds(scenario, method), float(training.cloud_rounds)
    share = training.participation if training.clients_per_round is None else 1.0
    senders = max(1.0, min(k * share, float(training.clients_per_round or k) * n_cells))
    n_models = float(aggregators or n_cells)
    if isinstance(every, EveryEdgeRounds):
        looks = cloud_rounds * max(1.0, edge_rounds / every.edge_rounds)
        noted = min(edge_rounds, every.edge_rounds)
    else:
        looks, noted = cloud_rounds / every, edge_rounds
    keeps_devices, coding = models == "devices" or method.start.share is not None, method.coding
    layout = layout_of(method.local.rule, max(1, int(min(size.n_params, MOST_COUNTED))))
    width, kept = (1.0, 0.0) if layout is None else (layout.width / layout.n_values, layout.kept / layout.n_values)
    measured = 0 if layout is None else sum(state.measured for state in layout.states)
    jobs = senders * edge_rounds * cloud_rounds
    return _Counts(
        devices=k,
        cells=n_cells,
        aggregators=n_models,
        senders=senders,
        jobs=jobs,
        job_steps=_job_steps(scenario, size),
        noted=noted,
        evaluations=1 + looks,
        per_evaluation=1.0
        + (0.0 if models == "global" else n_models)
        + (k if models == "devices" else 0)
        + measured * k,
        rows=1
        + 3 * n_models
        + (k if keeps_devices else 0)
        + (min(k, jobs) if coding.keeps else 0)
        + 3 * min(k, jobs) * kept / width,
        coded_rows=noted * senders * (2 + coding.keeps) if coding.codes_up else 0.0,
        row_bytes=4.0 * size.n_params * width,
    )


FEWER = "fewer fleet.n_devices"


def _always(scenario: Scenario, method: Method, size: Sizes, counts: _Counts, dry_run: bool) -> Iterator[Term]:
    """Memory of any run, dry or not."""
    k, n_cells = counts.devices, counts.cells
    yield Term(what="the program", n_bytes=PROGRAM, change="nothing")
    yield Term(
        what=f"{size.n_loaded + size.n_test:,.0f} samples",
        n_bytes=(size.n_loaded + size.n_test) * size.raw_bytes
        + (0 if dry_run else 4 * (size.n_train + size.n_test) * size.values),
        change="a smaller dataset" if scenario.task.dataset in ("gaussian", "magnet", "text") else "task.data_limit",
    )
    yield Term(
        what=f"a fleet of {k:,.0f} devices and {n_cells:,.0f} cells",
        n_bytes=k * OF_DEVICE
        + k * n_cells * OF_PAIR
        + n_cells * OF_AGGREGATOR
        + 8 * k * (size.n_outputs + samples_of_each(scenario, size)),
        change=f"{FEWER} or cells",
    )
    yield Term(
        what=f"the notes of {counts.noted:,.0f} edge rounds of {counts.senders:,.0f} devices",
        n_bytes=counts.noted * (counts.senders * OF_JOB + counts.aggregators * OF_AGGREGATOR),
        change="fewer training.edge_rounds and more cloud_rounds, or a smaller participation",
    )
    yield Term(
        what=f"the measures of {counts.evaluations:,.0f} evaluations",
        n_bytes=counts.evaluations * OF_MEASURE,
        change="fewer training.cloud_rounds or a larger evaluation.every",
    )
    if Need.LINKS in method.needs:
        change = f"{FEWER}, or a method that groups by cells"
        yield Term(what=f"links between {k:,.0f} x {k:,.0f} devices", n_bytes=24 * k * k, change=change)


def _training(method: Method, size: Sizes, counts: _Counts, workers: int) -> Iterator[Term]:
    """Memory of training."""
    values, row = _count(size.n_params), counts.row_bytes
    waiting = ring_size(size.n_params) * workers * chunk_size(size.n_params)
    buffers = 4 * workers + (waiting + 16 if size.n_params > MOST_VALUES else 0)
    what = f"the steps of a job, {counts.job_steps:,.0f}"
    yield Term(what=what, n_bytes=8 * counts.job_steps, change="fewer training.local_steps")
    yield Term(
        what=f"{counts.rows:,.0f} models of {values} values",
        n_bytes=counts.rows * row + 2 * counts.aggregators * row,
        change="a smaller task.model, fewer cells, or evaluation.models: global",
    )
    yield Term(
        what=f"buffers of {workers} workers for models of {values} values",
        n_bytes=buffers * row,
        change="a smaller task.model or fewer --workers",
    )
    if counts.coded_rows:
        yield Term(
            what=f"coded uploads of {counts.noted:,.0f} edge rounds of {counts.senders:,.0f} devices, {values} values each",
            n_bytes=counts.coded_rows * row,
            change="fewer training.edge_rounds and more cloud_rounds, a smaller participation, or a smaller task.model",
        )
    if method.needs & {Need.UPDATES, Need.GRADIENTS}:
        yield Term(
            what=f"updates or gradients of {counts.devices:,.0f} devices, {values} values each",
            n_bytes=counts.devices * row,
            change=f"a smaller task.model or {FEWER}",
        )


def _on_disk(counts: _Counts) -> Iterator[Term]:
    yield Term(
        what=f"two checkpoints of {counts.rows:,.0f} models, and the model",
        n_bytes=2 * counts.rows * counts.row_bytes + counts.row_bytes,
        change="a smaller task.model, or evaluation.models: global",
    )
    yield Term(
        what=f"a timeline of {counts.jobs:,.0f} lines",
        n_bytes=OF_LINE * counts.jobs,
        change="fewer training.cloud_rounds or edge_rounds, or a smaller participation",
    )
    yield Term(
        what=f"measures of {counts.evaluations:,.0f} evaluations",
        n_bytes=150 * counts.evaluations,
        change="fewer training.cloud_rounds or a larger evaluation.every",
    )
    yield Term(what="the report", n_bytes=OF_PAGE, change="another disk")


def _rounds(scenario: Scenario, method: Method) -> float:
    """Edge rounds of a cloud round; at least 1 where the method decides."""
    rounds = method.edge.rounds
    if not isinstance(rounds, int | None) or method.edge.box_s is not None or method.allots_rounds:
        return 1.0
    return float(scenario.training.edge_rounds if rounds is None else rounds)


def _job_steps(scenario: Scenario, size: Sizes) -> float:
    training = scenario.training
    if training.local_epochs is None:
        return float(training.local_steps or LOCAL_STEPS)
    samples = max(1, int(samples_of_each(scenario, size)))
    return float(training.local_epochs) * steps_per_pass(samples, training.batch_size, training.drop_last)


def _count(n: float) -> str:
    return f"{n:,.0f}" if math.isfinite(n) else "countless"

"""What a run will take, before it is made: memory, disk and work, term by term.

`estimate` is a pure function of settings: it makes no arrays, so that a run of 1e8 devices or 1e15 local steps is refused at once
(`refusing`) and not when the machine is full. Terms are what surely stands side by side, so that what could just fit is
not refused; K devices, N cells, P values of a model, all sizes in bytes.
"""

import math
from dataclasses import dataclass

from torch import nn

from fedloom.data import Dataset
from fedloom.grouping import Need
from fedloom.methods import Method
from fedloom.simulator.run_sizes import Sizes, samples_of_each, sizes
from fedloom.simulator.scenarios import LOCAL_STEPS, EveryEdgeRounds, Scenario
from fedloom.training.batches import steps_per_pass
from fedloom.training.choose import MOST_VALUES
from fedloom.training.engine import n_cores
from fedloom.training.torch_engine import CHUNK, RING

PROGRAM = 3e8  # Python, torch and polars themselves
OF_DEVICE = 400  # positions, links to the cloud, list of samples, counts
OF_PAIR = 34  # a device and a cell: distance, rates up and down, reach, weights
OF_JOB = 50  # in the notes of a cloud round: who, from which model, how many steps, what weight
OF_AGGREGATOR = 600  # in the notes of an edge round
OF_MEASURE = 1200  # of one evaluation, kept to the end
OF_LINE = 45  # of the timeline, on disk


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
    model: nn.Module | None = None,
    n_workers: int | None = None,
    steps: float | None = None,
    aggregators: int | None = None,
) -> Estimate:
    """What a run of the scenario takes. dataset, model: if they are not the scenario's. steps: local steps of all clients, and
    aggregators: how many there are, where a clock has counted them; else as the settings say."""
    training, fleet = scenario.training, scenario.fleet
    k, n_cells = float(fleet.n_devices), float(fleet.cells.n_cells)
    size = sizes(scenario, dataset, model)
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
            + 8 * k * (size.n_outputs + samples_of_each(scenario, size)),
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


def _rounds(scenario: Scenario, method: Method) -> float:
    """Edge rounds of a cloud round; at least 1 where the method decides."""
    rounds = method.edge.rounds
    if not isinstance(rounds, int | None) or method.edge.box_s is not None or method.allot is not None:
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

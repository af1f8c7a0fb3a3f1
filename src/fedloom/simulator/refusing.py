"""Runs that do not fit are refused before they are made, with what takes most and what would make it less."""

from pathlib import Path
from typing import TYPE_CHECKING

from fedloom.data import Dataset
from fedloom.data.settings import DrawnPartition, UserPartition
from fedloom.data.sources import OWN
from fedloom.methods import Method
from fedloom.simulator.estimate import OF_PAGE, PROGRAM, Estimate, Term, estimate
from fedloom.simulator.room import free_disk_bytes, free_memory_bytes
from fedloom.simulator.run_sizes import sizes
from fedloom.simulator.scenarios import Scenario
from fedloom.training.engine import n_cores
from fedloom.training.layers import Network

if TYPE_CHECKING:
    from fedloom.training.rows import AnyModel

YEAR_S = 365.25 * 86400
LONGEST_S = 10 * YEAR_S
PEAK_FLOPS = 1e11  # of a core: more than any has in training
CLOCK_S = 2e-7  # of the clock for one job: less than it ever takes


class TooLarge(ValueError):
    """The run needs more than the machine has."""


class NoRoom(RuntimeError):
    """The run needs more disk than is free now."""


def refuse_too_large(
    scenario: Scenario,
    method: Method,
    *,
    dry_run: bool = False,
    dataset: Dataset | None = None,
    model: "AnyModel | None" = None,
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
    """Raise NoRoom if so many such runs would not fit on the disk of the folder, with one report of all."""
    needed, there = n_runs * found.disk_bytes - (n_runs - 1) * OF_PAGE, free_disk_bytes(folder)
    if needed > there:
        runs = "this run" if n_runs == 1 else f"these {n_runs} runs"
        words = _words(f"{runs} would need about {_size(needed)} of disk in {folder}", there, found.disk)
        raise NoRoom(f"{words}, make room there, or choose another --out")


def _enough_samples(scenario: Scenario, dataset: Dataset | None) -> None:
    """Every device needs a sample; that there are too few is seen before a fleet is made."""
    size = sizes(scenario, dataset, Network(()))
    fits = isinstance(scenario.task.partition, DrawnPartition | UserPartition)
    unknown = dataset is None and scenario.task.dataset.endswith(OWN)
    if not (fits or unknown) and 0 < size.n_train < scenario.fleet.n_devices:
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


def _size(n_bytes: float) -> str:
    if n_bytes >= 1e27:
        return "more than all machines' memory"
    for size, unit in ((1e24, "YB"), (1e21, "ZB"), (1e18, "EB"), (1e15, "PB"), (1e12, "TB"), (1e9, "GB"), (1e6, "MB")):
        if n_bytes >= size:
            return f"{n_bytes / size:,.3g} {unit}"
    return f"{n_bytes:,.0f} bytes"

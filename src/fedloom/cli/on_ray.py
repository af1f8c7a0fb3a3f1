"""Runs on a Ray cluster: every one is a task on one processor of it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fedloom.cli.jobs import Job, Tally
from fedloom.cli.show import progress
from fedloom.cli.worker import load_dataset, read_files, run_elsewhere, write_files
from fedloom.scale.cluster import connect, n_cpus
from fedloom.scale.tasks import State, run_tasks
from fedloom.simulator import scenario


def make_on_ray(
    waiting: Sequence[Job], jobs: Sequence[Job], address: str, n_jobs: int | None, data_folder: Path | None, quiet: bool
) -> None:
    """Make the runs that wait, of all jobs, at most n_jobs at a time; if one fails the others go on.

    Records are written here, by the driver; the data goes out from here too, once to every machine.
    """
    cluster = connect(address)
    orders = _Orders(cluster, waiting, data_folder)
    with progress(quiet) as bar:
        desk = _Desk(waiting, Tally(jobs, bar))
        state = run_tasks(
            cluster,
            run_elsewhere,
            orders.of,
            len(waiting),
            n_at_once=n_jobs or n_cpus(cluster),
            on_result=desk.result,
            on_news=desk.news,
            on_change=desk.change,
        )
    if state.failed:
        errors = "\n".join(f"  {waiting[i].name}: {error}" for i, error in sorted(state.failed.items()))
        raise RuntimeError(
            f"{len(state.failed)} of {len(waiting)} runs failed twice, the others are finished:\n{errors}\n"
            f"the same command tries again what failed"
        )


class _Orders:
    """What a task is sent: the run, the files of its record so far, and the data, of which the cluster keeps one copy."""

    def __init__(self, cluster: Any, waiting: Sequence[Job], data_folder: Path | None) -> None:
        self._cluster, self._waiting = cluster, waiting
        self._folder = None if data_folder is None else str(data_folder)
        self._scenarios = {job.scenario: scenario(job.scenario) for job in waiting}
        self._sent: dict[str, Any] = {}

    def of(self, i: int) -> tuple[Any, ...]:
        """Of the i-th run that waits."""
        job = self._waiting[i]
        chosen = self._scenarios[job.scenario]
        key = chosen.task.model_dump_json(include={"dataset", "data_limit", "gaussian", "magnet", "text"})
        if key not in self._sent:
            self._sent[key] = self._cluster.put(load_dataset(chosen, self._folder))
        what = {"scenario": chosen.model_dump(mode="json"), "method": job.method, "seed": job.seed, "workers": 1}
        return what | {"folder": str(job.folder)}, read_files(job.folder), self._sent[key]


class _Desk:
    """Where news of tasks arrive: it writes the records and moves the bar."""

    def __init__(self, waiting: Sequence[Job], tally: Tally) -> None:
        self._waiting, self._tally = waiting, tally
        self._state = self._figures = ""

    def change(self, state: State) -> None:
        """A task has begun or ended."""
        self._state = str(state)
        self._show()

    def news(self, i: int, news: dict[str, Any]) -> None:
        """The i-th run has come further."""
        job = self._waiting[i]
        self._tally.note(job, news["done"])
        if "figures" in news:
            self._figures = f"{job.name}: {news['figures']}"
        if "files" in news:
            write_files(job.folder, news["files"])
        self._show()

    def result(self, i: int, files: dict[str, bytes]) -> None:
        """The i-th run is finished."""
        job = self._waiting[i]
        write_files(job.folder, files)
        self._tally.note(job, job.cloud_rounds)

    def _show(self) -> None:
        self._tally.show("; ".join(filter(None, (self._state, self._figures))))

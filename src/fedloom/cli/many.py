"""Many runs, several at a time, each in one of a few processes; and the comparison of methods over seeds made of them."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fedloom.cli.crew import make_here
from fedloom.cli.ends import Ended, Said, by_what, end_on_sigterm, exit_code
from fedloom.cli.jobs import Job
from fedloom.cli.limits import guarded
from fedloom.cli.method_text import with_settings
from fedloom.cli.show import notes
from fedloom.gate.names import folder_name
from fedloom.record.files import NotWritten, write_whole


def run_many(
    scenario: str,
    methods: Sequence[str],
    *,
    seeds: int,
    changes: Sequence[str] = (),
    folder: Path | None = None,
    jobs: int | None = None,
    ray: str | None = None,
    data_folder: Path | None = None,
    x: str = "steps",
    target: float | None = None,
    quiet: bool = False,
    max_time: str | None = None,
    max_memory: str | None = None,
) -> tuple[Any, Path]:
    """Run what is missing, go on with what was interrupted; returns the comparison and the path of the report."""
    from fedloom.record.comparison import compare
    from fedloom.record.report import write_report
    from fedloom.record.runs import read_run
    from fedloom.simulator import scenario as read_scenario

    methods = [with_settings(method, changes)[0] for method in methods]
    chosen = read_scenario(scenario, with_settings("", changes)[1])
    where = folder or Path("runs") / folder_name(chosen.name)
    _refuse(chosen, methods, seeds, x, target, where)
    file = scenario_file(where, chosen.model_dump_json(indent=1))
    all_jobs = [
        Job(
            name=f"{m} seed {s}",
            scenario=file,
            method=m,
            seed=s,
            folder=where / f"{folder_name(m)}-s{s}",
            cloud_rounds=chosen.training.cloud_rounds,
        )
        for m in methods
        for s in range(seeds)
    ]
    make_runs(
        all_jobs,
        n_jobs=jobs,
        ray=ray,
        data_folder=data_folder,
        quiet=quiet,
        max_time=max_time,
        max_memory=max_memory,
    )
    runs = [read_run(job.folder) for job in all_jobs]
    comparison = compare(runs, x=x, target=target)
    return comparison, write_report(runs, where / "report.html", target=target)


def _refuse(scenario: Any, methods: Sequence[str], seeds: int, x: str, target: float | None, folder: Path) -> None:
    """What cannot be run or compared is said before anything is written."""
    from fedloom import _check
    from fedloom.record.axes import AXES
    from fedloom.simulator import make_method
    from fedloom.simulator.refusing import refuse_full_disk, refuse_too_large

    if not methods:
        raise ValueError("--methods must name at least one method, e.g. fedavg,hierfedavg")
    if len(set(methods)) < len(methods):
        raise ValueError(f"--methods names a method twice: {', '.join(methods)}")
    found = [refuse_too_large(scenario, make_method(method)) for method in methods]
    _check.one_of("--x", x, tuple(AXES))
    if target is not None:
        _check.positive("--target", target)
    refuse_full_disk(max(found, key=lambda e: e.disk_bytes), folder, n_runs=len(methods) * seeds)


def scenario_file(folder: Path, content: str) -> Path:
    """The scenario for the runs to read (JSON is YAML); a folder with runs of another scenario is left alone.

    A file that cannot be read (half of one, of a full disk) is written again: every run has the whole scenario in its own
    folder and refuses another.
    """
    from fedloom.record.folder import FolderError
    from fedloom.simulator import ScenarioError, scenario

    file = folder / "scenario.json"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        try:
            there = scenario(file) if file.exists() else None  # settings that are newer than the file have defaults
        except ScenarioError:
            there = None
        if there is None:
            write_whole(file, content.encode())
        elif there != scenario(json.loads(content)):
            raise FolderError(
                f"{folder} holds runs of another scenario (see {file}); choose another --out or delete it"
            )
    except NotWritten:
        raise
    except OSError as error:
        raise FolderError(f"the folder {folder} cannot be written ({error.strerror}); choose another --out") from None
    return file


def make_runs(
    jobs: Sequence[Job],
    *,
    n_jobs: int | None = None,
    ray: str | None = None,
    data_folder: Path | None = None,
    quiet: bool = False,
    max_time: str | None = None,
    max_memory: str | None = None,
) -> None:
    """Make the runs that are not finished, or whose files do not fit, `n_jobs` at a time; the first that fails stops all.

    ray: the address of a cluster to make them on; there the others go on if one fails. max_time, max_memory: limits of all
    runs together, such as 10m and 2GB. What is stopped by them, by Ctrl-C or by SIGTERM goes on when it is called again.
    """
    end_on_sigterm()  # so that the workers are stopped too
    try:
        with guarded(max_time, max_memory):
            _make_runs(jobs, n_jobs=n_jobs, ray=ray, data_folder=data_folder, quiet=quiet)
    except (KeyboardInterrupt, Ended) as end:
        n_over = sum(job.finished for job in jobs)
        notes.print(
            f"[yellow]stopped{by_what(end)} with {n_over} of {len(jobs)} runs finished; the same command goes on from "
            f"there[/]",
            highlight=False,
            soft_wrap=True,
        )
        raise Said(exit_code(end)) from None


def _make_runs(
    jobs: Sequence[Job],
    *,
    n_jobs: int | None,
    ray: str | None,
    data_folder: Path | None,
    quiet: bool,
) -> None:
    waiting = [job for job in jobs if not job.sound]
    if not waiting:
        return
    if ray is None:
        make_here(waiting, jobs, n_jobs, data_folder, quiet)
    else:
        from fedloom.cli.on_ray import make_on_ray

        make_on_ray(waiting, jobs, ray, n_jobs, data_folder, quiet)

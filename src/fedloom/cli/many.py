"""Many runs, several at a time, each in one of a few processes; and the comparison of methods over seeds made of them."""

import contextlib
import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from fedloom.cli.ends import Ended, Said, by_what, end_on_sigterm, exit_code
from fedloom.cli.limits import guarded
from fedloom.cli.show import notes, progress
from fedloom.gate.names import folder_name
from fedloom.record.files import NotWritten, write_whole


@dataclass(frozen=True, kw_only=True)
class Job:
    """A run to make: a scenario (a file), a method, a seed, the folder for the record, and the length for the bar."""

    name: str
    scenario: Path
    method: str
    seed: int
    folder: Path
    cloud_rounds: int

    @property
    def finished(self) -> bool:
        return (self.folder / "summary.json").exists()

    @property
    def sound(self) -> bool:
        """Whether it is finished with files that fit; if not, making it again mends them, or says why it cannot."""
        from fedloom.record.files import REPORT
        from fedloom.record.verify import verify

        return self.finished and all(misfit.file == REPORT for misfit in verify(self.folder).misfits)


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
    from fedloom import _check
    from fedloom.record.axes import AXES
    from fedloom.record.comparison import compare
    from fedloom.record.report import write_report
    from fedloom.record.runs import read_run
    from fedloom.simulator import make_method
    from fedloom.simulator import scenario as read_scenario
    from fedloom.simulator.refusing import refuse_full_disk, refuse_too_large

    chosen = read_scenario(scenario, changes)
    if not methods:
        raise ValueError("--methods must name at least one method, e.g. fedavg,hierfedavg")
    if len(set(methods)) < len(methods):
        raise ValueError(f"--methods names a method twice: {', '.join(methods)}")
    found = [refuse_too_large(chosen, make_method(method)) for method in methods]
    _check.one_of("--x", x, tuple(AXES))
    if target is not None:
        _check.positive("--target", target)
    where = folder or Path("runs") / folder_name(chosen.name)
    refuse_full_disk(max(found, key=lambda e: e.disk_bytes), where, n_runs=len(methods) * seeds)
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


@dataclass(eq=False)
class _Worker:
    """A process of `fedloom.cli.worker`, what it is doing, and where its complaints go."""

    process: "subprocess.Popen[str]"
    complaints: IO[str]
    listener: threading.Thread = field(init=False)
    job: Job | None = None

    def start(self, job: Job, order: dict[str, Any]) -> None:
        """Give it a run to make; `order` says what all runs have in common."""
        assert self.process.stdin is not None
        self.job = job
        run = {"scenario": str(job.scenario), "method": job.method, "seed": job.seed, "folder": str(job.folder)}
        with contextlib.suppress(BrokenPipeError):  # if it has died, who listens to it will notice
            self.process.stdin.write(json.dumps(order | run) + "\n")
            self.process.stdin.flush()

    def stop(self) -> None:
        """Wait for its end and close what is open."""
        assert self.process.stdin is not None
        self.process.wait()
        self.listener.join()
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        self.complaints.close()

    def last_words(self, alone: bool) -> str:
        """Why it ended before its run did; alone: there are no others at the same time."""
        code = self.process.wait()
        if code < 0:
            try_ = "a smaller model or fewer devices" if alone else "fewer --jobs"
            return f"it was ended by signal {-code} (9 often means too little memory: try {try_})"
        self.complaints.seek(0)
        return self.complaints.read().strip() or f"its process ended with code {code}"


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
    from fedloom.training.engine import n_cores

    waiting = [job for job in jobs if not job.sound]
    if not waiting:
        return
    if ray is not None:
        _make_on_ray(waiting, jobs, ray, n_jobs, data_folder, quiet)
        return
    n_workers = min(n_jobs or n_cores(), len(waiting))
    order = {
        "workers": max(1, n_cores() // n_workers),
        "data_folder": None if data_folder is None else str(data_folder),
    }
    lines: queue.Queue[tuple[_Worker, str | None]] = queue.Queue()
    done = {job.folder: job.cloud_rounds if job.finished else 0 for job in jobs}
    workers: list[_Worker] = []
    try:
        workers += [_hire(lines, alone=n_workers == 1) for _ in range(n_workers)]
        for worker in workers:
            worker.start(waiting.pop(0), order)
        with progress(quiet) as bar:
            whole = bar.add_task("all runs", total=sum(job.cloud_rounds for job in jobs), figures="")
            bar.update(whole, completed=sum(done.values()))
            while any(worker.job for worker in workers):
                worker, line = lines.get()
                job = worker.job
                if job is None:
                    continue
                answer: dict[str, Any] = (
                    {"error": worker.last_words(n_workers == 1), "bad_input": False}
                    if line is None
                    else json.loads(line)
                )
                if "error" in answer:
                    kind = ValueError if answer["bad_input"] else RuntimeError
                    then = (
                        "mend this, and the same command goes on" if answer["bad_input"] else "the same command goes on"
                    )
                    raise kind(f"{job.name} failed: {answer['error']}\nwhat was done is kept: {then} from there")
                shown: dict[str, Any] = {}
                if "finished" in answer:
                    done[job.folder] = job.cloud_rounds
                    worker.job = None
                    if waiting:
                        worker.start(waiting.pop(0), order)
                else:
                    done[job.folder] = answer["done"]
                    n_over = sum(rounds == j.cloud_rounds for rounds, j in zip(done.values(), jobs))
                    text = f"{n_over} of {len(jobs)} runs finished; {job.name}: {answer.get('figures', '')}"
                    shown = {"figures": text} if "figures" in answer else {}
                bar.update(whole, completed=sum(done.values()), **shown)
            bar.update(whole, figures=f"{len(jobs)} of {len(jobs)} runs finished")
    finally:
        for worker in workers:
            worker.process.terminate()
        for worker in workers:
            worker.stop()


def _make_on_ray(
    waiting: Sequence[Job], jobs: Sequence[Job], address: str, n_jobs: int | None, data_folder: Path | None, quiet: bool
) -> None:
    """Every run is a task on one processor of the cluster. Its record is written here, by the driver; the data goes out
    from here too, once to every machine."""
    from fedloom.cli.worker import load_dataset, read_files, run_elsewhere, write_files
    from fedloom.scale.cluster import connect, n_cpus
    from fedloom.scale.tasks import State, run_tasks
    from fedloom.simulator import scenario

    cluster = connect(address)
    folder = None if data_folder is None else str(data_folder)
    scenarios = {job.scenario: scenario(job.scenario) for job in waiting}
    sent: dict[str, Any] = {}

    def order(i: int) -> tuple[Any, ...]:
        job = waiting[i]
        chosen = scenarios[job.scenario]
        key = chosen.task.model_dump_json(include={"dataset", "data_limit", "gaussian", "magnet"})
        if key not in sent:
            sent[key] = cluster.put(load_dataset(chosen, folder))
        what = {"scenario": chosen.model_dump(mode="json"), "method": job.method, "seed": job.seed, "workers": 1}
        return what | {"folder": str(job.folder)}, read_files(job.folder), sent[key]

    done = {job.folder: job.cloud_rounds if job.finished else 0 for job in jobs}
    shown = {"state": "", "figures": ""}
    with progress(quiet) as bar:
        whole = bar.add_task("all runs", total=sum(job.cloud_rounds for job in jobs), figures="")

        def show() -> None:
            bar.update(whole, completed=sum(done.values()), figures="; ".join(filter(None, shown.values())))

        def on_change(state: State) -> None:
            shown["state"] = str(state)
            show()

        def on_news(i: int, news: dict[str, Any]) -> None:
            done[waiting[i].folder] = news["done"]
            if "figures" in news:
                shown["figures"] = f"{waiting[i].name}: {news['figures']}"
            if "files" in news:
                write_files(waiting[i].folder, news["files"])
            show()

        def on_result(i: int, files: dict[str, bytes]) -> None:
            write_files(waiting[i].folder, files)
            done[waiting[i].folder] = waiting[i].cloud_rounds

        state = run_tasks(
            cluster,
            run_elsewhere,
            order,
            len(waiting),
            n_at_once=n_jobs or n_cpus(cluster),
            on_result=on_result,
            on_news=on_news,
            on_change=on_change,
        )
    if state.failed:
        errors = "\n".join(f"  {waiting[i].name}: {error}" for i, error in sorted(state.failed.items()))
        raise RuntimeError(
            f"{len(state.failed)} of {len(waiting)} runs failed twice, the others are finished:\n{errors}\n"
            f"the same command tries again what failed"
        )


def _hire(lines: "queue.Queue[tuple[_Worker, str | None]]", alone: bool) -> _Worker:
    environment = dict(os.environ) if alone else os.environ | {"OMP_NUM_THREADS": "1"}
    complaints = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed with the process
    process = subprocess.Popen(
        [sys.executable, "-m", "fedloom.cli.worker", str(os.getpid())],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=complaints,
        text=True,
        env=environment,
    )
    worker = _Worker(process, complaints)
    worker.listener = threading.Thread(target=_listen, args=(worker, lines), daemon=True)
    worker.listener.start()
    return worker


def _listen(worker: _Worker, lines: "queue.Queue[tuple[_Worker, str | None]]") -> None:
    assert worker.process.stdout is not None
    with worker.process.stdout as answers:
        for line in answers:
            lines.put((worker, line))
    lines.put((worker, None))

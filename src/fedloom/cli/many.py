"""Many runs: methods times seeds, each in a process of its own, then the comparison and the report."""

import json
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fedloom.cli.show import notes, progress


def run_many(
    scenario: str,
    methods: Sequence[str],
    *,
    seeds: int,
    changes: Sequence[str] = (),
    folder: Path | None = None,
    jobs: int | None = None,
    data_folder: Path | None = None,
    x: str = "steps",
    target: float | None = None,
    quiet: bool = False,
) -> tuple[Any, Path]:
    """Run what is missing, go on with what was interrupted; returns the comparison and the path of the report."""
    from fedloom import _check
    from fedloom.record.comparison import AXES, compare
    from fedloom.record.report import write_report
    from fedloom.record.runs import read_run
    from fedloom.simulator import make_method
    from fedloom.simulator import scenario as read_scenario
    from fedloom.training.engine import n_cores

    chosen = read_scenario(scenario, changes)
    if not methods:
        raise ValueError("--methods must name at least one method, e.g. fedavg,hierfedavg")
    if len(set(methods)) < len(methods):
        raise ValueError(f"--methods names a method twice: {', '.join(methods)}")
    for method in methods:
        make_method(method)
    _check.one_of("--x", x, tuple(AXES))
    if target is not None:
        _check.positive("--target", target)
    where = folder or Path("runs") / chosen.name
    file = _scenario_file(where, chosen.model_dump_json(indent=1))
    folders = {(m, s): where / f"{m.replace(':', '-')}-s{s}" for m in methods for s in range(seeds)}
    n_jobs = min(jobs or n_cores(), len(folders))
    extra = [] if data_folder is None else ["--from", str(data_folder)]
    commands = {
        f"{m} seed {s}": [
            *(
                sys.executable,
                "-m",
                "fedloom",
                "run",
                str(file),
                "--method",
                m,
                "--seed",
                str(s),
                "--out",
                str(path),
            ),
            *("--resume", "--progress-lines", "--workers", str(max(1, n_cores() // n_jobs)), *extra),
        ]
        for (m, s), path in folders.items()
    }
    _run_all(commands, n_jobs, chosen.training.cloud_rounds, quiet)
    runs = [read_run(path) for path in folders.values()]
    comparison = compare(runs, x=x, target=target)
    return comparison, write_report(runs, where / "report.html")


def _scenario_file(folder: Path, content: str) -> Path:
    """The scenario for the runs to read (JSON is YAML); a folder with runs of another scenario is left alone."""
    from fedloom.record.folder import FolderError

    file = folder / "scenario.json"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not file.exists():
            file.write_text(content, encoding="utf-8")
        elif file.read_text(encoding="utf-8") != content:
            raise FolderError(
                f"{folder} holds runs of another scenario (see {file}); choose another --out or delete it"
            )
    except OSError as error:
        raise FolderError(f"the folder {folder} cannot be written ({error.strerror}); choose another --out") from None
    return file


def _run_all(commands: dict[str, list[str]], n_jobs: int, n_rounds: int, quiet: bool) -> None:
    """Run the commands, `n_jobs` at a time; the first that fails stops all."""
    waiting = list(commands.items())
    running: dict[str, subprocess.Popen[str]] = {}
    lines: queue.Queue[tuple[str, str | None]] = queue.Queue()
    environment = os.environ | {"OMP_NUM_THREADS": "1"} if n_jobs > 1 else dict(os.environ)
    errors = {name: tempfile.TemporaryFile("w+") for name in commands}  # noqa: SIM115 - closed with the process
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the runs are stopped too
    try:
        with progress(quiet) as bar:
            whole = bar.add_task("all runs", total=len(commands) * n_rounds, figures="")
            done = dict.fromkeys(commands, 0)
            while waiting or running:
                while waiting and len(running) < n_jobs:
                    name, command = waiting.pop(0)
                    running[name] = process = subprocess.Popen(
                        command, stdout=subprocess.PIPE, stderr=errors[name], text=True, env=environment
                    )
                    threading.Thread(target=_listen, args=(name, process, lines), daemon=True).start()
                name, line = lines.get()
                if line is not None:
                    state = json.loads(line)
                    done[name] = state["done"]
                    shown: dict[str, Any] = {"figures": f"{name}: {state['figures']}"} if "figures" in state else {}
                    bar.update(whole, completed=sum(done.values()), **shown)
                    continue
                process = running.pop(name)
                code = process.wait()
                if code:
                    errors[name].seek(0)
                    message = errors[name].read().strip().removeprefix("fedloom: ")
                    if code < 0:
                        message = f"it was ended by signal {-code} (9 often means too little memory: try fewer --jobs)"
                    kind = ValueError if code == 2 else RuntimeError
                    raise kind(f"{name} failed: {message}\nwhat was done is kept: the same command goes on from there")
                done[name] = n_rounds
                bar.update(whole, completed=sum(done.values()))
    except KeyboardInterrupt:
        notes.print("[yellow]stopped; the same command goes on from there[/]")
        raise
    finally:
        for process in running.values():
            process.terminate()
        for process in running.values():
            process.wait()


def _listen(name: str, process: "subprocess.Popen[str]", lines: "queue.Queue[tuple[str, str | None]]") -> None:
    assert process.stdout is not None
    for line in process.stdout:
        lines.put((name, line))
    lines.put((name, None))

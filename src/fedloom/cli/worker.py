"""A process that makes one run after the other, so that torch and the data are loaded once for many runs.

Reads one job a line (JSON) on standard input and answers with lines on standard output: {"done": rounds, "figures": text}
during a run, {"finished": true} or {"error": text, "bad_input": true or false} at its end.
"""

import gc
import json
import sys
import tempfile
import time
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

from fedloom.cli.ends import BAD_INPUT, explained
from fedloom.cli.show import figures
from fedloom.record.files import write_whole

SEND_S = 60.0  # between two copies of an unfinished record


def main() -> None:
    """Serve until standard input ends, or the process that asks (its id is the argument)."""
    from fedloom.training.orphans import end_with

    if len(sys.argv) > 1:
        end_with(int(sys.argv[1]))
    answers = sys.stdout
    sys.stdout = sys.stderr  # nothing else may come between the answers
    for line in sys.stdin:
        try:
            _run(json.loads(line), lambda answer: print(json.dumps(answer), file=answers, flush=True))
            answer: dict[str, Any] = {"finished": True}
        except Exception as error:
            found = explained(error)
            if found is None:
                raise
            answer = {"error": found[0], "bad_input": found[1] == BAD_INPUT}
        print(json.dumps(answer), file=answers, flush=True)
        gc.collect()  # a simulation refers to itself: its copy of the data would stay until Python looks for cycles


def run_elsewhere(
    tell: Callable[[dict[str, Any]], None], job: dict[str, Any], files: dict[str, bytes], dataset: Any
) -> dict[str, bytes]:
    """Make a run on a machine that does not have its folder: goes on from the record `files` and returns the finished one.

    Tells {"done": rounds, "figures": text}, and now and then {"files": the record so far}.
    """
    with tempfile.TemporaryDirectory(prefix="fedloom-") as name:
        folder = Path(name) / "run"
        write_files(folder, files)
        sent_s = time.monotonic()

        def answer(news: dict[str, Any]) -> None:
            nonlocal sent_s
            if time.monotonic() - sent_s > SEND_S:
                sent_s = time.monotonic()
                news = news | {"files": read_files(folder)}
            tell(news)

        try:
            _run(job | {"folder": str(folder)}, answer, dataset)
        except ValueError as error:
            if name not in str(error):
                raise
            raise type(error)(str(error).replace(str(folder), job["folder"])) from None
        return read_files(folder)


def read_files(folder: Path) -> dict[str, bytes]:
    """Contents of the files of a record by name, without locks and what is only half written."""
    paths = sorted(p for p in folder.rglob("*") if p.is_file() and p.suffix != ".tmp" and not p.name.startswith("."))
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in paths}


def write_files(folder: Path, files: dict[str, bytes]) -> None:
    """Write a record; the summary, which says that it is finished, last."""
    for name in sorted(files, key=lambda name: name == "summary.json"):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, files[name])


def _run(job: dict[str, Any], tell: Callable[[dict[str, Any]], None], dataset: Any = None) -> None:
    from fedloom.record.folder import record
    from fedloom.simulator import Simulation, make_method, scenario

    chosen = scenario(job["scenario"])
    simulation = Simulation(
        chosen,
        make_method(job["method"]),
        job["seed"],
        dataset=load_dataset(chosen, job["data_folder"]) if dataset is None else dataset,
        n_workers=job["workers"],
    )

    def on_round(done: int, measures: dict[str, float | int] | None) -> None:
        shown = {} if measures is None else {"figures": figures(measures)}
        tell({"done": done} | shown)

    record(simulation, job["method"], Path(job["folder"]), resume=True, on_round=on_round)


def load_dataset(chosen: Any, folder: str | None) -> Any:
    """The dataset of a scenario; the last two stay in memory."""
    task = chosen.task
    return _dataset(task.dataset, folder, task.data_limit, task.model_dump_json(include={"gaussian", "magnet", "text"}))


@lru_cache(maxsize=2)
def _dataset(name: str, folder: str | None, limit: int | None, generated: str) -> Any:
    from fedloom import data
    from fedloom.simulator.scenarios import TaskSettings

    settings = TaskSettings.model_validate_json(generated)
    return data.load(name, folder, limit, gaussian=settings.gaussian, magnet=settings.magnet, text=settings.text)


if __name__ == "__main__":
    main()

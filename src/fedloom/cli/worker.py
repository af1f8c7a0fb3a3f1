"""A process that makes one run after the other, so that torch and the data are loaded once for many runs.

Reads one job a line (JSON) on standard input and answers with lines on standard output: {"done": rounds, "figures": text}
during a run, {"finished": true} or {"error": text, "bad_input": true or false} at its end.
"""

import json
import sys
from functools import lru_cache
from pathlib import Path
from typing import Any

from fedloom.cli.show import figures


def main() -> None:
    """Serve until standard input ends."""
    answers = sys.stdout
    sys.stdout = sys.stderr  # nothing else may come between the answers
    for line in sys.stdin:
        try:
            _run(json.loads(line), answers)
            answer: dict[str, Any] = {"finished": True}
        except (ValueError, OSError, RuntimeError) as error:
            from fedloom.training.engine import NotFinite

            bad_input = isinstance(error, ValueError | FileNotFoundError) and not isinstance(error, NotFinite)
            answer = {"error": str(error), "bad_input": bad_input}
        print(json.dumps(answer), file=answers, flush=True)


def _run(job: dict[str, Any], answers: Any) -> None:
    from fedloom.record.folder import record
    from fedloom.simulator import Simulation, make_method, scenario

    chosen = scenario(job["scenario"])
    task = chosen.task
    generated = task.model_dump_json(include={"gaussian", "magnet"})
    simulation = Simulation(
        chosen,
        make_method(job["method"]),
        job["seed"],
        dataset=_dataset(task.dataset, job["data_folder"], task.data_limit, generated),
        n_workers=job["workers"],
    )

    def on_round(done: int, measures: dict[str, float | int] | None) -> None:
        shown = {} if measures is None else {"figures": figures(measures)}
        print(json.dumps({"done": done} | shown), file=answers, flush=True)

    record(simulation, job["method"], Path(job["folder"]), resume=True, on_round=on_round)


@lru_cache(maxsize=2)
def _dataset(name: str, folder: str | None, limit: int | None, generated: str) -> Any:
    from fedloom import data
    from fedloom.simulator.scenarios import TaskSettings

    settings = TaskSettings.model_validate_json(generated)
    return data.load(name, folder, limit, gaussian=settings.gaussian, magnet=settings.magnet)


if __name__ == "__main__":
    main()

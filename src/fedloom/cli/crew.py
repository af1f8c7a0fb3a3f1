"""Processes of this machine that make runs, each one after the other, and tell how far they are."""

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

from fedloom.cli.jobs import Job, Tally
from fedloom.cli.show import progress


@dataclass(eq=False)
class Worker:
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


Lines = queue.Queue[tuple[Worker, str | None]]
"""What workers answer; None when one has ended."""


def make_here(
    waiting: Sequence[Job], jobs: Sequence[Job], n_jobs: int | None, data_folder: Path | None, quiet: bool
) -> None:
    """Make the runs that wait, of all jobs, n_jobs at a time; the first that fails stops all."""
    from fedloom.training.engine import n_cores

    left, n_workers = list(waiting), min(n_jobs or n_cores(), len(waiting))
    order = {
        "workers": max(1, n_cores() // n_workers),
        "data_folder": None if data_folder is None else str(data_folder),
    }
    lines: Lines = queue.Queue()
    workers: list[Worker] = []
    try:
        workers += [_hire(lines, alone=n_workers == 1) for _ in range(n_workers)]
        for worker in workers:
            worker.start(left.pop(0), order)
        with progress(quiet) as bar:
            tally = Tally(jobs, bar)
            while any(worker.job for worker in workers):
                worker, line = lines.get()
                if worker.job is None:
                    continue
                answer = _answer(worker, line, alone=n_workers == 1)
                _note(worker.job, answer, tally)
                if "finished" in answer:
                    worker.job = None
                    if left:
                        worker.start(left.pop(0), order)
            tally.show(tally.over)
    finally:
        for worker in workers:
            worker.process.terminate()
        for worker in workers:
            worker.stop()


def _answer(worker: Worker, line: str | None, alone: bool) -> dict[str, Any]:
    """What a worker says of its run; if that has failed, that is raised."""
    answer: dict[str, Any] = (
        {"error": worker.last_words(alone), "bad_input": False} if line is None else json.loads(line)
    )
    if "error" not in answer:
        return answer
    assert worker.job is not None
    bad_input = answer["bad_input"]
    then = "mend this, and the same command goes on" if bad_input else "the same command goes on"
    raise (ValueError if bad_input else RuntimeError)(
        f"{worker.job.name} failed: {answer['error']}\nwhat was done is kept: {then} from there"
    )


def _note(job: Job, answer: dict[str, Any], tally: Tally) -> None:
    """A run has come further, or is finished."""
    tally.note(job, job.cloud_rounds if "finished" in answer else answer["done"])
    figures = answer.get("figures") if "finished" not in answer else None
    tally.show(None if figures is None else f"{tally.over}; {job.name}: {figures}")


def _hire(lines: Lines, alone: bool) -> Worker:
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
    worker = Worker(process, complaints)
    worker.listener = threading.Thread(target=_listen, args=(worker, lines), daemon=True)
    worker.listener.start()
    return worker


def _listen(worker: Worker, lines: Lines) -> None:
    assert worker.process.stdout is not None
    with worker.process.stdout as answers:
        for line in answers:
            lines.put((worker, line))
    lines.put((worker, None))

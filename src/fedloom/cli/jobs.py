"""Runs to make, and how many of their cloud rounds are done."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.progress import Progress


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


class Tally:
    """Cloud rounds done of all jobs, on a bar."""

    def __init__(self, jobs: Sequence[Job], bar: Progress) -> None:
        self._jobs, self._bar = jobs, bar
        self._done = {job.folder: job.cloud_rounds if job.finished else 0 for job in jobs}
        self._task = bar.add_task("all runs", total=sum(job.cloud_rounds for job in jobs), figures="")
        self.show()

    def note(self, job: Job, rounds: int) -> None:
        """A run has done so many."""
        self._done[job.folder] = rounds

    @property
    def over(self) -> str:
        """How many runs are, in words."""
        n_over = sum(rounds == job.cloud_rounds for rounds, job in zip(self._done.values(), self._jobs))
        return f"{n_over} of {len(self._jobs)} runs finished"

    def show(self, figures: str | None = None) -> None:
        """Move the bar. figures: what stands beside it from now on; None: what stood there before."""
        shown: dict[str, Any] = {} if figures is None else {"figures": figures}
        self._bar.update(self._task, completed=sum(self._done.values()), **shown)

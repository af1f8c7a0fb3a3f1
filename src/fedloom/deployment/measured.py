"""Predicted beside measured: of every job the seconds to fetch, train and send, and until the update was there."""

import statistics
from dataclasses import dataclass
from typing import Any

from fedloom.deployment.journal import Journal
from fedloom.simulator.timeline import Sent

Job = tuple[int, int]


@dataclass(eq=False)
class _Line:
    """Predicted seconds; and when it was sent and was there."""

    client: int
    fetch_s: float
    train_s: float
    send_s: float
    all_s: float
    start_s: float
    arrived_s: float | None = None


class Measured:
    """Jobs by (client, ticket). Arrivals in the timeline become what was measured."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._lines: dict[Job, _Line] = {}
        self._open: dict[Job, tuple[Sent, int]] = {}

    def sent(self, job: Job, sent: Sent, j: int) -> None:
        """A client goes to work: note what was predicted, and that nobody knows when it is back."""
        predicted_s = float(sent.arrival_s[j]) - sent.start_s
        parts = (float(sent.fetch_s[j]), float(sent.compute_s[j]), float(sent.upload_s[j]))
        self._lines[job] = _Line(job[0], *parts, predicted_s, sent.start_s)
        self._open[job] = sent, j
        sent.arrival_s[j], sent.late[j] = float("nan"), False

    def delivered(self, job: Job, at_s: float) -> None:
        """Its update is there."""
        if job in self._open:
            sent, j = self._open.pop(job)
            sent.arrival_s[j] = self._lines[job].arrived_s = at_s

    def table(self) -> list[dict[str, Any]]:
        """By client: jobs, and medians in seconds, predicted and measured; None where nothing was measured."""
        clients = sorted({line.client for line in self._lines.values()})
        return [self._of(client) for client in clients]

    def _of(self, client: int) -> dict[str, Any]:
        jobs = {job: line for job, line in self._lines.items() if job[0] == client}
        took = [self._journal.took_s[job] for job in jobs if len(self._journal.took_s.get(job, ())) == 3]
        there = [line.arrived_s - line.start_s for line in jobs.values() if line.arrived_s is not None]
        columns = list(zip(*took)) or [(), (), ()]
        parts = {
            "fetch_s": ([line.fetch_s for line in jobs.values()], columns[0]),
            "train_s": ([line.train_s for line in jobs.values()], columns[1]),
            "send_s": ([line.send_s for line in jobs.values()], columns[2]),
            "round_s": ([line.all_s for line in jobs.values()], there),
        }
        medians = {
            name: {"predicted": _median(predicted), "measured": _median(measured)}
            for name, (predicted, measured) in parts.items()
        }
        return {"client": client, "jobs": len(jobs), **medians}


def _median(values: Any) -> float | None:
    return float(statistics.median(values)) if len(values) else None

"""What a deployed run has measured, beside what was predicted: measured.json of its record.

model     bytes of a model as the scenario counts them, and as its values are carried; coded: the same of what goes up and down
jobs      in columns, a line for every client that was sent to work (fedloom.deployment.measured)
hops      the ledger by hop and direction: bytes, seconds and joules, predicted and measured
carried   by caller and who was called: bytes of values and of whole letters, both ways
wire      where links were shaped: bytes that every node has sent, with all headers
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedloom.record.files import FolderError, json_bytes, load_manifest, read_json

MEASURED = "measured.json"
PARTS = ("fetch_s", "train_s", "send_s", "all_s")
JOBS = ("cloud_round", "edge_round", "send", "client", "start_s", *PARTS, *(f"predicted_{part}" for part in PARTS))
Hop = tuple[str, str]


@dataclass(frozen=True, kw_only=True)
class Beside:
    """One figure, predicted and measured; None where it was not measured."""

    predicted: float | None
    measured: float | None

    @property
    def ratio(self) -> float | None:
        """How many times what was predicted."""
        return self.measured / self.predicted if self.measured is not None and self.predicted else None


@dataclass(frozen=True, kw_only=True)
class EdgeRound:
    """Clients that were sent together, until the last of them was back."""

    cloud_round: int
    edge_round: int
    start_s: float
    seconds: Beside


def write_measured(folder: Path, measured: dict[str, Any]) -> None:
    """Add it to a record."""
    manifest = load_manifest(folder)
    if manifest is None:
        raise FolderError(f"{folder} holds no record yet; what was measured is added when the run is over")
    manifest.write({MEASURED: json_bytes(measured)})


def read_measured(folder: Path) -> dict[str, Any] | None:
    """What a run has measured; None if it was simulated. FolderError if it is damaged."""
    path = folder / MEASURED
    if not path.exists():
        return None
    found = read_json(path)
    columns = found.get("jobs")
    whole = isinstance(columns, dict) and all(isinstance(columns.get(name), list) for name in JOBS)
    if not whole or not isinstance(columns, dict) or len({len(columns[name]) for name in JOBS}) != 1:
        raise FolderError(f"{path} is damaged: its jobs are not the whole columns {', '.join(JOBS)}")
    missing = [name for name in ("model", "hops", "carried") if name not in found]
    if missing:
        raise FolderError(f"{path} is damaged: it has no {', '.join(missing)}")
    return found


def jobs_of(measured: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The jobs, a mapping each."""
    columns = measured["jobs"]
    return [dict(zip(columns, values)) for values in zip(*columns.values())]


def edge_rounds(measured: Mapping[str, Any]) -> list[EdgeRound]:
    """All edge rounds from which somebody came back, by when they began: of those who did, the last."""
    sends: dict[int, list[dict[str, Any]]] = {}
    for job in jobs_of(measured):
        if job["all_s"] is not None:
            sends.setdefault(job["send"], []).append(job)
    return [
        EdgeRound(
            cloud_round=jobs[0]["cloud_round"],
            edge_round=jobs[0]["edge_round"],
            start_s=jobs[0]["start_s"],
            seconds=Beside(predicted=_most(jobs, "predicted_all_s"), measured=_most(jobs, "all_s")),
        )
        for jobs in sends.values()
    ]


def by_device(measured: Mapping[str, Any]) -> dict[int, dict[str, Beside]]:
    """client -> part of a job -> its median seconds."""
    jobs: dict[int, list[dict[str, Any]]] = {}
    for job in jobs_of(measured):
        jobs.setdefault(job["client"], []).append(job)
    return {
        client: {
            part: Beside(
                predicted=_median(job[f"predicted_{part}"] for job in mine), measured=_median(job[part] for job in mine)
            )
            for part in PARTS
        }
        for client, mine in sorted(jobs.items())
    }


def bytes_by_device(measured: Mapping[str, Any]) -> dict[int, tuple[int, int]]:
    """client -> bytes of values that its device has sent and got."""
    found: dict[int, tuple[int, int]] = {}
    for line in measured["carried"]:
        for node, sent, got in (
            (line["node"], line["values_sent"], line["values_got"]),
            (line["called"], line["values_got"], line["values_sent"]),
        ):
            if node.startswith("device-"):
                client = int(node.removeprefix("device-"))
                before = found.get(client, (0, 0))
                found[client] = before[0] + sent, before[1] + got
    return found


def hop_amounts(measured: Mapping[str, Any]) -> dict[Hop, dict[str, Beside]]:
    """(hop, direction) -> bytes, airtime_s and energy_j."""
    return {
        (line["hop"], line["direction"]): {
            name: Beside(predicted=line["predicted"][name], measured=line["measured"][name])
            for name in ("bytes", "airtime_s", "energy_j")
        }
        for line in measured["hops"]
    }


def overhead(measured: Mapping[str, Any]) -> dict[str, int | None]:
    """Bytes of values, of whole letters, and on the wire, of all links; on the wire only where links were shaped."""
    lines, wire = measured["carried"], measured.get("wire")
    return {
        "values": sum(line["values_sent"] + line["values_got"] for line in lines),
        "letters": sum(line["letters_sent"] + line["letters_got"] for line in lines),
        "wire": None if wire is None else sum(line["bytes"] for line in wire),
    }


def round_ratios(measured: Mapping[str, Any]) -> list[float]:
    """Measured over predicted seconds of every edge round, ascending."""
    return sorted(ratio for one in edge_rounds(measured) if (ratio := one.seconds.ratio) is not None)


def _most(jobs: list[dict[str, Any]], name: str) -> float:
    return float(max(job[name] for job in jobs))


def _median(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None

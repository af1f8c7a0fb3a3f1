"""Run folders read back, without the machinery that made them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedloom.gate.words import one_line
from fedloom.record.files import MANIFEST, FolderError, read_json
from fedloom.record.measured import MEASURED, read_measured
from fedloom.record.verify import check_files

if TYPE_CHECKING:
    import polars as pl

COUNTERS = ("cloud_round", "local_steps", "time_s", "energy_j", "bytes")
MEASURES = ("accuracy", "rmse")
PLACES = ("cloud_round", "client", "aggregator", "kind", "host", "x_m", "y_m")
READ = (
    "run.json",
    "metrics.parquet",
    "topology.parquet",
    "timeline.parquet",
    "costs.parquet",
    "summary.json",
    MEASURED,
)
DISPATCHES = (
    *("cloud_round", "edge_round", "client", "aggregator", "start_s", "compute_s", "upload_s"),
    *("arrival_s", "merged_s", "late", "moved"),
)

BOOKINGS = ("cloud_round", "aggregator", "hop", "direction", "links", "bytes", "airtime_s", "energy_j")


@dataclass(frozen=True, kw_only=True, eq=False)
class Run:
    """One run folder.

    method      the label with its options, such as "fedprox:mu=0.1"
    metrics     one row per evaluation
    topology    who was where; None until the run is finished
    timeline    who worked when, one row per client that was sent to work; None if it was not recorded
    costs       the ledger by cloud round and aggregator (-1: collecting features for grouping); None if not recorded
    clients     n_samples (K,) and label_counts (K, C), as lists; C is 0 for regression
    cells       centre_m (N, D), radius_m (N,) with None for a cell that reaches everybody, server_m (D,)
    origin      the rest of run.json: data, n_params, versions, machine, started
    summary     None until the run is finished
    measured    predicted beside measured (fedloom.record.measured); None if the run was simulated
    """

    path: Path
    scenario: dict[str, Any]
    method: str
    seed: int
    metrics: pl.DataFrame
    topology: pl.DataFrame | None
    timeline: pl.DataFrame | None
    clients: dict[str, Any]
    cells: dict[str, Any]
    origin: dict[str, Any]
    summary: dict[str, Any] | None
    costs: pl.DataFrame | None = None
    measured: dict[str, Any] | None = None

    @property
    def measure(self) -> str:
        """What the run is judged by: "accuracy", or "rmse" for regression."""
        return next(name for name in MEASURES if name in self.metrics.columns)

    @property
    def finished(self) -> bool:
        return self.summary is not None

    @property
    def first_place(self) -> pl.DataFrame | None:
        """The lines of the first topology that is the method's own: after the rounds of FedAvg that it may begin with."""
        if self.topology is None or not len(self.topology):
            return None
        own = self.topology.filter(self.topology["kind"] != "cloud")
        rows = own if len(own) else self.topology
        return rows.filter(rows["cloud_round"] == rows["cloud_round"].min())


def read_run(path: Path | str) -> Run:
    """The run in folder `path`; FolderError if it holds none, or a damaged one."""
    path = Path(path)
    check_files(path, READ)
    content = read_json(path / "run.json")
    wanted = ("scenario", "method", "seed", "clients", "cells")
    missing = [key for key in wanted if not isinstance(content, dict) or key not in content]
    if missing:
        raise FolderError(f"{path / 'run.json'} is damaged: it has no {', '.join(missing)}")
    metrics = _read_parquet(path / "metrics.parquet", COUNTERS)
    if metrics is None or not len(metrics):
        raise FolderError(f"{path} holds no evaluation yet; wait for the first one or leave the folder out")
    if not set(MEASURES) & set(metrics.columns):
        raise FolderError(
            f"{path / 'metrics.parquet'} has neither accuracy nor rmse; a run without training has nothing to compare"
        )
    summary = path / "summary.json"
    return Run(
        path=path,
        scenario=content["scenario"],
        method=str(content["method"]),
        seed=int(content["seed"]),
        metrics=metrics,
        topology=_read_parquet(path / "topology.parquet", PLACES),
        timeline=_read_parquet(path / "timeline.parquet", DISPATCHES),
        costs=_read_parquet(path / "costs.parquet", BOOKINGS),
        clients=content["clients"],
        cells=content["cells"],
        origin={key: value for key, value in content.items() if key not in wanted},
        summary=read_json(summary) if summary.exists() else None,
        measured=read_measured(path),
    )


def find_runs(paths: Iterable[Path | str], *, listed: bool = False) -> list[Run]:
    """The runs in `paths`, sorted by method, then seed.

    A path is a run folder, or a folder with run folders in it or in its subfolders. FolderError if a path
    holds no run or if the runs cannot be compared, some being judged by accuracy and some by rmse. listed: also if one has no
    manifest, by which damaged tables are found before they are read: some of them end the process that reads them.
    """
    folders: dict[Path, Path] = {}
    for path in map(Path, paths):
        found = _run_folders(path)
        if not found:
            what = "holds no run folder" if path.is_dir() else "is not a folder" if path.exists() else "does not exist"
            raise FolderError(
                f"{path} {what}; give the folder of a run (it has a run.json) or one with such folders in it"
            )
        if listed and (bare := [folder for folder in found if not (folder / MANIFEST).exists()]):
            raise FolderError(
                f"{bare[0]} has no {MANIFEST}, so nothing tells whether its files are whole; repeat the run with --resume, which "
                "makes them again, or leave the folder out"
            )
        folders |= {folder.resolve(): folder for folder in found}
    if not folders:
        raise FolderError("no folder given; give the folder of a run or one with such folders in it")
    runs = sorted((read_run(folder) for folder in folders.values()), key=lambda run: (run.method, run.seed, run.path))
    common_measure(runs)
    return runs


def common_measure(runs: Sequence[Run]) -> str:
    """What all `runs` are judged by; FolderError if they differ or there are none."""
    if not runs:
        raise FolderError("there are no runs to compare")
    examples = {run.measure: run for run in runs}
    if len(examples) > 1:
        shown = "; ".join(f"{run.path} has {measure}" for measure, run in examples.items())
        raise FolderError(f"the runs are of different tasks ({shown}); compare those of one task at a time")
    return next(iter(examples))


def by_method(runs: Iterable[Run]) -> dict[str, list[Run]]:
    """The runs of each method, in order of first appearance."""
    methods: dict[str, list[Run]] = {}
    for run in runs:
        methods.setdefault(run.method, []).append(run)
    return methods


def _run_folders(path: Path) -> list[Path]:
    if (path / "run.json").exists():
        return [path]
    return [file.parent for depth in ("*", "*/*") for file in sorted(path.glob(f"{depth}/run.json"))]


def _read_parquet(path: Path, columns: Sequence[str]) -> pl.DataFrame | None:
    """The frame, or None if there is no such file."""
    import polars as pl

    if not path.exists():
        return None
    try:
        frame = pl.read_parquet(path)
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError) as error:
        raise FolderError(
            f"{path} is damaged ({one_line(str(error))}); run it again in a new folder, or leave it out"
        ) from None
    missing = [name for name in columns if name not in frame.columns]
    if missing:
        raise FolderError(f"{path} is damaged: it has no column {', '.join(missing)}")
    return frame

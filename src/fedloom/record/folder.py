"""The folder of a run: what it is made of, written so that a run killed at any moment loses at most one cloud round.

    run.json           the whole scenario, method, seed, clients and cells, versions, machine
    metrics.parquet    one row per evaluation
    topology.parquet   who was where, one row per client and aggregator from the round of every change
    timeline.parquet   when clients fetched, computed, uploaded and were merged, one row for every client sent to work
    costs.parquet      the ledger by cloud round, aggregator, hop and direction
    checkpoint/        the models still in use and the measures so far (safetensors), after every cloud round
    summary.json       final and best measures, ledger, wall seconds; its presence says that the run is finished

Every file is written beside its place and then renamed, so that a reader never sees half a file.
"""

import hashlib
import json
import math
import os
import platform
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fedloom.numbers import NUMBERS

if TYPE_CHECKING:  # reading records needs no torch
    from fedloom.simulator import Checkpoint, Decision, Place, Simulation

Measures = dict[str, float | int]
OnRound = Callable[[int, Measures | None], None]
LOCK = ".lock"
PACKAGES = ("fedloom", "torch", "numpy", "scipy", "polars", "safetensors", "pydantic")


class FolderError(ValueError):
    """The folder cannot be used for this run."""


def record(
    simulation: "Simulation",
    method: str,
    folder: Path,
    *,
    resume: bool = False,
    on_round: OnRound | None = None,
) -> dict[str, Any]:
    """Run the simulation and leave its record in `folder`; returns the summary.

    on_round is called after every cloud round with the number of rounds done and what was measured, if anything. With
    `resume` an unfinished run of the same settings goes on where it was; a finished one is left as it is.
    """
    settings = _settings(simulation, method)
    _look(folder, settings)
    with _alone_in(folder):
        return _record(simulation, settings, folder, resume, on_round)


def _record(
    simulation: "Simulation", settings: dict[str, Any], folder: Path, resume: bool, on_round: OnRound | None
) -> dict[str, Any]:
    finished = _finished(folder, resume)
    if finished is not None:
        return finished
    checkpoint = load_checkpoint(folder) if resume else None
    started = time.perf_counter()
    _write_json(folder / "run.json", settings | _circumstances(simulation))
    with closing(
        simulation.rounds(checkpoint)
    ) as rounds:  # here, and not when it is deleted: polars may send Ctrl-C twice
        for measures in rounds:
            if simulation.cloud_rounds_done:
                save_checkpoint(folder, simulation.checkpoint())
            if measures is not None:
                _write_metrics(folder, simulation.measures)
            if on_round is not None:
                on_round(simulation.cloud_rounds_done, measures)
    _write_topology(folder, simulation)
    _write_timeline(folder, simulation)
    _write_costs(folder, simulation)
    _write_metrics(folder, simulation.measures)
    summary = summarise(simulation, time.perf_counter() - started, resumed=checkpoint is not None)
    _write_json(folder / "summary.json", summary)
    return summary


def summarise(simulation: "Simulation", wall_s: float, resumed: bool) -> dict[str, Any]:
    """Final and best measures, totals by hop, and how long it took."""
    measures = simulation.measures
    best = max(measures, key=lambda m: m.get("accuracy", -m.get("loss", math.inf)))
    ledger = simulation.federation.ledger
    return {
        "final": measures[-1],
        "best": best,
        "ledger": ledger.table(),
        "setup_energy_j": ledger.feature_j,
        "topologies": [_topology(simulation, place) for place in simulation.places],
        "wall_s": wall_s,
        "engine_s": simulation.engine_s,
        "jobs_per_batch": float(np.mean(simulation.batches)) if simulation.batches else None,
        "resumed": resumed,
        "warnings": simulation.warnings,
    }


def _topology(simulation: "Simulation", place: "Place") -> dict[str, Any]:
    """A topology in figures, from the cloud round in which it came up.

    links: between clients and aggregators; resource_factor: links for each client; mixing_factor: how slowly aggregators
    agree by themselves, 1 without overlaps; label_distance: from the labels of an aggregator to all, mean and largest.
    """
    from fedloom.bounds import label_distance
    from fedloom.grouping import mixing_factor

    cover = place.topology.cover
    bridged = bool((place.topology.n_reached > 1).any())
    figures: dict[str, Any] = {
        "cloud_round": place.cloud_round,
        "aggregators": int(cover.any(axis=1).sum()),
        "links": int(cover.sum()),
        "resource_factor": float(cover.sum() / cover.any(axis=0).sum()),
    }
    figures["mixing_factor"] = (
        mixing_factor(cover, simulation.world.n_samples) if bridged else float(figures["aggregators"] > 1)
    )
    if simulation.label_counts.any():
        distance = label_distance(cover[cover.any(axis=1)], simulation.label_counts)
        figures["label_distance"] = {"mean": float(distance.mean()), "most": float(distance.max())}
    return figures


def save_checkpoint(folder: Path, checkpoint: "Checkpoint") -> None:
    """Write the checkpoint in one atomic step."""
    from safetensors.numpy import save

    state = {
        "cloud_round": checkpoint.cloud_round,
        "measures": checkpoint.measures,
        "decisions": {g: _pack(decision) for g, decision in checkpoint.decisions.items()},
        "scores": checkpoint.scores,
    }
    content = save({"models": np.ascontiguousarray(checkpoint.models)}, metadata={"state": json.dumps(state)})
    (folder / "checkpoint").mkdir(exist_ok=True)
    try:
        _write(folder / "checkpoint" / "state.safetensors", content)
    except OSError as error:
        raise FolderError(
            f"the checkpoint after cloud round {checkpoint.cloud_round} could not be written ({error.strerror}); the "
            f"one before it is whole: make room in {folder} and go on with --resume"
        ) from error


def load_checkpoint(folder: Path) -> "Checkpoint | None":
    """The last checkpoint, or None if there is none yet."""
    from safetensors import SafetensorError, safe_open

    from fedloom.simulator import Checkpoint

    path = folder / "checkpoint" / "state.safetensors"
    if not path.exists():
        return None
    try:
        with safe_open(path, framework="numpy") as file:
            state = json.loads(file.metadata()["state"])
            return Checkpoint(
                cloud_round=state["cloud_round"],
                measures=state["measures"],
                models=file.get_tensor("models"),
                decisions={int(g): _unpack(packed) for g, packed in state["decisions"].items()},
                scores={int(n): score for n, score in state["scores"].items()},
            )
    except (SafetensorError, KeyError, TypeError, ValueError) as error:
        raise FolderError(f"{path} is damaged ({error}); delete it to start the run again from the beginning") from None


def _pack(decision: "Decision") -> dict[str, Any]:
    """A decision in plain lists; clusters as the clients of each aggregator."""
    topology = decision.topology
    return {
        "asked": [[kind, layers] for kind, layers in decision.asked],
        "kind": topology.kind,
        "host": topology.host.tolist(),
        "clients": [np.flatnonzero(row).tolist() for row in topology.cover],
        "n_clients": topology.cover.shape[1],
        "notes": {name: np.asarray(value).tolist() for name, value in topology.notes.items()},
        "cluster": None if topology.cluster is None else topology.cluster.tolist(),
        "squad": None if topology.squad is None else topology.squad.tolist(),
        "follow": topology.follow,
    }


def _unpack(packed: dict[str, Any]) -> "Decision":
    from fedloom.grouping import Topology
    from fedloom.simulator import Decision

    cover = np.zeros((len(packed["clients"]), packed["n_clients"]), dtype=np.bool_)
    for row, clients in zip(cover, packed["clients"]):
        row[clients] = True
    notes = {name: np.array(v) if isinstance(v, list) else v for name, v in packed["notes"].items()}
    topology = Topology(
        cover=cover,
        kind=packed["kind"],
        host=np.array(packed["host"], dtype=np.int64),
        notes=notes,
        cluster=None if packed["cluster"] is None else np.array(packed["cluster"], dtype=np.int64),
        squad=None if packed["squad"] is None else np.array(packed["squad"], dtype=np.int64),
        follow=packed["follow"],
    )
    asked = tuple((kind, tuple(layers) if isinstance(layers, list) else layers) for kind, layers in packed["asked"])
    return Decision(asked=asked, topology=topology)


def read_json(path: Path) -> dict[str, Any]:
    """Content of a JSON file of a record, with an error that names it."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(content, dict):
            raise ValueError(f"it holds a {type(content).__name__}, not names and values")
        return content
    except FileNotFoundError:
        raise FolderError(f"{path.parent} is not the folder of a run: it has no {path.name}") from None
    except ValueError as error:
        raise FolderError(f"{path} is damaged: {error}") from None


def _look(folder: Path, settings: dict[str, Any]) -> None:
    """Refuse a folder that holds something else than this run."""
    if folder.exists() and not folder.is_dir():
        raise FolderError(f"{folder} is a file; --out must be a folder")
    if not (folder / "run.json").exists():
        strangers = [p.name for p in folder.iterdir()] if folder.is_dir() else []
        strangers = sorted(n for n in strangers if n != LOCK and not n.endswith(".tmp"))
        if strangers:
            raise FolderError(f"{folder} holds other files ({', '.join(strangers[:5])}); choose an empty or new folder")
        return
    there = read_json(folder / "run.json")
    different = [key for key in settings if there.get(key) != json.loads(json.dumps(settings[key]))]
    if len(different) > 1:  # hashes differ with the seed or the scenario: no news
        different = [key for key in different if key not in ("placement", "samples")] or different
    if different:
        shown = "; ".join(_difference(key, there.get(key), settings[key]) for key in different)
        raise FolderError(f"{folder} holds another run ({shown}); choose another --out or delete the folder")


def _finished(folder: Path, resume: bool) -> dict[str, Any] | None:
    """The summary of a finished run; None if there is something to do."""
    finished = (folder / "summary.json").exists()
    if not resume and (folder / "run.json").exists():
        state = "this run, finished" if finished else "this run, unfinished"
        todo = "delete the folder to run it again" if finished else "go on with --resume or delete the folder"
        raise FolderError(f"{folder} already holds {state}; {todo}")
    return read_json(folder / "summary.json") if finished else None


@contextmanager
def _alone_in(folder: Path) -> Iterator[None]:
    """Make the folder and hold its lock: two processes must not write one record. The system lets go if we are killed."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = (folder / LOCK).open("w")
    except OSError as error:
        raise FolderError(f"the folder {folder} cannot be written ({error.strerror}); choose another --out") from None
    with lock:
        try:
            import fcntl

            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except ImportError:  # not a Unix system: no lock
            pass
        except BlockingIOError:
            raise FolderError(f"another process is writing {folder}; wait for it or choose another --out") from None
        yield
    (folder / LOCK).unlink(missing_ok=True)


def _difference(key: str, there: Any, here: Any) -> str:
    if isinstance(there, dict) and isinstance(here, dict):
        here = json.loads(json.dumps(here))
        inner = [
            _difference(f"{key}.{k}", there.get(k), here.get(k))
            for k in sorted({*there, *here})
            if there.get(k) != here.get(k)
        ]
        return "; ".join(inner[:3])
    return f"{key} is {there} there and {here} here"


def _settings(simulation: "Simulation", method: str) -> dict[str, Any]:
    """What decides the results of a run."""
    return {
        "scenario": simulation.scenario.model_dump(mode="json"),
        "method": method,
        "seed": simulation.seed,
        "data": simulation.dataset.name,
        "n_params": simulation.n_params,
        "placement": _digest(simulation.world.fleet.snapshot(0).position_m),
        "samples": _digest(simulation.dataset.y_train, *simulation.parts),
        "numbers": NUMBERS,
        "engine": simulation.engine_name.split()[0],  # engines agree up to rounding, not to the bit
    }


def _digest(*arrays: np.ndarray[Any, Any]) -> str:
    """A short hash of arrays: files that are named in a scenario may have changed since."""
    return hashlib.sha256(b"".join(np.ascontiguousarray(a).tobytes() for a in arrays)).hexdigest()[:16]


def _circumstances(simulation: "Simulation") -> dict[str, Any]:
    """What else one wants to know of a run."""
    snapshot = simulation.world.fleet.snapshot(0)
    return {
        "clients": {
            "n_samples": simulation.world.n_samples.tolist(),
            "label_counts": simulation.label_counts.tolist(),
        },
        "cells": {
            "centre_m": snapshot.cell_m.tolist(),
            "radius_m": [r if math.isfinite(r) else None for r in snapshot.radius_m.tolist()],
            "server_m": snapshot.server_m.tolist(),
        },
        "trained_by": simulation.engine_name,
        "versions": {name: metadata.version(name) for name in PACKAGES},
        "machine": {
            "system": platform.system(),
            "processor": platform.machine(),
            "cores": os.cpu_count(),
            "python": platform.python_version(),
        },
        "started": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
    }


def _write_metrics(folder: Path, measures: list[Measures]) -> None:
    import polars

    _write_parquet(folder / "metrics.parquet", polars.DataFrame(measures, infer_schema_length=None))


def _write_topology(folder: Path, simulation: "Simulation") -> None:
    """Columns: cloud_round from which the line holds, client, aggregator (-1: takes no part), kind, host, home, x_m, y_m,
    up_s: seconds to send a model to the aggregators, over the slowest link; cluster, where one spans several aggregators; and
    what the grouping noted of each aggregator, such as head_power_w."""
    import polars

    frames = []
    for place in simulation.places:
        cover, position = place.topology.cover, place.position_m
        aggregator, client = np.nonzero(np.vstack([cover, ~cover.any(axis=0)]))
        aggregator[aggregator == len(cover)] = -1
        host = np.append(place.topology.host, -1)[aggregator]
        columns = {
            "cloud_round": np.full(len(client), place.cloud_round),
            "client": client,
            "aggregator": aggregator,
            "kind": [place.topology.kind] * len(client),
            "host": host,
            "home": place.home[client],
            "x_m": position[client, 0],
            "y_m": position[client, 1],
            "up_s": place.up_s[client],
        }
        if place.topology.cluster is not None:
            columns["cluster"] = np.append(place.topology.cluster, -1)[aggregator]
        for name, value in place.topology.notes.items():
            if np.shape(value) == (len(cover),):
                columns[name] = np.append(value, np.nan)[aggregator]
        frames.append(polars.DataFrame(columns).sort("client", "aggregator"))
    _write_parquet(folder / "topology.parquet", polars.concat(frames, how="diagonal"))


def _write_timeline(folder: Path, simulation: "Simulation") -> None:
    """Columns: fedloom.simulator.timeline.Sent; merged_s is empty for what was not merged before the end."""
    from fedloom.record.streaming import write_tables

    if simulation.federation.timeline:
        write_tables(folder / "timeline.parquet", simulation.federation.timeline.tables(), empty=("merged_s",))


def _write_costs(folder: Path, simulation: "Simulation") -> None:
    """Columns: cloud_round, aggregator (-1: features collected before grouping, which belong to nobody), hop, direction, links,
    bytes, airtime_s (of computing: device seconds), energy_j. They add up to the ledger of the summary."""
    import polars

    frames = [
        polars.DataFrame({"cloud_round": np.full(len(columns["hop"]), cloud_round), **columns})
        for cloud_round, columns in simulation.costs
    ]
    if frames:
        _write_parquet(folder / "costs.parquet", polars.concat(frames))


def _write_parquet(path: Path, frame: Any) -> None:
    import io

    buffer = io.BytesIO()
    frame.write_parquet(buffer)
    _write(path, buffer.getvalue())


def _write_json(path: Path, content: Any) -> None:
    _write(path, (json.dumps(content, indent=1) + "\n").encode())


def _write(path: Path, content: bytes) -> None:
    """Write beside, flush to disk, rename."""
    beside = path.with_name(path.name + ".tmp")
    try:
        with beside.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    except OSError:
        beside.unlink(missing_ok=True)
        raise

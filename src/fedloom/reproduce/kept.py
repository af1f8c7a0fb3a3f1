"""What judging asks of a run, kept small beside the outcomes: they can be judged again, and seeds be added, where the folders of
the runs are no more.

FOLDER/PAPER/kept/KEY-sSEED.json.gz    a run without its models, its timeline, its bookings, and all topologies but the first

Outcomes are judged from these files only, so that judging again says the same.
"""

import gzip
import json
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedloom.record.files import FolderError, write_whole
from fedloom.record.runs import Run
from fedloom.reproduce.paper import Paper, Setup

if TYPE_CHECKING:
    import polars as pl


def kept_file(folder: Path, paper: Paper, setup: Setup, seed: int) -> Path:
    """Where the run of a setup with a seed is kept, beside the outcomes in the folder."""
    return folder / paper.key / "kept" / f"{setup.key()}-s{seed}.json.gz"


def keep(run: Run, file: Path) -> None:
    """Write a finished run; the same bytes for the same run."""
    first = run.topology
    if first is not None and len(first):
        first = first.filter(first["cloud_round"] == first["cloud_round"].min())
    content = {
        "scenario": run.scenario,
        "method": run.method,
        "seed": run.seed,
        "clients": run.clients,
        "cells": run.cells,
        "origin": run.origin,
        "summary": run.summary,
        "metrics": _columns(run.metrics),
        "topology": None if first is None else _columns(first),
    }
    file.parent.mkdir(parents=True, exist_ok=True)
    write_whole(file, gzip.compress(json.dumps(content, separators=(",", ":")).encode(), mtime=0))


def read_kept(file: Path) -> Run:
    """A run that was kept; FolderError if the file is damaged or holds another run than its name says."""
    try:
        content = json.loads(gzip.decompress(file.read_bytes()))
        topology = content.pop("topology")
        run = Run(
            path=file,
            metrics=_frame(content.pop("metrics")),
            topology=None if topology is None else _frame(topology),
            timeline=None,
            **content,
        )
        setup = Setup(scenario=run.scenario, method=run.method)
        name = f"{setup.key(run.origin['numbers']['fedloom'])}-s{run.seed}.json.gz"
    except (EOFError, OSError, zlib.error, ValueError, KeyError, TypeError, AttributeError) as error:
        raise FolderError(f"{file} is damaged ({error}); delete it, and its run is made again") from None
    if file.name != name:
        raise FolderError(f"{file} holds the run {name}; delete it, and the right one is made again")
    return run


def _columns(frame: "pl.DataFrame") -> dict[str, list[Any]]:
    """The type and the values of every column."""
    return {column.name: [str(column.dtype), column.to_list()] for column in frame}


def _frame(columns: dict[str, list[Any]]) -> "pl.DataFrame":
    import polars as pl

    return pl.DataFrame(
        [pl.Series(name, values, dtype=getattr(pl, dtype)) for name, (dtype, values) in columns.items()]
    )

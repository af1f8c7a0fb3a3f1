"""The tables of a record as Parquet: what was measured, who was where, who worked when, what it cost."""

import io
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fedloom.record.streaming import COMPRESSION, write_tables

if TYPE_CHECKING:  # reading records needs no torch
    from fedloom.simulator import Simulation

Measures = dict[str, float | int]


def tables_of(simulation: "Simulation") -> dict[str, Callable[[Path], object]]:
    """What writes the tables of a run that is over, by the names of their files; without those that have no lines."""
    timeline = simulation.federation.timeline
    found: dict[str, Callable[[Path], object]] = {
        "metrics.parquet": lambda path: path.write_bytes(metrics_bytes(simulation.measures)),
        "topology.parquet": lambda path: path.write_bytes(topology_bytes(simulation)),
    }
    if timeline:
        # columns: fedloom.simulator.timeline.Sent; merged_s is empty for what was not merged before the end
        found["timeline.parquet"] = lambda path: write_tables(path, timeline.tables(), empty=("merged_s",))
    if simulation.costs:
        found["costs.parquet"] = lambda path: path.write_bytes(costs_bytes(simulation))
    return found


def metrics_bytes(measures: list[Measures]) -> bytes:
    """One line per evaluation."""
    import polars

    return _parquet(polars.DataFrame(measures, infer_schema_length=None))


def topology_bytes(simulation: "Simulation") -> bytes:
    """Columns: cloud_round from which the line holds, client, aggregator (-1: takes no part), kind, host, home, x_m, y_m,
    up_s: seconds to send a model to the aggregators, over the slowest link; cluster, where one spans several aggregators; and
    what the grouping noted of each aggregator, such as head_power_w."""
    import polars

    frames = []
    for place in simulation.places:
        cover, position = place.topology.cover, place.position_m
        client, aggregator = np.nonzero(np.vstack([cover, ~cover.any(axis=0)]).T)  # sorted by client, then aggregator
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
        frames.append(polars.DataFrame(columns))
    return _parquet(polars.concat(frames, how="diagonal") if len(frames) > 1 else frames[0])


def costs_bytes(simulation: "Simulation") -> bytes:
    """Columns: cloud_round, aggregator (-1: features collected before grouping, which belong to nobody), hop, direction, links,
    bytes, airtime_s (of computing: device seconds), energy_j. They add up to the ledger of the summary."""
    import polars

    rounds, parts = zip(*simulation.costs)
    columns = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    cloud_round = np.repeat(rounds, [len(part["hop"]) for part in parts])
    return _parquet(polars.DataFrame({"cloud_round": cloud_round, **columns}))


def _parquet(frame: Any) -> bytes:
    buffer = io.BytesIO()
    frame.write_parquet(buffer, compression=COMPRESSION)
    return buffer.getvalue()

"""Who fetched, trained, uploaded and waited, when: the timeline of a run.

A row of `timeline.parquet` is a client that was sent to work. From `start_s` it fetches the model, computes for
`compute_s`, uploads for `upload_s` and has arrived at `arrival_s`; then its update waits until it is merged at
`merged_s`. The time it fetches is what is left of the time to the arrival.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fedloom.record.comparison import AXES
from fedloom.record.curves import rounded
from fedloom.record.figures import CLUSTER_COLORS, aggregator_names, cluster_numbers, shared_layout
from fedloom.record.runs import Run, by_method

if TYPE_CHECKING:
    import numpy as np
    import polars as pl
    from numpy.typing import NDArray
    from plotly.graph_objects import Figure

# Okabe and Ito's colours; waiting is pale, so that work stands out.
ACTIVITIES = {
    "fetches": "#56B4E9",
    "trains": "#0072B2",
    "uploads": "#E69F00",
    "waits": "#C9CED6",
}
MOST_ROWS = 24_000  # dispatches drawn in all timelines together
MOST_CLIENTS = 150  # lines of one timeline


@dataclass(frozen=True)
class Dispatches:
    """The rows of one cloud round, each client's once: arrays (m,), seconds since `begin_s`; `end_s` since it too.

    cluster: the first of its aggregators (-1: none). spans (m, 4): seconds of each of ACTIVITIES.
    """

    cloud_round: int
    begin_s: float
    end_s: float
    client: NDArray[np.int64]
    cluster: NDArray[np.int64]
    start_s: NDArray[np.float64]
    spans: NDArray[np.float64]
    late: NDArray[np.bool_]
    moved: NDArray[np.bool_]


def timeline_rounds(run: Run) -> list[int]:
    """The cloud rounds that have a timeline."""
    return [] if run.timeline is None else [int(r) for r in run.timeline["cloud_round"].unique().sort()]


def dispatches(run: Run, cloud_round: int) -> Dispatches:
    """The timeline of one cloud round."""
    import numpy as np
    import polars as pl

    frame = run.timeline
    if frame is None:
        raise ValueError(f"{run.path} has no timeline")
    rows = frame.filter(pl.col("cloud_round") == cloud_round).sort("aggregator", "client", "start_s")
    rows = rows.unique(["client", "start_s"], keep="first", maintain_order=True)
    column = {
        name: rows[name].cast(pl.Float64).to_numpy() for name in ("start_s", "compute_s", "upload_s", "arrival_s")
    }
    arrival = column["arrival_s"]
    merged = rows["merged_s"].cast(pl.Float64).fill_null(float("nan")).to_numpy()
    merged = np.where(np.isfinite(merged), merged, arrival)  # never merged: it did not wait for anything
    begin = float(column["start_s"].min()) if len(rows) else 0.0
    fetch = arrival - column["start_s"] - column["compute_s"] - column["upload_s"]
    turn = np.zeros(len(rows))  # waiting to upload, if clients share the air
    if "fetch_s" in rows.columns:  # not in records of older versions
        turn = fetch - rows["fetch_s"].cast(pl.Float64).to_numpy()
        fetch = fetch - turn
    spans = np.column_stack([fetch, column["compute_s"], column["upload_s"], merged - arrival + turn])
    return Dispatches(
        cloud_round=cloud_round,
        begin_s=begin,
        end_s=float(max(merged.max(), arrival.max()) - begin) if len(rows) else 0.0,
        client=rows["client"].to_numpy().astype(np.int64),
        cluster=rows["aggregator"].to_numpy().astype(np.int64),
        start_s=column["start_s"] - begin,
        spans=np.maximum(spans, 0.0),  # rounding
        late=rows["late"].fill_null(False).cast(pl.Boolean).to_numpy(),
        moved=rows["moved"].fill_null(False).cast(pl.Boolean).to_numpy(),
    )


def utilisation(found: Dispatches) -> dict[int, NDArray[np.float64]]:
    """Cluster -> shares (4,) of its clients' time, from the begin of the round to its end, by ACTIVITIES.

    What is missing to 1 is idle: not sent to work, or done and waiting for the next round.
    """
    import numpy as np

    shares = {}
    for cluster in np.unique(found.cluster).tolist():
        mine = found.cluster == cluster
        n_clients = len(np.unique(found.client[mine]))
        shares[cluster] = found.spans[mine].sum(axis=0) / max(n_clients * found.end_s, 1e-12)
    return shares


def timeline_data(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """One timeline for each method (of its lowest seed that has one), as plain lists; [] if there is none.

    Of many cloud rounds and clients a choice is kept, spread evenly, the first and last included.
    """
    import numpy as np

    chosen = []
    for same in by_method(runs).values():
        with_one = [run for run in same if timeline_rounds(run)]
        if with_one:
            chosen.append(min(with_one, key=lambda run: run.seed))
    found = []
    for run in chosen:
        rounds = timeline_rounds(run)
        assert run.timeline is not None
        each = max(1, len(run.timeline) // len(rounds))
        n_shown = min(len(rounds), max(2, MOST_ROWS // len(chosen) // each))
        rounds = [rounds[i] for i in np.unique(np.linspace(0, len(rounds) - 1, n_shown).round().astype(int))]
        found.append({"method": run.method, "seed": run.seed, "rounds": [_round_lists(run, r) for r in rounds]})
    return found


def _round_lists(run: Run, cloud_round: int) -> dict[str, Any]:
    import numpy as np

    found = dispatches(run, cloud_round)
    names = cluster_names(run, cloud_round)
    numbers = {} if run.topology is None else cluster_numbers(run.topology)
    first = {int(k): int(n) for k, n in zip(found.client[::-1], found.cluster[::-1])}
    lines = sorted(first, key=lambda k: (first[k], k))
    n_all = len(lines)
    if n_all > MOST_CLIENTS:
        lines = [lines[i] for i in np.linspace(0, n_all - 1, MOST_CLIENTS).round().astype(int)]
    line = {k: i for i, k in enumerate(lines)}
    kept = np.isin(found.client, lines)
    shares = utilisation(found)
    return {
        "round": cloud_round,
        "begin_s": found.begin_s,
        "end_s": found.end_s,
        "n_clients": n_all,
        "client": lines,
        "cluster": [names.get(first[k], f"cluster {first[k]}") for k in lines],
        "color": [CLUSTER_COLORS[numbers.get(first[k], first[k]) % len(CLUSTER_COLORS)] for k in lines],
        "line": [line[int(k)] for k in found.client[kept]],
        "start_s": rounded(found.start_s[kept]),
        "spans": [rounded(spans) for spans in found.spans[kept].T],
        "late": np.flatnonzero(found.late[kept]).tolist(),
        "moved": np.flatnonzero(found.moved[kept]).tolist(),
        "shares": {names.get(n, f"cluster {n}"): rounded(values) for n, values in shares.items()},
    }


def cluster_names(run: Run, cloud_round: int) -> dict[int, str]:
    """Names of the aggregators in a cloud round; numbers where no topology says more."""
    place = _place(run, cloud_round)
    if place is not None and run.topology is not None:  # some have clients only later, when others have moved
        others = aggregator_names(run.topology) if place["kind"][0] == "edge" else {}
        return others | aggregator_names(place)
    assert run.timeline is not None
    return {int(n): f"cluster {n}" for n in run.timeline["aggregator"].unique() if n is not None and n >= 0}


def _place(run: Run, cloud_round: int) -> pl.DataFrame | None:
    """Who was where in `cloud_round`: the topology of the last change before it."""
    if run.topology is None:
        return None
    before = run.topology.filter(run.topology["cloud_round"] <= cloud_round)
    return before.filter(before["cloud_round"] == before["cloud_round"].max()) if len(before) else None


COSTS = {
    "seconds": {"computing": "#777777", "on air": "#CC6677", "waiting": "#C9CED6"},
    "joules": {"computing": "#777777", "sending": "#CC6677"},
    "bytes": {"sent": "#CC6677", "fetched": "#E8BCC2"},
}  # what is added up by cluster, with the colours of the ledger


def cluster_costs(run: Run) -> dict[str, dict[str, dict[str, float]]]:
    """Cluster -> "seconds", "joules", "bytes" -> parts of COSTS, of its clients over the whole run.

    Joules are the devices' own, for computing and sending, by the powers of the scenario; bytes are one model for every
    upload over the air, and one for every time a model was fetched. A method that groups anew adds up clusters of one
    name. {} without a timeline.
    """
    import numpy as np

    compute_w, send_w = _powers(run)
    model_bytes = (run.scenario.get("model_bits") or 32.0 * run.origin.get("n_params", 0)) / 8
    found: dict[str, dict[str, dict[str, float]]] = {}
    for cloud_round in timeline_rounds(run):
        rows, names = dispatches(run, cloud_round), cluster_names(run, cloud_round)
        for cluster in np.unique(rows.cluster).tolist():
            mine = rows.cluster == cluster
            fetch, compute, upload, wait = rows.spans[mine].sum(axis=0).tolist()
            over_air = (rows.spans[mine] > 0).sum(axis=0)
            name = names.get(cluster, f"cluster {cluster}")
            sums = found.setdefault(name, {cost: dict.fromkeys(parts, 0.0) for cost, parts in COSTS.items()})
            _add(sums["seconds"], (compute, fetch + upload, wait))
            _add(sums["joules"], (compute * compute_w, upload * send_w))
            _add(sums["bytes"], (model_bytes * int(over_air[2]), model_bytes * int(over_air[0])))
    return found


def _add(sums: dict[str, float], values: Sequence[float]) -> None:
    for name, value in zip(sums, values):
        sums[name] += value


def _powers(run: Run) -> tuple[float, float]:
    """Watts of a device that computes, and of one that sends to its aggregator."""
    fleet = run.scenario.get("fleet") or {}
    kind = "edge" if run.first_place is None else run.first_place["kind"][0]
    link = {
        "edge": (fleet.get("device_edge") or {}).get("up"),
        "head": fleet.get("device_device"),
        "cloud": (fleet.get("device_cloud") or {}).get("up") or (fleet.get("device_edge") or {}).get("up"),
    }[kind]
    return float((fleet.get("compute") or {}).get("power_w") or 0.0), float((link or {}).get("power_w") or 0.0)


def cluster_cost_figure(run: Run, what: str) -> Figure:
    """Stacked bars by cluster; `what` is a key of COSTS."""
    import plotly.graph_objects as go

    costs, axis = cluster_costs(run), AXES[what]
    size, unit = axis.unit(max((sum(c[what].values()) for c in costs.values()), default=0.0))
    figure = go.Figure()
    for part, color in COSTS[what].items():
        values = [c[what][part] for c in costs.values()]
        figure.add_bar(
            x=[value / size for value in values],
            y=list(costs),
            orientation="h",
            name=part,
            marker={"color": color, "line": {"width": 0}},
            hovertext=[f"<b>{name}</b><br>{part}: {axis.text(v)}" for name, v in zip(costs, values)],
            hovertemplate="%{hovertext}<extra></extra>",
        )
    each = 26 if len(costs) <= 12 else 12
    figure.update_layout(
        shared_layout(height=84 + each * max(len(costs), 1), margin={"l": 10, "r": 14, "t": 4, "b": 46}),
        barmode="stack",
        bargap=0.3,
    )
    figure.update_xaxes(title=unit, rangemode="tozero")
    figure.update_yaxes(autorange="reversed", automargin=True, type="category", showgrid=False)
    return figure

"""Who fetched, trained, uploaded and waited, when: the timeline of a run; and what every cluster cost.

A row of `timeline.parquet` is a client that was sent to work. From `start_s` it fetches the model, computes for
`compute_s`, uploads for `upload_s` and has arrived at `arrival_s`; then its update waits until it is merged at
`merged_s`. The time it fetches is what is left of the time to the arrival. Devices that report to several aggregators are a
group of their own, such as "edges 0 + 1", and not counted with the first of them.

Costs by cluster are the ledger itself, booked by aggregator in `costs.parquet`: their sums are the ledger's, to the byte.
"""

from __future__ import annotations

import bisect
import html
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fedloom.record.curves import rounded
from fedloom.record.figure import Figure
from fedloom.record.groupings import aggregator_names, aggregators_of, group_name
from fedloom.record.ledgers import LEDGER, Costs, cost_bars
from fedloom.record.runs import Run, by_method

if TYPE_CHECKING:
    import numpy as np
    import polars as pl
    from numpy.typing import NDArray

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

    groups: the aggregators that devices report to, all different; group: which of them. spans (m, 4): seconds of each of
    ACTIVITIES. lost: updates that never arrive.
    """

    cloud_round: int
    begin_s: float
    end_s: float
    client: NDArray[np.int64]
    groups: tuple[tuple[int, ...], ...]
    group: NDArray[np.int64]
    start_s: NDArray[np.float64]
    spans: NDArray[np.float64]
    late: NDArray[np.bool_]
    moved: NDArray[np.bool_]
    lost: NDArray[np.bool_]


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
    lost = np.isposinf(arrival)
    if (
        "fetch_s" in rows.columns
    ):  # it may never arrive: then until it is lost, or, of a deployed run, as it was predicted
        ready = column["start_s"] + rows["fetch_s"].cast(pl.Float64).to_numpy() + column["compute_s"]
        arrival = np.where(np.isfinite(arrival), arrival, ready + column["upload_s"])
    merged = rows["merged_s"].cast(pl.Float64).fill_null(float("nan")).to_numpy()
    merged = np.where(np.isfinite(merged), merged, arrival)  # never merged: it did not wait for anything
    begin = float(column["start_s"].min()) if len(rows) else 0.0
    fetch = arrival - column["start_s"] - column["compute_s"] - column["upload_s"]
    turn = np.zeros(len(rows))  # waiting for others to fetch or upload, if clients share the air
    if "fetch_s" in rows.columns:  # not in records of older versions
        turn = fetch - rows["fetch_s"].cast(pl.Float64).to_numpy()
        fetch = fetch - turn
    spans = np.column_stack([fetch, column["compute_s"], column["upload_s"], merged - arrival + turn])
    place = _place(run, cloud_round)
    of = {} if place is None else aggregators_of(place)
    own = [  # a client that moved since is where it was sent from
        of[k] if n in of.get(k, ()) else (n,) if n >= 0 else ()
        for k, n in zip(rows["client"].to_list(), rows["aggregator"].to_list())
    ]
    groups = sorted(set(own), key=lambda group: (not group, group))
    number = {group: i for i, group in enumerate(groups)}
    return Dispatches(
        cloud_round=cloud_round,
        begin_s=begin,
        end_s=float(max(merged.max(), arrival.max()) - begin) if len(rows) else 0.0,
        client=rows["client"].to_numpy().astype(np.int64),
        groups=tuple(groups),
        group=np.array([number[group] for group in own], dtype=np.int64),
        start_s=column["start_s"] - begin,
        spans=np.maximum(spans, 0.0),  # rounding
        late=rows["late"].fill_null(False).cast(pl.Boolean).to_numpy(),
        moved=rows["moved"].fill_null(False).cast(pl.Boolean).to_numpy(),
        lost=lost,
    )


def utilisation(found: Dispatches) -> dict[tuple[int, ...], NDArray[np.float64]]:
    """Group -> shares (4,) of its clients' time, from the begin of the round to its end, by ACTIVITIES.

    What is missing to 1 is idle: not sent to work, or done and waiting for the next round.
    """
    import numpy as np

    shares = {}
    for i, group in enumerate(found.groups):
        mine = found.group == i
        n_clients = len(np.unique(found.client[mine]))
        shares[group] = found.spans[mine].sum(axis=0) / max(n_clients * found.end_s, 1e-12)
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
        names = names_by_round(run, rounds)
        found.append(
            {"method": run.method, "seed": run.seed, "rounds": [_round_lists(run, r, names[r]) for r in rounds]}
        )
    return found


def _round_lists(run: Run, cloud_round: int, aggregators: dict[int, str]) -> dict[str, Any]:
    import numpy as np

    found = dispatches(run, cloud_round)
    names = [group_name(group, aggregators) for group in found.groups]
    first = {int(k): int(n) for k, n in zip(found.client[::-1], found.group[::-1])}
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
        "cluster": [names[first[k]] for k in lines],
        "line": [line[int(k)] for k in found.client[kept]],
        "start_s": rounded(found.start_s[kept]),
        "spans": [rounded(spans) for spans in found.spans[kept].T],
        "late": np.flatnonzero(found.late[kept]).tolist(),
        "moved": np.flatnonzero(found.moved[kept]).tolist(),
        "lost": np.flatnonzero(found.lost[kept]).tolist(),
        "shares": {group_name(group, aggregators): rounded(values) for group, values in shares.items()},
    }


def cluster_names(run: Run, cloud_round: int) -> dict[int, str]:
    """Names of the aggregators in a cloud round; {} where no topology says them."""
    return names_by_round(run, [cloud_round])[cloud_round]


def names_by_round(run: Run, rounds: Iterable[int]) -> dict[int, dict[int, str]]:
    """Names of the aggregators in each of these cloud rounds; {} where no topology says them."""
    if run.topology is None:
        return {r: {} for r in rounds}
    changes = run.topology["cloud_round"].unique().sort().to_list()
    everywhere = aggregator_names(run.topology)
    known: dict[int, dict[int, str]] = {}  # by the last change: most rounds have the topology of the one before
    found = {}
    for r in rounds:
        last = bisect.bisect_right(changes, r) - 1
        if last >= 0 and last not in known:
            place = run.topology.filter(run.topology["cloud_round"] == changes[last])
            others = (
                everywhere if place["kind"][0] == "edge" else {}
            )  # some have clients only later, when others have moved
            known[last] = others | aggregator_names(place)
        found[r] = known.get(last, {})
    return found


def _place(run: Run, cloud_round: int) -> pl.DataFrame | None:
    """Who was where in `cloud_round`: the topology of the last change before it."""
    if run.topology is None:
        return None
    before = run.topology.filter(run.topology["cloud_round"] <= cloud_round)
    return before.filter(before["cloud_round"] == before["cloud_round"].max()) if len(before) else None


FEATURES = "collecting features"  # what the ledger books for no aggregator
Hop = tuple[str, str]


def cluster_costs(run: Run) -> Costs | None:
    """What every cluster cost in the whole run, by hop: joules, bytes and seconds on air or computing, of its devices and of
    its own links to the cloud; FEATURES for what was collected for grouping. The sums are the ledger's.

    A method that groups anew adds up clusters of one name. None without `costs.parquet`.
    """
    import polars as pl

    if run.costs is None:
        return None
    found: Costs = {}
    by = ["cloud_round", "aggregator", "hop", "direction"]
    sums = run.costs.group_by(by).agg(pl.col(*LEDGER).sum()).sort(*by)
    names = names_by_round(run, sums["cloud_round"].unique().to_list())
    for line in sums.iter_rows(named=True):
        aggregator = line["aggregator"]
        name = FEATURES if aggregator < 0 else names[line["cloud_round"]].get(aggregator, f"cluster {aggregator}")
        parts = found.setdefault(name, {}).setdefault((line["hop"], line["direction"]), dict.fromkeys(LEDGER, 0.0))
        for what in LEDGER:
            parts[what] += line[what]
    if FEATURES in found:
        found[FEATURES] = found.pop(FEATURES)  # last
    return found


def ledger_of(run: Run) -> dict[Hop, dict[str, float]]:
    """(hop, direction) -> energy_j, bytes and airtime_s of a finished run; {} of another."""
    lines = [] if run.summary is None else run.summary["ledger"]
    return {(line["hop"], line["direction"]): {what: line[what] for what in LEDGER} for line in lines}


def does_not_add_up(run: Run, costs: Costs | None = None) -> list[str]:
    """Where the costs by cluster (by default those of the run) differ from the ledger, a line each; [] if they add up to it."""
    costs, ledger = cluster_costs(run) if costs is None else costs, ledger_of(run)
    if costs is None or not ledger:
        return []
    found = []
    for hop in dict.fromkeys([*ledger, *(hop for parts in costs.values() for hop in parts)]):
        for what in LEDGER:
            booked = sum(parts[hop][what] for parts in costs.values() if hop in parts)
            true = ledger.get(hop, {}).get(what, 0.0)
            if abs(booked - true) > (0.5 if what == "bytes" else 1e-9 * max(abs(true), 1e-9)):
                found.append(f"{what} of {' '.join(hop).strip()}: {booked:.10g} by cluster, {true:.10g} in the ledger")
    return found


def cluster_cost_figure(run: Run, what: str, costs: Costs | None = None) -> Figure:
    """Stacked bars by cluster, in the colours of the ledger's hops; `what` is a key of LEDGER. costs: if they are known."""
    costs = (cluster_costs(run) or {}) if costs is None else costs
    clusters = [html.escape(cluster, quote=False) for cluster in costs]
    height = 84 + (26 if len(costs) <= 12 else 12) * max(len(costs), 1)
    return cost_bars(costs, clusters, what, height=height, bargap=0.3)

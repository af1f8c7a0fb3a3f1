"""One HTML file that shows what runs did: table, curves, maps, labels, ledger, and how it was made.

The file holds everything it needs, plotly.js included, and loads nothing. Figures come from functions that return
plotly figures; whatever was read from a file is escaped, both in the page and in the labels of figures.
"""

from __future__ import annotations

import html
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Any

from fedloom.record.comparison import AXES, NEVER, Column, Comparison, compare, costs_to_target, score_text
from fedloom.record.comparison import scores as score_column
from fedloom.record.comparison import totals as total_column
from fedloom.record.runs import Run, by_method, common_measure

if TYPE_CHECKING:
    import numpy as np
    import polars as pl
    from numpy.typing import NDArray
    from plotly.graph_objects import Figure

# Okabe and Ito's colours, with a darker yellow and grey for black, so that all show on white and on black.
METHOD_COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#8A8A8A", "#B5A100")
METHOD_DASHES = ("solid", "dash", "dot")
# Paul Tol's bright and vibrant colours, none of them one of a method.
CLUSTER_COLORS = ("#4477AA", "#EE6677", "#228833", "#CCBB44", "#66CCEE", "#AA3377", "#EE7733", "#009988")
HOPS = {
    ("computing", ""): ("computing", "#777777"),
    ("device_edge", "up"): ("device to edge", "#CC6677"),
    ("device_edge", "down"): ("edge to device", "#E8BCC2"),
    ("device_head", "up"): ("device to head", "#117733"),
    ("device_head", "down"): ("head to device", "#8CC49E"),
    ("device_cloud", "up"): ("device to cloud", "#7266C8"),
    ("device_cloud", "down"): ("cloud to device", "#BDB7E6"),
    ("edge_cloud", "up"): ("edge to cloud", "#A08A1C"),
    ("edge_cloud", "down"): ("cloud to edge", "#DDCC77"),
}
NEUTRAL = "#8A8F99"
MOST_POINTS = 400  # of a curve
MOST_PLACES = 120_000  # lines of topology drawn in all maps together


def write_report(runs: Sequence[Run], path: Path | str, title: str | None = None) -> Path:
    """Write the report of `runs` to `path` (its folder is made if need be) and return the path."""
    from plotly.offline import get_plotlyjs

    comparisons = {x: compare(runs, x) for x in AXES}
    title = title or str(runs[0].scenario.get("name") or "FedLoom report")
    sections = [
        _heading(runs, title, comparisons),
        _table(comparisons, method_styles(runs)),
        _curves(runs),
        _maps(runs),
        _labels(runs),
        _ledger(runs),
        _making(runs),
    ]
    page = Template(_asset("report.html")).substitute(
        title=html.escape(title),
        css=_asset("report.css"),
        js=_asset("report.js"),
        plotly=get_plotlyjs(),
        body="\n".join(section for section in sections if section),
    )
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(page, encoding="utf-8")
    return path


def method_styles(runs: Iterable[Run]) -> dict[str, tuple[str, str]]:
    """(colour, dash) of each method; with more methods than colours the dash tells them apart."""
    n = len(METHOD_COLORS)
    return {
        method: (METHOD_COLORS[i % n], METHOD_DASHES[i // n % len(METHOD_DASHES)])
        for i, method in enumerate(by_method(runs))
    }


@dataclass(frozen=True)
class Curve:
    """A measure against a cost, over the seeds of one method: arrays (n,). costs: the mean of every cost there."""

    x: NDArray[np.float64]
    mean: NDArray[np.float64]
    std: NDArray[np.float64] | None
    costs: dict[str, NDArray[np.float64]]


def mean_curve(runs: Sequence[Run], x: str) -> Curve:
    """Mean and sample standard deviation of the runs of one method, on the union of their x.

    Between evaluations a run is taken to hold its last value. After its end a finished run holds it too; where the
    first unfinished run ends, the curve ends.
    """
    import numpy as np

    column, measure = AXES[x].column, common_measure(runs)
    own = [run.metrics[column].to_numpy().astype(float) for run in runs]
    start = max(at[0] for at in own)
    end = min((at[-1] for at, run in zip(own, runs) if not run.finished), default=math.inf)
    union = np.unique(np.concatenate(own))
    union = union[(union >= start) & (union <= end)]
    if len(union) > MOST_POINTS:
        union = union[np.unique(np.linspace(0, len(union) - 1, MOST_POINTS).round().astype(int))]
    held = [np.searchsorted(at, union, side="right") - 1 for at in own]

    def on_union(name: str) -> NDArray[np.float64]:
        return np.stack([run.metrics[name].to_numpy().astype(float)[i] for run, i in zip(runs, held)])

    values = on_union(measure)
    costs = {name: on_union(axis.column).mean(axis=0) for name, axis in AXES.items()}
    return Curve(union, values.mean(axis=0), values.std(axis=0, ddof=1) if len(runs) > 1 else None, costs)


def curves_figure(runs: Sequence[Run], x: str) -> Figure:
    """Accuracy or rmse against a cost: a line for each method, and a band of one standard deviation."""
    import numpy as np
    import plotly.graph_objects as go

    measure, axis, styles = common_measure(runs), AXES[x], method_styles(runs)
    size, unit = axis.unit(max(float(run.metrics[axis.column][-1]) for run in runs))
    bands, lines = [], []
    for i, (method, same) in enumerate(by_method(runs).items()):
        color, dash = styles[method]
        curve = mean_curve(same, x)
        at = curve.x / size
        if curve.std is not None:
            bands.append(
                go.Scatter(
                    x=np.concatenate([at, at[::-1]]),
                    y=np.concatenate([curve.mean + curve.std, (curve.mean - curve.std)[::-1]]),
                    fill="toself",
                    fillcolor=_faded(color, 0.15),
                    line={"width": 0},
                    hoverinfo="skip",
                    legendgroup=str(i),
                    name=_label(method),
                )
            )
        lines.append(
            go.Scatter(
                x=at,
                y=curve.mean,
                mode="lines+markers" if len(at) <= 40 else "lines",
                line={"color": color, "dash": dash, "width": 2.5},
                marker={"size": 6},
                legendgroup=str(i),
                name=_label(method),
                hovertext=_curve_texts(method, curve, measure, len(same)),
                hovertemplate="%{hovertext}<extra></extra>",
            )
        )
    figure = go.Figure([*bands, *lines])
    figure.update_layout(_layout(height=340, margin={"l": 56, "r": 12, "t": 10, "b": 48}), hovermode="closest")
    figure.update_xaxes(title=f"{axis.label} ({unit})" if unit else axis.label, rangemode="tozero")
    figure.update_yaxes(title=measure, tickformat=".0%" if measure == "accuracy" else None)
    return figure


def _curve_texts(method: str, curve: Curve, measure: str, n_runs: int) -> list[str]:
    texts = []
    for i, mean in enumerate(curve.mean):
        std = None if curve.std is None else float(curve.std[i])
        cost = {name: axis.text(float(curve.costs[name][i])) for name, axis in AXES.items()}
        value = score_text(measure, float(mean), std) if math.isfinite(mean) else "not finite"
        seeds = f" ({n_runs} seeds)" if n_runs > 1 else ""
        texts.append(
            f"<b>{_label(method)}</b><br>{measure} {value}{seeds}<br>{cost['steps']} local steps · {cost['seconds']}"
            f"<br>{cost['joules']} · {cost['bytes']}"
        )
    return texts


def distinct_topologies(runs: Sequence[Run]) -> list[tuple[list[str], Run]]:
    """Methods that group alike, each with a run to show it: of the lowest seed that has a topology."""
    groups: list[tuple[list[str], Run]] = []
    for method, same in by_method(runs).items():
        shown = min((run for run in same if run.topology is not None), key=lambda run: run.seed, default=None)
        if shown is None:
            continue
        for methods, run in groups:
            if run.topology is not None and shown.topology is not None and run.topology.equals(shown.topology):
                methods.append(method)
                break
        else:
            groups.append(([method], shown))
    return groups


def aggregator_names(place: pl.DataFrame) -> dict[int, str]:
    """Names such as "edge 0" or "head 12", by the host; with several clusters on one host also by the cluster."""
    pairs = place.select("aggregator", "host", "kind").unique().sort("aggregator").rows()
    hosts = [host for aggregator, host, _ in pairs if aggregator >= 0]
    names = {}
    for aggregator, host, kind in pairs:
        if aggregator < 0:
            continue
        name = "cloud" if kind == "cloud" else f"{kind} {host}"
        names[int(aggregator)] = name if hosts.count(host) == 1 else f"{name}, cluster {aggregator}"
    return names


def bridging(place: pl.DataFrame) -> list[int]:
    """Devices that report to several aggregators."""
    import polars as pl

    several = place.group_by("client").agg(pl.col("aggregator").n_unique().alias("n")).filter(pl.col("n") > 1)
    return sorted(int(client) for client in several["client"])


def map_figure(run: Run, most_places: int = MOST_PLACES) -> Figure:
    """Who was where, in metres; with a slider if the topology was recorded more than once.

    At most `most_places` lines of the topology are drawn: of many rounds, a choice spread evenly.
    """
    import numpy as np
    import plotly.graph_objects as go

    topology = run.topology
    if topology is None:
        raise ValueError(f"{run.path} has no topology to draw; it is written when the run is finished")
    rounds = topology["cloud_round"].unique().sort().to_list()
    n_shown = max(2, most_places * len(rounds) // max(len(topology), 1))
    if len(rounds) > n_shown:
        rounds = [rounds[i] for i in np.linspace(0, len(rounds) - 1, n_shown).round().astype(int)]
    places = [topology.filter(topology["cloud_round"] == r) for r in rounds]
    fixed = _fixed_traces(run, places[0]["kind"][0])
    moving = [_place_traces(run, place) for place in places]
    for traces in moving[1:]:
        for trace in traces:
            trace.visible = False
    figure = go.Figure([*fixed, *(trace for traces in moving for trace in traces)])
    figure.update_layout(
        _layout(height=470, margin={"l": 60, "r": 10, "t": 10, "b": 90 if len(rounds) == 1 else 150}),
        shapes=_cell_shapes(run),
        hovermode="closest",
        showlegend=True,
        legend={"orientation": "h", "x": 0, "y": -0.14, "yanchor": "top", "itemclick": False, "itemdoubleclick": False},
    )
    figure.update_xaxes(title="x (m)", zeroline=False)
    figure.update_yaxes(title="y (m)", zeroline=False, scaleanchor="x", scaleratio=1)
    if len(rounds) > 1:
        steps = []
        for i, r in enumerate(rounds):
            shown = [True] * len(fixed) + [j == i for j, traces in enumerate(moving) for _ in traces]
            steps.append({"label": str(r), "method": "restyle", "args": ["visible", shown]})
        figure.update_layout(
            sliders=[{"steps": steps, "currentvalue": {"prefix": "from cloud round "}, "pad": {"t": 62}, "len": 1.0}]
        )
    return figure


def _fixed_traces(run: Run, kind: str) -> list[Any]:
    """Cell centres (edge servers where they aggregate, else plain) and the cloud's server."""
    import plotly.graph_objects as go

    centres, server = run.cells.get("centre_m") or [], run.cells.get("server_m")
    traces = []
    if kind != "edge" and centres:
        traces.append(
            go.Scatter(
                x=[c[0] for c in centres],
                y=[c[1] for c in centres],
                mode="markers",
                marker={"symbol": "square-open", "size": 12, "color": NEUTRAL, "line": {"width": 2}},
                name="cell centre",
                text=[f"centre of cell {i}" for i in range(len(centres))],
                hovertemplate="%{text}<br>(%{x:.0f}, %{y:.0f}) m<extra></extra>",
            )
        )
    if server:
        traces.append(
            go.Scatter(
                x=[server[0]],
                y=[server[1]],
                mode="markers",
                marker={"symbol": "hexagon2-open", "size": 25, "color": NEUTRAL, "line": {"width": 2}},
                name="cloud server",
                hovertemplate="cloud server<br>(%{x:.0f}, %{y:.0f}) m<extra></extra>",
            )
        )
    return traces


def _place_traces(run: Run, place: pl.DataFrame) -> list[Any]:
    """Links, devices, bridging and idle devices, and aggregators, of one recorded round."""
    import numpy as np
    import plotly.graph_objects as go

    names, kind = aggregator_names(place), place["kind"][0]
    one = place.unique("client", keep="first", maintain_order=True)
    client, first = one["client"].to_numpy(), one["aggregator"].to_numpy()
    x, y = one["x_m"].to_numpy(), one["y_m"].to_numpy()
    at = {int(c): (float(a), float(b)) for c, a, b in zip(client, x, y)}
    stands = _stands(run, place, at)
    several = np.isin(client, bridging(place))
    groups: dict[int, list[str]] = {}
    for c, n in place.select("client", "aggregator").iter_rows():
        groups.setdefault(c, []).append(names.get(n, "takes no part"))
    samples = run.clients.get("n_samples") or []

    def devices(mask: NDArray[np.bool_], name: str, marker: dict[str, Any]) -> Any:
        texts = []
        for c in client[mask]:
            held = f"<br>{samples[c]:,} samples" if c < len(samples) else ""
            texts.append(f"device {c}<br>{', '.join(groups[int(c)])}{held}")
        return go.Scatter(
            x=x[mask].round(1),
            y=y[mask].round(1),
            mode="markers",
            marker=marker,
            name=name,
            hovertext=texts,
            hovertemplate="%{hovertext}<br>(%{x:.0f}, %{y:.0f}) m<extra></extra>",
        )

    size = 8 if len(client) <= 200 else 5
    plain = ~several & (first >= 0)
    colors = [_cluster_color(n) for n in first[plain]]
    edge = {"width": 1, "color": "rgba(255,255,255,0.7)"}
    traces = []
    if kind != "cloud" and len(place) <= 2000:
        traces.append(_links(place, at, stands))
    traces.append(devices(plain, "device", {"size": size, "color": colors, "line": edge}))
    if several.any():
        ring = {"size": size + 3, "symbol": "diamond", "color": NEUTRAL, "line": {"width": 2, "color": "#222222"}}
        traces.append(devices(several, "bridging device", ring))
    if (first < 0).any():
        traces.append(devices(first < 0, "takes no part", {"size": size, "symbol": "x-thin", "line": {"width": 1.5, "color": NEUTRAL}}))
    if stands:
        traces.append(
            go.Scatter(
                x=[stands[n][0] for n in stands],
                y=[stands[n][1] for n in stands],
                mode="markers",
                marker={
                    "symbol": "star" if kind == "head" else "square",
                    "size": 17 if kind == "head" else 14,
                    "color": [_cluster_color(n) for n in stands],
                    "line": {"width": 1.5, "color": "#222222"},
                },
                name="cluster head" if kind == "head" else "edge server",
                text=[names[n] for n in stands],
                hovertemplate="%{text}<br>(%{x:.0f}, %{y:.0f}) m<extra></extra>",
            )
        )
    return traces

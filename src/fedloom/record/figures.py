"""The figures of the report, and the numbers they show: maps, labels and ledger.

Functions that return plotly figures, each after those that find what it draws. Whatever was read from a file is
escaped in the labels of figures. plotly is imported only when a figure is made.
"""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from fedloom.record.axes import AXES
from fedloom.record.runs import Run, by_method

if TYPE_CHECKING:
    import numpy as np
    import polars as pl
    from numpy.typing import NDArray
    from plotly.graph_objects import Figure

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
SIGNS = {
    "device": "●",
    "bridging device": "◇",
    "takes no part": "×",
    "edge server": "■",
    "cluster head": "★",
    "cell centre": "□",
    "cloud server": "⬡",
    "fast link": "━",
    "link": "─",
    "slow link": "┈",
    "link down": "╌",
}  # the markers and lines of the maps, by the names of traces
MOST_PLACES = 25_000  # lines of topology drawn in all maps together, for a file of a few megabytes
MOST_CLIENTS = 400  # columns of the label histograms
BLUES = [[0, "rgba(0,114,178,0.03)"], [1, "rgba(0,114,178,0.75)"]]


LINKS: dict[str, dict[str, Any]] = {  # lines of the map: grey, since colours are of clusters
    "fast link": {"width": 2.2, "color": "rgba(138,143,153,0.9)"},
    "link": {"width": 0.8, "color": "rgba(138,143,153,0.6)"},
    "slow link": {"width": 1.4, "color": "rgba(138,143,153,0.95)", "dash": "dot"},
    "link down": {"width": 1.4, "color": "rgba(138,143,153,0.95)", "dash": "longdash"},
}


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
    """Names such as "edge 0" or "head 12", by host; with several clusters on a host, or clusters that span hosts, also by
    cluster."""
    pairs = place.select("aggregator", "host", "kind").unique().sort("aggregator").rows()
    hosts = [host for aggregator, host, _ in pairs if aggregator >= 0]
    spanning = cluster_numbers(place)
    names = {}
    for aggregator, host, kind in pairs:
        if aggregator < 0:
            continue
        name = "cloud" if kind == "cloud" else f"{kind} {host}"
        if kind == "cloud" and len(hosts) > 1 and hosts.count(host) == 1:  # such as tiers of clients
            name = f"cloud, group {host}"
        alone = hosts.count(host) == 1 and not spanning
        names[int(aggregator)] = name if alone else f"{name}, cluster {spanning.get(aggregator, aggregator)}"
    return names


def aggregators_of(place: pl.DataFrame) -> dict[int, tuple[int, ...]]:
    """The aggregators of each device, ascending; () for one that takes no part."""
    found: dict[int, list[int]] = {}
    for client, aggregator in place.select("client", "aggregator").iter_rows():
        found.setdefault(int(client), []).extend([int(aggregator)] if aggregator >= 0 else [])
    return {client: tuple(sorted(set(those))) for client, those in found.items()}


def group_name(group: tuple[int, ...], names: dict[int, str]) -> str:
    """Words for devices that report to all of `group`: a cluster's name, or those of several joined.

    >>> group_name((0, 2), {0: "edge 0", 2: "edge 7"}), group_name((1,), {1: "head 4"}), group_name((), {})
    ('edges 0 + 7', 'head 4', 'takes no part')
    """
    if not group:
        return "takes no part"
    each = [names.get(n, f"cluster {n}") for n in group]
    kinds = {name.split(" ")[0] for name in each}
    if len(each) > 1 and len(kinds) == 1 and all(name.split(" ")[-1].isdigit() and "," not in name for name in each):
        return f"{kinds.pop()}s {' + '.join(name.split(' ')[-1] for name in each)}"
    return " + ".join(each)


def cluster_numbers(place: pl.DataFrame) -> dict[int, int]:
    """The cluster of each aggregator, if clusters span several of them, else {}."""
    if "cluster" not in place.columns:
        return {}
    pairs = place.select("aggregator", "cluster").unique().drop_nulls().iter_rows()
    return {int(n): int(c) for n, c in pairs if n >= 0}


def bridging(place: pl.DataFrame) -> list[int]:
    """Devices that report to several aggregators."""
    import polars as pl

    several = place.group_by("client").agg(pl.col("aggregator").n_unique().alias("n")).filter(pl.col("n") > 1)
    return sorted(int(client) for client in several["client"])


def map_figure(run: Run, most_places: int = MOST_PLACES) -> Figure:
    """Who was where, in metres. layout.meta: the cloud rounds drawn, and for each trace the number of the round it
    belongs to (-1: all of them); only the traces of the first round are visible.

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
    frames = [-1] * len(fixed) + [i for i, traces in enumerate(moving) for _ in traces]
    figure.update_layout(
        shared_layout(height=430, margin={"l": 60, "r": 10, "t": 10, "b": 50}),
        shapes=_areas(run),
        hovermode="closest",
        meta={"rounds": rounds, "frames": frames},
    )
    figure.update_xaxes(title="x (m)", zeroline=False)
    figure.update_yaxes(title="y (m)", zeroline=False, scaleanchor="x", scaleratio=1)
    if len(rounds) > 1:  # a still frame: axes that jump hide what moves
        figure.update_xaxes(range=_extent(run, topology["x_m"], 0))
        figure.update_yaxes(range=_extent(run, topology["y_m"], 1))
    return figure


def _extent(run: Run, values: Any, axis: int) -> list[float]:
    """From the lowest to the highest of all rounds, cells included, with a margin."""
    centres, radii = run.cells.get("centre_m") or [], run.cells.get("radius_m") or []
    server = run.cells.get("server_m")
    ends = [float(values.min()), float(values.max()), *([server[axis]] if server else [])]
    for centre, radius in zip(centres, radii):
        ends += [centre[axis] - (radius or 0), centre[axis] + (radius or 0)]
    pad = 0.04 * (max(ends) - min(ends)) or 1.0
    return [min(ends) - pad, max(ends) + pad]


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
    standing = stands(run, place, at)
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
            x=x[mask].round(1).tolist(),
            y=y[mask].round(1).tolist(),
            mode="markers",
            marker=marker,
            name=name,
            hovertext=texts,
            hovertemplate="%{hovertext}<br>(%{x:.0f}, %{y:.0f}) m<extra></extra>",
        )

    size = 8 if len(client) <= 200 else 5
    plain = ~several & (first >= 0)
    of_cluster = cluster_numbers(place)
    colors = [_cluster_color(of_cluster.get(n, n)) for n in first[plain].tolist()]
    edge = {"width": 1, "color": "rgba(255,255,255,0.7)"}
    traces = []
    if kind != "cloud" and len(place) <= 400:
        traces += _links(place, at, standing)
    traces.append(devices(plain, "device", {"size": size, "color": colors, "line": edge}))
    if several.any():
        ring = {"size": size + 2, "symbol": "diamond", "color": "#FFFFFF", "line": {"width": 1.5, "color": "#444444"}}
        traces.append(devices(several, "bridging device", ring))
    if (first < 0).any():
        traces.append(
            devices(
                first < 0,
                "takes no part",
                {"size": size, "symbol": "x-thin", "line": {"width": 1.5, "color": NEUTRAL}},
            )
        )
    powers, sends = head_powers(place), "<br>sends with {}"
    if standing:
        at_one = list(standing.values())
        traces.append(
            go.Scatter(
                x=[standing[n][0] for n in standing],
                y=[standing[n][1] for n in standing],
                mode="markers+text" if powers and len(standing) <= 15 else "markers",
                texttemplate="%{customdata}",
                textposition=["top center" if i % 2 else "bottom center" for i in _from_the_left(standing)],
                customdata=[powers.get(n, "") for n in standing],
                marker={
                    "symbol": "star" if kind == "head" else "square",
                    "size": (16 if kind == "head" else 13) if len(standing) <= 15 else 9,
                    "color": [
                        _cluster_color(of_cluster.get(n, n)) if at_one.count(standing[n]) == 1 else NEUTRAL
                        for n in standing
                    ],
                    "line": {"width": 1.5 if len(standing) <= 15 else 1, "color": "#222222"},
                },
                name="cluster head" if kind == "head" else "edge server",
                text=[f"{names[n]}{sends.format(powers[n]) if n in powers else ''}" for n in standing],
                hovertemplate="%{text}<br>(%{x:.0f}, %{y:.0f}) m<extra></extra>",
            )
        )
    return traces


def _from_the_left(at: dict[int, tuple[float, float]]) -> list[int]:
    """The place of each point in the order of x: names above and below in turn collide less."""
    order = sorted(at, key=lambda n: at[n])
    return [order.index(n) for n in at]


def head_powers(place: pl.DataFrame) -> dict[int, str]:
    """The power with which each head sends to the cloud, where a method has chosen it, as text."""
    if "head_power_w" not in place.columns:
        return {}
    pairs = place.select("aggregator", "head_power_w").unique().drop_nulls().drop_nans().sort("aggregator").iter_rows()
    return {int(n): f"{watt:.2g} W" if watt >= 0.0995 else f"{1000 * watt:.2g} mW" for n, watt in pairs}


def stands(run: Run, place: pl.DataFrame, at: dict[int, tuple[float, float]]) -> dict[int, tuple[float, float]]:
    """Where each aggregator stands: an edge server in the centre of its cell, a head where the device is."""
    centres = run.cells.get("centre_m") or []
    found = {}
    for aggregator, host, kind in place.select("aggregator", "host", "kind").unique().sort("aggregator").iter_rows():
        if aggregator >= 0 and kind == "head" and host in at:
            found[aggregator] = at[host]
        elif aggregator >= 0 and kind == "edge" and 0 <= host < len(centres):
            found[aggregator] = (centres[host][0], centres[host][1])
    return found


def _links(
    place: pl.DataFrame, at: dict[int, tuple[float, float]], stands: dict[int, tuple[float, float]]
) -> list[Any]:
    """A line from every device to each of its aggregators, by how long a model takes over it."""
    import plotly.graph_objects as go

    lines: dict[str, tuple[list[float | None], list[float | None]]] = {name: ([], []) for name in LINKS}
    quality = link_qualities(place)
    for client, aggregator in place.select("client", "aggregator").iter_rows():
        if aggregator in stands and at[client] != stands[aggregator]:
            (x0, y0), (x1, y1) = at[client], stands[aggregator]
            x, y = lines[quality[client]]
            x += [round(x0, 1), round(x1, 1), None]
            y += [round(y0, 1), round(y1, 1), None]
    return [
        go.Scatter(x=x, y=y, mode="lines", line=LINKS[name], hoverinfo="skip", name=name, showlegend=name != "link")
        for name, (x, y) in lines.items()
        if x
    ]


def link_qualities(place: pl.DataFrame) -> dict[int, str]:
    """A name of LINKS for the link of each device: thirds by seconds if they differ much, plain "link" if they do not."""
    if "up_s" not in place.columns:  # a record of an older version
        return dict.fromkeys(place["client"].to_list(), "link")
    seconds = {int(c): float(s) for c, s in place.select("client", "up_s").iter_rows() if s > 0}
    finite = sorted(s for s in seconds.values() if math.isfinite(s))
    names = dict.fromkeys((int(c) for c in place["client"]), "link")
    if not finite or finite[-1] < 1.5 * finite[0]:
        return names | {c: "link down" for c, s in seconds.items() if not math.isfinite(s)}
    low, high = finite[len(finite) // 3], finite[2 * len(finite) // 3]
    for c, s in seconds.items():
        names[c] = (
            "link down" if not math.isfinite(s) else "fast link" if s < low else "slow link" if s >= high else "link"
        )
    return names


def _areas(run: Run) -> list[dict[str, Any]]:
    """Circles of the cells, none for a cell that reaches everybody, and rectangles of regions."""
    style = {
        "layer": "below",
        "line": {"width": 1, "dash": "dot", "color": NEUTRAL},
        "fillcolor": "rgba(138,143,153,0.05)",
    }
    cells = [
        style | {"type": "circle", "x0": c[0] - r, "x1": c[0] + r, "y0": c[1] - r, "y1": c[1] + r}
        for c, r in zip(run.cells.get("centre_m") or [], run.cells.get("radius_m") or [])
        if r is not None
    ]
    regions = ((run.scenario.get("fleet") or {}).get("placement") or {}).get("regions_m") or []
    return cells + [style | {"type": "rect", "x0": x0, "x1": x1, "y0": y0, "y1": y1} for x0, x1, y0, y1 in regions]


@dataclass(frozen=True)
class Clusters:
    """Labels by cluster in the first recorded round. N clusters, C classes.

    shares (N + 1, C): of each cluster's samples; the last row is of all clients. distance (N,): total variation
    distance to that last row, half the sum of absolute differences, from 0 (alike) to 1 (no class in common).
    n_samples (N + 1,). A client of several clusters counts fully in each.
    """

    names: list[str]
    shares: NDArray[np.float64]
    distance: NDArray[np.float64]
    n_samples: NDArray[np.int64]


def clusters(run: Run) -> Clusters:
    """Who holds what; with no classes (regression) `shares` is (N + 1, 0) and all distances are 0."""
    import numpy as np

    place = run.first_place
    if place is None:
        raise ValueError(f"{run.path} has no topology; it is written when the run is finished")
    samples = np.asarray(run.clients["n_samples"], dtype=np.int64)
    counts = np.asarray(run.clients["label_counts"], dtype=float).reshape(len(samples), -1)
    names = aggregator_names(place)
    members = [place.filter(place["aggregator"] == n)["client"].to_numpy() for n in names]
    members.append(np.arange(len(samples)))
    held = np.stack([counts[m].sum(axis=0) for m in members])  # (N + 1, C)
    shares = held / np.maximum(held.sum(axis=1, keepdims=True), 1)
    return Clusters(
        names=list(names.values()),
        shares=shares,
        distance=np.abs(shares[:-1] - shares[-1]).sum(axis=1) / 2,
        n_samples=np.array([samples[m].sum() for m in members]),
    )


def labels_figure(run: Run) -> Figure:
    """Heat map of the classes' shares by cluster and for all clients; bars of samples if there are no classes."""
    import plotly.graph_objects as go

    found = clusters(run)
    n_rows, n_classes = found.shares.shape
    height = 100 + (28 if n_rows <= 12 else 14 if n_rows <= 60 else 5) * n_rows
    if not n_classes:
        figure = go.Figure(
            go.Bar(x=found.n_samples[:-1].tolist(), y=found.names, orientation="h", marker={"color": CLUSTER_COLORS[0]})
        )
        figure.update_traces(hovertemplate="%{y}: %{x:,} samples<extra></extra>")
        figure.update_layout(shared_layout(height=height, margin={"l": 10, "r": 10, "t": 10, "b": 48}))
        figure.update_xaxes(title="training samples")
        figure.update_yaxes(autorange="reversed", automargin=True)
        return figure
    rows = [f"{name}  ·  {d:.2f}" for name, d in zip(found.names, found.distance)] + ["all devices"]
    text = [[f"{100 * share:.0f}" for share in row] for row in found.shares]
    figure = go.Figure(
        go.Heatmap(
            z=(100 * found.shares).round(2).tolist(),
            x=[str(c) for c in range(n_classes)],
            y=rows,
            zmin=0,
            zmax=max(float(100 * found.shares.max()), 200 / n_classes),  # even shares are half-tone
            colorscale=BLUES,
            xgap=2,
            ygap=2,
            text=text if n_classes <= 12 and n_rows <= 12 else None,
            texttemplate="%{text}" if n_classes <= 12 and n_rows <= 12 else None,
            colorbar={
                "title": {"text": "%"},
                "thickness": 10,
                "outlinewidth": 0,
                "nticks": 5,
                "lenmode": "pixels",
                "len": 130,
                "yanchor": "top",
                "y": 1,
            },
            hovertemplate="%{y}<br>class %{x}: %{z:.1f} %<extra></extra>",
        )
    )
    figure.update_layout(shared_layout(height=height, margin={"l": 10, "r": 10, "t": 10, "b": 48}))
    figure.update_xaxes(title="class", type="category", showgrid=False, nticks=20)
    figure.update_yaxes(type="category", autorange="reversed", automargin=True, showgrid=False)
    figure.update_yaxes(tickfont={"size": 12 if n_rows <= 12 else 9}, title="cluster" if n_rows > 60 else None)
    figure.update_yaxes(nticks=n_rows + 1 if n_rows <= 60 else 30)
    return figure


def client_labels_figure(run: Run, most_clients: int = MOST_CLIENTS) -> Figure:
    """Label histogram of every client, ordered by cluster; of many clients a choice spread evenly.

    Clients of the same several clusters stand together, in a group of their own. With no classes: the clients' samples.
    """
    import numpy as np
    import plotly.graph_objects as go

    order, group, names = ordered_clients(run, most_clients)
    samples = np.asarray(run.clients["n_samples"], dtype=np.int64)
    counts = np.asarray(run.clients["label_counts"], dtype=np.int64).reshape(len(samples), -1)
    where = [f"device {k}" for k in order]
    if counts.shape[1]:
        z = counts[order].T  # (C, clients)
        figure = go.Figure(
            go.Heatmap(
                z=z.tolist(),
                x=where,
                y=[str(c) for c in range(len(z))],
                zmin=0,
                zmax=max(int(z.max()), 1),
                colorscale=BLUES,
                hovertemplate="%{x}, class %{y}: %{z:,} samples<extra></extra>",
                colorbar={"title": {"text": "samples"}, "thickness": 10, "outlinewidth": 0, "nticks": 4},
            )
        )
        figure.update_yaxes(title="class", type="category", showgrid=False)
        height = 150 + 14 * min(len(z), 20)
    else:
        figure = go.Figure(
            go.Bar(x=where, y=samples[order].tolist(), marker={"color": [_cluster_color(n) for n in group]})
        )
        figure.update_traces(hovertemplate="%{x}: %{y:,} samples<extra></extra>")
        figure.update_yaxes(title="training samples")
        height = 260
    edges = [0, *(np.flatnonzero(np.diff(group)) + 1).tolist(), len(order)]
    middle = [(a + b - 1) / 2 for a, b in pairwise(edges)]
    few = len(middle) <= 12
    figure.update_layout(
        shared_layout(height=height, margin={"l": 10, "r": 10, "t": 8, "b": 50}),
        shapes=[
            {"type": "line", "x0": e - 0.5, "x1": e - 0.5, "y0": 0, "y1": 1, "yref": "paper", "line": {"width": 1.5}}
            for e in edges[1:-1]
        ],
    )
    figure.update_xaxes(
        type="category",
        range=[-0.5, len(order) - 0.5],
        tickvals=middle if few else [],
        ticktext=[_label(names[int(group[e])]) for e in edges[:-1]] if few else [],
        title=None if few else "devices, cluster by cluster",
        showgrid=False,
        automargin=True,
    )
    figure.update_yaxes(automargin=True)
    return figure


def ordered_clients(run: Run, most_clients: int) -> tuple[NDArray[np.int64], NDArray[np.int64], list[str]]:
    """Clients by cluster in the first recorded round, the number of each one's group, and the groups' names.

    Clients with the same aggregators are a group, those with several between those with one; who takes no part comes last.
    """
    import numpy as np

    place = run.first_place
    if place is None:
        raise ValueError(f"{run.path} has no topology; it is written when the run is finished")
    of = aggregators_of(place)
    groups = sorted(set(of.values()), key=lambda group: (not group, group))
    number = {group: i for i, group in enumerate(groups)}
    clients = sorted(of, key=lambda k: (number[of[k]], k))
    if len(clients) > most_clients:
        clients = [clients[i] for i in np.linspace(0, len(clients) - 1, most_clients).round().astype(int)]
    names = aggregator_names(place)
    numbers = np.array([number[of[k]] for k in clients], dtype=np.int64)
    return np.array(clients, dtype=np.int64), numbers, [group_name(group, names) for group in groups]


LEDGER = {
    "energy_j": ("Energy", "joules"),
    "bytes": ("Traffic", "bytes"),
    "airtime_s": ("Device-seconds on air and computing", "seconds"),
}


def whole(hops: dict[tuple[str, str], dict[str, float]], what: str) -> float:
    """All hops together; `what` is a key of LEDGER."""
    return sum(hop[what] for hop in hops.values())


def ledger_means(runs: Sequence[Run]) -> dict[str, dict[tuple[str, str], dict[str, float]]]:
    """method -> (hop, direction) -> bytes, airtime_s and energy_j, the mean over its finished runs."""
    found: dict[str, dict[tuple[str, str], dict[str, float]]] = {}
    for method, same in by_method(runs).items():
        finished = [run.summary["ledger"] for run in same if run.summary is not None]
        for line in (line for ledger in finished for line in ledger):
            sums = found.setdefault(method, {}).setdefault((line["hop"], line["direction"]), dict.fromkeys(LEDGER, 0.0))
            for name in LEDGER:
                sums[name] += line[name] / len(finished)
    return found


def ledger_figure(runs: Sequence[Run], what: str) -> Figure:
    """Stacked bars by hop, one for each method; `what` is a key of LEDGER."""
    import plotly.graph_objects as go

    means, axis = ledger_means(runs), AXES[LEDGER[what][1]]
    largest = max((whole(hops, what) for hops in means.values()), default=0.0)
    size, unit = axis.unit(largest)
    figure = go.Figure()
    for hop in used_hops(means):
        values = [hops.get(hop, {}).get(what, 0.0) for hops in means.values()]
        if any(values):
            name, color = hop_style(hop)
            figure.add_bar(
                x=[value / size for value in values],
                y=[_label(method) for method in means],
                orientation="h",
                name=name,
                marker={"color": color, "line": {"width": 0}},
                hovertext=[f"<b>{_label(m)}</b><br>{name}: {axis.text(v)}" for m, v in zip(means, values)],
                hovertemplate="%{hovertext}<extra></extra>",
            )
    height = 80 + 34 * max(len(means), 1)
    figure.update_layout(
        shared_layout(height=height, margin={"l": 10, "r": 14, "t": 4, "b": 46}), barmode="stack", bargap=0.35
    )
    figure.update_xaxes(title=unit, rangemode="tozero")
    figure.update_yaxes(autorange="reversed", automargin=True, type="category", showgrid=False)
    return figure


def used_hops(means: dict[str, dict[tuple[str, str], dict[str, float]]]) -> list[tuple[str, str]]:
    """The hops in `means`: those of HOPS in its order, then others by name."""
    used = {hop for hops in means.values() for hop in hops}
    return [hop for hop in HOPS if hop in used] + sorted(used - set(HOPS))


def hop_style(hop: tuple[str, str]) -> tuple[str, str]:
    """(name, colour) of a hop; the name is escaped."""
    return HOPS.get(hop, (_label(" ".join(hop)), NEUTRAL))


def shared_layout(height: int, margin: dict[str, int]) -> dict[str, Any]:
    """What all figures share; the page sets the colours of text and grid, for light and dark."""
    axis = {"gridcolor": "rgba(138,143,153,0.25)", "zerolinecolor": "rgba(138,143,153,0.25)", "ticks": ""}
    return {
        "template": "none",
        "height": height,
        "margin": margin,
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "font": {
            "family": "system-ui, -apple-system, Segoe UI, Roboto, Helvetica, Arial, sans-serif",
            "size": 12,
        },
        "hoverlabel": {"align": "left"},
        "showlegend": False,
        "xaxis": axis,
        "yaxis": axis,
    }


def _label(text: str) -> str:
    """Escaped for the labels of figures, which know a few tags and entities, but not those for quotes."""
    return html.escape(text, quote=False)


def _cluster_color(aggregator: int) -> str:
    return CLUSTER_COLORS[int(aggregator) % len(CLUSTER_COLORS)]

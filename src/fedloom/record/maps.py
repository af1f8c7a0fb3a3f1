"""The map of a run: where devices, aggregators, cells and links are, round by round."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from fedloom.record.figure import Figure, trace
from fedloom.record.figure_style import NEUTRAL, cluster_color, shared_layout
from fedloom.record.groupings import aggregator_names, bridging, cluster_numbers
from fedloom.record.runs import Run

if TYPE_CHECKING:
    import numpy as np
    import polars as pl
    from numpy.typing import NDArray

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

LINKS: dict[str, dict[str, Any]] = {  # lines of the map: grey, since colours are of clusters
    "fast link": {"width": 2.2, "color": "rgba(138,143,153,0.9)"},
    "link": {"width": 0.8, "color": "rgba(138,143,153,0.6)"},
    "slow link": {"width": 1.4, "color": "rgba(138,143,153,0.95)", "dash": "dot"},
    "link down": {"width": 1.4, "color": "rgba(138,143,153,0.95)", "dash": "longdash"},
}


def map_figure(run: Run, most_places: int = MOST_PLACES) -> Figure:
    """Who was where, in metres. layout.meta: the cloud rounds drawn, and for each trace the number of the round it
    belongs to (-1: all of them); only the traces of the first round are visible.

    At most `most_places` lines of the topology are drawn: of many rounds, a choice spread evenly.
    """
    import numpy as np

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
        for hidden in traces:
            hidden["visible"] = False
    frames = [-1] * len(fixed) + [i for i, traces in enumerate(moving) for _ in traces]
    layout = shared_layout(height=430, margin={"l": 60, "r": 10, "t": 10, "b": 50})
    layout |= {"shapes": _areas(run), "hovermode": "closest", "meta": {"rounds": rounds, "frames": frames}}
    figure = Figure([*fixed, *(one for traces in moving for one in traces)], layout)
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

    centres, server = run.cells.get("centre_m") or [], run.cells.get("server_m")
    traces = []
    if kind != "edge" and centres:
        traces.append(
            trace(
                "scatter",
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
            trace(
                "scatter",
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

    one = place.unique("client", keep="first", maintain_order=True)
    client, first = one["client"].to_numpy(), one["aggregator"].to_numpy()
    x, y = one["x_m"].to_numpy(), one["y_m"].to_numpy()
    at = {int(c): (float(a), float(b)) for c, a, b in zip(client, x, y)}
    standing = stands(run, place, at)
    several = np.isin(client, bridging(place))
    words = _device_words(run, place, client)

    def devices(mask: NDArray[np.bool_], name: str, marker: dict[str, Any]) -> Any:
        texts = [text for text, here in zip(words, mask.tolist()) if here]
        return _points(x[mask].round(1).tolist(), y[mask].round(1).tolist(), name, marker, texts)

    size = 8 if len(client) <= 200 else 5
    plain = ~several & (first >= 0)
    of_cluster = cluster_numbers(place)
    colors = [cluster_color(of_cluster.get(n, n)) for n in first[plain].tolist()]
    edge = {"width": 1, "color": "rgba(255,255,255,0.7)"}
    traces = _links(place, at, standing) if place["kind"][0] != "cloud" and len(place) <= 400 else []
    traces.append(devices(plain, "device", {"size": size, "color": colors, "line": edge}))
    if several.any():
        ring = {"size": size + 2, "symbol": "diamond", "color": "#FFFFFF", "line": {"width": 1.5, "color": "#444444"}}
        traces.append(devices(several, "bridging device", ring))
    if (first < 0).any():
        cross = {"size": size, "symbol": "x-thin", "line": {"width": 1.5, "color": NEUTRAL}}
        traces.append(devices(first < 0, "takes no part", cross))
    return [*traces, _aggregators(place, standing)] if standing else traces


def _device_words(run: Run, place: pl.DataFrame, clients: NDArray[np.int64]) -> list[str]:
    """Of each of the clients (m,): its name, its aggregators and how many samples it holds."""
    names = aggregator_names(place)
    groups: dict[int, list[str]] = {}
    for c, n in place.select("client", "aggregator").iter_rows():
        groups.setdefault(c, []).append(names.get(n, "takes no part"))
    samples = run.clients.get("n_samples") or []
    held = [f"<br>{samples[c]:,} samples" if c < len(samples) else "" for c in clients]
    return [f"device {c}<br>{', '.join(groups[int(c)])}{more}" for c, more in zip(clients, held)]


def _points(x: list[float], y: list[float], name: str, marker: dict[str, Any], texts: list[str]) -> Any:
    return trace(
        "scatter",
        x=x,
        y=y,
        mode="markers",
        marker=marker,
        name=name,
        hovertext=texts,
        hovertemplate="%{hovertext}<br>(%{x:.0f}, %{y:.0f}) m<extra></extra>",
    )


def _aggregators(place: pl.DataFrame, standing: dict[int, tuple[float, float]]) -> Any:
    """Stars for heads, squares for edge servers, where they stand; grey where several stand on one spot."""
    names, kind, of_cluster = aggregator_names(place), place["kind"][0], cluster_numbers(place)
    powers, sends = head_powers(place), "<br>sends with {}"
    few, at_one = len(standing) <= 15, list(standing.values())
    return trace(
        "scatter",
        x=[standing[n][0] for n in standing],
        y=[standing[n][1] for n in standing],
        mode="markers+text" if powers and few else "markers",
        texttemplate="%{customdata}",
        textposition=["top center" if i % 2 else "bottom center" for i in _from_the_left(standing)],
        customdata=[powers.get(n, "") for n in standing],
        marker={
            "symbol": "star" if kind == "head" else "square",
            "size": (16 if kind == "head" else 13) if few else 9,
            "color": [
                cluster_color(of_cluster.get(n, n)) if at_one.count(standing[n]) == 1 else NEUTRAL for n in standing
            ],
            "line": {"width": 1.5 if few else 1, "color": "#222222"},
        },
        name="cluster head" if kind == "head" else "edge server",
        text=[f"{names[n]}{sends.format(powers[n]) if n in powers else ''}" for n in standing],
        hovertemplate="%{text}<br>(%{x:.0f}, %{y:.0f}) m<extra></extra>",
    )


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

    lines: dict[str, tuple[list[float | None], list[float | None]]] = {name: ([], []) for name in LINKS}
    quality = link_qualities(place)
    for client, aggregator in place.select("client", "aggregator").iter_rows():
        if aggregator in stands and at[client] != stands[aggregator]:
            (x0, y0), (x1, y1) = at[client], stands[aggregator]
            x, y = lines[quality[client]]
            x += [round(x0, 1), round(x1, 1), None]
            y += [round(y0, 1), round(y1, 1), None]
    return [
        trace(
            "scatter", x=x, y=y, mode="lines", line=LINKS[name], hoverinfo="skip", name=name, showlegend=name != "link"
        )
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

"""The map of a plan: who reports to whom, as a picture and as a plotly figure.

Clusters that are neighbours have different colours, out of few that colour-blind readers can tell apart too.
"""

import html
import math
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedloom.radio import distances
from fedloom.record.plan_tables import Planned
from fedloom.record.plan_words import si

Floats = NDArray[np.float64]

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")  # Okabe and Ito
DARK, GREY = "#222222", "#6B7280"
FAR = 0.6  # of the fleet's extent: a server further outside is shown by an arrow
FEW_HEADS = 8  # whose lines to the server are drawn to the end
STUB = 0.05  # of the map: of the others so much is drawn
MANY = 2000  # devices; more of them are drawn by the graphics card


def cluster_colours(planned: Planned) -> list[str]:
    """One of COLOURS per cluster: of those that fewest of its nearest neighbours have, the first."""
    plan, position = planned.plan, planned.devices.position_m
    middle = np.stack([position[members].mean(axis=0) for members in plan.topology.cover])
    away = distances(middle, middle)
    given = np.full(len(middle), -1)
    for n in np.argsort(middle[:, 0], kind="stable").tolist():
        near = [m for m in np.argsort(away[n], kind="stable").tolist() if given[m] >= 0][: len(COLOURS) - 1]
        free = [c for c in range(len(COLOURS)) if c not in given[near]]
        count = np.bincount(given[given >= 0], minlength=len(COLOURS))
        given[n] = min(free, key=lambda c: (count[c], c))
    return [COLOURS[c] for c in given.tolist()]


def draw_map(planned: Planned, path: Path) -> None:
    """Who reports to whom, as PNG."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.collections import LineCollection
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    plan, position, server = planned.plan, planned.devices.position_m, planned.devices.server_m
    low, high, shown = _window(planned)
    figure = Figure(figsize=(9.6, 8.6), dpi=150, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    colour = np.array([*cluster_colours(planned), GREY])[plan.cluster]  # the last for who takes no part
    n = planned.devices.n
    size = float(np.clip(9000 / n, 5, 45))
    headed = plan.topology.kind == "head"
    hosts = plan.topology.host if headed else np.zeros(0, np.int64)
    near = headed & (plan.head >= 0)
    ends = position[np.maximum(plan.head, 0)] if headed else np.broadcast_to(server, position.shape)
    links = np.stack([position, ends], axis=1)[near if headed else plan.cluster >= 0]
    width = float(np.clip(250 / n, 0.35, 1.2))
    link_colour = colour[near] if headed else colour[plan.cluster >= 0]
    axes.add_collection(
        LineCollection(list(links), colors=link_colour.tolist(), linewidths=width, alpha=0.55, zorder=1)
    )
    if headed and shown:
        up = list(np.stack([position[hosts], _towards_server(planned)], axis=1))
        axes.add_collection(LineCollection(up, colors=DARK, linewidths=0.9, linestyles="dashed", alpha=0.5, zorder=2))
    axes.scatter(
        position[:, 0],
        position[:, 1],
        s=size,
        c=colour.tolist(),
        edgecolors="white",
        linewidths=0.3 if n > 500 else 0.5,
        zorder=3,
    )
    star = float(np.clip(5000 / max(len(hosts), 1), 60, 260))
    if headed:
        axes.scatter(
            position[hosts, 0],
            position[hosts, 1],
            s=star,
            c=colour[hosts].tolist(),
            marker="*",
            edgecolors=DARK,
            linewidths=0.9,
            zorder=4,
        )
    if shown:
        axes.scatter(server[0], server[1], s=230, c=DARK, marker="s", edgecolors="white", linewidths=1.5, zorder=5)
        axes.annotate(
            "server",
            (server[0], server[1]),
            xytext=(10, 9),
            textcoords="offset points",
            fontsize=11,
            weight="bold",
            zorder=6,
            bbox={"boxstyle": "round,pad=0.2", "fc": "white", "ec": "none", "alpha": 0.8},
        )
    else:
        _arrow_to_server(axes, planned, low, high)
    axes.set(
        xlim=(low[0], high[0]),
        ylim=(low[1], high[1]),
        xlabel="metres east" if planned.table.origin else "x (m)",
        ylabel="metres north" if planned.table.origin else "y (m)",
    )
    axes.set_aspect("equal")
    axes.grid(color="#E5E7EB", linewidth=0.6)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    _scale_bar(axes, low, high)
    keys = [Line2D([], [], marker="o", ls="", color=GREY, label="device, coloured by cluster", ms=6)]
    if headed:
        keys += [
            Line2D([], [], marker="*", ls="", mfc=GREY, mec=DARK, label="head of a cluster", ms=12),
            Line2D([], [], color=GREY, lw=1.2, label="device reports to head"),
            Line2D([], [], color=DARK, lw=1, ls="--", alpha=0.6, label=_server_key(planned)),
        ]
    keys.append(Line2D([], [], marker="s", ls="", color=DARK, label="server", ms=9))
    figure.legend(
        handles=keys, loc="outside lower center", ncols=len(keys), frameon=False, fontsize=9.5, handletextpad=0.5
    )
    title, words = headline(planned)
    lines = [words, *planned.compared[:2]]
    axes.set_title(title, loc="left", fontsize=15, weight="bold", parse_math=False, pad=8 + 15 * len(lines))
    axes.text(
        0, 1.012, "\n".join(lines), transform=axes.transAxes, fontsize=10.5, color=GREY, va="bottom", parse_math=False
    )
    figure.savefig(path, format="png")


def headline(planned: Planned) -> tuple[str, str]:
    """A title, and what a cloud round takes, in words."""
    plan = planned.plan
    many = "clusters" if plan.n_clusters > 1 else "cluster"
    where = f"in {plan.n_clusters} {many}" if plan.topology.kind == "head" else "at one server"
    title = f"{planned.title}: {planned.devices.n:,} devices {where} ({plan.name})"
    total_j, total_bytes = plan.ledger.total_j, plan.ledger.total_bytes
    return title, f"a cloud round: {si(plan.time_s, 's')}, {si(total_j, 'J')}, {si(total_bytes, 'B')}"


def _window(planned: Planned) -> tuple[Floats, Floats, bool]:
    """Lower left and upper right corner of the map, and whether the server is on it."""
    position, server = planned.devices.position_m, planned.devices.server_m
    low, high = position.min(axis=0), position.max(axis=0)
    extent = max(float((high - low).max()), 1.0)
    shown = bool(((server >= low - FAR * extent) & (server <= high + FAR * extent)).all())
    if shown:
        low, high = np.minimum(low, server), np.maximum(high, server)
    middle, half = (low + high) / 2, (high - low) / 2
    half = np.maximum(half, 0.35 * half.max()) + 0.06 * max(float(half.max()), 0.5)
    return middle - half, middle + half, shown


def _towards_server(planned: Planned) -> Floats:
    """(k, 2): where the lines of heads to the server end: there, or if there are many, after a piece of the way, so that
    they do not cover the middle of the map."""
    low, high, _ = _window(planned)
    start = planned.devices.position_m[planned.plan.topology.host]
    way = planned.devices.server_m - start
    length = np.hypot(way[:, 0], way[:, 1])[:, None]
    most = np.inf if len(start) <= FEW_HEADS else STUB * float((high - low).max())
    return np.asarray(start + way * np.minimum(1.0, most / np.maximum(length, 1e-9)))


def _server_key(planned: Planned) -> str:
    return "head reports to server" if planned.plan.n_clusters <= FEW_HEADS else "towards the server"


def _arrow_to_server(axes: Any, planned: Planned, low: Floats, high: Floats) -> None:
    """From inside the map towards a server that is far outside."""
    middle, half = (low + high) / 2, (high - low) / 2
    way = planned.devices.server_m - middle
    tip = middle + way * float(np.min(half / np.maximum(np.abs(way), 1e-12))) * 0.985
    far = float(np.hypot(*way))
    axes.annotate(
        "",
        tip,
        xytext=middle + (tip - middle) * 0.86,
        zorder=6,
        arrowprops={"arrowstyle": "-|>", "color": DARK, "lw": 2.2, "mutation_scale": 20},
    )
    at = middle + (tip - middle) * 0.84
    side = "right" if way[0] > 0 else "left"
    axes.annotate(
        f"server, {si(far, 'm')} away",
        at,
        ha=side,
        va="center",
        fontsize=10.5,
        weight="bold",
        zorder=6,
        bbox={"boxstyle": "round,pad=0.25", "fc": "white", "ec": "none", "alpha": 0.85},
    )


def _scale_bar(axes: Any, low: Floats, high: Floats) -> None:
    length = _round_length(float(high[0] - low[0]) / 5)
    x, y = high[0] - 0.03 * (high[0] - low[0]) - length, low[1] + 0.025 * (high[1] - low[1])
    axes.plot([x, x + length], [y, y], color=DARK, lw=3, solid_capstyle="butt", zorder=6)
    axes.annotate(
        si(length, "m"),
        (x + length / 2, y),
        xytext=(0, 7),
        textcoords="offset points",
        ha="center",
        fontsize=10,
        zorder=6,
        bbox={"boxstyle": "round,pad=0.15", "fc": "white", "ec": "none", "alpha": 0.75},
    )


def _round_length(about: float) -> float:
    """1, 2 or 5 times a power of ten, at most `about`.

    >>> _round_length(730.0), _round_length(2.3)
    (500.0, 2.0)
    """
    power = 10.0 ** math.floor(math.log10(about))
    return max(step * power for step in (1.0, 2.0, 5.0) if step * power <= about * (1 + 1e-9))


def map_figure(planned: Planned) -> Any:
    """The map as a plotly figure: what a device costs is said where the mouse is."""
    import plotly.graph_objects as go

    plan, position, server = planned.plan, planned.devices.position_m, planned.devices.server_m
    colour = [*cluster_colours(planned), GREY]
    headed = plan.topology.kind == "head"
    n = planned.devices.n
    scatter = go.Scattergl if n > MANY else go.Scatter
    by_colour: dict[str, list[float | None]] = {}
    for k in np.flatnonzero(plan.cluster >= 0).tolist():
        end = position[plan.head[k]] if headed else server
        lines = by_colour.setdefault(colour[plan.cluster[k]], [])
        lines += [float(position[k, 0]), float(end[0]), None, float(position[k, 1]), float(end[1]), None]
    traces = []
    for shade, flat in by_colour.items():
        pairs = np.array(flat, dtype=object).reshape(-1, 2, 3)
        traces.append(
            scatter(
                x=pairs[:, 0].ravel().tolist(),
                y=pairs[:, 1].ravel().tolist(),
                mode="lines",
                hoverinfo="skip",
                line={"width": 1 if n <= 500 else 0.5, "color": shade},
                opacity=0.5,
                showlegend=False,
            )
        )
    shown = _window(planned)[2]
    if headed and shown:
        ends = np.hstack([position[plan.topology.host], _towards_server(planned)]).tolist()
        x, y = ([value for end in ends for value in (end[i], end[i + 2], None)] for i in (0, 1))
        line = {"width": 1, "color": GREY, "dash": "dash"}
        traces.append(go.Scatter(x=x, y=y, mode="lines", hoverinfo="skip", line=line, name=_server_key(planned)))
    texts = [_device_words(planned, k) for k in range(n)]
    size = 8 if n <= 500 else 5
    hover = "%{hovertext}<extra></extra>"
    shades = [colour[c] for c in plan.cluster.tolist()]
    traces.append(
        scatter(
            x=position[:, 0].round(2),
            y=position[:, 1].round(2),
            mode="markers",
            name="device",
            hovertext=texts,
            hovertemplate=hover,
            marker={"size": size, "color": shades, "line": {"width": 0.5, "color": "white"}},
        )
    )
    if headed:
        hosts = plan.topology.host
        marker = {
            "symbol": "star",
            "size": 15 if len(hosts) <= 60 else 10,
            "color": [shades[h] for h in hosts.tolist()],
            "line": {"width": 1, "color": DARK},
        }
        traces.append(
            go.Scatter(
                x=position[hosts, 0].round(2),
                y=position[hosts, 1].round(2),
                mode="markers",
                name="head of a cluster",
                hovertext=[texts[h] for h in hosts.tolist()],
                hovertemplate=hover,
                marker=marker,
            )
        )
    if shown:
        marker = {"symbol": "square", "size": 16, "color": GREY, "line": {"width": 2, "color": "white"}}
        place = f"server<br>{server_place(planned)}"
        traces.append(
            go.Scatter(
                x=[server[0]],
                y=[server[1]],
                mode="markers",
                name="server",
                marker=marker,
                hovertext=[place],
                hovertemplate=hover,
            )
        )
    figure = go.Figure(traces)
    figure.update_layout(
        height=680,
        margin={"l": 60, "r": 10, "t": 10, "b": 50},
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        hovermode="closest",
        legend={"orientation": "h", "y": 1.02, "yanchor": "bottom"},
        template="none",
        modebar={"bgcolor": "rgba(0,0,0,0)", "color": GREY},
    )
    low, high, _ = _window(planned)
    east, north = ("metres east", "metres north") if planned.table.origin else ("x (m)", "y (m)")
    figure.update_xaxes(title=east, zeroline=False, range=[low[0], high[0]], constrain="domain")
    figure.update_yaxes(
        title=north, zeroline=False, range=[low[1], high[1]], constrain="domain", scaleanchor="x", scaleratio=1
    )
    return figure


def _device_words(planned: Planned, k: int) -> str:
    plan = planned.plan
    words = [f"<b>{html.escape(planned.table.ids[k])}</b>"]
    if plan.cluster[k] < 0:
        return f"{words[0]}<br>takes no part"
    head = int(plan.head[k])
    if head == k:
        words.append(f"head of cluster {plan.cluster[k]}, {plan.size[plan.cluster[k]]} devices")
    elif head >= 0:
        words.append(f"cluster {plan.cluster[k]}, head {html.escape(planned.head_name(head))}")
    words.append(f"{si(plan.distance_m[k], 'm')} to {'the server' if head < 0 else 'its head'}" if head != k else "")
    words.append(f"a cloud round: busy {si(plan.seconds[k], 's')}, {si(plan.joules[k], 'J')}")
    words.append(f"{si(plan.bytes_sent[k], 'B')} sent, {si(plan.bytes_received[k], 'B')} received")
    words.append(f"sends at {si(plan.power_w[k], 'W')}")
    return "<br>".join(word for word in words if word)


def server_place(planned: Planned) -> str:
    """Where the server is: in degrees if the table is, else in metres."""
    server = planned.devices.server_m
    degrees = planned.table.to_degrees(server)
    if degrees is not None:
        return f"{degrees[0]:.5f}, {degrees[1]:.5f} (latitude, longitude)"
    return f"({server[0]:,.0f}, {server[1]:,.0f}) m"

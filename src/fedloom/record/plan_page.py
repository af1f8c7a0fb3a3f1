"""What a plan leaves on disk: tables, a picture and a page.

    devices.csv     a line per device: its cluster and head, what a cloud round takes it
    clusters.csv    a line per cluster
    plan.json       all of it, with settings, totals and the plans it is compared with
    map.png         who reports to whom
    plan.html       the map to look into, and the tables; it holds everything it needs and loads nothing

Clusters that are neighbours have different colours, out of few that colour-blind readers can tell apart too.
"""

import csv
import html
import io
import math
from dataclasses import asdict, dataclass
from importlib import metadata, resources
from pathlib import Path
from string import Template
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedloom.fleet.table import FleetTable
from fedloom.planning import Devices, Plan, Work
from fedloom.radio import distances
from fedloom.record.files import Content, json_bytes, write_together
from fedloom.record.plan_words import other_work, rounds_text, si, verdicts
from fedloom.simulator.ledger import HOPS

Floats = NDArray[np.float64]
Row = dict[str, Any]

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")  # Okabe and Ito
DARK, GREY = "#222222", "#6B7280"
FAR = 0.6  # of the fleet's extent: a server further outside is shown by an arrow
FEW_HEADS = 8  # whose lines to the server are drawn to the end
STUB = 0.05  # of the map: of the others so much is drawn
MOST_LINES = 2000  # of the table of devices on the page


@dataclass(frozen=True, kw_only=True, eq=False)
class Planned:
    """A plan and what belongs to it. others: the plans it is compared with, by what they are called; simple: those of them that
    anybody would try first. missing: columns that would improve it, and how; notes: what was assumed; warnings: what should not
    stay as it is."""

    title: str
    table: FleetTable
    devices: Devices
    work: Work
    seed: int
    plan: Plan
    others: dict[str, Plan]
    missing: dict[str, str]
    notes: list[str]
    simple: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def plans(self) -> dict[str, Plan]:
        """The plan first."""
        return {self.plan.name: self.plan, **self.others}

    @property
    def compared(self) -> list[str]:
        """How the plan stands against the best simple one, in sentences."""
        differs = other_work(self.plan, self.work.edge_rounds) if self.simple else None
        totals = {name: plan_totals(self, plan) for name, plan in self.plans.items()}
        return ([] if differs is None else [differs]) + verdicts(totals, self.simple)

    def head_name(self, k: int) -> str:
        """Of a device; "server" for none."""
        return self.table.ids[k] if k >= 0 else "server"


def write_plan(planned: Planned, folder: Path) -> dict[str, Path]:
    """All files, and where they are."""
    folder.mkdir(parents=True, exist_ok=True)
    devices, clusters = device_rows(planned), cluster_rows(planned)
    files: dict[str, Content] = {
        "devices.csv": _csv_bytes(devices),
        "clusters.csv": _csv_bytes(clusters),
        "plan.json": json_bytes(summary(planned) | {"devices": devices}),
        "map.png": lambda path: draw_map(planned, path),
        "plan.html": page(planned).encode(),
    }
    write_together(folder, files)
    return {name: folder / name for name in files}


def device_rows(planned: Planned) -> list[Row]:
    """A row per device, per cloud round."""
    plan, position = planned.plan, planned.devices.position_m
    is_head = np.isin(np.arange(len(plan.cluster)), plan.topology.host) & (plan.topology.kind == "head")
    return [
        {
            "id": name,
            **_place(planned, position[k]),
            "cluster": int(plan.cluster[k]),
            "head": planned.head_name(int(plan.head[k])) if plan.cluster[k] >= 0 else "",
            "is_head": bool(is_head[k]),
            "distance_m": _short(plan.distance_m[k]),
            "tx_power_w": _short(plan.power_w[k]),
            "seconds": _short(plan.seconds[k]),
            "joules": _short(plan.joules[k]),
            "bytes_sent": int(plan.bytes_sent[k]),
            "bytes_received": int(plan.bytes_received[k]),
        }
        for k, name in enumerate(planned.table.ids)
    ]


def cluster_rows(planned: Planned) -> list[Row]:
    """A row per cluster, per cloud round."""
    plan, devices = planned.plan, planned.devices
    rows = []
    for n, members in enumerate(plan.topology.cover):
        head = int(plan.topology.host[n]) if plan.topology.kind == "head" else -1
        others = members & (np.arange(devices.n) != head)
        rows.append(
            {
                "cluster": n,
                "head": planned.head_name(head),
                **_place(planned, devices.position_m[head] if head >= 0 else devices.server_m),
                "devices": int(members.sum()),
                "n_samples": int(devices.n_samples[members].sum()) if planned.table.n_samples is not None else None,
                "edge_rounds": int(plan.edge_rounds[n]),
                "edge_round_s": _short(plan.edge_round_s[n]),
                "cloud_round_s": _short(plan.cluster_s[n]),
                "joules": _short(plan.joules[members].sum()),
                "bytes_sent": int(plan.bytes_sent[members].sum()),
                "member_distance_m": _short(plan.distance_m[others].mean()) if others.any() else 0.0,
                "server_distance_m": _short(devices.to_server_m[head]) if head >= 0 else 0.0,
                "label_imbalance": _known(plan.imbalance[n]),
            }
        )
    return rows


def _place(planned: Planned, point_m: Floats) -> Row:
    """A point in metres, and in degrees if the table is."""
    degrees = planned.table.to_degrees(point_m)
    there = {} if degrees is None else dict(zip(("latitude", "longitude"), degrees))
    return {**there, "x_m": _short(point_m[0]), "y_m": _short(point_m[1])}


def plan_totals(planned: Planned, plan: Plan) -> Row:
    """One cloud round of a plan, in all."""
    sends = (plan.cluster >= 0) & (plan.head != np.arange(len(plan.head)))
    return {
        "clusters": plan.n_clusters if plan.topology.kind == "head" else 0,
        "seconds": _short(plan.time_s),
        "joules": _short(plan.ledger.total_j),
        "most_joules_of_a_device": _short(plan.joules.max()),
        "bytes": plan.ledger.total_bytes,
        "server_bytes": int(plan.ledger.bytes[HOPS.index("device_cloud")].sum()),
        "mean_distance_m": _short(plan.distance_m[sends].mean()) if sends.any() else 0.0,
        "label_imbalance": _known(plan.mean_imbalance(planned.devices.n_samples)),
    }


def summary(planned: Planned) -> Row:
    """All but the devices: settings, totals, clusters, comparison, ledger, notes."""
    server = planned.devices.server_m
    return {
        "title": planned.title,
        "method": planned.plan.name,
        "version": metadata.version("fedloom"),
        "seed": planned.seed,
        "work": asdict(planned.work),
        "n_devices": planned.devices.n,
        "origin_latitude_longitude": planned.table.origin,
        "server_m": [_short(value) for value in server],
        "server_latitude_longitude": planned.table.to_degrees(server),
        "per_cloud_round": {name: plan_totals(planned, plan) for name, plan in planned.plans.items()},
        "compared": planned.compared,
        "ledger": planned.plan.ledger.table(),
        "clusters": cluster_rows(planned),
        "would_improve": planned.missing,
        "notes": planned.notes,
        "warnings": list(planned.warnings),
    }


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
    title, words = _headline(planned)
    lines = [words, *planned.compared[:2]]
    axes.set_title(title, loc="left", fontsize=15, weight="bold", parse_math=False, pad=8 + 15 * len(lines))
    axes.text(
        0, 1.012, "\n".join(lines), transform=axes.transAxes, fontsize=10.5, color=GREY, va="bottom", parse_math=False
    )
    figure.savefig(path, format="png")


def _headline(planned: Planned) -> tuple[str, str]:
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
    scatter = go.Scattergl if n > MOST_LINES else go.Scatter
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
        place = f"server<br>{_server_place(planned)}"
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


PAGE = Template("""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:">
<title>$title</title>
<style>
$css
thead th { white-space: normal; }
tbody th { min-width: 0; }
.card #map { max-width: 100%; margin: 0 auto; }
</style>
<script>$plotly</script>
</head>
<body>
<main>
$body
</main>
<script>
const place = document.getElementById("map");
const { data, layout } = JSON.parse(place.querySelector("script").textContent);
const ink = getComputedStyle(document.documentElement).getPropertyValue("--ink").trim();
const line = getComputedStyle(document.documentElement).getPropertyValue("--line").trim();
layout.font = { color: ink };
layout.xaxis.gridcolor = layout.yaxis.gridcolor = line;
if (matchMedia("(pointer: coarse)").matches) layout.dragmode = false;
Plotly.newPlot(place, data, layout, { responsive: true, displaylogo: false });
</script>
</body>
</html>
""")  # noqa: E501


def _server_place(planned: Planned) -> str:
    server = planned.devices.server_m
    degrees = planned.table.to_degrees(server)
    if degrees is not None:
        return f"{degrees[0]:.5f}, {degrees[1]:.5f} (latitude, longitude)"
    return f"({server[0]:,.0f}, {server[1]:,.0f}) m"


def page(planned: Planned) -> str:
    """The HTML page."""
    from plotly.offline import get_plotlyjs

    title, words = _headline(planned)
    work, figure = planned.work, map_figure(planned)
    facts = {
        "devices": f"{planned.devices.n:,}",
        "clusters": str(planned.plan.n_clusters),
        "method": planned.plan.name,
        "model": si(work.model_bytes, "B"),
        "a cloud round": f"{rounds_text(planned.plan)} edge rounds of {work.local_steps} local steps",
        "server": _server_place(planned),
    }
    described = "".join(f"<div><dt>{k}</dt><dd>{_escape(v)}</dd></div>" for k, v in facts.items())
    notes = "".join(f'<p class="note">{_escape(note)}.</p>' for note in planned.notes)
    missing = "".join(
        f"<tr><th>{_escape(c)}</th><td class='text'>{_escape(why)}</td></tr>" for c, why in planned.missing.items()
    )
    improve = (
        '<section><h2>What would make the plan better</h2><div class="card scroll"><table><thead><tr><th>column or option</th>'
        f"<th style='text-align:left'>what it would improve</th></tr></thead><tbody>{missing}</tbody></table></div></section>"
    )
    compared = "".join(f"<li>{_escape(line)}.</li>" for line in planned.compared)
    warned = "".join(f'<p class="warn">{_escape(line)}.</p>' for line in planned.warnings)
    data = figure.to_json().replace("<", "\\u003c")
    body = [
        f'<header><h1>{_escape(title)}</h1><p class="lead">{_escape(words)}</p>{warned}'
        f'<dl class="facts">{described}</dl></header>',
        "<section><h2>Against the best simple plans, per cloud round</h2>"
        f"<ul>{compared}</ul>"
        f"{_html_table(comparison_rows(planned))}"
        '<p class="note">flat: every device exchanges its model with the server in every edge round. geographic: as many '
        "clusters of neighbours by k-means as the plan has, the head the candidate nearest to the middle. k-means: the same "
        "with the number of clusters that makes it fastest, or that takes least energy. Worst device: most joules of one device. "
        "At server: traffic between devices and the server. Imbalance: total variation distance of a cluster's labels to "
        "those of all, 0 is alike, 1 has no class in common; mean over clusters by samples.</p></section>",
        '<section><h2>Who reports to whom</h2><div class="card"><div class="figure" id="map" style="height:680px">'
        f'<script type="application/json">{data}</script></div></div></section>',
        f"<section><h2>Clusters</h2>{_html_table([_shown(row) for row in cluster_rows(planned)])}</section>",
        f"<section><h2>Devices</h2>{_devices(planned)}</section>",
        improve if missing else "",
        f"<section><h2>Assumptions</h2>{notes}</section>" if notes else "",
        f"<footer>Made with FedLoom {metadata.version('fedloom')}. Times, energy and traffic are predictions.</footer>",
    ]
    css = (resources.files("fedloom.record") / "report.css").read_text(encoding="utf-8")
    return PAGE.substitute(
        title=_escape(title), css=css, plotly=get_plotlyjs(), body="\n".join(part for part in body if part)
    )


def comparison_rows(planned: Planned) -> list[Row]:
    """A row per plan, as text."""
    rows = []
    for name, plan in planned.plans.items():
        total = plan_totals(planned, plan)
        rows.append(
            {
                "plan": name,
                "clusters": str(total["clusters"] or "-"),
                "time": si(total["seconds"], "s"),
                "energy": si(total["joules"], "J"),
                "worst device": si(total["most_joules_of_a_device"], "J"),
                "traffic": si(total["bytes"], "B"),
                "at server": si(total["server_bytes"], "B"),
                "mean link": si(total["mean_distance_m"], "m"),
                "imbalance": "-" if total["label_imbalance"] is None else f"{total['label_imbalance']:.3f}",
            }
        )
    return rows


def _devices(planned: Planned) -> str:
    rows = device_rows(planned)
    more = (
        f'<p class="note">The first {MOST_LINES:,} of {len(rows):,}; all are in devices.csv.</p>'
        if len(rows) > MOST_LINES
        else ""
    )
    shown = [_shown(row) for row in rows[:MOST_LINES]]
    return f"<details><summary>All devices, per cloud round</summary>{more}{_html_table(shown)}</details>"


PLACE = ("latitude", "longitude", "x_m", "y_m")
UNITS = {"_s": "s", "seconds": "s", "joules": "J", "_m": "m", "_w": "W", "bytes_sent": "B", "bytes_received": "B"}


def _shown(row: Row) -> Row:
    """Numbers with units, as text; where something is, the map says."""
    out = {}
    for name, value in row.items():
        if name in PLACE:
            continue
        unit = next((u for end, u in UNITS.items() if name.endswith(end)), None)
        label = name.removesuffix("_s").removesuffix("_m").removesuffix("_w").replace("_", " ")
        if value is None:
            out[label] = "-"
        elif isinstance(value, bool):
            out[label] = "yes" if value else ""
        elif unit and not isinstance(value, str):
            out[label] = si(float(value), unit)
        else:
            out[label] = (
                f"{value:.3f}" if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else value
            )
    return out


def _html_table(rows: list[Row]) -> str:
    head = "".join(f"<th>{_escape(name)}</th>" for name in rows[0])
    lines = []
    for row in rows:
        first, *rest = row.values()
        lines.append(f"<tr><th>{_escape(first)}</th>{''.join(f'<td>{_escape(value)}</td>' for value in rest)}</tr>")
    return (
        f'<div class="card scroll"><table><thead><tr>{head}</tr></thead><tbody>{"".join(lines)}</tbody></table></div>'
    )


def _csv_bytes(rows: list[Row]) -> bytes:
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, fieldnames=list(rows[0]))
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue().encode()


def _short(value: float) -> float:
    """Six significant digits."""
    return float(f"{value:.6g}")


def _known(value: float) -> float | None:
    return None if math.isnan(value) else round(float(value), 4)


def _escape(value: Any) -> str:
    return html.escape(str(value))

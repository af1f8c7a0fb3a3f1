"""The map of a plan as a picture: who reports to whom, as PNG."""

import math
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedloom.record.plan_map import (
    DARK,
    GREY,
    axis_titles,
    cluster_colours,
    headline,
    server_key,
    towards_server,
    window,
)
from fedloom.record.plan_tables import Planned
from fedloom.record.plan_words import si

Floats = NDArray[np.float64]


def draw_map(planned: Planned, path: Path) -> None:
    """Who reports to whom, as PNG."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.6, 8.6), dpi=150, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    low, high, shown = window(planned)
    colour = np.array([*cluster_colours(planned), GREY])[planned.plan.cluster]  # (K,), the last for who takes no part
    _links(axes, planned, colour, shown)
    _devices(axes, planned, colour)
    if shown:
        _server(axes, planned)
    else:
        _arrow_to_server(axes, planned, low, high)
    _frame(axes, planned, low, high)
    _scale_bar(axes, low, high)
    _legend(figure, planned)
    _title(axes, planned)
    figure.savefig(path, format="png")


def _links(axes: Any, planned: Planned, colour: NDArray[np.str_], shown: bool) -> None:
    """Lines of devices to their heads or the server, and of heads to a server that is on the map."""
    from matplotlib.collections import LineCollection

    plan, position, server = planned.plan, planned.devices.position_m, planned.devices.server_m
    headed = plan.topology.kind == "head"
    drawn = plan.head >= 0 if headed else plan.cluster >= 0
    ends = position[np.maximum(plan.head, 0)] if headed else np.broadcast_to(server, position.shape)
    links = np.stack([position, ends], axis=1)[drawn]
    width = float(np.clip(250 / planned.devices.n, 0.35, 1.2))
    axes.add_collection(
        LineCollection(list(links), colors=colour[drawn].tolist(), linewidths=width, alpha=0.55, zorder=1)
    )
    if headed and shown:
        up = list(np.stack([position[plan.topology.host], towards_server(planned)], axis=1))
        axes.add_collection(LineCollection(up, colors=DARK, linewidths=0.9, linestyles="dashed", alpha=0.5, zorder=2))


def _devices(axes: Any, planned: Planned, colour: NDArray[np.str_]) -> None:
    """Points for devices, stars for heads."""
    plan, position, n = planned.plan, planned.devices.position_m, planned.devices.n
    axes.scatter(
        position[:, 0],
        position[:, 1],
        s=float(np.clip(9000 / n, 5, 45)),
        c=colour.tolist(),
        edgecolors="white",
        linewidths=0.3 if n > 500 else 0.5,
        zorder=3,
    )
    if plan.topology.kind == "head":
        hosts = plan.topology.host
        axes.scatter(
            position[hosts, 0],
            position[hosts, 1],
            s=float(np.clip(5000 / max(len(hosts), 1), 60, 260)),
            c=colour[hosts].tolist(),
            marker="*",
            edgecolors=DARK,
            linewidths=0.9,
            zorder=4,
        )


def _server(axes: Any, planned: Planned) -> None:
    server = planned.devices.server_m
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


def _frame(axes: Any, planned: Planned, low: Floats, high: Floats) -> None:
    """Axes in metres, the same scale in both directions."""
    east, north = axis_titles(planned)
    axes.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]), xlabel=east, ylabel=north)
    axes.set_aspect("equal")
    axes.grid(color="#E5E7EB", linewidth=0.6)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def _legend(figure: Any, planned: Planned) -> None:
    from matplotlib.lines import Line2D

    keys = [Line2D([], [], marker="o", ls="", color=GREY, label="device, coloured by cluster", ms=6)]
    if planned.plan.topology.kind == "head":
        keys += [
            Line2D([], [], marker="*", ls="", mfc=GREY, mec=DARK, label="head of a cluster", ms=12),
            Line2D([], [], color=GREY, lw=1.2, label="device reports to head"),
            Line2D([], [], color=DARK, lw=1, ls="--", alpha=0.6, label=server_key(planned)),
        ]
    keys.append(Line2D([], [], marker="s", ls="", color=DARK, label="server", ms=9))
    figure.legend(
        handles=keys, loc="outside lower center", ncols=len(keys), frameon=False, fontsize=9.5, handletextpad=0.5
    )


def _title(axes: Any, planned: Planned) -> None:
    """What is shown, what a cloud round takes, and how that compares."""
    title, words = headline(planned)
    lines = [words, *planned.compared[:2]]
    axes.set_title(title, loc="left", fontsize=15, weight="bold", parse_math=False, pad=8 + 15 * len(lines))
    axes.text(
        0, 1.012, "\n".join(lines), transform=axes.transAxes, fontsize=10.5, color=GREY, va="bottom", parse_math=False
    )


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

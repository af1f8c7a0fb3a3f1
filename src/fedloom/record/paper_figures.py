"""The plots of the report as matplotlib figures at the width of a paper's column, as PDF and PNG.

Same numbers, same colours, no titles: a caption says what a figure shows. `captions.md` lists the files with their
captions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedloom.record.axes import AXES
from fedloom.record.curves import mean_curve, method_styles, score_range
from fedloom.record.figure_style import CLUSTER_COLORS, NEUTRAL
from fedloom.record.files import write_whole
from fedloom.record.groupings import bridging, distinct_topologies, group_name
from fedloom.record.label_figures import clusters, ordered_clients
from fedloom.record.ledgers import LEDGER, hop_style, ledger_means, used_hops
from fedloom.record.maps import stands
from fedloom.record.measures import SHARES, measure_name
from fedloom.record.runs import Run, by_method, common_measure
from fedloom.record.statistics import LEAST
from fedloom.record.timeline import ACTIVITIES, cluster_names, dispatches, timeline_rounds

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLUMN_IN = 3.4  # inches: a column of the usual two-column formats
FONT_PT = 8
DASHES = {"solid": "-", "dash": "--", "dot": ":"}
STYLE: dict[str, Any] = {
    "font.size": FONT_PT,
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "grid.linewidth": 0.4,
    "grid.color": "#DFE3EA",
    "legend.frameon": False,
    "legend.fontsize": FONT_PT - 1,
    "legend.handlelength": 1.6,
    "lines.linewidth": 1.3,
    "pdf.fonttype": 42,  # letters stay letters
    "svg.fonttype": "none",
}


def write_figures(runs: Sequence[Run], folder: Path | str) -> list[Path]:
    """Write every figure into `folder` (made if need be), as PDF and PNG, with their captions; returns the paths."""
    import matplotlib

    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    written, captions = [], []
    with matplotlib.rc_context(STYLE):  # type: ignore[arg-type]
        for name, caption, draw, ratio in _all_figures(runs):
            figure = _draw(draw, ratio)
            for form in ("pdf", "png"):
                path = folder / f"{name}.{form}"
                dated = {"CreationDate": None} if form == "pdf" else None
                write_whole(path, partial(figure.savefig, format=form, dpi=300, metadata=dated))
                figure.set_layout_engine("none")  # everything has its place now
                written.append(path)
            captions.append(f"- **{name}**: {caption}\n")
    listed = folder / "captions.md"
    write_whole(listed, "".join(captions).encode())
    return [*written, listed]


Draw = Callable[["Axes"], None]


def _all_figures(runs: Sequence[Run]) -> Iterator[tuple[str, str, Draw, float]]:
    """Name, caption, what draws it, and height over width."""
    measure = measure_name(common_measure(runs))
    for x, axis in AXES.items():
        spread = "; bands are its 95 % interval" if _has_seeds(runs) else ""
        yield f"curves-{x}", f"{measure} against {axis.label}, mean over seeds{spread}.", _curves(runs, x), 0.7
    for methods, run in distinct_topologies(runs):
        who, name = ", ".join(methods), _slug(methods[0])
        yield f"map-{name}", f"Devices and clusters of {who} in the first cloud round, seed {run.seed}.", _map(run), 1.0
        if clusters(run).shares.shape[1]:
            caption = f"Label histograms of the devices, ordered by the clusters of {who}."
            yield f"labels-{name}", caption, _labels(run), 0.55
    means = ledger_means(runs)
    for what, (title, _) in LEDGER.items() if means else ():
        height = 0.25 + 0.09 * len(means)
        yield f"cost-{what}", f"{title} by hop, mean over seeds, whole runs.", _costs(runs, what), height
    for method, same in by_method(runs).items():
        for run in sorted((r for r in same if timeline_rounds(r)), key=lambda r: r.seed)[:1]:
            last = timeline_rounds(run)[-1]
            caption = f"What the devices of {method} did in cloud round {last}, cluster by cluster, seed {run.seed}."
            yield f"timeline-{_slug(method)}", caption, _timeline(run, last), 0.8


def _draw(draw: Draw, ratio: float) -> Figure:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(COLUMN_IN, COLUMN_IN * ratio), layout="constrained")
    draw(figure.subplots())
    return figure


def _curves(runs: Sequence[Run], x: str) -> Draw:
    def draw(axes: Axes) -> None:
        measure, axis, styles = common_measure(runs), AXES[x], method_styles(runs)
        size, unit = axis.unit(max(float(run.metrics[axis.column][-1]) for run in runs))
        for method, same in by_method(runs).items():
            curve, (color, dash) = mean_curve(same, x), styles[method]
            axes.plot(curve.x / size, curve.mean, color=color, linestyle=DASHES[dash], label=method)
            if curve.half is not None:
                low, high = curve.mean - curve.half, curve.mean + curve.half
                axes.fill_between(curve.x / size, low, high, color=color, alpha=0.18, linewidth=0)
        axes.set_xlabel(f"{axis.label} ({unit})" if unit else axis.label)
        axes.set_ylabel(measure_name(measure))
        shown = score_range(runs)
        if shown is not None:
            axes.set_ylim(*shown)
        if measure in SHARES:
            axes.yaxis.set_major_formatter("{x:.0%}")
        axes.set_xlim(left=0)
        axes.grid(True)
        axes.legend()

    return draw


def _map(run: Run) -> Draw:
    def draw(axes: Axes) -> None:
        from matplotlib.collections import LineCollection
        from matplotlib.patches import Circle

        place = run.first_place
        assert place is not None
        at = {int(c): (float(x), float(y)) for c, x, y in place.select("client", "x_m", "y_m").iter_rows()}
        where = stands(run, place, at)
        for centre, radius in zip(run.cells.get("centre_m") or [], run.cells.get("radius_m") or []):
            if radius is not None:
                outline = Circle(centre[:2], radius, fill=False, linestyle=":", linewidth=0.6, edgecolor=NEUTRAL)
                axes.add_patch(outline)
        several = set(bridging(place))
        pairs = place.select("client", "aggregator").iter_rows()
        links = [(at[client], where[aggregator]) for client, aggregator in pairs if aggregator in where]
        axes.add_collection(LineCollection(links, colors=NEUTRAL, linewidths=0.3, alpha=0.6, zorder=1))
        first = {
            int(c): int(n) for c, n in place.sort("aggregator", descending=True).select("client", "aggregator").rows()
        }
        for n in sorted(set(first.values())):
            mine = [at[c] for c, own in first.items() if own == n and c not in several]
            if mine:
                color = _color(n) if n >= 0 else NEUTRAL
                axes.scatter(
                    [x for x, _ in mine],
                    [y for _, y in mine],
                    s=9,
                    color=color,
                    marker="o" if n >= 0 else "x",
                    linewidths=0.5,
                    zorder=2,
                )
        if several:
            bridges = [at[c] for c in sorted(several)]
            axes.scatter(
                [x for x, _ in bridges],
                [y for _, y in bridges],
                s=14,
                marker="D",
                facecolor="white",
                edgecolor="#444444",
                linewidths=0.6,
                zorder=3,
            )
        marker = "*" if place["kind"][0] == "head" else "s"
        for n, point in where.items():
            axes.scatter(*point, s=50, marker=marker, color=_color(n), edgecolor="#222222", linewidths=0.6, zorder=4)
        axes.set_aspect("equal")
        axes.set_xlabel("x (m)")
        axes.set_ylabel("y (m)")

    return draw


def _labels(run: Run) -> Draw:
    def draw(axes: Axes) -> None:
        import numpy as np

        order, group, names = ordered_clients(run, 400)
        counts = np.asarray(run.clients["label_counts"], dtype=float)[order].T  # (C, clients)
        image = axes.imshow(counts, aspect="auto", cmap="Blues", vmin=0, interpolation="nearest", origin="lower")
        edges = [0, *(np.flatnonzero(np.diff(group)) + 1).tolist(), len(order)]
        for edge in edges[1:-1]:
            axes.axvline(edge - 0.5, color="#222222", linewidth=0.7)
        if len(edges) <= 9:
            middle = [(a + b - 1) / 2 for a, b in pairwise(edges)]
            axes.set_xticks(middle, [names[int(group[e])] for e in edges[:-1]], rotation=20)
        else:
            axes.set_xlabel("devices, cluster by cluster")
        axes.set_ylabel("class")
        assert axes.figure is not None
        axes.figure.colorbar(image, ax=axes, label="samples", shrink=0.9)

    return draw


def _costs(runs: Sequence[Run], what: str) -> Draw:
    def draw(axes: Axes) -> None:
        import numpy as np

        means, axis = ledger_means(runs), AXES[LEDGER[what][1]]
        size, unit = axis.unit(max(sum(hop[what] for hop in hops.values()) for hops in means.values()))
        left = np.zeros(len(means))
        for hop in used_hops(means):
            values = np.array([hops.get(hop, {}).get(what, 0.0) for hops in means.values()]) / size
            if values.any():
                name, color = hop_style(hop)
                axes.barh(list(means), values, left=left, color=color, label=name, height=0.6)
                left = left + values
        axes.invert_yaxis()
        axes.set_xlabel(unit)
        axes.legend(ncols=2, loc="lower left", bbox_to_anchor=(0, 1))

    return draw


def _timeline(run: Run, cloud_round: int) -> Draw:
    def draw(axes: Axes) -> None:
        import numpy as np
        from matplotlib.collections import PolyCollection

        found = dispatches(run, cloud_round)
        first = {int(k): int(n) for k, n in zip(found.client[::-1], found.group[::-1])}
        lines = {k: i for i, k in enumerate(sorted(first, key=lambda k: (first[k], k)))}
        y = np.array([lines[int(k)] for k in found.client])
        left = found.start_s.copy()
        for spans, (name, color) in zip(found.spans.T, ACTIVITIES.items()):
            bars = np.stack(
                [left, left, left + spans, left + spans, y - 0.425, y + 0.425, y + 0.425, y - 0.425], axis=1
            )
            corners = list(bars.reshape(-1, 2, 4).swapaxes(1, 2))  # of each bar, (4, 2)
            axes.add_collection(PolyCollection(corners, facecolor=color, label=name))
            left = left + spans
        axes.margins(x=0)
        axes.autoscale_view()
        arrival = found.start_s + found.spans[:, :3].sum(axis=1)
        for marked, marker, color, name in ((found.late, "x", "#D55E00", "late"), (found.lost, "^", "#000000", "lost")):
            if marked.any():
                x, lines_of = arrival[marked], y[marked]
                axes.scatter(x, lines_of, s=8, marker=marker, color=color, linewidths=0.7, label=name, zorder=3)
        names = cluster_names(run, cloud_round)
        ordered = [first[k] for k in lines]
        edges = [0, *(np.flatnonzero(np.diff(ordered)) + 1).tolist(), len(lines)]
        if len(edges) <= 13:
            middle = [(a + b - 1) / 2 for a, b in pairwise(edges)]
            axes.set_yticks(middle, [group_name(found.groups[ordered[e]], names) for e in edges[:-1]])
        for edge in edges[1:-1]:
            axes.axhline(edge - 0.5, color="#888888", linewidth=0.4)
        axes.invert_yaxis()
        axes.set_xlabel("seconds since the cloud round began")
        axes.legend(ncols=3, loc="lower left", bbox_to_anchor=(0, 1))

    return draw


def _has_seeds(runs: Sequence[Run]) -> bool:
    return any(len({run.seed for run in same}) >= LEAST for same in by_method(runs).values())


def _color(cluster: int) -> str:
    return CLUSTER_COLORS[int(cluster) % len(CLUSTER_COLORS)]


def _slug(method: str) -> str:
    """A method's label as part of a file's name.

    >>> _slug("fedprox:mu=0.1")
    'fedprox-mu-0.1'
    """
    return "".join(c if c.isalnum() or c in "._" else "-" for c in method)

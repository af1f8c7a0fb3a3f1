"""The ledgers of runs by hop, and the figure of them. Whatever was read from a file is escaped in the labels of figures."""

from __future__ import annotations

from collections.abc import Sequence

from fedloom.record.axes import AXES
from fedloom.record.figure import Figure
from fedloom.record.figure_style import NEUTRAL, label_text, shared_layout
from fedloom.record.runs import Run, by_method

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
    means, axis = ledger_means(runs), AXES[LEDGER[what][1]]
    largest = max((whole(hops, what) for hops in means.values()), default=0.0)
    size, unit = axis.unit(largest)
    layout = shared_layout(height=80 + 34 * max(len(means), 1), margin={"l": 10, "r": 14, "t": 4, "b": 46})
    figure = Figure(layout=layout | {"barmode": "stack", "bargap": 0.35})
    for hop in used_hops(means):
        values = [hops.get(hop, {}).get(what, 0.0) for hops in means.values()]
        if any(values):
            name, color = hop_style(hop)
            figure.add_bar(
                x=[value / size for value in values],
                y=[label_text(method) for method in means],
                orientation="h",
                name=name,
                marker={"color": color, "line": {"width": 0}},
                hovertext=[f"<b>{label_text(m)}</b><br>{name}: {axis.text(v)}" for m, v in zip(means, values)],
                hovertemplate="%{hovertext}<extra></extra>",
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
    return HOPS.get(hop, (label_text(" ".join(hop)), NEUTRAL))

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


Costs = dict[str, dict[tuple[str, str], dict[str, float]]]
"""By method or cluster, and by hop and direction: bytes, airtime_s and energy_j."""


def whole(hops: dict[tuple[str, str], dict[str, float]], what: str) -> float:
    """All hops together; `what` is a key of LEDGER."""
    return sum(hop[what] for hop in hops.values())


def ledger_means(runs: Sequence[Run]) -> Costs:
    """method -> (hop, direction) -> bytes, airtime_s and energy_j, the mean over its finished runs."""
    found: Costs = {}
    for method, same in by_method(runs).items():
        finished = [run.summary["ledger"] for run in same if run.summary is not None]
        for line in (line for ledger in finished for line in ledger):
            sums = found.setdefault(method, {}).setdefault((line["hop"], line["direction"]), dict.fromkeys(LEDGER, 0.0))
            for name in LEDGER:
                sums[name] += line[name] / len(finished)
    return found


def ledger_figure(runs: Sequence[Run], what: str) -> Figure:
    """Stacked bars by hop, one for each method; `what` is a key of LEDGER."""
    means = ledger_means(runs)
    height = 80 + 34 * max(len(means), 1)
    return cost_bars(means, [label_text(method) for method in means], what, height=height, bargap=0.35)


def cost_bars(costs: Costs, labels: Sequence[str], what: str, *, height: int, bargap: float) -> Figure:
    """Stacked bars of `what`, a key of LEDGER, in the colours of the hops: one for each of `costs`, with these labels (HTML)."""
    axis = AXES[LEDGER[what][1]]
    size, unit = axis.unit(max((whole(hops, what) for hops in costs.values()), default=0.0))
    layout = shared_layout(height=height, margin={"l": 10, "r": 14, "t": 4, "b": 46})
    figure = Figure(layout=layout | {"barmode": "stack", "bargap": bargap})
    for hop in used_hops(costs):
        values = [hops.get(hop, {}).get(what, 0.0) for hops in costs.values()]
        if any(values):
            name, color = hop_style(hop)
            figure.add_bar(
                x=[value / size for value in values],
                y=list(labels),
                orientation="h",
                name=name,
                marker={"color": color, "line": {"width": 0}},
                hovertext=[f"<b>{label}</b><br>{name}: {axis.text(v)}" for label, v in zip(labels, values)],
                hovertemplate="%{hovertext}<extra></extra>",
            )
    figure.update_xaxes(title=unit, rangemode="tozero")
    figure.update_yaxes(autorange="reversed", automargin=True, type="category", showgrid=False)
    return figure


def used_hops(means: Costs) -> list[tuple[str, str]]:
    """The hops in `means`: those of HOPS in its order, then others by name."""
    used = {hop for hops in means.values() for hop in hops}
    return [hop for hop in HOPS if hop in used] + sorted(used - set(HOPS))


def hop_style(hop: tuple[str, str]) -> tuple[str, str]:
    """(name, colour) of a hop; the name is escaped."""
    return HOPS.get(hop, (label_text(" ".join(hop)), NEUTRAL))

"""Outcomes on disk, and the page made of all that are there.

FOLDER/PAPER/ITEM-SCALE.json    what an item came to, with versions and settings
FOLDER/PAPER/PLOT-SCALE.svg     its pictures
FOLDER/PAPER.md                 the page: every outcome in the folder, whichever command made it
"""

import json
from collections.abc import Sequence
from dataclasses import asdict
from importlib import metadata
from pathlib import Path
from typing import Any

from fedloom.reproduce.paper import Item, Outcome, Paper, Plot
from fedloom.reproduce.verdicts import FAILS, HOLDS, OPEN

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")  # told apart by colour-blind readers too
MARKS = {HOLDS: "✔ holds", FAILS: "✘ does not hold", OPEN: "? undecided"}
MOST_INSIDE = 5  # lines or bars whose names find room inside the axes


def save(folder: Path, paper: Paper, item: Item, scale: str, outcome: Outcome, *, seeds: int, wall_s: float) -> None:
    """Write what the item came to, and its pictures."""
    place = folder / paper.key
    place.mkdir(parents=True, exist_ok=True)
    for plot in outcome.plots:
        draw(plot, place / f"{plot.key}-{scale}.svg")
    content = {
        "item": item.key,
        "title": item.title,
        "published": item.published,
        "scale": scale,
        "seeds": seeds,
        "wall_s": round(wall_s),
        "versions": {name: metadata.version(name) for name in ("fedloom", "torch")},
        **asdict(outcome),
    }
    (place / f"{item.key}-{scale}.json").write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def write_page(folder: Path, paper: Paper) -> Path:
    """The page of a paper, out of everything that was saved in the folder."""
    outcomes = [
        json.loads(file.read_text(encoding="utf-8"))
        for item in paper.items
        for scale in paper.scales
        if (file := folder / paper.key / f"{item.key}-{scale}.json").exists()
    ]
    parts = [f"# {paper.title}", paper.notes.strip(), _rules(paper), _overview(outcomes)]
    parts += [_section(paper, outcome) for outcome in outcomes]
    page = folder / f"{paper.key}.md"
    page.write_text("\n\n".join(parts) + "\n", encoding="utf-8")
    return page


def _rules(paper: Paper) -> str:
    return (
        f"Made by `fedloom reproduce {paper.key} --scale paper` or `laptop`, as each section says. A claim holds if the mean "
        "over seeds minus and plus one standard deviation both satisfy it, does not hold if neither does, and is undecided "
        "otherwise. What a paper says in words has been given a number in the claim; where ours leave the published ones, "
        "that is a result too."
    )


def _overview(outcomes: Sequence[dict[str, Any]]) -> str:
    lines = ["| item | scale | seeds | holds | does not hold | undecided |", "|---|---|---|---|---|---|"]
    for outcome in outcomes:
        states = [claim["verdict"]["state"] for claim in outcome["claims"]]
        counts = " | ".join(str(states.count(state)) for state in (HOLDS, FAILS, OPEN))
        lines.append(f"| {outcome['title']} | {outcome['scale']} | {outcome['seeds']} | {counts} |")
    return "\n".join(lines)


def _section(paper: Paper, outcome: dict[str, Any]) -> str:
    scale = outcome["scale"]
    minutes = outcome["wall_s"] / 60
    parts = [
        f"## {outcome['title']}",
        f"**Published**: {outcome['published']}",
        f"**Ours**: `fedloom reproduce {paper.key}:{outcome['item']} --scale {scale}`, {outcome['seeds']} "
        f"seed{'s' * (outcome['seeds'] > 1)}, {minutes:.1f} minutes of runs.",
        _markdown(
            ("claim", "measured", "verdict"),
            [(c["text"], c["verdict"]["measured"], MARKS[c["verdict"]["state"]]) for c in outcome["claims"]],
        ),
    ]
    for table in outcome["tables"]:
        parts += [f"{table['title']}:", _markdown(table["columns"], table["rows"])]
    for plot in outcome["plots"]:
        parts.append(f"![{plot['caption']}]({paper.key}/{plot['key']}-{scale}.svg)\n\n*{plot['caption']}*")
    return "\n\n".join(parts)


def _markdown(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def draw(plot: Plot, path: Path) -> None:
    """One picture as SVG, the same bytes for the same numbers."""
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    settings: dict[Any, Any] = {
        "svg.hashsalt": "fedloom",
        "svg.fonttype": "none",
        "font.size": 9,
        "axes.spines.top": False,
    }
    with matplotlib.rc_context(settings | {"axes.spines.right": False}):
        figure, axes = pyplot.subplots(figsize=(6.4, 3.8), layout="constrained")
        if plot.level is not None:
            axes.axhline(plot.level, color="0.6", linewidth=0.8)
        for i, series in enumerate(plot.series):
            (_bars if plot.kind == "bars" else _line)(axes, series, i, len(plot.series))
        if plot.ticks:
            axes.set_xticks(range(len(plot.ticks)), plot.ticks)
        axes.set_xlabel(plot.x_label)
        axes.set_ylabel(plot.y_label)
        if len(plot.series) > MOST_INSIDE:
            figure.legend(loc="outside right upper", frameon=False, fontsize=8)
        else:
            axes.legend(frameon=False, fontsize=8)
        figure.savefig(path, metadata={"Date": None})
        pyplot.close(figure)


def _line(axes: Any, series: Any, index: int, n: int) -> None:
    colour, many = COLOURS[series.colour % len(COLOURS)], len(series.x) > 20
    style = "--" if series.dashed else "-"
    axes.plot(
        series.x,
        series.y,
        style,
        color=colour,
        label=series.label,
        marker=None if many else "o",
        markersize=4,
        linewidth=1.4,
    )
    if series.low and many:
        axes.fill_between(series.x, series.low, series.high, color=colour, alpha=0.15, linewidth=0)
    elif series.low:
        axes.vlines(series.x, series.low, series.high, color=colour, linewidth=1)


def _bars(axes: Any, series: Any, index: int, n: int) -> None:
    width = 0.8 / n
    at = [x + (index - (n - 1) / 2) * width for x in series.x]
    axes.bar(at, series.y, width * 0.92, color=COLOURS[series.colour % len(COLOURS)], label=series.label)
    if series.low:
        axes.vlines(at, series.low, series.high, color="0.2", linewidth=1)

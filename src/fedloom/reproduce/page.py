"""Outcomes on disk, and the page made of all that are there.

FOLDER/PAPER/ITEM-SCALE.json    what an item came to, with versions and settings
FOLDER/PAPER/PLOT-SCALE.svg     its pictures
FOLDER/PAPER.md                 the page: every outcome in the folder, whichever command made it
FOLDER/README.md                the page of all papers, see `fedloom.reproduce.overview`
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from fedloom._versions import version_of
from fedloom.numbers import NUMBERS
from fedloom.record.files import json_bytes, write_whole
from fedloom.reproduce.overview import claims_of, comes_to, n_readings, took
from fedloom.reproduce.paper import Item, Outcome, Paper, Plot
from fedloom.reproduce.tally import OWN, REPEATED, is_current, tally
from fedloom.reproduce.verdicts import BUILT, FAILS, FEW, HOLDS, OPEN, OTHER_SCALE

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")  # told apart by colour-blind readers too
MARKS = {
    HOLDS: "✔ holds",
    FAILS: "✘ does not hold",
    OPEN: "? undecided",
    BUILT: "= by construction",
    OTHER_SCALE: "– not tested at this scale",
    FEW: "– too few seeds",
}
MOST_INSIDE = 5  # lines or bars whose names find room inside the axes


def save(
    folder: Path,
    paper: Paper,
    item: Item,
    scale: str,
    outcome: Outcome,
    *,
    seeds: int,
    n_runs: int,
    wall_s: float,
    seconds: Mapping[str, float] | None = None,
    own_data: Sequence[str] = (),
) -> None:
    """Write what the item came to, and its pictures. wall_s: of all its n_runs, one after the other; seconds: the same by the
    keys of its setups, as other items may have the same; own_data: datasets whose files were not the published ones."""
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
        "runs": n_runs,
        "wall_s": round(wall_s),
        **({"seconds": {key: round(value) for key, value in seconds.items()}} if seconds else {}),
        **({"own_data": list(own_data)} if own_data else {}),
        "numbers": NUMBERS,
        "versions": {name: version_of(name) for name in ("fedloom", "torch")},
        **asdict(outcome),
    }
    write_whole(place / f"{item.key}-{scale}.json", json_bytes(content))


def read_outcomes(folder: Path, paper: Paper) -> list[dict[str, Any]]:
    """Everything that was saved in the folder, in the order of the paper."""
    return [
        json.loads(file.read_text(encoding="utf-8"))
        for item in paper.items
        for scale in paper.scales
        if (file := folder / paper.key / f"{item.key}-{scale}.json").exists()
    ]


def write_pages(folder: Path, paper: Paper) -> Path:
    """The page of a paper, out of everything that was saved in the folder, and the page of all papers there."""
    from fedloom.reproduce import PAPERS, load
    from fedloom.reproduce.overview import write_overview

    page = write_page(folder, paper)
    write_overview(folder, [(p, read_outcomes(folder, p)) for p in map(load, PAPERS)])
    return page


def write_page(folder: Path, paper: Paper) -> Path:
    """The page of a paper, out of everything that was saved in the folder."""
    outcomes = read_outcomes(folder, paper)
    if not outcomes:
        raise ValueError(
            f"{folder / paper.key} holds no outcome of {paper.key}; make some: fedloom reproduce {paper.key}"
        )
    parts = [
        f"# {paper.name}",
        f"{paper.citation}.",
        *_totals(paper, outcomes),
        _overview(outcomes),
        _rules(paper),
        "## How it was done",
        paper.notes.strip(),
        *_readings(paper),
    ]
    parts += [_section(paper, outcome) for outcome in outcomes]
    page = folder / f"{paper.key}.md"
    write_whole(page, ("\n\n".join(parts) + "\n").encode())
    return page


def _totals(paper: Paper, outcomes: Sequence[Mapping[str, Any]]) -> list[str]:
    """What it comes to, a line for every scale; outcomes of another version of the numbers are not counted."""
    lines = []
    for scale in dict.fromkeys(o["scale"] for o in reversed(outcomes)):
        of_scale = [o for o in outcomes if o["scale"] == scale]
        n = tally(claims_of(of_scale))
        judged = n[HOLDS] + n[FAILS] + n[OPEN]
        rest = [
            f"{n[why]} {text}"
            for why, text in (
                (BUILT, "hold by construction"),
                (REPEATED, "repeat another item's"),
                (OTHER_SCALE, "are about figures that this scale does not test"),
                (FEW, "are of fewer than three seeds"),
                (OWN, "are questions of our own"),
            )
            if n[why]
        ]
        old = sum(not is_current(o) for o in of_scale)
        lines.append(
            f"**What it comes to at {scale} scale: {comes_to(claims_of(of_scale))}**. "
            f"Of {judged} claims judged, **{n[HOLDS]} hold, {n[FAILS]} do not, "
            f"{n[OPEN]} {'is' if n[OPEN] == 1 else 'are'} undecided**."
            + (f" Shown and not counted: {', '.join(rest)}." if rest else "")
            + f" {n_readings(len(paper.readings))}; {took(of_scale)}; `fedloom reproduce {paper.key} --scale {scale}`."
            + (
                f" {old} of the items below were made with another version of the numbers and are left out."
                if old
                else ""
            )
        )
    return lines


def _rules(paper: Paper) -> str:
    return (
        f"Made by `fedloom reproduce {paper.key} --scale paper` or `laptop`, as each section says. A claim holds if the 95 % "
        "interval of the mean over seeds (Student's t; brackets, or ± in tables) lies within it, does not hold if it lies "
        "outside, and is undecided otherwise; fewer than three seeds decide nothing. Runs with the same seed are compared. "
        "What a paper says in words has been given a number in the claim. Not counted are claims that could not have come out "
        "otherwise, those that another item has already, published figures beside runs of another size, and questions of our own."
    )


def _readings(paper: Paper) -> list[str]:
    if not paper.readings:
        return []
    rows = [(r.of, r.tried, r.outcome) for r in paper.readings]
    return [
        "## Readings tried",
        f"What the paper leaves open had to be read somehow; {len(rows)} readings were tried:",
        markdown(("of", "tried", "what came of it"), rows),
    ]


def _overview(outcomes: Sequence[Mapping[str, Any]]) -> str:
    rows = []
    for outcome in outcomes:
        n = tally(outcome["claims"])
        counts = " ".join(f"{n[state]} {MARKS[state][0]}" for state in (HOLDS, FAILS, OPEN) if n[state])
        others = sum(n.values()) - n[HOLDS] - n[FAILS] - n[OPEN]
        verdict = ", ".join(filter(None, (counts, f"{others} not counted" if others else "")))
        if not is_current(outcome):
            verdict = f"of another version, not counted: {verdict}"
        where = f"{outcome['title']}, {outcome['scale']} scale, {_seeds(outcome)}"
        rows.append((where, outcome["published"], outcome.get("ours") or "see below", verdict))
    return markdown(("item", "published", "ours", "verdict"), rows)


def _seeds(outcome: Mapping[str, Any]) -> str:
    return f"{outcome['seeds']} seed{'s' * (outcome['seeds'] > 1)}"


def _section(paper: Paper, outcome: Mapping[str, Any]) -> str:
    scale = outcome["scale"]
    made = outcome.get("numbers", 1)
    own = outcome.get("own_data", ())
    usual = {item.key: item.n_seeds(scale) for item in paper.items}.get(outcome["item"], outcome["seeds"])
    option = f" --seeds {outcome['seeds']}" if outcome["seeds"] != usual else ""
    option += f" --own-data {','.join(own)}" if own else ""
    other = f" The files of {' and '.join(own)} were not the published ones." if own else ""
    old = "" if is_current(outcome) else f" Made with version {made} of the numbers; this is version {NUMBERS}."
    parts = [
        f"## {outcome['title']}, {scale} scale",
        f"**Published**: {outcome['published']}",
        *([f"**Ours**: {outcome['ours']}"] if outcome.get("ours") else []),
        f"`fedloom reproduce {paper.key}:{outcome['item']} --scale {scale}{option}`, {_seeds(outcome)}, "
        f"{outcome['wall_s'] / 60:.1f} minutes of runs.{other}{old}",
        markdown(("claim", "measured", "n", "verdict"), [_claim_row(claim) for claim in outcome["claims"]]),
    ]
    for table in outcome["tables"]:
        parts += [f"{table['title']}:", markdown(table["columns"], table["rows"])]
    for plot in outcome["plots"]:
        parts.append(f"![{plot['caption']}]({paper.key}/{plot['key']}-{scale}.svg)\n\n*{plot['caption']}*")
    return "\n\n".join(parts)


def _claim_row(claim: Mapping[str, Any]) -> tuple[str, str, str, str]:
    verdict = claim["verdict"]
    mark = MARKS[verdict["state"]]
    if verdict["state"] == BUILT:
        mark += f": {claim['because']}"
    if claim.get("repeats"):
        mark = f"({mark}) repeats {claim['repeats']}"
    elif claim.get("own") and verdict["state"] not in (BUILT, OTHER_SCALE):
        mark = f"({mark}) a question of ours"
    return claim["text"], verdict["measured"].replace("; ", "<br>"), str(verdict.get("n") or "–"), mark


def markdown(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table."""
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
        if plot.log:
            axes.set_yscale("log")
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
        write_whole(path, lambda beside: figure.savefig(beside, format="svg", metadata={"Date": None}))
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

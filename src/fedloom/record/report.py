"""One HTML file that shows what runs did: table, curves, maps, labels, ledger, and how it was made.

The file holds everything it needs, plotly.js included, and loads nothing. Figures come from
`fedloom.record.figures`; whatever was read from a file is escaped.
"""

from __future__ import annotations

import html
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Any

from fedloom.record.comparison import AXES, NEVER, Column, Comparison, compare, costs_to_target, score_text
from fedloom.record.comparison import scores as score_column
from fedloom.record.comparison import totals as total_column
from fedloom.record.figures import (
    LEDGER,
    MOST_PLACES,
    SIGNS,
    aggregator_names,
    bridging,
    clusters,
    curves_figure,
    distinct_topologies,
    hop_style,
    labels_figure,
    ledger_figure,
    ledger_means,
    map_figure,
    method_styles,
    used_hops,
)
from fedloom.record.runs import Run, by_method, common_measure

if TYPE_CHECKING:
    import polars as pl
    from plotly.graph_objects import Figure


def write_report(runs: Sequence[Run], path: Path | str, title: str | None = None) -> Path:
    """Write the report of `runs` to `path` (its folder is made if need be) and return the path."""
    from plotly.offline import get_plotlyjs

    comparisons = {x: compare(runs, x) for x in AXES}
    title = title or str(runs[0].scenario.get("name") or "FedLoom report")
    sections = [
        _heading(runs, title, comparisons),
        _table(comparisons, method_styles(runs)),
        _curves(runs),
        _maps(runs),
        _labels(runs),
        _ledger(runs),
        _making(runs),
    ]
    page = Template(_asset("report.html")).substitute(
        title=html.escape(title),
        css=_asset("report.css"),
        js=_asset("report.js"),
        plotly=get_plotlyjs(),
        body="\n".join(section for section in sections if section),
    )
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(page, encoding="utf-8")
    return path


def _heading(runs: Sequence[Run], title: str, comparisons: dict[str, Comparison]) -> str:
    scenario, origin, methods = runs[0].scenario, runs[0].origin, by_method(runs)
    task = scenario.get("task") or {}
    model = task.get("model") or {}
    layers = f" ({', '.join(map(str, model['hidden']))})" if model.get("hidden") else ""
    n_params = origin.get("n_params")
    facts = {
        "scenario": scenario.get("name"),
        "dataset": origin.get("data") or task.get("dataset"),
        "model": f"{model.get('kind', 'own')}{layers}" + (f", {n_params:,} values" if n_params else ""),
        "devices": f"{len(runs[0].clients.get('n_samples') or []):,}",
        "cells": f"{len(runs[0].cells.get('centre_m') or []):,}",
        "methods": f"{len(methods)}",
        "seeds": ", ".join(map(str, sorted({run.seed for run in runs}))),
    }
    described = "".join(f"<div><dt>{k}</dt><dd>{_escape(v)}</dd></div>" for k, v in facts.items() if v)
    notes = "".join(f'<p class="warn">{_escape(w)}</p>' for w in comparisons["steps"].warnings)
    return (
        f'<header><h1>{_escape(title)}</h1><p class="lead">{_escape(scenario.get("description") or "")}</p>'
        f'<dl class="facts">{described}</dl></header>{notes}{_wins(comparisons)}'
    )


def _wins(comparisons: dict[str, Comparison]) -> str:
    """The best of the columns that matter, as cards; nothing where the methods do not differ."""
    first = comparisons["steps"]
    target = NEVER if first.target is None else score_text(first.measure, first.target)
    extreme = "highest" if first.higher_is_better else "lowest"
    columns: list[tuple[str, Column]] = [(f"{extreme} final {first.measure}", score_column(first, "final"))]
    for x, word in (("seconds", "soonest"), ("joules", "least energy"), ("bytes", "least traffic")):
        columns.append((f"{word} to reach {target}", costs_to_target(comparisons[x])))
    cards = []
    for what, column in columns:
        winners = [row.method for row, (_, best) in zip(first.rows, column) if best]
        if winners:
            value = next(text for text, best in column if best)
            cards.append(
                f'<div class="card"><span>{_escape(what)}</span><b>{_escape(value)}</b>'
                f"<span>{_escape(', '.join(winners))}</span></div>"
            )
    return f'<div class="wins">{"".join(cards)}</div>' if cards else ""


def _table(comparisons: dict[str, Comparison], styles: dict[str, tuple[str, str]]) -> str:
    first = comparisons["steps"]
    target = NEVER if first.target is None else score_text(first.measure, first.target)
    good: dict[str, list[tuple[str, Column]]] = {
        first.measure: [("final", score_column(first, "final")), ("best", score_column(first, "best"))],
        f"to reach {target}": [(AXES[x].name, costs_to_target(c)) for x, c in comparisons.items()],
    }
    budgets = {x: AXES[x].text(c.budget) + (" steps" if x == "steps" else "") for x, c in comparisons.items()}
    cost: dict[str, list[tuple[str, Column]]] = {
        f"{first.measure} with what every run spent": [
            (f"at {budgets[x]}", score_column(c, "at_budget")) for x, c in comparisons.items()
        ],
        "whole runs": [(axis.name, total_column(first, x)) for x, axis in AXES.items()],
    }
    return (
        '<section id="comparison"><h2>Comparison</h2>'
        '<p class="note">Mean ± sample standard deviation over seeds. The level to reach is the worst final value '
        "of any run, so that every run reaches it; counted to the first evaluation there. The best of each column "
        f"is bold.</p>{_grouped(first, good, styles)}{_grouped(first, cost, styles)}</section>"
    )


def _grouped(
    comparison: Comparison, groups: dict[str, list[tuple[str, Column]]], styles: dict[str, tuple[str, str]]
) -> str:
    """A table with a line for each method and columns in groups."""
    over = "".join(f'<th class="first" colspan="{len(g)}">{_escape(name)}</th>' for name, g in groups.items())
    sides = [("first" if i == 0 else "", name, column) for g in groups.values() for i, (name, column) in enumerate(g)]
    titles = "".join(f'<th class="{side}">{_escape(name)}</th>' for side, name, _ in sides)
    lines = []
    for i, row in enumerate(comparison.rows):
        cells = "".join(
            f'<td class="{side} best">{_escape(text)}</td>' if best else f'<td class="{side}">{_escape(text)}</td>'
            for side, (text, best) in ((side, column[i]) for side, _, column in sides)
        )
        lines.append(f"<tr>{_name_cell(row.method, styles)}<td>{row.n_seeds}</td>{cells}</tr>")
    return (
        f'<div class="card scroll"><table><thead><tr class="groups"><th></th><th></th>{over}</tr>'
        f"<tr><th>method</th><th>seeds</th>{titles}</tr></thead><tbody>{''.join(lines)}</tbody></table></div>"
    )


def _name_cell(method: str, styles: dict[str, tuple[str, str]]) -> str:
    return f'<th><div class="name">{_dot(styles[method][0])}<span>{_escape(method)}</span></div></th>'


def _curves(runs: Sequence[Run]) -> str:
    measure = common_measure(runs)
    chips = "".join(
        f'<button class="chip" type="button" aria-pressed="true" data-group="{i}">{_dot(color)}{_escape(method)}</button>'
        for i, (method, (color, _)) in enumerate(method_styles(runs).items())
    )
    band = (
        " The band is one standard deviation over seeds." if any(len(s) > 1 for s in by_method(runs).values()) else ""
    )
    cards = "".join(
        f'<div class="card"><h3>against {_escape(axis.label)}</h3>{_embed(curves_figure(runs, x), f"curves-{x}")}</div>'
        for x, axis in AXES.items()
    )
    return (
        f'<section id="curves" class="curves"><h2>{measure.capitalize() if measure == "accuracy" else "RMSE"} '
        f"against steps, seconds, joules and bytes</h2>"
        f'<p class="note">Press a method to hide or show it.{band}</p>'
        f'<div class="chips">{chips}</div><div class="grid">{cards}</div></section>'
    )


def _maps(runs: Sequence[Run]) -> str:
    groups = distinct_topologies(runs)
    if not groups:
        return ""
    cards, drawn = [], set()
    for i, (methods, run) in enumerate(groups):
        topology = run.topology
        assert topology is not None
        place = topology.filter(topology["cloud_round"] == topology["cloud_round"].min())
        figure = map_figure(run, MOST_PLACES // len(groups))
        drawn |= {trace.name for trace in figure.data}
        cards.append(
            f'<div class="card"><h3>{_escape(", ".join(methods))}</h3>{_embed(figure, f"map-{i}")}'
            f'<p class="note">{_escape(_map_words(run, place))}</p></div>'
        )
    seeds = ", ".join(map(str, sorted({run.seed for _, run in groups})))
    key = "".join(f"<span>{sign} {name}</span>" for name, sign in SIGNS.items() if name in drawn)
    return (
        '<section id="map"><h2>The map</h2><p class="note">Colours tell the clusters apart; dotted circles are the '
        f"reach of cells. Methods that group alike share a map. Seed {seeds}.</p>"
        f'<div class="chips">{key}</div><div class="grid">{"".join(cards)}</div></section>'
    )


def _map_words(run: Run, place: pl.DataFrame) -> str:
    """What the map shows, and which devices are in several clusters."""
    kind, n = place["kind"][0], len(aggregator_names(place))
    who = {"edge": "edge cluster", "head": "cluster with a head device"}.get(kind, "cluster")
    if kind == "cloud":
        words = "All devices report to the cloud."
    else:
        words = (
            f"{n} {who}{'s' if n > 1 else ''}." if kind == "edge" else f"{n} clusters, each with a device as its head."
        )
    idle = place.filter(place["aggregator"] < 0)["client"].to_list()
    for text, devices in (("report to several aggregators", bridging(place)), ("take no part", idle)):
        if devices:
            more = f" and {len(devices) - 30} more" if len(devices) > 30 else ""
            shown = ", ".join(map(str, devices[:30])) + more
            words += f" {len(devices)} devices {text}: {shown}."
    topology = run.topology
    n_rounds = 0 if topology is None else topology["cloud_round"].n_unique()
    return words + (f" The grouping was recorded {n_rounds} times." if n_rounds > 1 else "")


def _labels(runs: Sequence[Run]) -> str:
    groups = distinct_topologies(runs)
    if not groups:
        return ""
    cards = []
    for i, (methods, run) in enumerate(groups):
        found = clusters(run)
        words = ""
        if found.shares.shape[1]:
            n_samples = found.n_samples[:-1]
            mean = float((found.distance * n_samples).sum() / max(n_samples.sum(), 1))
            words = f'<p class="note">Mean distance, weighted by samples: {mean:.2f}</p>'
        cards.append(
            f'<div class="card"><h3>{_escape(", ".join(methods))}</h3>{_embed(labels_figure(run), f"labels-{i}")}'
            f"{words}</div>"
        )
    if clusters(groups[0][1]).shares.shape[1]:
        note = (
            "Share of each class in a cluster’s training samples, in percent. The number beside a cluster is the total "
            "variation distance of its labels to those of all devices: 0 is alike, 1 has no class in common."
        )
    else:
        note = "Training samples of each cluster; regression has no classes."
    return (
        f'<section id="labels"><h2>Who holds what</h2><p class="note">{note} First round.</p>'
        f'<div class="grid">{"".join(cards)}</div></section>'
    )


def _ledger(runs: Sequence[Run]) -> str:
    means = ledger_means(runs)
    if not means:
        return ""
    styles = method_styles(runs)
    legend = "".join(f"<span>{_dot(color)}{name}</span>" for name, color in map(hop_style, used_hops(means)))
    cards = "".join(
        f'<div class="card"><h3>{title}</h3>{_embed(ledger_figure(runs, what), f"ledger-{what}")}</div>'
        for what, (title, _) in LEDGER.items()
    )
    lines = []
    for method, hops in means.items():
        for hop in (hop for hop in used_hops(means) if hop in hops):
            cells = "".join(
                f"<td>{_escape(AXES[axis].text(hops[hop][what]))}</td>" for what, (_, axis) in LEDGER.items()
            )
            hop_name = hop_style(hop)[0]
            lines.append(f'<tr>{_name_cell(method, styles)}<td class="text">{hop_name}</td>{cells}</tr>')
    return (
        '<section id="ledger"><h2>Where the time and energy went</h2><p class="note">Mean over seeds, whole runs. '
        "Device-seconds are summed over devices that work at the same time, so there are more of them than simulated "
        f'seconds.</p><div class="chips">{legend}</div><div class="grid thirds">{cards}</div>'
        '<details><summary>All hops as a table</summary><div class="card scroll"><table><thead><tr><th>method</th>'
        "<th>hop</th><th>energy</th><th>traffic</th><th>device-seconds</th></tr></thead>"
        f"<tbody>{''.join(lines)}</tbody></table></div></details></section>"
    )


def _making(runs: Sequence[Run]) -> str:
    import yaml

    lines = []
    for run in runs:
        wall = AXES["seconds"].text(run.summary["wall_s"]) if run.summary else "unfinished"
        lines.append(
            f"<tr><th>{_escape(run.method)}</th><td>{run.seed}</td><td>{_escape(wall)}</td>"
            f'<td class="text">{_escape(run.origin.get("started", ""))}</td>'
            f'<td class="text">{_escape(run.path.name)}</td></tr>'
        )
    facts = "".join(
        f'<p class="note"><b>{name}</b>: {_escape("; or ".join(_distinct(runs, key)))}</p>'
        for key, name in (("versions", "Versions"), ("machine", "Machine"))
    )
    scenarios: dict[str, str] = {}
    for run in runs:
        text = yaml.safe_dump(run.scenario, sort_keys=False, allow_unicode=True)
        scenarios.setdefault(text, f"{run.scenario.get('name', 'scenario')}")
    details = "".join(
        f"<details><summary>Scenario {_escape(name)}, in full</summary><div class='card'><pre>{_escape(text)}</pre></div>"
        "</details>"
        for text, name in scenarios.items()
    )
    return (
        f'<section id="making"><h2>How it was made</h2>{facts}<details><summary>The {len(runs)} runs</summary>'
        '<div class="card scroll"><table><thead><tr><th>method</th><th>seed</th><th>wall time</th><th>started</th>'
        f"<th>folder</th></tr></thead><tbody>{''.join(lines)}</tbody></table></div></details>{details}</section>"
        "<footer>Made with FedLoom. Time, energy and traffic are simulated; figures can be saved as SVG.</footer>"
    )


def _distinct(runs: Sequence[Run], key: str) -> list[str]:
    """The different values of `origin[key]`, each as "name value, name value"."""
    texts = [", ".join(f"{k} {v}" for k, v in (run.origin.get(key) or {}).items()) or "not recorded" for run in runs]
    return list(dict.fromkeys(texts))


def _embed(figure: Figure, name: str) -> str:
    """The figure as data in the page. "<" is written so that no text of it can end the script element."""
    height = int(figure.layout.height)
    data = figure.to_json().replace("<", "\\u003c")
    return f'<div class="figure" id="{name}" style="height:{height}px"><script type="application/json">{data}</script></div>'


def _asset(name: str) -> str:
    return (resources.files("fedloom.record") / name).read_text(encoding="utf-8")


def _escape(value: Any) -> str:
    return html.escape(str(value))


def _dot(color: str) -> str:
    return f'<span class="dot" style="background:{color}"></span>'

"""One HTML file that shows what runs did: who wins, curves, maps, labels, timeline, costs, and how it was made.

The file holds everything it needs, plotly.js included, and loads nothing: numbers and plotly.js are compressed into it
and unpacked by the browser. Figures come from `fedloom.record.figures` and `fedloom.record.timeline`; curves and
timelines are drawn by report.js from tables, so that they can be switched. Whatever was read from a file is escaped.
"""

from __future__ import annotations

import base64
import gzip
import html
import json
import shlex
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Any

from fedloom.record.axes import AXES, NEVER, score_text
from fedloom.record.comparison import Comparison, compare
from fedloom.record.comparison_table import BEST, CAPTION, Column, costs_to_target, other_scores
from fedloom.record.comparison_table import scores as score_column
from fedloom.record.comparison_table import totals as total_column
from fedloom.record.curves import curve_data, method_styles
from fedloom.record.figures import (
    LEDGER,
    MOST_CLIENTS,
    MOST_PLACES,
    SIGNS,
    aggregator_names,
    bridging,
    client_labels_figure,
    clusters,
    distinct_topologies,
    head_powers,
    hop_style,
    labels_figure,
    ledger_figure,
    ledger_means,
    map_figure,
    used_hops,
    whole,
)
from fedloom.record.files import write_page
from fedloom.record.headline import headlines
from fedloom.record.measures import TABLES, measure_meaning, measure_name
from fedloom.record.runs import Run, by_method, common_measure
from fedloom.record.statistics import LEAST
from fedloom.record.timeline import (
    ACTIVITIES,
    FEATURES,
    cluster_cost_figure,
    cluster_costs,
    does_not_add_up,
    timeline_data,
)

if TYPE_CHECKING:
    import polars as pl
    from plotly.graph_objects import Figure

MOST_MAPS = 12  # different topologies shown
SECTIONS = {
    "answers": "Answers",
    "comparison": "Table",
    "curves": "Curves",
    "map": "Map",
    "labels": "Data",
    "timeline": "Timeline",
    "ledger": "Costs",
    "making": "How it was made",
}


class _Figures:
    """The figures of a page by their names, and the elements that stand for them."""

    def __init__(self) -> None:
        self.drawn: dict[str, Any] = {}

    def embed(self, figure: Figure, name: str, title: str, caption: str, before: str = "", after: str = "") -> str:
        """A card with a title, what is before the figure, its place, a caption and buttons to save it; all escaped."""
        self.drawn[name] = json.loads(figure.to_json())
        return card(name, int(figure.layout.height), title, caption, before, after)


def card(name: str, height: int, title: str, caption: str, before: str = "", after: str = "") -> str:
    """The place of figure `name`; `before`, `after`, title and caption are HTML."""
    buttons = "".join(
        f'<button type="button" data-save="{form}" data-for="{name}" title="Save this figure as {form.upper()}">'
        f"{form.upper()}</button>"
        for form in ("svg", "png", "csv")
    )
    heading = f"<h3>{title}</h3>" if title else ""
    return (
        f'<figure class="card">{heading}{before}<div class="figure" id="{name}" style="height:{height}px"></div>{after}'
        f'<figcaption>{caption}</figcaption><div class="save">{buttons}</div></figure>'
    )


def write_report(runs: Sequence[Run], path: Path | str, title: str | None = None, target: float | None = None) -> Path:
    """Write the report of `runs` to `path` (its folder is made if need be) and return the path.

    target: the accuracy or rmse to reach, by default the worst final value of any run.
    """
    from plotly.offline import get_plotlyjs

    comparisons = {x: compare(runs, x, target) for x in AXES}
    title = title or str(runs[0].scenario.get("name") or "FedLoom report")
    figures = _Figures()
    timelines = timeline_data(runs)
    sections = {
        "answers": _answers(runs, comparisons),
        "comparison": _table(comparisons, method_styles(runs)),
        "curves": _curves(runs),
        "map": _maps(runs, figures),
        "labels": _labels(runs, figures),
        "timeline": _timeline(timelines),
        "ledger": _ledger(runs, figures),
        "making": _making(runs),
    }
    links = "".join(f'<a href="#{name}">{SECTIONS[name]}</a>' for name, section in sections.items() if section)
    data = {
        "title": title,
        "figures": figures.drawn,
        "curves": curve_data(runs),
        "timelines": timelines,
        "activities": ACTIVITIES,
        "scenarios": _scenario_files(runs),
    }
    page = Template(_asset("report.html")).substitute(
        title=html.escape(title),
        css=_asset("report.css"),
        js=_asset("report.js"),
        plotly=_packed(get_plotlyjs()),
        data=_packed(json.dumps(data, separators=(",", ":"), allow_nan=False)),
        links=links,
        header=_heading(runs, title, comparisons),
        body="\n".join(section for section in sections.values() if section),
    )
    path = Path(path)
    write_page(path, page.encode())
    return path


def _packed(text: str) -> str:
    """Compressed, in letters that can stand in a page; the same text gives the same letters."""
    return base64.b64encode(gzip.compress(text.encode(), 6, mtime=0)).decode()


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
        "seed" if len({run.seed for run in runs}) == 1 else "seeds": ", ".join(
            map(str, sorted({run.seed for run in runs}))
        ),
    }
    described = "".join(f"<div><dt>{k}</dt><dd>{_escape(v)}</dd></div>" for k, v in facts.items() if v)
    notes = "".join(f'<p class="warn">{_escape(w)}</p>' for w in comparisons["steps"].warnings)
    return (
        f'<header><h1>{_escape(title)}</h1><p class="lead">{_escape(scenario.get("description") or "")}</p>'
        f'<dl class="facts">{described}</dl></header>{notes}'
    )


def _answers(runs: Sequence[Run], comparisons: dict[str, Comparison]) -> str:
    """What was compared, and a sentence for every question."""
    methods, styles = list(by_method(runs)), method_styles(runs)
    n_seeds = len({run.seed for run in runs})
    seeds = f"{n_seeds} seed{'s' if n_seeds > 1 else ''}"
    what = f"{_listed(methods)} with {seeds}" if len(methods) > 1 else f"One method, {methods[0]}, with {seeds}"
    compared = f"{what} on the same scenario." if len(methods) > 1 else f"{what}: there is nothing to compare it with."
    lines = []
    for line in headlines(comparisons):
        answer = _escape(line.answer)
        if line.winner is not None:
            name = _escape(line.winner)
            answer = answer.replace(name, f"{_dot(styles[line.winner][0])}<b>{name}</b>", 1)
        lines.append(f"<div><dt>{_escape(line.question)}</dt><dd>{answer}</dd></div>")
    return (
        f'<section id="answers"><p class="compared">{_escape(compared)}</p>'
        f'<dl class="answers card">{"".join(lines)}</dl>'
        f'<p class="note">± is half of the 95 % interval of a mean over seeds (Student’s t). A method wins only if the interval '
        f"of its differences seed by seed to every other method excludes zero, with {LEAST} or more seeds; with fewer, nobody "
        "does.</p></section>"
    )


def _table(comparisons: dict[str, Comparison], styles: dict[str, tuple[str, str]]) -> str:
    first = comparisons["steps"]
    target = NEVER if first.target is None else score_text(first.measure, first.target)
    good: dict[str, list[tuple[str, Column]]] = {
        first.measure: [("final", score_column(first, "final")), (BEST, score_column(first, "best"))],
        f"to reach {target}": [(AXES[x].name, costs_to_target(c)) for x, c in comparisons.items()],
    }
    budgets = {x: AXES[x].text(c.budget) + (" steps" if x == "steps" else "") for x, c in comparisons.items()}
    cost: dict[str, list[tuple[str, Column]]] = {
        f"{first.measure} with what every run spent": [
            (f"at {budgets[x]}", score_column(c, "at_budget")) for x, c in comparisons.items()
        ],
        "whole runs": [(axis.name, total_column(first, x)) for x, axis in AXES.items()],
    }
    others = {
        f"{title}, final accuracy by": [
            (words, other_scores(first, name)) for name, words in names.items() if name in first.others
        ]
        for title, names in TABLES.items()
    }
    others = {title: columns for title, columns in others.items() if columns}
    meanings = "".join(
        f"<div><dt>{_escape(_capital(measure_name(name)))}</dt><dd>{_escape(_capital(measure_meaning(name)))}.</dd></div>"
        for name in first.others
    )
    more = (
        f"{_grouped(first, others, styles)}<details class='words print' open><summary>What these measures are</summary>"
        f'<dl class="answers card">{meanings}</dl></details>'
        if others
        else ""
    )
    return (
        '<section id="comparison"><h2>Table</h2>'
        f'<p class="note">{_capital(CAPTION)}. The level to reach is, unless one was given, the worst final value of any '
        "run, so that every run reaches it; counted to the first evaluation there.</p>"
        f"{_grouped(first, good, styles)}{_grouped(first, cost, styles)}{more}</section>"
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
        f'<div class="card scroll" tabindex="0"><table><thead><tr class="groups"><th></th><th></th>{over}</tr>'
        f"<tr><th>method</th><th>seeds</th>{titles}</tr></thead><tbody>{''.join(lines)}</tbody></table></div>"
    )


def _name_cell(method: str, styles: dict[str, tuple[str, str]]) -> str:
    return f'<th><div class="name">{_dot(styles[method][0])}<span>{_escape(method)}</span></div></th>'


def _curves(runs: Sequence[Run]) -> str:
    measure = common_measure(runs)
    chips = "".join(
        f'<button class="chip" type="button" aria-pressed="true" data-method="{i}">{_dot(color)}{_escape(method)}</button>'
        for i, (method, (color, _)) in enumerate(method_styles(runs).items())
    )
    band = any(len({run.seed for run in same}) >= LEAST for same in by_method(runs).values())
    caption = (
        f'<span id="curves-words">{_escape(_capital(measure_name(measure)))}</span>. Mean over seeds'
        + ("; the band is its 95 % interval." if band else f"; a band needs {LEAST} seeds.")
        + " Runs that end earlier hold their last value. The first twentieth of the runs may lie outside; “from the start” "
        "shows it. Press a method to hide or show it."
    )
    controls = (
        '<div class="controls"><label>against '
        f"{_switch('curves-x', {x: axis.label for x, axis in AXES.items()})}</label>"
        '<label>show <select id="curves-measure" aria-label="measure"></select></label>'
        '<label><input type="checkbox" id="curves-whole"> from the start</label></div>'
        f'<div class="chips">{chips}</div>'
    )
    return f'<section id="curves"><h2>Curves</h2>{card("curve", 420, "", caption, controls)}</section>'


def _switch(name: str, choices: dict[str, str]) -> str:
    """Buttons of which one is pressed."""
    buttons = "".join(
        f'<button type="button" data-value="{value}" aria-pressed="{str(i == 0).lower()}">{text}</button>'
        for i, (value, text) in enumerate(choices.items())
    )
    return f'<span class="switch" id="{name}" role="group">{buttons}</span>'


def _maps(runs: Sequence[Run], figures: _Figures) -> str:
    groups = distinct_topologies(runs)
    if not groups:
        return ""
    shown = groups[:MOST_MAPS]
    cards, drawn = [], set()
    for i, (methods, run) in enumerate(shown):
        place = run.first_place
        assert place is not None
        figure = map_figure(run, MOST_PLACES // len(shown))
        drawn |= {trace.name for trace in figure.data}
        rounds = figure.layout.meta["rounds"]
        slider = _round_slider(f"map-{i}", rounds) if len(rounds) > 1 else ""
        words = _escape(_map_words(run, place))
        cards.append(figures.embed(figure, f"map-{i}", _escape(", ".join(methods)), words, after=slider))
    seeds = ", ".join(map(str, sorted({run.seed for _, run in shown})))
    key = "".join(f"<span>{sign} {name}</span>" for name, sign in SIGNS.items() if name in drawn)
    return (
        '<section id="map"><h2>The map</h2><p class="note">Colours tell the clusters apart; dotted circles are the '
        "reach of cells, rectangles regions; lines go to a device’s aggregators. Methods that group alike share a map. "
        f"Seed {seeds}."
        f"{_left_out(groups)}</p>"
        f'<div class="chips key">{key}</div><div class="grid">{"".join(cards)}</div></section>'
    )


def _left_out(groups: Sequence[Any]) -> str:
    more = len(groups) - MOST_MAPS
    return f" {more} more groupings are not shown." if more > 0 else ""


def _round_slider(name: str, rounds: Sequence[int]) -> str:
    """A slider over cloud rounds with a button to play them."""
    return (
        f'<div class="controls rounds"><button type="button" class="play" data-for="{name}" aria-label="play">▶</button>'
        f'<input type="range" data-for="{name}" min="0" max="{len(rounds) - 1}" value="0" step="1" '
        f'aria-label="cloud round"><output data-for="{name}">from cloud round {rounds[0]}</output></div>'
    )


def _map_words(run: Run, place: pl.DataFrame) -> str:
    """What the map shows, and which devices are in several clusters."""
    kind, n = place["kind"][0], len(aggregator_names(place))
    if kind == "cloud":
        words = "Where the devices are. All of them report to the cloud."
    elif kind == "edge":
        words = f"Where the devices are, and the {n} edge cluster{'s' if n > 1 else ''} they report to."
    else:
        words = f"Where the devices are, and the {n} clusters they form, each with a device as its head."
        if head_powers(place):
            words += " Beside heads: the power they were given to send with."
    idle = place.filter(place["aggregator"] < 0)["client"].to_list()
    for text, devices in (("report to several aggregators", bridging(place)), ("take no part", idle)):
        if devices:
            more = f" and {len(devices) - 30} more" if len(devices) > 30 else ""
            shown = ", ".join(map(str, devices[:30])) + more
            words += f" {len(devices)} devices {text}: {shown}."
    topology = run.topology
    n_rounds = 0 if topology is None else topology["cloud_round"].n_unique()
    return words + (f" It changed {n_rounds - 1} times; the slider moves through the rounds." if n_rounds > 1 else "")


def _labels(runs: Sequence[Run], figures: _Figures) -> str:
    groups = distinct_topologies(runs)
    if not groups:
        return ""
    shown = groups[:MOST_MAPS]
    cards = []
    for i, (methods, run) in enumerate(shown):
        found = clusters(run)
        names = _escape(", ".join(methods))
        n_clients = len(run.clients["n_samples"])
        some = f" ({MOST_CLIENTS} of {n_clients:,} are shown)" if n_clients > MOST_CLIENTS else ""
        if found.shares.shape[1]:
            n_samples = found.n_samples[:-1]
            mean = float((found.distance * n_samples).sum() / max(n_samples.sum(), 1))
            each = f"Samples of each class that every device holds, cluster by cluster{some}.{_shared(run)}"
            share = (
                "Share of each class in a cluster’s samples, in percent. The number beside a cluster is its divergence "
                "from all devices, the total variation distance of its labels: 0 is alike, 1 has no class in common. "
                f"Mean distance, weighted by samples: {mean:.2f}.{_counted(run)}"
            )
        else:
            each = (
                f"Training samples of every device, cluster by cluster{some}; regression has no classes.{_shared(run)}"
            )
            share = f"Training samples of each cluster.{_counted(run)}"
        most = max(50, 2 * MOST_CLIENTS // len(shown))
        figure = client_labels_figure(run, min(MOST_CLIENTS, most))
        cards.append(figures.embed(figure, f"clients-{i}", f"{names}: devices", each))
        cards.append(figures.embed(labels_figure(run), f"labels-{i}", f"{names}: clusters", share))
    return (
        '<section id="labels"><h2>Who holds what</h2><p class="note">Training data as it was shared out, grouped as in '
        f"the first cloud round.{_left_out(groups)}</p>"
        f'<div class="grid">{"".join(cards)}</div></section>'
    )


def _shared(run: Run) -> str:
    """Where devices of several clusters stand, if there are any."""
    several = run.first_place is not None and bridging(run.first_place)
    return " Devices that report to several aggregators stand in groups of their own, once each." if several else ""


def _counted(run: Run) -> str:
    """How devices of several clusters count for clusters, if there are any."""
    several = run.first_place is not None and bridging(run.first_place)
    return " A device of several clusters counts in each, and once among all devices." if several else ""


def _timeline(timelines: Sequence[dict[str, Any]]) -> str:
    if not timelines:
        return (
            '<section id="timeline"><h2>Who did what, when</h2><p class="note">These runs left no timeline: they are '
            "unfinished, or were made without one.</p></section>"
        )
    options = "".join(f'<option value="{i}">{_escape(t["method"])}</option>' for i, t in enumerate(timelines))
    key = "".join(f"<span>{_dot(color)}{name}</span>" for name, color in ACTIVITIES.items())
    controls = (
        f'<div class="controls"><label>method <select id="timeline-method" aria-label="method">{options}</select></label>'
        '<label class="rounds">cloud round <input type="range" id="timeline-round" min="0" value="0" step="1" '
        'aria-label="cloud round"><output id="timeline-output"></output></label></div>'
        f'<div class="chips key">{key}<span>✕ late</span><span>◆ moved</span></div>'
    )
    what = (
        '<b id="timeline-what"></b> Every line is a device, cluster by cluster: it fetches the model, trains, uploads, and its '
        "update waits to be merged. Devices that report to several aggregators are groups of their own, such as edges 0 + 1. A "
        "cross marks an update that missed its deadline, a diamond a device that moved between cells. Empty "
        '<span id="timeline-words">is idle</span>.'
    )
    use = (
        "Share of the devices’ time in this cloud round that each group of devices with the same aggregators spent on what; "
        "every device counts once, the rest is idle."
    )
    return (
        '<section id="timeline"><h2>Who did what, when</h2>'
        f"{card('timeline-plot', 460, '', what, controls)}<div class='gap'></div>"
        f"{card('utilisation', 240, 'Utilisation', use)}</section>"
    )


def _ledger(runs: Sequence[Run], figures: _Figures) -> str:
    means = ledger_means(runs)
    if not means:
        return ""
    styles = method_styles(runs)
    legend = "".join(f"<span>{_dot(color)}{name}</span>" for name, color in map(hop_style, used_hops(means)))
    captions = {
        "energy_j": "Joules of computing and of every hop, mean over seeds, whole runs.",
        "bytes": "Bytes over every hop, mean over seeds, whole runs.",
        "airtime_s": "Seconds that devices compute and send, summed over devices that work at the same time, so there are "
        "more of them than simulated seconds.",
    }
    cards = "".join(
        figures.embed(ledger_figure(runs, what), f"ledger-{what}", title, captions[what])
        for what, (title, _) in LEDGER.items()
    )
    table = _cost_table(
        "method", {method: (_name_cell(method, styles), hops) for method, hops in means.items()}, used_hops(means)
    )
    return (
        '<section id="ledger"><h2>What it cost</h2><p class="note">By hop, and by cluster where that was recorded: '
        "everything that was sent or computed is in each of these, once.</p>"
        f'<div class="chips key">{legend}</div><div class="grid thirds">{cards}</div>'
        f'<details class="print"><summary>All hops as a table</summary>{table}</details>'
        f"{_cluster_costs(runs, figures)}</section>"
    )


Hops = dict[tuple[str, str], dict[str, float]]


def _cost_table(what: str, lines: dict[str, tuple[str, Hops]], hops: Sequence[tuple[str, str]], total: str = "") -> str:
    """Joules, bytes and device-seconds of every line (its head as HTML, its costs) and hop, with a line of each one's total;
    total: the name of a last line for all of them together, if there shall be one."""

    def cells(values: dict[str, float]) -> str:
        return "".join(f"<td>{_escape(AXES[axis].text(values[name]))}</td>" for name, (_, axis) in LEDGER.items())

    rows = []
    for head, costs in lines.values():
        rows += [
            f'<tr>{head}<td class="text">{hop_style(hop)[0]}</td>{cells(costs[hop])}</tr>'
            for hop in hops
            if hop in costs and any(costs[hop].values())
        ]
        rows.append(
            f'<tr class="total">{head}<td class="text">together</td>{cells({n: whole(costs, n) for n in LEDGER})}</tr>'
        )
    if total:
        everything = {n: sum(whole(costs, n) for _, costs in lines.values()) for n in LEDGER}
        rows.append(
            f'<tr class="total"><th>{_escape(total)}</th><td class="text">all hops</td>{cells(everything)}</tr>'
        )
    return (
        f'<div class="card scroll" tabindex="0"><table><thead><tr><th>{what}</th><th class="text">hop</th><th>energy</th>'
        f"<th>traffic</th><th>device-seconds</th></tr></thead><tbody>{''.join(rows)}</tbody></table></div>"
    )


def _cluster_costs(runs: Sequence[Run], figures: _Figures) -> str:
    """A row of three figures and a table for each method: of its run with the lowest seed that has its costs by cluster."""
    titles = {"energy_j": "energy", "bytes": "traffic", "airtime_s": "device-seconds"}
    shown = [
        min(known, key=lambda run: run.seed)
        for same in by_method(runs).values()
        if (known := [run for run in same if run.costs is not None])
    ]
    if not shown:
        return '<p class="note">These runs left no costs by cluster: they are unfinished, or were made without.</p>'
    parts = []
    for i, run in enumerate(shown[:MOST_MAPS]):
        costs = cluster_costs(run)
        assert costs is not None
        seed = f"Whole run, seed {run.seed}"
        cards = "".join(
            figures.embed(
                cluster_cost_figure(run, what),
                f"cost-{i}-{what}",
                f"{_escape(run.method)}: {title} by cluster",
                f"{_capital(title)} by cluster and hop. {seed}: {AXES[LEDGER[what][1]].text(_total(costs, what))} in all.",
            )
            for what, title in titles.items()
        )
        table = _cost_table(
            "cluster",
            {name: (f"<th>{_escape(name)}</th>", hops) for name, hops in costs.items()},
            used_hops(costs),
            total="all clusters",
        )
        wrong = "".join(f'<p class="warn">Does not add up: {_escape(line)}.</p>' for line in does_not_add_up(run))
        parts.append(
            f'<div class="grid thirds">{cards}</div>{wrong}<details class="print"><summary>{_escape(run.method)} by cluster as '
            f"a table, seed {run.seed}</summary>{table}</details>"
        )
    more = f" {len(shown) - MOST_MAPS} more methods are not shown." if len(shown) > MOST_MAPS else ""
    return (
        '<h3 class="over">By cluster</h3><p class="note">In the colours of the hops above. A link counts for the aggregator '
        "at its end; the computing of a device with several aggregators is shared evenly among them; what was sent for "
        f"grouping belongs to no cluster and stands as “{FEATURES}”. The clusters of a run add up to all it cost.{more}</p>"
        + "<div class='gap'></div>".join(parts)
    )


def _total(costs: dict[str, Hops], what: str) -> float:
    return sum(whole(hops, what) for hops in costs.values())


def _scenario_files(runs: Sequence[Run]) -> dict[str, str]:
    """The different scenarios of the runs, as YAML by the name of a file."""
    import yaml

    texts = dict.fromkeys(yaml.safe_dump(run.scenario, sort_keys=False, allow_unicode=True) for run in runs)
    if len(texts) == 1:
        return {"scenario.yaml": next(iter(texts))}
    return {f"scenario-{i + 1}.yaml": text for i, text in enumerate(texts)}


def commands(runs: Sequence[Run]) -> list[str]:
    """What to type to make these runs again, given the files of their scenarios."""
    import yaml

    files = {text: name for name, text in _scenario_files(runs).items()}
    same: dict[str, list[Run]] = {}
    for run in runs:
        same.setdefault(files[yaml.safe_dump(run.scenario, sort_keys=False, allow_unicode=True)], []).append(run)
    found = []
    for file, those in same.items():
        seeds = {method: sorted(run.seed for run in group) for method, group in by_method(those).items()}
        n = len(next(iter(seeds.values())))
        if all(s == list(range(n)) for s in seeds.values()) and len(those) > 1:
            methods = shlex.quote(",".join(seeds))
            found.append(f"fedloom compare {file} --methods {methods} --seeds {n}")
        else:
            found += [
                f"fedloom run {file} --method {shlex.quote(method)} --seed {seed}"
                for method, every in seeds.items()
                for seed in every
            ]
    return found


def _making(runs: Sequence[Run]) -> str:
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
    scenarios = _scenario_files(runs)
    buttons = " ".join(
        f'<button type="button" data-scenario="{name}">{name}</button>' for name in list(scenarios)[:MOST_MAPS]
    )
    typed = "\n".join(commands(runs))
    details = "".join(
        f"<details><summary>{_escape(name)}: all settings</summary><div class='card'><pre>{_escape(text)}</pre></div>"
        "</details>"
        for name, text in list(scenarios.items())[:MOST_MAPS]
    )
    return (
        '<section id="making"><h2>How it was made</h2>'
        f'<p class="note">To make it again, with the same version of fedloom: save <span class="save">{buttons}</span> and '
        f"type</p><div class='card'><pre id='command'>{_escape(typed)}</pre></div>"
        f"<details><summary>The {len(runs)} runs</summary>"
        '<div class="card scroll" tabindex="0"><table><thead><tr><th>method</th><th>seed</th><th>wall time</th>'
        '<th class="text">started</th><th class="text">folder</th></tr>'
        f"</thead><tbody>{''.join(lines)}</tbody></table></div></details>{details}"
        f"<div class='gap'></div>{facts}</section>"
        "<footer>Made with FedLoom. Time, energy and traffic are simulated.</footer>"
    )


def _distinct(runs: Sequence[Run], key: str) -> list[str]:
    """The different values of `origin[key]`, each as "name value, name value"."""
    texts = [", ".join(f"{k} {v}" for k, v in (run.origin.get(key) or {}).items()) or "not recorded" for run in runs]
    return list(dict.fromkeys(texts))


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _capital(words: str) -> str:
    return words[:1].upper() + words[1:]


def _asset(name: str) -> str:
    return (resources.files("fedloom.record") / name).read_text(encoding="utf-8")


def _escape(value: Any) -> str:
    return html.escape(str(value))


def _dot(color: str) -> str:
    return f'<span class="dot" style="background:{color}"></span>'

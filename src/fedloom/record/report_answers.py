"""Sections of the report that say who wins: the heading, answers, the table and the curves."""

from __future__ import annotations

from collections.abc import Sequence

from fedloom.record.axes import AXES, NEVER, score_text
from fedloom.record.comparison import Comparison
from fedloom.record.comparison_table import BEST, CAPTION, Column, against_first, costs_to_target, other_scores
from fedloom.record.comparison_table import scores as score_column
from fedloom.record.comparison_table import totals as total_column
from fedloom.record.curves import method_styles
from fedloom.record.headline import headlines
from fedloom.record.measures import TABLES, measure_meaning, measure_name
from fedloom.record.report_elements import capital, card, dot, escape, name_cell, switch
from fedloom.record.runs import Run, by_method, common_measure
from fedloom.record.statistics import LEAST


def heading_section(runs: Sequence[Run], title: str, comparisons: dict[str, Comparison]) -> str:
    """Title, description, facts of the scenario, and warnings."""
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
    described = "".join(f"<div><dt>{k}</dt><dd>{escape(v)}</dd></div>" for k, v in facts.items() if v)
    notes = "".join(f'<p class="warn">{escape(w)}</p>' for w in comparisons["steps"].warnings)
    return (
        f'<header><h1>{escape(title)}</h1><p class="lead">{escape(scenario.get("description") or "")}</p>'
        f'<dl class="facts">{described}</dl></header>{notes}'
    )


def answers_section(runs: Sequence[Run], comparisons: dict[str, Comparison]) -> str:
    """What was compared, and a sentence for every question."""
    methods, styles = list(by_method(runs)), method_styles(runs)
    n_seeds = len({run.seed for run in runs})
    seeds = f"{n_seeds} seed{'s' if n_seeds > 1 else ''}"
    what = f"{_listed(methods)} with {seeds}" if len(methods) > 1 else f"One method, {methods[0]}, with {seeds}"
    compared = f"{what} on the same scenario." if len(methods) > 1 else f"{what}: there is nothing to compare it with."
    lines = []
    for line in headlines(comparisons):
        answer = escape(line.answer)
        if line.winner is not None:
            name = escape(line.winner)
            answer = answer.replace(name, f"{dot(styles[line.winner][0])}<b>{name}</b>", 1)
        lines.append(f"<div><dt>{escape(line.question)}</dt><dd>{answer}</dd></div>")
    return (
        f'<section id="answers"><p class="compared">{escape(compared)}</p>'
        f'<dl class="answers card">{"".join(lines)}</dl>'
        f'<p class="note">± is half of the 95 % interval of a mean over seeds (Student’s t). A method wins only if the interval '
        f"of its differences seed by seed to every other method excludes zero, with {LEAST} or more seeds; with fewer, nobody "
        "does.</p></section>"
    )


def table_section(comparisons: dict[str, Comparison], styles: dict[str, tuple[str, str]]) -> str:
    """Scores and costs of all methods, and other measures where there are any."""
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
    against = {f"against {first.rows[0].method}": list(against_first(first).items())} if len(first.rows) > 1 else {}
    others = {
        f"{title}, final accuracy by": [
            (words, other_scores(first, name)) for name, words in names.items() if name in first.others
        ]
        for title, names in TABLES.items()
    }
    others = {title: columns for title, columns in others.items() if columns}
    compared = _grouped(first, against, styles) if against else ""
    meanings = "".join(
        f"<div><dt>{escape(capital(measure_name(name)))}</dt><dd>{escape(capital(measure_meaning(name)))}.</dd></div>"
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
        f'<p class="note">{capital(CAPTION)}. The level to reach is, unless one was given, the worst final value of any '
        "run, so that every run reaches it; counted to the first evaluation there.</p>"
        f"{_grouped(first, good, styles)}{_grouped(first, cost, styles)}{compared}{more}</section>"
    )


def _grouped(
    comparison: Comparison, groups: dict[str, list[tuple[str, Column]]], styles: dict[str, tuple[str, str]]
) -> str:
    """A table with a line for each method and columns in groups."""
    over = "".join(f'<th class="first" colspan="{len(g)}">{escape(name)}</th>' for name, g in groups.items())
    sides = [("first" if i == 0 else "", name, column) for g in groups.values() for i, (name, column) in enumerate(g)]
    titles = "".join(f'<th class="{side}">{escape(name)}</th>' for side, name, _ in sides)
    lines = []
    for i, row in enumerate(comparison.rows):
        cells = "".join(
            f'<td class="{side} best">{escape(text)}</td>' if best else f'<td class="{side}">{escape(text)}</td>'
            for side, (text, best) in ((side, column[i]) for side, _, column in sides)
        )
        lines.append(f"<tr>{name_cell(row.method, styles)}<td>{row.n_seeds}</td>{cells}</tr>")
    return (
        f'<div class="card scroll" tabindex="0"><table><thead><tr class="groups"><th></th><th></th>{over}</tr>'
        f"<tr><th>method</th><th>seeds</th>{titles}</tr></thead><tbody>{''.join(lines)}</tbody></table></div>"
    )


def curves_section(runs: Sequence[Run]) -> str:
    """Measures against costs; the browser draws them."""
    measure = common_measure(runs)
    chips = "".join(
        f'<button class="chip" type="button" aria-pressed="true" data-method="{i}">{dot(color)}{escape(method)}</button>'
        for i, (method, (color, _)) in enumerate(method_styles(runs).items())
    )
    band = any(len({run.seed for run in same}) >= LEAST for same in by_method(runs).values())
    caption = (
        f'<span id="curves-words">{escape(capital(measure_name(measure)))}</span>. Mean over seeds'
        + ("; the band is its 95 % interval." if band else f"; a band needs {LEAST} seeds.")
        + " Runs that end earlier hold their last value. The first twentieth of the runs may lie outside; “from the start” "
        "shows it. Press a method to hide or show it."
    )
    controls = (
        '<div class="controls"><label>against '
        f"{switch('curves-x', {x: axis.label for x, axis in AXES.items()})}</label>"
        '<label>show <select id="curves-measure" aria-label="measure"></select></label>'
        '<label><input type="checkbox" id="curves-whole"> from the start</label></div>'
        f'<div class="chips">{chips}</div>'
    )
    return f'<section id="curves"><h2>Curves</h2>{card("curve", 420, "", caption, controls)}</section>'


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"

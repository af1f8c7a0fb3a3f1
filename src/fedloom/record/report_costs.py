"""Sections of the report that show who did what, when, and what it cost: the timeline and the ledger."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fedloom.record.axes import AXES
from fedloom.record.curves import method_styles
from fedloom.record.ledgers import LEDGER, hop_style, ledger_figure, ledger_means, used_hops, whole
from fedloom.record.report_elements import MOST_MAPS, Figures, capital, card, dot, escape, name_cell
from fedloom.record.runs import Run, by_method
from fedloom.record.timeline import ACTIVITIES, FEATURES, cluster_cost_figure, cluster_costs, does_not_add_up


def timeline_section(timelines: Sequence[dict[str, Any]]) -> str:
    """Who did what, when; the browser draws it."""
    if not timelines:
        return (
            '<section id="timeline"><h2>Who did what, when</h2><p class="note">These runs left no timeline: they are '
            "unfinished, or were made without one.</p></section>"
        )
    options = "".join(f'<option value="{i}">{escape(t["method"])}</option>' for i, t in enumerate(timelines))
    key = "".join(f"<span>{dot(color)}{name}</span>" for name, color in ACTIVITIES.items())
    controls = (
        f'<div class="controls"><label>method <select id="timeline-method" aria-label="method">{options}</select></label>'
        '<label class="rounds">cloud round <input type="range" id="timeline-round" min="0" value="0" step="1" '
        'aria-label="cloud round"><output id="timeline-output"></output></label></div>'
        f'<div class="chips key">{key}<span>✕ late</span><span>◆ moved</span><span>▲ lost</span></div>'
    )
    what = (
        '<b id="timeline-what"></b> Every line is a device, cluster by cluster: it fetches the model, trains, uploads, and its '
        "update waits to be merged. Devices that report to several aggregators are groups of their own, such as edges 0 + 1. A "
        "cross marks an update that missed its deadline, a diamond a device that moved between cells, a triangle where a device "
        "failed and its update was lost. Empty "
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


def ledger_section(runs: Sequence[Run], figures: Figures) -> str:
    """What it cost, by hop and by cluster."""
    means = ledger_means(runs)
    if not means:
        return ""
    styles = method_styles(runs)
    legend = "".join(f"<span>{dot(color)}{name}</span>" for name, color in map(hop_style, used_hops(means)))
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
        "method", {method: (name_cell(method, styles), hops) for method, hops in means.items()}, used_hops(means)
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
        return "".join(f"<td>{escape(AXES[axis].text(values[name]))}</td>" for name, (_, axis) in LEDGER.items())

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
        rows.append(f'<tr class="total"><th>{escape(total)}</th><td class="text">all hops</td>{cells(everything)}</tr>')
    return (
        f'<div class="card scroll" tabindex="0"><table><thead><tr><th>{what}</th><th class="text">hop</th><th>energy</th>'
        f"<th>traffic</th><th>device-seconds</th></tr></thead><tbody>{''.join(rows)}</tbody></table></div>"
    )


def _cluster_costs(runs: Sequence[Run], figures: Figures) -> str:
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
                cluster_cost_figure(run, what, costs),
                f"cost-{i}-{what}",
                f"{escape(run.method)}: {title} by cluster",
                f"{capital(title)} by cluster and hop. {seed}: {AXES[LEDGER[what][1]].text(_total(costs, what))} in all.",
            )
            for what, title in titles.items()
        )
        table = _cost_table(
            "cluster",
            {name: (f"<th>{escape(name)}</th>", hops) for name, hops in costs.items()},
            used_hops(costs),
            total="all clusters",
        )
        wrong = "".join(f'<p class="warn">Does not add up: {escape(line)}.</p>' for line in does_not_add_up(run, costs))
        parts.append(
            f'<div class="grid thirds">{cards}</div>{wrong}<details class="print"><summary>{escape(run.method)} by cluster as '
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

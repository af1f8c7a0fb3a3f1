"""The page of a plan: the map to look into, and the tables; it holds everything it needs and loads nothing."""

import html
from importlib import resources
from string import Template
from typing import Any

from fedloom._versions import version_of
from fedloom.record.plan_figure import map_figure
from fedloom.record.plan_map import headline, server_place
from fedloom.record.plan_tables import Planned, Row, choice_rows, cluster_rows, comparison_rows, device_rows
from fedloom.record.plan_words import rounds_text, si

MOST_LINES = 2000  # of the table of devices on the page

PAGE = Template("""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:">
<title>$title</title>
<style>
$css
thead th { white-space: normal; }
tbody th { min-width: 0; }
.card #map { max-width: 100%; margin: 0 auto; }
</style>
<script>$plotly</script>
</head>
<body>
<main>
$body
</main>
<script>
const place = document.getElementById("map");
const { data, layout } = JSON.parse(place.querySelector("script").textContent);
const ink = getComputedStyle(document.documentElement).getPropertyValue("--ink").trim();
const line = getComputedStyle(document.documentElement).getPropertyValue("--line").trim();
layout.font = { color: ink };
layout.xaxis.gridcolor = layout.yaxis.gridcolor = line;
if (matchMedia("(pointer: coarse)").matches) layout.dragmode = false;
Plotly.newPlot(place, data, layout, { responsive: true, displaylogo: false });
</script>
</body>
</html>
""")  # noqa: E501


def page(planned: Planned) -> str:
    """The HTML page."""
    from plotly.offline import get_plotlyjs

    title, words = headline(planned)
    work, figure = planned.work, map_figure(planned)
    facts = {
        "devices": f"{planned.devices.n:,}",
        "clusters": str(planned.plan.n_clusters),
        "method": planned.plan.name,
        "model": si(work.model_bytes, "B"),
        "a cloud round": f"{rounds_text(planned.plan)} edge rounds of {work.local_steps} local steps",
        "server": server_place(planned),
    }
    if planned.drain is not None and planned.drain.max() > 0:
        first = int(planned.drain.argmax())
        facts["first battery empty"] = f"{planned.table.ids[first]}, after {1 / planned.drain[first]:,.0f} cloud rounds"
    described = "".join(f"<div><dt>{k}</dt><dd>{_escape(v)}</dd></div>" for k, v in facts.items())
    notes = "".join(f'<p class="note">{_escape(note)}.</p>' for note in planned.notes)
    missing = "".join(
        f"<tr><th>{_escape(c)}</th><td class='text'>{_escape(why)}</td></tr>" for c, why in planned.missing.items()
    )
    improve = (
        '<section><h2>What would make the plan better</h2><div class="card scroll"><table><thead><tr><th>column or option</th>'
        f"<th style='text-align:left'>what it would improve</th></tr></thead><tbody>{missing}</tbody></table></div></section>"
    )
    compared = "".join(f"<li>{_escape(line)}.</li>" for line in planned.compared)
    warned = "".join(f'<p class="warn">{_escape(line)}.</p>' for line in planned.warnings)
    data = figure.to_json().replace("<", "\\u003c")
    body = [
        f'<header><h1>{_escape(title)}</h1><p class="lead">{_escape(words)}</p>{warned}'
        f'<dl class="facts">{described}</dl></header>',
        "<section><h2>Against the best simple plans, per cloud round</h2>"
        f"<ul>{compared}</ul>"
        f"{_html_table(comparison_rows(planned))}"
        '<p class="note">flat: every device exchanges its model with the server in every edge round. geographic: as many '
        "clusters of neighbours by k-means as the plan has, the head the candidate nearest to the middle. k-means: the same "
        "with the number of clusters that is best for what is asked for. Worst device: most joules of one device. "
        "At server: traffic between devices and the server. Imbalance: total variation distance of a cluster's labels to "
        "those of all, 0 is alike, 1 has no class in common; mean over clusters by samples.</p></section>",
        _choices(planned),
        '<section><h2>Who reports to whom</h2><div class="card"><div class="figure" id="map" style="height:680px">'
        f'<script type="application/json">{data}</script></div></div></section>',
        f"<section><h2>Clusters</h2>{_html_table([_shown(row) for row in cluster_rows(planned)])}</section>",
        f"<section><h2>Devices</h2>{_devices(planned)}</section>",
        improve if missing else "",
        f"<section><h2>Assumptions</h2>{notes}</section>" if notes else "",
        f"<footer>Made with FedLoom {version_of('fedloom')}. Times, energy and traffic are predictions.</footer>",
    ]
    css = (resources.files("fedloom.record") / "report.css").read_text(encoding="utf-8")
    return PAGE.substitute(
        title=_escape(title), css=css, plotly=get_plotlyjs(), body="\n".join(part for part in body if part)
    )


def _choices(planned: Planned) -> str:
    """The table of numbers of clusters, if the plan was searched."""
    rows = choice_rows(planned)
    if not rows:
        return ""
    return (
        f"<section><h2>Best found {_escape(planned.plan.name)}, by number of clusters</h2>{_html_table(rows)}"
        '<p class="note">Of all numbers that were searched those that no other beats in time, energy, worst device and '
        "imbalance at once.</p></section>"
    )


def _devices(planned: Planned) -> str:
    rows = device_rows(planned)
    more = (
        f'<p class="note">The first {MOST_LINES:,} of {len(rows):,}; all are in devices.csv.</p>'
        if len(rows) > MOST_LINES
        else ""
    )
    shown = [_shown(row) for row in rows[:MOST_LINES]]
    return f"<details><summary>All devices, per cloud round</summary>{more}{_html_table(shown)}</details>"


HIDDEN = ("latitude", "longitude", "x_m", "y_m", "turns")  # the map shows places, clusters.csv has turns
UNITS = {"_s": "s", "seconds": "s", "joules": "J", "_m": "m", "_w": "W", "bytes_sent": "B", "bytes_received": "B"}


def _shown(row: Row) -> Row:
    """Numbers with units, as text."""
    out = {}
    for name, value in row.items():
        if name in HIDDEN:
            continue
        unit = next((u for end, u in UNITS.items() if name.endswith(end)), None)
        label = name.removesuffix("_s").removesuffix("_m").removesuffix("_w").replace("_", " ")
        if value is None:
            out[label] = "-"
        elif isinstance(value, bool):
            out[label] = "yes" if value else ""
        elif unit and not isinstance(value, str):
            out[label] = si(float(value), unit)
        else:
            out[label] = (
                f"{value:.3f}" if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else value
            )
    return out


def _html_table(rows: list[Row]) -> str:
    head = "".join(f"<th>{_escape(name)}</th>" for name in rows[0])
    lines = []
    for row in rows:
        first, *rest = row.values()
        lines.append(f"<tr><th>{_escape(first)}</th>{''.join(f'<td>{_escape(value)}</td>' for value in rest)}</tr>")
    return (
        f'<div class="card scroll"><table><thead><tr>{head}</tr></thead><tbody>{"".join(lines)}</tbody></table></div>'
    )


def _escape(value: Any) -> str:
    return html.escape(str(value))

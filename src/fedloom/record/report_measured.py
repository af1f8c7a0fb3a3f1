"""The section of the report that holds what a deployed run has measured against what was predicted."""

from __future__ import annotations

from collections.abc import Sequence

from fedloom.record.axes import AXES, NEVER
from fedloom.record.figure import Figure, trace
from fedloom.record.figure_style import NEUTRAL, shared_layout
from fedloom.record.ledgers import hop_style
from fedloom.record.measured import (
    PARTS,
    Beside,
    by_device,
    bytes_by_device,
    edge_rounds,
    hop_amounts,
    overhead,
    round_ratios,
)
from fedloom.record.report_elements import MOST_MAPS, Figures, capital, escape
from fedloom.record.runs import Run

MOST_DEVICES = 200
COLOR = "#0072B2"
WORDS = {"fetch_s": "fetch", "train_s": "train", "send_s": "send", "all_s": "whole job"}


def measured_section(runs: Sequence[Run], figures: Figures) -> str:
    """Seconds of edge rounds, seconds by device, bytes by hop; nothing if no run was deployed."""
    deployed = [run for run in runs if run.measured is not None]
    if not deployed:
        return ""
    parts = [_of_run(run, i, figures) for i, run in enumerate(deployed[:MOST_MAPS])]
    return (
        '<section id="measured"><h2>Predicted beside measured</h2><p class="note">What the simulator’s clock and ledger '
        "predict for this scenario, beside what was measured when it ran between real processes.</p>"
        + "<div class='gap'></div>".join(parts)
        + "</section>"
    )


def _of_run(run: Run, number: int, figures: Figures) -> str:
    assert run.measured is not None
    name = f"{run.method}, seed {run.seed}"
    figure = figures.embed(
        _rounds_figure(run),
        f"measured-{number}",
        f"{escape(name)}: seconds of edge rounds",
        f"Every edge round, from when clients were sent until the last was back. {_ratio_words(run)}",
    )
    return (
        f"{figure}<div class='gap'></div>{_hops_table(run)}"
        f'<details class="print" open><summary>{escape(name)} by device</summary>{_device_table(run)}</details>'
    )


def _ratio_words(run: Run) -> str:
    assert run.measured is not None
    ratios = round_ratios(run.measured)
    if not ratios:
        return "No edge round was measured."
    middle, low, high = (ratios[round(q * (len(ratios) - 1))] for q in (0.5, 0.05, 0.95))
    return (
        f"Measured over predicted: median {middle:.3f} of {len(ratios)} edge rounds, 90 % of them from {low:.3f} to "
        f"{high:.3f}."
    )


def _rounds_figure(run: Run) -> Figure:
    assert run.measured is not None
    rounds = sorted(edge_rounds(run.measured), key=lambda one: one.start_s)
    figure = Figure(layout=shared_layout(height=280, margin={"l": 54, "r": 14, "t": 4, "b": 46}) | {"showlegend": True})
    x = list(range(1, len(rounds) + 1))
    for label, color, symbol, values in (
        ("predicted", NEUTRAL, "circle-open", [one.seconds.predicted for one in rounds]),
        ("measured", COLOR, "circle", [one.seconds.measured for one in rounds]),
    ):
        where = [f"cloud round {one.cloud_round}, edge round {one.edge_round}" for one in rounds]
        figure.data.append(
            trace(
                "scatter",
                x=x,
                y=values,
                mode="markers",
                name=label,
                marker={"color": color, "symbol": symbol, "size": 7},
                hovertext=[f"{place}<br>{label}: {value:.4g} s" for place, value in zip(where, values)],
                hovertemplate="%{hovertext}<extra></extra>",
            )
        )
    figure.update_xaxes(title="edge rounds, in the order in which they began")
    figure.update_yaxes(title="seconds", rangemode="tozero")
    return figure


def _hops_table(run: Run) -> str:
    """By hop: bytes, seconds and joules; they add up to the ledger of the run."""
    assert run.measured is not None
    hops = hop_amounts(run.measured)
    shown = ("bytes", "airtime_s", "energy_j")
    rows = [
        f'<tr><th class="text">{escape(hop_style(hop)[0])}</th>{"".join(_pair(amounts[name], name) for name in shown)}</tr>'
        for hop, amounts in hops.items()
    ]
    total = {
        name: Beside(
            predicted=sum(amounts[name].predicted or 0 for amounts in hops.values()),
            measured=sum(amounts[name].measured or 0 for amounts in hops.values()),
        )
        for name in shown
    }
    rows.append(f'<tr class="total"><th class="text">together</th>{"".join(_pair(total[n], n) for n in shown)}</tr>')
    heads = "".join(
        f"<th>{what}, predicted</th><th>measured</th><th>ratio</th>" for what in ("traffic", "device-seconds", "energy")
    )
    return (
        f'<div class="card scroll" tabindex="0"><table><thead><tr><th class="text">hop</th>{heads}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div>{_wrong(run, total)}{_carried_note(run)}"
    )


def _wrong(run: Run, total: dict[str, Beside]) -> str:
    """A warning where the measured figures are not those of the ledger."""
    if run.summary is None:
        return ""
    lines = []
    for name, beside in total.items():
        booked = sum(line[name] for line in run.summary["ledger"])
        if abs(booked - (beside.measured or 0)) > 1e-6 * max(abs(booked), 1e-6):
            lines.append(f"{name}: {beside.measured:.10g} here, {booked:.10g} in the ledger")
    return "".join(f'<p class="warn">Does not add up: {escape(line)}.</p>' for line in lines)


def _carried_note(run: Run) -> str:
    assert run.measured is not None
    model, carried = run.measured["model"], overhead(run.measured)
    values, letters, wire = carried["values"], carried["letters"], carried["wire"]
    text = AXES["bytes"].text
    coded = model.get("coded")
    said = [
        f"A model is counted as {model['counted_bytes']:,} bytes and carried as {model['carried_bytes']:,}.",
        *(
            f"What goes {way} of it is coded, counted as {coded[way]['counted_bytes']:,} bytes and carried as "
            f"{coded[way]['carried_bytes']:,}."
            for way in coded or ()
        ),
        f"Nodes have carried {text(values or 0)} of values in {text(letters or 0)} of letters (orders, answers and polls too).",
    ]
    if wire is not None and values:
        more = wire / values - 1
        said.append(
            f"Links were shaped to the rates of the fleet; with the headers of TLS, TCP, IP and Ethernet, acknowledgements and "
            f"handshakes {text(wire)} went over them, {more:.1%} more than the values. Devices computed for as long as the "
            "fleet says."
        )
    return f'<p class="note">{escape(" ".join(said))}</p>'


def _device_table(run: Run) -> str:
    assert run.measured is not None
    devices, carried = by_device(run.measured), bytes_by_device(run.measured)
    rows = []
    for client, parts in list(devices.items())[:MOST_DEVICES]:
        sent, got = carried.get(client, (0, 0))
        cells = "".join(_pair(parts[part], "airtime_s", ratio=part == "all_s") for part in PARTS)
        rows.append(
            f"<tr><th>{client}</th>{cells}<td>{AXES['bytes'].text(sent)}</td><td>{AXES['bytes'].text(got)}</td></tr>"
        )
    totals = [sum(pair[i] for pair in carried.values()) for i in range(2)]
    empty = "<td></td>" * (2 * len(PARTS) + 1)
    rows.append(
        f'<tr class="total"><th>all</th>{empty}<td>{AXES["bytes"].text(totals[0])}</td>'
        f"<td>{AXES['bytes'].text(totals[1])}</td></tr>"
    )
    heads = "".join(f"<th>{WORDS[part]}, predicted</th><th>measured</th>" for part in PARTS) + "<th>ratio</th>"
    more = len(devices) - MOST_DEVICES
    note = f"{more} more devices are not shown. " if more > 0 else ""
    return (
        f'<div class="card scroll" tabindex="0"><table><thead><tr><th>device</th>{heads}<th>values sent</th><th>got</th></tr>'
        f"</thead><tbody>{''.join(rows)}</tbody></table></div>"
        f'<p class="note">{capital(note)}Medians over the jobs of a device. Fetching does not count the time in which the model '
        "was not made yet; the whole job does.</p>"
    )


def _pair(beside: Beside, name: str, ratio: bool = True) -> str:
    """Cells: predicted, measured, and perhaps their ratio."""
    axis = AXES[{"bytes": "bytes", "airtime_s": "seconds", "energy_j": "joules"}[name]]
    texts = [NEVER if value is None else axis.text(value) for value in (beside.predicted, beside.measured)]
    if ratio:
        texts.append(NEVER if beside.ratio is None else f"{beside.ratio:.3f}")
    return "".join(f"<td>{escape(text)}</td>" for text in texts)

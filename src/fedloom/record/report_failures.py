"""The section of the report on devices that failed: what was lost and why, what was done again."""

from __future__ import annotations

from collections.abc import Sequence

from fedloom.record.curves import method_styles
from fedloom.record.measures import measure_name
from fedloom.record.report_elements import capital, escape, name_cell
from fedloom.record.runs import Run, by_method

CAUSES = ("lost_away", "lost_battery", "lost_dropout", "lost_packets", "lost_head")
COLUMNS = (
    "updates",
    "late",
    "lost",
    *CAUSES,
    "retried",
    "packets_again",
    "devices_down",
    "battery_mean",
    "battery_least",
)


def failures_section(runs: Sequence[Run]) -> str:
    """A table with a line for every method, mean over seeds at the end of the runs; "" if nobody failed."""
    failed = [run for run in runs if "lost" in run.metrics.columns]
    if not failed:
        return ""
    shown = [name for name in COLUMNS if any(name in run.metrics.columns for run in failed)]
    shown = [name for name in shown if name not in CAUSES or any(_last(run, name) for run in failed)]
    styles = method_styles(runs)
    head = "".join(f"<th>{escape(capital(measure_name(name)))}</th>" for name in shown)
    rows = []
    for method, same in by_method(failed).items():
        cells = "".join(f"<td>{_text(name, _mean(same, name))}</td>" for name in shown)
        rows.append(f"<tr>{name_cell(method, styles)}{cells}</tr>")
    return (
        '<section id="failures"><h2>What failed</h2><p class="note">Updates that were merged, came too late, or were lost, and '
        "why; at the end of the runs, mean over seeds. What lost work took stands in the costs.</p>"
        f'<div class="card scroll" tabindex="0"><table><thead><tr><th>method</th>{head}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div></section>"
    )


def _last(run: Run, name: str) -> float:
    """The last value of a measure; 0 where it was not measured."""
    value = run.metrics[name][-1] if name in run.metrics.columns else None
    return 0.0 if value is None else float(value)


def _mean(runs: Sequence[Run], name: str) -> float:
    return sum(_last(run, name) for run in runs) / len(runs)


def _text(name: str, value: float) -> str:
    return f"{value:.0%}" if name.startswith("battery") else f"{value:,.6g}" if value % 1 else f"{value:,.0f}"

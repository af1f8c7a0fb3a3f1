"""What `fedloom plan` says of a plan on the screen."""

from pathlib import Path
from typing import Any

from rich.markup import escape
from rich.table import Table

from fedloom.cli.show import notes, out

MOST_CLUSTERS = 20  # shown one by one


def say(planned: Any, files: dict[str, Path], quiet: bool) -> None:
    """What a cloud round takes, beside other plans; warnings and notes; where the files are."""
    from fedloom.record.plan_tables import choice_rows, cluster_rows, comparison_rows
    from fedloom.record.plan_words import count, rounds_text

    steps = planned.work.local_steps
    out.print(
        f"{count(planned.devices.n, 'device')}, {planned.plan.name}; a cloud round is {rounds_text(planned.plan)} edge rounds of "
        f"{steps} local steps\n",
        highlight=False,
        soft_wrap=True,
    )
    _say_table("Per cloud round", comparison_rows(planned), bold=0, left_out=("mean link",))
    if choices := choice_rows(planned):
        counts = [row["clusters"] for row in choices]
        here = counts.index(str(planned.plan.n_clusters)) if str(planned.plan.n_clusters) in counts else -1
        _say_table(f"\nBest found {planned.plan.name}, by number of clusters", choices, bold=here)
    if planned.compared:
        out.print()
    for line in planned.compared:
        out.print(line, highlight=False, markup=False, soft_wrap=True)
    clusters = cluster_rows(planned)
    slowest = max(clusters, key=lambda row: row["cloud_round_s"])
    if planned.plan.topology.kind == "head":
        sizes = sorted(row["devices"] for row in clusters)
        least = f"{sizes[0]} to " if sizes[0] < sizes[-1] else ""
        out.print(
            f"\nclusters of {least}{count(sizes[-1], 'device')}; the slowest is cluster {slowest['cluster']} around "
            f"{slowest['head']}",
            highlight=False,
            markup=False,
            soft_wrap=True,
        )
        _say_uneven(planned, clusters)
    for warning in planned.warnings:
        notes.print(f"warning: {warning}", highlight=False, markup=False, soft_wrap=True)
    if not quiet:
        for note in planned.notes:
            notes.print(f"note: {note}", highlight=False, markup=False, soft_wrap=True)
        for column, why in planned.missing.items():
            notes.print(f"{column} would give {why}", highlight=False, markup=False, soft_wrap=True)
    for path in files.values():
        out.print(str(path), highlight=False, soft_wrap=True, markup=False)


def _say_table(title: str, rows: list[dict[str, Any]], bold: int, left_out: tuple[str, ...] = ()) -> None:
    """Rows of text, as many columns as fit on 80."""
    table = Table(box=None, pad_edge=False, title=title, title_justify="left", title_style="bold")
    shown = [name for name in rows[0] if name not in left_out]
    for i, name in enumerate(shown):
        table.add_column(name.replace(" ", "\n"), justify="right" if i else "left", no_wrap=True, vertical="bottom")
    for i, row in enumerate(rows):
        table.add_row(*(row[name] for name in shown), style="bold" if i == bold else None)
    out.print(table, highlight=False)


def _say_uneven(planned: Any, clusters: list[dict[str, Any]]) -> None:
    """Updates and powers of heads, where the method decides them for each cluster."""
    plan = planned.plan
    head_w, own_w = plan.power_w[plan.topology.host], planned.devices.power_w[plan.topology.host]
    if len(set(plan.edge_rounds.tolist())) == 1 and (head_w == own_w).all():
        return
    table = Table(box=None, pad_edge=False, title="\nPer cluster", title_justify="left", title_style="bold")
    for name in ("cluster", "head", "devices", "edge rounds", "power mW", "seconds"):
        table.add_column(name, justify="left" if name == "head" else "right")
    for row, power_w in list(zip(clusters, head_w.tolist()))[:MOST_CLUSTERS]:
        numbers = (f"{1000 * power_w:.3g}", f"{row['cloud_round_s']:.3g}")
        table.add_row(str(row["cluster"]), escape(row["head"]), str(row["devices"]), str(row["edge_rounds"]), *numbers)
    out.print(table, highlight=False)
    if len(clusters) > MOST_CLUSTERS:
        out.print(f"and {len(clusters) - MOST_CLUSTERS} more in clusters.csv and devices.csv", highlight=False)

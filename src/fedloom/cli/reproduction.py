"""`fedloom reproduce`: make the runs that are missing, judge them, and show and save what came out."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from fedloom.cli.many import Job, make_runs
from fedloom.cli.show import notes, out
from fedloom.reproduce import Item, Outcome, Paper, Setup


def reproduce(
    text: str,
    *,
    scale: str,
    seeds: int | None,
    folder: Path | None,
    cache: Path,
    jobs: int | None,
    ray: str | None = None,
    data_folder: Path | None,
    quiet: bool,
    as_json: bool,
) -> None:
    """The items that `text` names, at a scale."""
    from fedloom import _check
    from fedloom.record.runs import read_run
    from fedloom.reproduce import find_items
    from fedloom.reproduce.page import save, write_page

    paper, items = find_items(text)
    _check.one_of("--scale", scale, paper.scales)
    n_seeds = seeds or paper.seeds
    setups = {item.key: dict(item.setups(scale)) for item in items}
    folders = {id(s): cache / s.key() for labelled in setups.values() for s in labelled.values()}
    jobs_by_folder = {
        job.folder: job
        for item in items
        for setup in setups[item.key].values()
        for job in _jobs(setup, folders[id(setup)], n_seeds, item)
    }
    if not quiet:
        missing = sum(not job.finished for job in jobs_by_folder.values())
        notes.print(f"{paper.title}: {len(jobs_by_folder)} runs, {missing} to make", highlight=False, soft_wrap=True)
    make_runs(list(jobs_by_folder.values()), n_jobs=jobs, ray=ray, data_folder=data_folder, quiet=quiet)

    where = folder or Path("runs") / "reproduce"
    outcomes, reports = [], []
    for item in items:
        runs = {
            label: [read_run(folders[id(setup)] / f"s{seed}") for seed in range(n_seeds)]
            for label, setup in setups[item.key].items()
        }
        outcome = item.judge(runs)
        wall_s = sum((run.summary or {})["wall_s"] for same in runs.values() for run in same)
        save(where, paper, item, scale, outcome, seeds=n_seeds, wall_s=wall_s)
        reports.append(_report(runs, cache / "reports" / f"{paper.key}-{item.key}-{scale}.html", item.title))
        outcomes.append((item, outcome))
    page = write_page(where, paper)
    if as_json:
        print(json.dumps(_as_dict(paper, outcomes, page) | {"reports": [str(r) for r in reports]}))
    else:
        _show(outcomes)
        lines = [f"page: {page}", *(f"report: {report}" for report in reports)]
        out.print("\n".join(lines), highlight=False, soft_wrap=True)


def _report(runs: dict[Any, list[Any]], path: Path, title: str) -> Path:
    """The report of an item's runs, each under the label of its setup."""
    from fedloom.record.report import write_report

    names = {label: ", ".join(map(str, label)) if isinstance(label, tuple) else str(label) for label in runs}
    labelled = [replace(run, method=names[label]) for label, same in runs.items() for run in same]
    return write_report(labelled, path, title)


def _jobs(setup: Setup, folder: Path, n_seeds: int, item: Item) -> list[Job]:
    """A run for every seed; the scenario stands beside them."""
    from fedloom.cli.many import scenario_file
    from fedloom.simulator import scenario

    chosen = scenario(setup.scenario)
    file = scenario_file(folder, chosen.model_dump_json(indent=1))
    return [
        Job(
            name=f"{item.key}, {setup.method} seed {seed}",
            scenario=file,
            method=setup.method,
            seed=seed,
            folder=folder / f"s{seed}",
            cloud_rounds=chosen.training.cloud_rounds,
        )
        for seed in range(n_seeds)
    ]


def _as_dict(paper: Paper, outcomes: list[tuple[Item, Outcome]], page: Path) -> dict[str, Any]:
    from dataclasses import asdict

    return {"paper": paper.key, "page": str(page), "items": {item.key: asdict(outcome) for item, outcome in outcomes}}


def _show(outcomes: list[tuple[Item, Outcome]]) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.markup import escape
    from rich.table import Table

    from fedloom.reproduce.verdicts import FAILS, HOLDS

    colours = {HOLDS: "green", FAILS: "red"}
    for item, outcome in outcomes:
        out.print(f"[bold]{escape(item.title)}[/]", highlight=False, soft_wrap=True)
        out.print(f"published: {item.published}", highlight=False, markup=False, soft_wrap=True)
        for table in outcome.tables:
            shown = Table(
                title=escape(table.title), title_justify="left", box=SIMPLE_HEAD, pad_edge=False, show_edge=False
            )
            for i, column in enumerate(table.columns):
                shown.add_column(escape(column), justify="left" if i == 0 else "right")
            for row in table.rows:
                shown.add_row(*map(escape, row))
            out.print(shown, end="\n\n")
        claims = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False)
        for column in ("claim", "measured", "verdict"):
            claims.add_column(column)
        for claim in outcome.claims:
            colour = colours.get(claim.verdict.state, "yellow")
            verdict = f"[{colour}]{claim.verdict.state}[/]"
            claims.add_row(escape(claim.text), claim.verdict.measured, verdict)
        out.print(claims, end="\n\n")

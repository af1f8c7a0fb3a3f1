"""`fedloom reproduce`: make the runs that are missing, judge them, and show and save what came out."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any

from fedloom.cli.jobs import Job
from fedloom.cli.many import make_runs
from fedloom.cli.show import notes, out
from fedloom.data.sources import OWN
from fedloom.reproduce import Item, Outcome, Paper, Setup
from fedloom.reproduce.kept import keep, kept_file, read_kept


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """An item at a scale: its seeds, and by label its setups, where runs are kept by seed, and their cache folders."""

    item: Item
    seeds: range
    setups: Mapping[Any, Setup]
    folders: Mapping[Any, Path]
    kept: Mapping[Any, Mapping[int, Path]]

    def finished(self, label: Any, seed: int) -> bool:
        """Whether the cache has this run."""
        return (self.folders[label] / f"s{seed}" / "summary.json").exists()

    def not_kept(self, label: Any) -> dict[int, Path]:
        """Where the runs of a setup will be, by seed, that are not there yet."""
        return {seed: file for seed, file in self.kept[label].items() if not file.exists()}


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
    dry_run: bool = False,
    page_only: bool = False,
    max_time: str | None = None,
    max_memory: str | None = None,
    own_data: str = "",
) -> None:
    """The items that `text` names, at a scale. dry_run: only say what there is to do; page_only: only write the page again;
    own_data: datasets, with commas between them, whose files need not be the published ones."""
    from fedloom import _check
    from fedloom.reproduce import find_items
    from fedloom.reproduce.page import write_pages

    paper, items = find_items(text)
    _check.one_of("--scale", scale, paper.scales)
    where = folder or Path("runs") / "reproduce"
    if page_only:
        page = write_pages(where, paper)
        out.print(json.dumps({"page": str(page)}) if as_json else f"page: {page}", highlight=False, soft_wrap=True)
        return
    own = _own_data(own_data)
    wanted = [
        _want(item, paper, scale, seeds, where, cache, own) for item in _at_scale(items, scale, asked=":" in text)
    ]
    if dry_run:
        _show_plan(_plan(wanted, paper, scale, where), as_json)
        return
    to_keep = {file: job for w in wanted for file, job in _jobs(w).items()}
    if not quiet:
        n_runs = len({file for w in wanted for same in w.kept.values() for file in same.values()})
        missing = sum(not job.finished for job in to_keep.values())
        text = f"{paper.name}, {scale} scale: {n_runs} runs, {missing} to make"
        notes.print(text, highlight=False, soft_wrap=True)
    try:
        make_runs(
            list(to_keep.values()),
            n_jobs=jobs,
            ray=ray,
            data_folder=data_folder,
            quiet=quiet,
            max_time=max_time,
            max_memory=max_memory,
        )
    finally:
        _keep(to_keep)

    outcomes = [(w.item, _judged(w, paper, scale, where, own)) for w in wanted]
    reports = [report for w in wanted if (report := _report(w, cache / "reports", f"{paper.key}-{w.item.key}-{scale}"))]
    page = write_pages(where, paper)
    if as_json:
        print(json.dumps(_as_dict(paper, outcomes, page) | {"reports": [str(r) for r in reports]}))
    else:
        _show(outcomes)
        lines = [f"page: {page}", *(f"report: {report}" for report in reports)]
        out.print("\n".join(lines), highlight=False, soft_wrap=True)


def _keep(jobs: Mapping[Path, Job]) -> None:
    """Those that are finished, so that nothing is made twice, even if others were stopped."""
    from fedloom.record.runs import read_run

    for file, job in jobs.items():
        if job.sound:
            keep(read_run(job.folder), file)


def _judged(wanted: Wanted, paper: Paper, scale: str, where: Path, own_data: Sequence[str]) -> Outcome:
    """What came out of an item's runs, which is saved."""
    from fedloom.reproduce.page import save

    runs = {label: [read_kept(file) for file in files.values()] for label, files in wanted.kept.items()}
    item, outcome = wanted.item, wanted.item.outcome(runs, scale)
    seconds = {
        wanted.setups[label].key(): sum((run.summary or {})["wall_s"] for run in same) for label, same in runs.items()
    }
    used = {setup.scenario["task"].get("dataset") for setup in wanted.setups.values()}
    save(
        where,
        paper,
        item,
        scale,
        outcome,
        seeds=len(wanted.seeds),
        n_runs=len(wanted.seeds) * len(wanted.setups),
        wall_s=sum(seconds.values()),
        seconds=seconds,
        own_data=[name for name in own_data if name + OWN in used],
    )
    return outcome


def _at_scale(items: Sequence[Item], scale: str, asked: bool) -> list[Item]:
    """Items that are something of their own at this scale; one that was asked for by name must be."""
    missing = [item for item in items if scale not in item.scales]
    if asked and missing:
        only = " and ".join(missing[0].scales)
        raise ValueError(
            f"{missing[0].key} is made at {only} scale only; at {scale} scale it would be another item again"
        )
    return [item for item in items if scale in item.scales]


def _own_data(text: str) -> list[str]:
    """The datasets named in --own-data; they must be ones that are read from published files."""
    from fedloom import _check
    from fedloom.data.sources import SOURCES

    names = [name.strip() for name in text.split(",") if name.strip()]
    for name in names:
        _check.one_of("--own-data", name, list(SOURCES))
    return names


def _want(
    item: Item, paper: Paper, scale: str, seeds: int | None, where: Path, cache: Path, own_data: Sequence[str]
) -> Wanted:
    setups = {label: setup.with_own_data(own_data) for label, setup in item.setups(scale).items()}
    chosen = item.seeds_at(scale, seeds)
    return Wanted(
        item=item,
        seeds=chosen,
        setups=setups,
        folders={label: cache / setup.key() for label, setup in setups.items()},
        kept={
            label: {seed: kept_file(where, paper, setup, seed) for seed in chosen} for label, setup in setups.items()
        },
    )


def _plan(wanted: Sequence[Wanted], paper: Paper, scale: str, where: Path) -> list[dict[str, Any]]:
    """What each item asks for, what is there, and how long the rest may take; runs of earlier items are not asked again.

    A run takes as long as those of the same setup with other seeds did, else as those of the item's last outcome did on
    average, else what `fedloom.reproduce.expected` makes of its settings; `estimated` counts runs of the last kind.
    """
    from fedloom.reproduce.expected import Expectation
    from fedloom.reproduce.page import read_outcomes
    from fedloom.reproduce.tally import is_current

    last = {
        outcome["item"]: outcome
        for outcome in read_outcomes(where, paper)
        if outcome["scale"] == scale and is_current(outcome)
    }
    expectation = Expectation()
    rows, seen = [], set[Path]()
    for w in wanted:
        before = last.get(w.item.key)
        usual_s = before["wall_s"] / before["runs"] if before and "runs" in before else None
        runs = {file: (label, seed) for label, files in w.kept.items() for seed, file in files.items()}
        new = {file: label for file, (label, _) in runs.items() if file not in seen}
        seen |= set(new)
        there = {file for file, (label, seed) in runs.items() if file.exists() or w.finished(label, seed)}
        missing = Counter(label for file, label in new.items() if file not in there)
        seconds, estimated = 0.0, 0
        for label, n in missing.items():
            known_s = _recorded_s(w, label) or usual_s
            estimated += n if known_s is None else 0
            seconds += n * (expectation.seconds(w.setups[label]) if known_s is None else known_s)
        rows.append(
            {
                "item": w.item.key,
                "seeds": len(w.seeds),
                "runs": len(new),
                "shared": len(runs) - len(new),
                "cached": len(new) - missing.total(),
                "to_make": missing.total(),
                "minutes": seconds / 60,
                "estimated": estimated,
            }
        )
    return rows


def _recorded_s(wanted: Wanted, label: Any) -> float | None:
    """Mean seconds of the finished runs of a setup."""
    found = [json.loads(file.read_text(encoding="utf-8")) for file in wanted.folders[label].glob("s*/summary.json")]
    if not found:
        found = [read_kept(file).summary or {} for file in wanted.kept[label].values() if file.exists()]
    return fmean(summary["wall_s"] for summary in found) if found else None


def _show_plan(rows: Sequence[dict[str, Any]], as_json: bool) -> None:
    if as_json:
        print(json.dumps(rows))
        return
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    shown = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for column in ("item", "seeds", "runs", "shared with items above", "there already", "to make", "minutes of runs"):
        shown.add_column(column, justify="left" if column == "item" else "right")
    for row in rows:
        *numbers, minutes, estimated = list(row.values())
        shown.add_row(*map(str, numbers), f"{minutes:.1f}" + " (estimated)" * bool(estimated))
    out.print(shown)
    to_make, estimated = sum(row["to_make"] for row in rows), sum(row["estimated"] for row in rows)
    hours = sum(row["minutes"] for row in rows) / 60
    text = f"{to_make} runs to make"
    if to_make:
        text += f", about {hours:.1f} hours one after the other, {hours / 2:.1f} hours on two free cores"
    if estimated:
        text += (
            f"; of {estimated} of them the time is an estimate, from what they compute and how fast this machine trained "
            "their networks just now"
        )
    out.print(text, highlight=False, soft_wrap=True)


def _report(wanted: Wanted, folder: Path, name: str) -> Path | None:
    """The report of an item's runs, each under the label of its setup; None if not all of them are in the cache."""
    from fedloom.record.report import write_report
    from fedloom.record.runs import read_run

    if not all(wanted.finished(label, seed) for label in wanted.setups for seed in wanted.seeds):
        return None
    names = {label: ", ".join(map(str, label)) if isinstance(label, tuple) else str(label) for label in wanted.setups}
    labelled = [
        replace(read_run(wanted.folders[label] / f"s{seed}"), method=name)
        for label, name in names.items()
        for seed in wanted.seeds
    ]
    return write_report(labelled, folder / f"{name}.html", wanted.item.title)


def _jobs(wanted: Wanted) -> dict[Path, Job]:
    """A run for every setup and seed that is not kept yet, by where it will be; the scenario stands beside them."""
    from fedloom.cli.many import scenario_file
    from fedloom.simulator import scenario

    jobs = {}
    for label, setup in wanted.setups.items():
        folder, to_make = wanted.folders[label], wanted.not_kept(label)
        if not to_make:
            continue
        chosen = scenario(setup.scenario)
        scenario_there = scenario_file(folder, chosen.model_dump_json(indent=1))
        for seed, file in to_make.items():
            jobs[file] = Job(
                name=f"{wanted.item.key}, {setup.method} seed {seed}",
                scenario=scenario_there,
                method=setup.method,
                seed=seed,
                folder=folder / f"s{seed}",
                cloud_rounds=chosen.training.cloud_rounds,
            )
    return jobs


def _as_dict(paper: Paper, outcomes: list[tuple[Item, Outcome]], page: Path) -> dict[str, Any]:
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
        if outcome.ours:
            out.print(f"ours: {outcome.ours}", highlight=False, markup=False, soft_wrap=True)
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
        for column in ("claim", "measured", "n", "verdict"):
            claims.add_column(column)
        for claim in outcome.claims:
            counted = not (claim.repeats or claim.own)
            colour = colours.get(claim.verdict.state, "yellow") if counted else "dim"
            why = f" (repeats {claim.repeats})" if claim.repeats else " (a question of ours)" if claim.own else ""
            verdict = f"[{colour}]{claim.verdict.state}{escape(why)}[/]"
            claims.add_row(escape(claim.text), escape(claim.verdict.measured), str(claim.verdict.n or "–"), verdict)
        out.print(claims, end="\n\n")

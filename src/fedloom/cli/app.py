"""The commands."""

import json
import re
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from fedloom.cli.show import amount, notes, out, seconds

app = typer.Typer(
    name="fedloom",
    help="Hierarchical and clustered federated learning over wireless networks, in seconds, joules and bytes.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

ScenarioName = Annotated[
    str, typer.Argument(metavar="SCENARIO", help="A YAML file, or a name from `fedloom list scenarios`.")
]
Changes = Annotated[
    list[str],
    typer.Option("--set", metavar="KEY=VALUE", help="Change a setting, e.g. training.lr=0.05. May be repeated."),
]
DataFolder = Annotated[Path | None, typer.Option("--from", metavar="DIR", help="Where the dataset's files are.")]
Ray = Annotated[
    str | None,
    typer.Option("--ray", metavar="ADDRESS", help="Use a Ray cluster: HOST:PORT, or auto for the one of this machine."),
]
MaxTime = Annotated[
    str | None, typer.Option("--max-time", metavar="TIME", help="Stop after so long, to go on later: 90s, 10m, 2h.")
]
MaxMemory = Annotated[
    str | None, typer.Option("--max-memory", metavar="SIZE", help="Stop beyond so much, to go on later: 500MB, 2GB.")
]
Json = Annotated[bool, typer.Option("--json", help="Print machine-readable JSON.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar, no notes.")]


def _version(wanted: bool) -> None:
    if wanted:
        from importlib import metadata

        typer.echo(f"fedloom {metadata.version('fedloom')}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    pass


@app.command()
def run(
    scenario: ScenarioName,
    method: Annotated[
        str,
        typer.Option("--method", "-m", help="See `fedloom list methods`; options follow after colons: fedprox:mu=0.1."),
    ] = "hierfedavg",
    seed: Annotated[
        int, typer.Option(min=0, help="Decides data partition, placement, links, batches: everything random.")
    ] = 0,
    changes: Changes = [],  # noqa: B006
    folder: Annotated[
        Path | None,
        typer.Option("--out", metavar="DIR", help="Folder for the record [runs/SCENARIO-METHOD-sSEED]."),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with a run that was interrupted.")] = False,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Clock, energy and traffic without any training; writes nothing."),
    ] = False,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Training threads or processes, with --ray actors [one per core].")
    ] = None,
    engine: Annotated[str, typer.Option(help="auto, native or torch.")] = "auto",
    ray: Ray = None,
    data_folder: DataFolder = None,
    max_time: MaxTime = None,
    max_memory: MaxMemory = None,
    as_json: Json = False,
    quiet: Quiet = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Say which engine trains and what the run is made of.")
    ] = False,
    live: Annotated[
        bool, typer.Option("--live", help="Watch accuracy, clock, energy and every cluster instead of a bar.")
    ] = False,
    tensorboard: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Log to TensorBoard (extra: tensorboard).")
    ] = None,
) -> None:
    """Run one method on one scenario with one seed, and leave a record and its report."""
    from fedloom.cli.ends import Ended, Said, exit_code
    from fedloom.cli.limits import guarded
    from fedloom.cli.live import watching
    from fedloom.gate.names import folder_name
    from fedloom.grouping import Need
    from fedloom.record.folder import record, summarise
    from fedloom.simulator import Simulation, make_method
    from fedloom.simulator import scenario as read_scenario
    from fedloom.simulator.estimate import estimate
    from fedloom.simulator.refusing import refuse_full_disk
    from fedloom.simulator.speed import real_run

    chosen = read_scenario(scenario, changes)
    trained_by: Any = engine
    if ray is not None and not dry_run:
        from fedloom.scale.engine import on_ray

        trained_by = on_ray(ray, workers, engine)
    simulation = Simulation(
        chosen,
        make_method(method),
        seed,
        directory=None if data_folder is None else str(data_folder),
        n_workers=workers,
        engine=trained_by,
        dry_run=dry_run,
    )
    where = folder or Path("runs") / f"{folder_name(chosen.name)}-{folder_name(method)}-s{seed}"
    if not dry_run:
        refuse_full_disk(estimate(chosen, simulation.method, model=simulation.model), where)
    if verbose:
        _describe(simulation, method)
    if dry_run and not quiet and simulation.method.needs & {Need.GRADIENTS, Need.UPDATES, Need.PREDICTIONS}:
        notes.print(
            f"note: nothing is learnt in a dry run, so {simulation.method.name} groups by the rest it knows; clusters and "
            "costs of the real run may differ a little",
            highlight=False,
            soft_wrap=True,
        )
    nobody = [c for c, n in enumerate(simulation.label_counts.sum(axis=0)) if n == 0]
    if nobody and not quiet:
        notes.print(
            f"note: no client has samples of class {', '.join(map(str, nobody))}; nobody can learn to tell it",
            highlight=False,
            soft_wrap=True,
        )
    total = chosen.training.cloud_rounds
    name = f"{chosen.name} · {method}"
    began = time.monotonic()
    with (
        guarded(max_time, max_memory) as guard,
        watching(simulation, name, live=live, quiet=quiet, tensorboard=tensorboard) as show,
    ):

        def on_round(done: int, measures: dict[str, float | int] | None) -> None:
            show(done, measures)
            guard.round_over(more=done < total)

        try:
            if dry_run:
                for measures in simulation.rounds():
                    on_round(simulation.cloud_rounds_done, measures)
                summary = summarise(simulation, wall_s=0.0, resumed=False)
            else:
                summary = record(simulation, method, where, resume=resume, on_round=on_round)
        except (KeyboardInterrupt, Ended) as end:
            notes.print(_stopped(end, simulation.cloud_rounds_done, total, dry_run), soft_wrap=True, highlight=False)
            raise Said(exit_code(end)) from None
        except OSError as error:
            raise RuntimeError(
                f"the record in {where} could not be written ({error.strerror or error}); make room or mend that, and the "
                f"same command with --resume goes on after cloud round {simulation.cloud_rounds_done}"
            ) from error
    expected = real_run(simulation, time.monotonic() - began, workers, engine) if dry_run else None
    report, warnings = (None, simulation.warnings) if dry_run else _report_of(where)
    if as_json:
        left = {"warnings": warnings} | (
            {"estimate": expected} if dry_run else {"folder": str(where), "report": str(report)}
        )
        typer.echo(json.dumps(summary | left))
    else:
        _summary(summary, None if dry_run else where, report)
        if expected is not None:
            out.print(_expected(expected), highlight=False, soft_wrap=True)
        for warning in () if quiet else warnings:
            notes.print(f"note: {warning}", highlight=False, soft_wrap=True)


@app.command()
def compare(
    scenario: ScenarioName,
    methods: Annotated[
        str, typer.Option("--methods", "-m", help="Comma-separated, e.g. fedavg,hierfedavg,fedprox:mu=0.1.")
    ] = "fedavg,hierfedavg,hhfl",
    seeds: Annotated[int, typer.Option(min=1, help="Number of seeds: 0, 1, ...")] = 3,
    x: Annotated[str, typer.Option("--x", help="What to compare at: steps, seconds, joules or bytes.")] = "steps",
    target: Annotated[float | None, typer.Option(help="Accuracy to reach [the level all methods reach].")] = None,
    changes: Changes = [],  # noqa: B006
    folder: Annotated[
        Path | None,
        typer.Option("--out", metavar="DIR", help="Folder for all runs and the report [runs/SCENARIO]."),
    ] = None,
    jobs: Annotated[int | None, typer.Option(min=1, help="Runs at a time [one per core].")] = None,
    ray: Ray = None,
    data_folder: DataFolder = None,
    max_time: MaxTime = None,
    max_memory: MaxMemory = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Run several methods on one scenario over seeds: table and report. What is finished already is not run again."""
    from fedloom.cli.many import run_many

    comparison, report = run_many(
        scenario,
        [m.strip() for m in re.split(r",(?![^\[]*\])", methods) if m.strip()],  # not at commas in [brackets]
        seeds=seeds,
        changes=changes,
        folder=folder,
        jobs=jobs,
        ray=ray,
        data_folder=data_folder,
        x=x,
        target=target,
        quiet=quiet,
        max_time=max_time,
        max_memory=max_memory,
    )
    if as_json:
        typer.echo(json.dumps(comparison.to_dict() | {"report": str(report)}))
    else:
        _show_comparison(comparison, report)


@app.command()
def demo(
    folder: Annotated[Path, typer.Option("--out", metavar="DIR", help="Folder for the runs and the report.")] = Path(
        "runs/demo"
    ),
    quiet: Quiet = False,
) -> None:
    """A one-minute tour: three methods on three overlapping cells with embedded real data, and a report to open."""
    from fedloom.cli.many import run_many

    comparison, report = run_many(
        "cells-overlap",
        ["fedavg", "hierfedavg", "hhfl"],
        seeds=3,
        changes=["training.cloud_rounds=10"],
        folder=folder,
        quiet=quiet,
        x="seconds",
    )
    _show_comparison(comparison, report)


@app.command()
def plan(
    fleet: Annotated[
        Path,
        typer.Argument(metavar="FLEET.csv", help="A line per device: x_m,y_m or latitude,longitude; see docs/plan.md."),
    ],
    method: Annotated[
        str, typer.Option("--method", "-m", help="ddc, geographic, ltc, ...: who clusters with whom.")
    ] = "ddc",
    server: Annotated[
        str | None, typer.Option(metavar="X,Y", help="Position like the devices' [the middle of the fleet].")
    ] = None,
    gradients: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A row per device: .npy, .npz or .csv [labels stand for them].")
    ] = None,
    model_bytes: Annotated[int | None, typer.Option(min=1, help="Size of a model on air [1000000].")] = None,
    model: Annotated[str | None, typer.Option(help="The size of one from `fedloom list models` instead.")] = None,
    local_steps: Annotated[int, typer.Option(min=1, help="Mini-batches in an edge round.")] = 5,
    edge_rounds: Annotated[int, typer.Option(min=1, help="Averages at heads in a cloud round.")] = 5,
    alpha: Annotated[
        float | None, typer.Option(help="ddc: weight of data against distance, 0 to 1 [0.2 if data are known, else 0].")
    ] = None,
    capacity: Annotated[
        int | None, typer.Option(min=1, help="Most devices of a head, itself included [a fifth of all, at least 10].")
    ] = None,
    candidates: Annotated[
        int | None, typer.Option(min=1, help="ddc: most devices considered as heads [100, or what capacities need].")
    ] = None,
    exact: Annotated[
        bool,
        typer.Option(
            "--exact",
            help="ddc: a plan proven to have the least of its objective (metres and data), for a handful of devices.",
        ),
    ] = False,
    bandwidth_hz: Annotated[float, typer.Option(help="Of every link.")] = 1e6,
    seed: Annotated[int, typer.Option(min=0, help="Of all that is random in the search.")] = 0,
    folder: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="Folder for the plan [plans/FLEET-METHOD].")
    ] = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Plan a fleet from a table: clusters, heads, and seconds, joules and bytes of a round. No training."""
    from fedloom.cli.plan import plan_fleet

    plan_fleet(
        fleet,
        method=method,
        server=server,
        gradients=gradients,
        model_bytes=model_bytes,
        model=model,
        local_steps=local_steps,
        edge_rounds=edge_rounds,
        alpha=alpha,
        capacity=capacity,
        candidates=candidates,
        exact=exact,
        bandwidth_hz=bandwidth_hz,
        seed=seed,
        folder=folder,
        as_json=as_json,
        quiet=quiet,
    )


@app.command()
def reproduce(
    paper: Annotated[
        str,
        typer.Argument(metavar="PAPER[:ITEM]", help="See `fedloom list papers`; e.g. hhfl, hhfl:fig4, hhfl:fig4,fig5."),
    ],
    scale: Annotated[str, typer.Option(help="laptop (minutes) or paper (the published sizes).")] = "laptop",
    seeds: Annotated[
        int | None, typer.Option(min=1, help="Number of seeds [as the paper's file says, 5 or 3].")
    ] = None,
    folder: Annotated[
        Path | None,
        typer.Option("--out", metavar="DIR", help="Folder for the page and its pictures [runs/reproduce]."),
    ] = None,
    cache: Annotated[
        Path,
        typer.Option(
            metavar="DIR", help="Folder of runs by the content of their settings: what is there is not run again."
        ),
    ] = Path("runs/cache"),
    jobs: Annotated[int | None, typer.Option(min=1, help="Runs at a time [one per core].")] = None,
    ray: Ray = None,
    data_folder: DataFolder = None,
    max_time: MaxTime = None,
    max_memory: MaxMemory = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only say which runs it takes and what the cache has of them.")
    ] = False,
    page: Annotated[
        bool, typer.Option("--page", help="Only write the page again, from the outcomes in --out.")
    ] = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Tables and figures of a paper beside ours, with a verdict for every claim. Resumes where it was stopped."""
    from fedloom.cli.reproduction import reproduce as make

    make(
        paper,
        scale=scale,
        seeds=seeds,
        folder=folder,
        cache=cache,
        jobs=jobs,
        ray=ray,
        data_folder=data_folder,
        quiet=quiet,
        as_json=as_json,
        dry_run=dry_run,
        page_only=page,
        max_time=max_time,
        max_memory=max_memory,
    )


@app.command()
def report(
    folders: Annotated[list[Path], typer.Argument(metavar="DIR...", help="Run folders, or folders of run folders.")],
    out_file: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Where to write [DIR/report.html].")
    ] = None,
    target: Annotated[float | None, typer.Option(help="Accuracy to reach [the level all runs reach].")] = None,
    figures_folder: Annotated[
        Path | None,
        typer.Option("--figures", metavar="DIR", help="Also write the plots for a paper: PDF and PNG, a column wide."),
    ] = None,
) -> None:
    """The HTML report of one or several runs, and their figures for a paper."""
    from fedloom.record.report import write_report
    from fedloom.record.runs import find_runs

    runs = find_runs(folders, listed=True)
    file = out_file or folders[0] / "report.html"
    try:
        written = write_report(runs, file, target=target)
    except OSError as error:
        raise ValueError(
            f"{file} cannot be written ({error.strerror or error}); name another file with --out"
        ) from error
    out.print(f"report: {written}", highlight=False, soft_wrap=True)
    if figures_folder is not None:
        from fedloom.record.paper_figures import write_figures

        n_figures = len(write_figures(runs, figures_folder)) // 2
        out.print(f"figures: {n_figures} in {figures_folder}", highlight=False, soft_wrap=True)


@app.command()
def verify(
    folders: Annotated[list[Path], typer.Argument(metavar="DIR...", help="Run folders, or folders of run folders.")],
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Whether the files of runs are those that were written, each by its digest and whose run it is; 1 if one is not."""
    from fedloom.cli.verify import verify_records

    raise typer.Exit(verify_records(folders, as_json=as_json, quiet=quiet))


@app.command("list")
def list_(
    what: Annotated[str, typer.Argument(metavar="WHAT", help="methods, scenarios, datasets, models or papers.")],
    as_json: Json = False,
) -> None:
    """What there is: methods (with what clients must reveal), scenarios, datasets, models, papers to reproduce."""
    from rich.table import Table

    from fedloom.cli.catalogue import CATALOGUE

    if what not in CATALOGUE:
        raise ValueError(f"can list {', '.join(CATALOGUE)}; got {what!r}")
    rows = CATALOGUE[what]()
    if as_json:
        typer.echo(json.dumps(rows))
        return
    table = Table(box=None, pad_edge=False)
    for i, column in enumerate(rows[0]):
        table.add_column(column, overflow="fold", no_wrap=i == 0)
    for row in rows:
        table.add_row(*(str(value) for value in row.values()))
    out.print(table)


@app.command()
def data(
    name: Annotated[str, typer.Argument(metavar="NAME", help="See `fedloom list datasets`.")],
    data_folder: DataFolder = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Fetch a dataset, or check a local copy of it, by its hashes."""
    from fedloom.cli.datasets import fetch_or_check

    for line in fetch_or_check(name, data_folder, as_json, quiet):
        typer.echo(line)


def _describe(simulation: Any, method: str) -> None:
    scenario, world = simulation.scenario, simulation.world
    notes.print(
        f"method {method}: {simulation.method.summary}; reveals {', '.join(sorted(simulation.method.needs))}\n"
        f"engine: {simulation.engine_name}\n"
        f"model: {scenario.task.model.kind}, {simulation.n_params:,} values, {amount(world.model_bits / 8, 'B')} on air\n"
        f"data: {simulation.dataset.name}, {world.n_samples.min()} to {world.n_samples.max()} samples a client\n"
        f"fleet: {world.fleet.n_devices} devices, {world.fleet.n_cells} cells",
        highlight=False,
        soft_wrap=True,
    )


def _expected(found: dict[str, Any]) -> str:
    """What the real run will take, in words."""
    work, speed = found["work"], found["speed"]
    source = "as measured just now" if speed["measured"] else "assumed"
    largest = max(found["memory"], key=lambda term: term["n_bytes"])
    short = ""
    if found["memory_bytes"] > found["free_memory_bytes"]:
        short = f", more than the {amount(found['free_memory_bytes'], 'B')} that are free"
    return (
        f"the real run: about {seconds(found['seconds'])} on this machine ({work['samples']:,.0f} samples to train on, "
        f"{speed['trained_s']:,.0f} a second, {source}), {amount(found['memory_bytes'], 'B')} of memory{short} (most of it for "
        f"{largest['what']}), {amount(found['disk_bytes'], 'B')} of disk"
    )


def _stopped(end: BaseException, done: int, total: int, dry_run: bool) -> str:
    """What to say when a run was stopped from outside."""
    from fedloom.cli.ends import by_what

    if dry_run:
        then = "a dry run keeps nothing"
    elif done:
        then = "the same command with --resume goes on from there"
    else:
        then = "the same command with --resume begins again, as no cloud round was over"
    return f"[yellow]stopped{by_what(end)} after cloud round {done} of {total}; {then}[/]"


def _report_of(folder: Path) -> tuple[Path, list[str]]:
    """Of one run: its report, and whether its curve can be believed."""
    from fedloom.record.report import write_report
    from fedloom.record.run_warnings import run_warnings
    from fedloom.record.runs import read_run

    run = read_run(folder)
    try:
        return write_report([run], folder / "report.html"), run_warnings(run)
    except OSError as error:
        raise RuntimeError(
            f"the run is finished and recorded in {folder}, but its report could not be written ({error.strerror or error}); "
            f"make it elsewhere with: fedloom report {folder} --out FILE"
        ) from error


def _summary(summary: dict[str, Any], folder: Path | None, report: Path | None) -> None:
    final, best = summary["final"], summary["best"]
    if "accuracy" in final:
        out.print(f"accuracy {final['accuracy']:.2%} (best {best['accuracy']:.2%} {_chosen(best)})", highlight=False)
    elif "rmse" in final:
        out.print(f"rmse {final['rmse']:.4g} (best {best['rmse']:.4g} {_chosen(best)})", highlight=False)
    out.print(
        f"{final['local_steps']} local steps, {final['edge_round']} edge rounds, {final['cloud_round']} cloud rounds: "
        f"{seconds(final['time_s'])} of simulated time, {amount(final['energy_j'], 'J')}, {amount(final['bytes'], 'B')}",
        highlight=False,
        soft_wrap=True,
    )
    last = summary["topologies"][-1]
    if last["resource_factor"] > 1:
        out.print(
            f"{last['links']} links to {last['aggregators']} aggregators ({last['resource_factor']:.2f} a client), "
            f"mixing factor {last['mixing_factor']:.3f}",
            highlight=False,
            soft_wrap=True,
        )
    if folder is not None:
        out.print(f"record: {folder}\nreport: {report}", highlight=False, soft_wrap=True)


def _chosen(best: dict[str, Any]) -> str:
    """When the best value came: there may be several evaluations in a cloud round, so by steps."""
    return f"after {best['local_steps']} local steps, chosen on test data"


def _show_comparison(comparison: Any, report: Path) -> None:
    from fedloom.record.comparison_table import CAPTION, rich_tables
    from fedloom.record.measures import EXISTING, OWN_LABELS, measure_meaning

    for table in rich_tables(comparison):
        out.print(table)
        out.print()
    out.print(CAPTION, highlight=False)
    words = OWN_LABELS | EXISTING
    for name in comparison.others:
        out.print(f"{words[name]} ({name}): {measure_meaning(name)}", highlight=False)
    for warning in comparison.warnings:
        notes.print(f"note: {warning}", highlight=False)
    out.print(f"report: {report}", highlight=False, soft_wrap=True)

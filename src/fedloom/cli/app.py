"""The commands."""

import json
import re
from pathlib import Path
from typing import Annotated

import typer

from fedloom.cli import deploy
from fedloom.cli.plan_options import BandSharing, Capacity, ComputeWatts, LeaveOut, Rotate, ServerSharing
from fedloom.cli.show import out, show_comparison

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
    typer.Option(
        "--set", metavar="KEY=VALUE", help="Change a setting: training.lr=0.05, or method.up=float16. May be repeated."
    ),
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
        from fedloom._versions import version_of

        typer.echo(f"fedloom {version_of('fedloom')}")
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
    scenario: Annotated[
        str | None, typer.Argument(metavar="SCENARIO", help="A name (see `fedloom list scenarios`) or a YAML file.")
    ] = None,
    method: Annotated[
        str | None,
        typer.Option(
            "--method",
            "-m",
            help="See `fedloom list methods`; options follow after colons: fedprox:mu=0.1 [hierfedavg, or a plan's].",
        ),
    ] = None,
    plan: Annotated[
        Path | None,
        typer.Option(metavar="plan.json", help="Run what `fedloom plan` has written: its clusters, fleet and periods."),
    ] = None,
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
    device: Annotated[str, typer.Option(help="Where torch trains: auto, cpu, cuda or mps.")] = "cpu",
    together: Annotated[
        int | None, typer.Option(min=1, help="Clients that torch trains at once [1 on cpu, elsewhere what fits].")
    ] = None,
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
    from fedloom.cli.one_run import run_once

    run_once(
        scenario,
        method,
        plan,
        seed,
        changes,
        folder,
        resume=resume,
        dry_run=dry_run,
        workers=workers,
        engine=engine,
        device=device,
        together=together,
        ray=ray,
        data_folder=data_folder,
        max_time=max_time,
        max_memory=max_memory,
        as_json=as_json,
        quiet=quiet,
        verbose=verbose,
        live=live,
        tensorboard=tensorboard,
    )


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
        show_comparison(comparison, report)


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
    show_comparison(comparison, report)


@app.command()
def plan(
    fleet: Annotated[
        Path,
        typer.Argument(metavar="FLEET.csv", help="A line per device: x_m,y_m or latitude,longitude; see docs/plan.md."),
    ],
    figure: Annotated[
        str | None,
        typer.Option(
            "--for",
            metavar="FIGURE",
            help="seconds, joules, bytes, battery, balance or mix: the best plan for it [seconds].",
        ),
    ] = None,
    method: Annotated[
        str | None, typer.Option("--method", "-m", help="ddc, geographic, ltc, ...: plan as a method does instead.")
    ] = None,
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
    capacity: Capacity = None,
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
    bandwidth_hz: Annotated[float, typer.Option(min=1e-3, max=1e15, help="Of every band.")] = 1e6,
    sharing: BandSharing = "own",
    server_sharing: ServerSharing = None,
    compute_w: ComputeWatts = 0.0,
    leave_out: LeaveOut = False,
    keep: Annotated[
        Path | None,
        typer.Option(metavar="plan.json", help="An earlier plan: who can stay where it put them does, see --moves."),
    ] = None,
    moves: Annotated[
        float, typer.Option(min=0, max=1, help="With --keep: most devices that may change their head, as a share.")
    ] = 0.1,
    rotate: Rotate = False,
    seed: Annotated[int, typer.Option(min=0, help="Of all that is random in the search.")] = 0,
    folder: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="Folder for the plan [plans/FLEET-FIGURE].")
    ] = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Plan a fleet from a table: clusters, heads, and seconds, joules and bytes of a round. No training."""
    from fedloom.cli.plan import Asked, plan_fleet

    asked = Asked(
        figure=figure,
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
        sharing=sharing,
        server_sharing=server_sharing,
        compute_w=compute_w,
        leave_out=leave_out,
        keep=keep,
        moves=moves,
        rotate=rotate,
        seed=seed,
    )
    plan_fleet(fleet, asked, folder, as_json=as_json, quiet=quiet)


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
        typer.Option(
            "--out", metavar="DIR", help="Folder for the page, its pictures and what is kept of runs [runs/reproduce]."
        ),
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
    own_data: Annotated[
        str,
        typer.Option(
            metavar="NAMES", help="Datasets whose files need not be the published ones, e.g. svhn; the page says so."
        ),
    ] = "",
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
        own_data=own_data,
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
    from fedloom.record.files import FolderError, refusal
    from fedloom.record.report import write_report
    from fedloom.record.runs import find_runs

    runs = find_runs(folders, listed=True)
    file = out_file or folders[0] / "report.html"
    try:
        written = write_report(runs, file, target=target)
    except (OSError, FolderError) as error:
        if (reason := refusal(error)) is None:
            raise
        raise ValueError(f"{file} cannot be written ({reason}); name another file with --out") from error
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


deploy.register(app)

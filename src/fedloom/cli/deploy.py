"""`fedloom deploy`, `cloud`, `edge`, `device`, `status`: real processes. Everything heavy is imported when used."""

import importlib.util
import json
from pathlib import Path
from typing import Annotated, Any

import typer

from fedloom.cli.method_text import with_settings
from fedloom.cli.show import out

deploy = typer.Typer(help="Cloud, edges and devices as processes, over mutual TLS.", no_args_is_help=True)

BundleFolder = Annotated[
    Path, typer.Argument(metavar="BUNDLE", help="The node's folder, made by `fedloom deploy init`.")
]
Folder = Annotated[Path, typer.Argument(metavar="DIR", help="The folder that `fedloom deploy init` made.")]
NodeName = Annotated[str, typer.Argument(metavar="NODE", help="edge-N or device-N.")]
Metrics = Annotated[
    str | None, typer.Option(metavar="HOST:PORT", help="Show metrics there for Prometheus, such as 127.0.0.1:9100.")
]
ScenarioName = Annotated[
    str | None, typer.Argument(metavar="[SCENARIO]", help="A YAML file, or a name from `fedloom list scenarios`.")
]
PlanFile = Annotated[
    Path | None, typer.Option("--plan", metavar="PLAN.JSON", help="Clusters and devices of a plan of `fedloom plan`.")
]
Meter = Annotated[
    str | None,
    typer.Option(
        metavar="MODULE:FUNCTION", help="Joules a device has used so far, by its own meter; rapl: the processor's."
    ),
]
MethodText = Annotated[str, typer.Option("--method", "-m", help="See `fedloom list methods`.")]
Seed = Annotated[int, typer.Option(min=0, help="Decides data partition, placement, batches: everything random.")]
Changes = Annotated[list[str], typer.Option("--set", metavar="KEY=VALUE", help="Change a setting. May be repeated.")]
Devices = Annotated[int | None, typer.Option("--devices", min=1, help="Devices, if not as many as in the scenario.")]
Patience = Annotated[
    float | None,
    typer.Option(
        "--patience",
        metavar="SECONDS",
        min=0,
        help="Silent nodes are not waited for after so long; 0: always [the method's].",
    ),
]
Task = Annotated[
    str | None,
    typer.Option(metavar="MODULE:FUNCTION", help="Own data and model, by the name of the node; see docs/deploy.md."),
]
EngineName = Annotated[str, typer.Option("--engine", help="auto, native or torch; chosen by every device for itself.")]
Quorum = Annotated[
    float | None,
    typer.Option(min=0, max=1, help="Share of clients, and of servers, that must be left [the method's]."),
]

ARTICLES = {"cloud": "the", "edge": "an", "device": "a"}


def register(app: typer.Typer) -> None:
    """Add the commands to the program."""
    app.add_typer(deploy, name="deploy")
    for role in ARTICLES:
        app.command(role, help=f"Run {ARTICLES[role]} {role}; goes on where it was if it was killed.")(
            _role_command(role)
        )
    app.command("status", help="What the cloud says of a federation that runs.")(status)


def _role_command(role: str) -> Any:
    def run(folder: BundleFolder, metrics: Metrics = None) -> None:
        _need_extra()
        from fedloom.deployment.roles import run_role

        run_role(folder, role=role, echo=True, metrics=metrics)

    return run


def status(folder: BundleFolder) -> None:
    """Who trains, sends, waits, is late, is gone: in a terminal a table until the federation is over, else JSON, once."""
    _need_extra()
    import asyncio

    from fedloom.cli.deploy_table import watch_status
    from fedloom.deployment.bundles import read_bundle
    from fedloom.deployment.roles import ask_status
    from fedloom.deployment.transport import RefusedBy, Unreachable

    bundle, credentials = read_bundle(folder)
    try:
        found = asyncio.run(ask_status(bundle, credentials))
        if out.is_terminal:
            watch_status(bundle, credentials, out)
        else:
            typer.echo(json.dumps(found, indent=1))
    except (Unreachable, RefusedBy) as error:
        raise ValueError(
            f"the cloud does not answer: {error}; start it with: fedloom cloud {folder.parent / 'cloud'}"
        ) from None


@deploy.command()
def init(
    folder: Annotated[Path, typer.Option("--out", metavar="DIR", help="A new folder for the bundles.")],
    scenario: ScenarioName = None,
    method: MethodText = "hierfedavg",
    seed: Seed = 0,
    changes: Changes = [],  # noqa: B006
    devices: Devices = None,
    host: Annotated[
        list[str], typer.Option("--host", metavar="NODE=HOST", help="Where a node runs [127.0.0.1]. May be repeated.")
    ] = [],  # noqa: B006
    port: Annotated[int, typer.Option(min=1, max=65535, help="Of the cloud; those of other nodes follow.")] = 7430,
    patience_s: Patience = None,
    quorum: Quorum = None,
    task: Task = None,
    plan: PlanFile = None,
    meter: Meter = None,
    engine: EngineName = "auto",
) -> None:
    """Make a private authority, and a bundle with certificate and settings for every node, for a scenario or a plan."""
    _need_extra()
    from fedloom.cli.deploy_bundles import (
        Wanted,
        addresses_of,
        cast_of,
        hosts_of,
        how_to_start,
        write_bundles,
        write_examples,
    )

    method, changes = with_settings(method, changes)
    wanted = Wanted(
        scenario=scenario,
        method=method,
        seed=seed,
        changes=changes,
        devices=devices,
        patience_s=patience_s,
        quorum=quorum,
        task=task,
        plan=plan,
        meter=meter,
        engine=engine,
    )
    cast = cast_of(wanted)
    bundle = write_bundles(folder, wanted, cast, addresses_of(cast, hosts_of(host), port))
    write_examples(folder, bundle)
    out.print(
        f"{len(bundle.roster) + 1} bundles in {folder}: copy each folder to its machine and start it there, in any order:\n"
        f"{how_to_start(bundle)}\n"
        f"examples: {folder / 'compose.yaml'}, {folder / 'fedloom@.service'}\n"
        f"{folder / 'ca'} holds the key of the authority: it stays here, and signs for `fedloom deploy add`",
        highlight=False,
        markup=False,
        soft_wrap=True,
    )


@deploy.command()
def add(folder: Folder, node: NodeName) -> None:
    """Make a new bundle for a node of the roster; its certificate before is revoked."""
    _need_extra()
    from fedloom.deployment.bundles import add_node

    out.print(f"a new bundle: {add_node(folder, node)}", highlight=False, markup=False, soft_wrap=True)


@deploy.command()
def revoke(folder: Folder, node: NodeName) -> None:
    """Revoke the certificate of a node: nobody lets it in any more, as soon as the cloud has read revoked.json."""
    _need_extra()
    from fedloom.deployment.bundles import REVOKED, revoke_node

    revoke_node(folder, node)
    out.print(
        f"{node} is revoked; if the cloud runs elsewhere, copy {folder / REVOKED} into its bundle",
        highlight=False,
        markup=False,
        soft_wrap=True,
    )


@deploy.command()
def local(
    scenario: ScenarioName = None,
    method: MethodText = "hierfedavg",
    seed: Seed = 0,
    changes: Changes = [],  # noqa: B006
    devices: Devices = None,
    folder: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="For bundles, state and record [runs/deployed-...].")
    ] = None,
    patience_s: Patience = None,
    quorum: Quorum = None,
    task: Task = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No live table.")] = False,
    shape: Annotated[
        bool,
        typer.Option("--shape", help="Every node in a network of its own, with the rates of the fleet (root, Linux)."),
    ] = False,
    plan: PlanFile = None,
    meter: Meter = None,
    engine: EngineName = "auto",
    resume: Annotated[bool, typer.Option("--resume", help="Go on with a federation that was stopped.")] = False,
) -> None:
    """Start everything on this machine as processes, watch it, and leave the usual record and report."""
    _need_extra()
    from fedloom.cli.deploy_bundles import Wanted
    from fedloom.cli.deploy_local import run_here
    from fedloom.gate.names import folder_name

    method, changes = with_settings(method, changes)
    wanted = Wanted(
        scenario=scenario,
        method=method,
        seed=seed,
        changes=changes,
        devices=devices,
        patience_s=patience_s,
        quorum=quorum,
        task=task,
        plan=plan,
        meter=meter,
        engine=engine,
    )
    name = f"deployed-{folder_name(scenario or 'plan')}-{folder_name(method)}-s{seed}"
    run_here(folder or Path("runs") / name, wanted, quiet=quiet, shape=shape, resume=resume)


def _need_extra() -> None:
    missing = [name for name in ("grpc", "cryptography", "prometheus_client") if importlib.util.find_spec(name) is None]
    if missing:
        raise ValueError(f"{' and '.join(missing)} missing here: pip install 'fedloom[deploy]'")

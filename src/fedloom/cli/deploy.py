"""`fedloom deploy`, `cloud`, `edge`, `device`, `status`: real processes. Everything heavy is imported when used."""

import importlib.util
import json
from pathlib import Path
from typing import Annotated, Any

import typer

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
    str, typer.Argument(metavar="SCENARIO", help="A YAML file, or a name from `fedloom list scenarios`.")
]
MethodText = Annotated[str, typer.Option("--method", "-m", help="See `fedloom list methods`.")]
Seed = Annotated[int, typer.Option(min=0, help="Decides data partition, placement, batches: everything random.")]
Changes = Annotated[list[str], typer.Option("--set", metavar="KEY=VALUE", help="Change a setting. May be repeated.")]
Devices = Annotated[int | None, typer.Option("--devices", min=1, help="Devices, if not as many as in the scenario.")]
Patience = Annotated[
    float,
    typer.Option("--patience", metavar="SECONDS", help="A silent device is not waited for after so long; 0: always."),
]
Task = Annotated[
    str | None,
    typer.Option(metavar="MODULE:FUNCTION", help="Own data and model, by the name of the node; see docs/deploy.md."),
]
Quorum = Annotated[float, typer.Option(min=0, max=1, help="Share of those sent together who must be left.")]

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
    scenario: ScenarioName,
    folder: Annotated[Path, typer.Option("--out", metavar="DIR", help="A new folder for the bundles.")],
    method: MethodText = "hierfedavg",
    seed: Seed = 0,
    changes: Changes = [],  # noqa: B006
    devices: Devices = None,
    host: Annotated[
        list[str], typer.Option("--host", metavar="NODE=HOST", help="Where a node runs [127.0.0.1]. May be repeated.")
    ] = [],  # noqa: B006
    port: Annotated[int, typer.Option(min=1, max=65000, help="Of the cloud; those of other nodes follow.")] = 7430,
    patience_s: Patience = 60.0,
    quorum: Quorum = 0.0,
    task: Task = None,
) -> None:
    """Make a private authority, and a bundle with certificate and settings for every node."""
    _need_extra()
    bundle = _bundles(
        scenario, folder, method, seed, changes, devices, dict(_pair(h) for h in host), port, patience_s, quorum, task
    )
    _examples(folder, bundle)
    out.print(
        f"{len(bundle.roster) + 1} bundles in {folder}: copy each folder to its machine and start it there, the cloud first:\n"
        f"  fedloom cloud cloud\n  fedloom edge edge-0\n  fedloom device device-0\n"
        f"examples: {folder / 'compose.yaml'}, {folder / 'fedloom@.service'}\n"
        f"{folder / 'ca'} holds the key of the authority: it stays here, and signs for `fedloom deploy add`",
        highlight=False,
        soft_wrap=True,
    )


@deploy.command()
def add(folder: Folder, node: NodeName) -> None:
    """Make a new bundle for a node of the roster; its certificate before is revoked."""
    _need_extra()
    from fedloom.deployment.bundles import add_node

    out.print(f"a new bundle: {add_node(folder, node)}", highlight=False, soft_wrap=True)


@deploy.command()
def revoke(folder: Folder, node: NodeName) -> None:
    """Revoke the certificate of a node: nobody lets it in any more, as soon as the cloud has read revoked.json."""
    _need_extra()
    from fedloom.deployment.bundles import REVOKED, revoke_node

    revoke_node(folder, node)
    out.print(
        f"{node} is revoked; if the cloud runs elsewhere, copy {folder / REVOKED} into its bundle",
        highlight=False,
        soft_wrap=True,
    )


@deploy.command()
def local(
    scenario: ScenarioName,
    method: MethodText = "hierfedavg",
    seed: Seed = 0,
    changes: Changes = [],  # noqa: B006
    devices: Devices = None,
    folder: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="For bundles, state and record [runs/deployed-...].")
    ] = None,
    patience_s: Patience = 60.0,
    quorum: Quorum = 0.0,
    task: Task = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No live table.")] = False,
) -> None:
    """Start everything on this machine as processes, watch it, and leave the usual record and report."""
    _need_extra()
    from fedloom.cli.deploy_local import watch
    from fedloom.gate.names import folder_name

    name = f"deployed-{folder_name(scenario)}-{folder_name(method)}-s{seed}"
    where = folder or Path("runs") / name
    bundle = _bundles(scenario, where, method, seed, changes, devices, {}, None, patience_s, quorum, task)
    watch(where, bundle, quiet=quiet)


def _bundles(
    scenario: str,
    folder: Path,
    method: str,
    seed: int,
    changes: list[str],
    devices: int | None,
    hosts: dict[str, str],
    port: int | None,
    patience_s: float,
    quorum: float,
    task: str | None,
) -> Any:
    """Bundles for a scenario: addresses on loopback unless told otherwise. port None: whatever is free."""
    from fedloom.deployment.bundles import make_bundles
    from fedloom.deployment.local import free_ports
    from fedloom.deployment.planning import roster_of
    from fedloom.deployment.roles import check_runs
    from fedloom.simulator import make_method
    from fedloom.simulator import scenario as read_scenario

    chosen = read_scenario(scenario, [*changes, *([] if devices is None else [f"fleet.n_devices={devices}"])])
    made = make_method(method)
    check_runs(chosen, made)
    roster, serving = roster_of(chosen, made, seed, task)
    unknown = sorted(set(hosts) - set(serving))
    if unknown:
        raise ValueError(
            f"--host is for nodes that serve, and {', '.join(unknown)} do not; here these do: {', '.join(serving)}"
        )
    ports = free_ports(len(serving)) if port is None else list(range(port, port + len(serving)))
    return make_bundles(
        folder,
        scenario=chosen.model_dump(mode="json"),
        method=method,
        seed=seed,
        roster=roster,
        serves={name: f"{hosts.get(name, '127.0.0.1')}:{p}" for name, p in zip(serving, ports)},
        patience_s=patience_s or None,
        quorum=quorum,
        task=task,
    )


def _examples(folder: Path, bundle: Any) -> None:
    """A compose file and a systemd unit to begin with."""
    lines = [
        "# docker compose up: every node in a container; the image needs `pip install fedloom[deploy]`",
        "services:",
    ]
    for name in ("cloud", *bundle.roster):
        lines += [
            f"  {name}:",
            "    image: fedloom",
            f"    command: fedloom {name.split('-')[0]} /bundle",
            f"    volumes: ['./{name}:/bundle']",
            "    network_mode: host",
            "    restart: on-failure",
        ]
    (folder / "compose.yaml").write_text("\n".join(lines) + "\n")
    (folder / "fedloom@.service").write_text(
        "# systemctl start fedloom@device-0, with the bundle in /etc/fedloom/device-0; for an edge put `edge` in its place\n"
        "[Unit]\nDescription=FedLoom %i\nAfter=network-online.target\n\n"
        "[Service]\nExecStart=fedloom device /etc/fedloom/%i\nRestart=on-failure\nRestartSec=2\n\n"
        "[Install]\nWantedBy=multi-user.target\n"
    )


def _pair(text: str) -> tuple[str, str]:
    node, found, host = text.partition("=")
    if not found or not host:
        raise ValueError(f"--host must be NODE=HOST, such as edge-0=192.168.1.20, got {text!r}")
    return node, host


def _need_extra() -> None:
    missing = [name for name in ("grpc", "cryptography", "prometheus_client") if importlib.util.find_spec(name) is None]
    if missing:
        raise ValueError(f"{' and '.join(missing)} missing here: pip install 'fedloom[deploy]'")

"""Bundles for what was asked for on the command line: from a scenario, or from a plan."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

PORT = 7430
LOOPBACK = "127.0.0.1"
LAST_PORT = 65535
_HOST = re.compile(r"[\w.:%\[\]-]+")  # a name, or an address of either kind
MOST_SHOWN = 5  # nodes of a role that are shown one by one


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """As on the command line. plan: whose clusters are used, in the scenario if there is one. patience_s: 0 for ever; it and
    quorum are None if they are to be the method's."""

    scenario: str | None
    method: str
    seed: int = 0
    changes: list[str] = field(default_factory=list)
    devices: int | None = None
    patience_s: float | None = None
    quorum: float | None = None
    task: str | None = None
    plan: Path | None = None
    meter: str | None = None
    engine: str = "auto"


@dataclass(frozen=True, kw_only=True)
class Cast:
    """Who takes part: nodes beside the cloud, and those of all who serve. planned: the plan, if there is one;
    waiting: whom they go on without."""

    scenario: Any
    roster: tuple[str, ...]
    serving: tuple[str, ...]
    waiting: Any
    planned: Any = None


def cast_of(wanted: Wanted) -> Cast:
    """Read the scenario or plan, and see who takes part; refused if it cannot be deployed."""
    from fedloom import _check
    from fedloom.deployment.plans import method_of, read_plan, scenario_of
    from fedloom.deployment.roles import check_runs
    from fedloom.deployment.roster import roster_of
    from fedloom.simulator import scenario as read_scenario
    from fedloom.training.choose import ENGINES

    _check.one_of("engine", wanted.engine, ENGINES)
    planned = None if wanted.plan is None else read_plan(wanted.plan)
    if planned is not None and wanted.devices is not None:
        raise ValueError("--devices is for a scenario; a plan says itself which devices there are")
    changes = [*wanted.changes, *([] if wanted.devices is None else [f"fleet.n_devices={wanted.devices}"])]
    if planned is not None:
        chosen = scenario_of(planned, wanted.scenario, changes)
    elif wanted.scenario is not None:
        chosen = read_scenario(wanted.scenario, changes)
    else:
        raise ValueError("give a scenario, or a plan with --plan plan.json, or both")
    method = method_of(wanted.method, None if planned is None else planned.clusters)
    check_runs(chosen, method)
    roster, serving = roster_of(chosen, method, wanted.seed, wanted.task)
    return Cast(
        scenario=chosen, roster=roster, serving=serving, waiting=_waiting(wanted, method.waiting), planned=planned
    )


def _waiting(wanted: Wanted, of_method: Any) -> Any:
    """As the method says, but for what the command line does."""
    given: dict[str, float | None] = {}
    if wanted.patience_s is not None:
        given["patience_s"] = wanted.patience_s or None
    if wanted.quorum is not None:
        given |= {"quorum": wanted.quorum, "cloud_quorum": wanted.quorum}
    return replace(of_method, **given)


def addresses_of(cast: Cast, hosts: Mapping[str, str], port: int | None) -> dict[str, str]:
    """HOST:PORT of those who serve: on loopback unless told otherwise. port None: whatever is free."""
    from fedloom.deployment.local import free_ports

    unknown = sorted(set(hosts) - set(cast.serving))
    if unknown:
        raise ValueError(
            f"--host is for nodes that serve, and {', '.join(unknown)} do not; here these do: {', '.join(cast.serving)}"
        )
    n = len(cast.serving)
    if port is not None and port + n - 1 > LAST_PORT:
        raise ValueError(
            f"{n} nodes serve, at the ports from {port} on, and the last port is {LAST_PORT}; give a smaller --port"
        )
    ports = free_ports(n) if port is None else list(range(port, port + n))
    return {name: f"{_bracketed(hosts.get(name, LOOPBACK))}:{p}" for name, p in zip(cast.serving, ports)}


def _bracketed(host: str) -> str:
    """An address of IPv6 stands in brackets before a port.

    >>> _bracketed("fd00::7"), _bracketed("10.0.0.7")
    ('[fd00::7]', '10.0.0.7')
    """
    return f"[{host}]" if ":" in host and not host.startswith("[") else host


def how_to_start(bundle: Any) -> str:
    """The command for every node, where it listens, and who cannot be reached from other machines."""
    lines = []
    for role in ("cloud", "edge", "device"):
        names = [name for name in ("cloud", *bundle.roster) if name.split("-")[0] == role]
        for name in names[:MOST_SHOWN]:
            at = f", listens at {bundle.addresses[name]}" if name in bundle.addresses else ""
            lines.append(f"  fedloom {role} {name}{at}")
        if len(names) > MOST_SHOWN:
            lines.append(f"  and so on, up to {names[-1]}")
    inside = [name for name, address in bundle.addresses.items() if address.startswith(f"{LOOPBACK}:")]
    if len(inside) < len(bundle.addresses):
        more = f" and {len(inside) - MOST_SHOWN} more" if len(inside) > MOST_SHOWN else ""
        alone = f"{', '.join(inside[:MOST_SHOWN])}{more}: on loopback, reached from the same machine alone; see --host"
        lines += [alone] if inside else []
    return "\n".join(lines)


def write_bundles(folder: Path, wanted: Wanted, cast: Cast, addresses: Mapping[str, str]) -> Any:
    """The bundles of all nodes, and for a plan a table of which node is which device."""
    from fedloom.deployment.bundles import make_bundles
    from fedloom.deployment.plans import roster_lines

    bundle = make_bundles(
        folder,
        scenario=cast.scenario.model_dump(mode="json"),
        method=wanted.method,
        seed=wanted.seed,
        roster=cast.roster,
        serves=addresses,
        waiting=cast.waiting,
        task=wanted.task,
        clusters=None if cast.planned is None else cast.planned.clusters,
        meter=wanted.meter,
        engine=wanted.engine,
    )
    if cast.planned is not None:
        (folder / "roster.csv").write_text(roster_lines(cast.planned))
    return bundle


def _pair(text: str) -> tuple[str, str]:
    node, found, host = text.partition("=")
    if not found or host.count(":") == 1 or not _HOST.fullmatch(host):
        raise ValueError(
            f"--host must be NODE=HOST, such as edge-0=192.168.1.20, got {text!r}; ports follow from --port"
        )
    return node, host


def hosts_of(texts: list[str]) -> dict[str, str]:
    """NODE=HOST, each."""
    return dict(_pair(text) for text in texts)


def write_examples(folder: Path, bundle: Any) -> None:
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

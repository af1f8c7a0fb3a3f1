"""Watching a federation of processes on this machine: who trains, sends, waits, is late, is gone; then the report."""

import json
import time
from pathlib import Path

from rich.live import Live

from fedloom.cli.deploy_bundles import PORT, Wanted, addresses_of, cast_of, write_bundles
from fedloom.cli.deploy_table import LOOK_S, asked, table_of
from fedloom.cli.show import notes, out
from fedloom.deployment.bundles import BUNDLE, Bundle, read_bundle
from fedloom.deployment.local import Processes, started
from fedloom.deployment.naming import CLOUD, identity_of
from fedloom.deployment.roles import LOG, RECORD
from fedloom.deployment.shaping import Network, check_means, network


def run_here(folder: Path, wanted: Wanted, *, quiet: bool, shape: bool, resume: bool = False) -> None:
    """Bundles in a folder, and all nodes on this machine: on loopback, or, shaped, each in a network of its own. resume: with
    the bundles that are there, where it was."""
    if resume and shape:
        raise ValueError("--resume is without --shape: networks are gone when a run ends; begin anew in another folder")
    if resume:
        bundle, _ = read_bundle(folder / CLOUD)
        if (bundle.method, bundle.seed) != (wanted.method, wanted.seed):
            raise ValueError(
                f"{folder} is of the method {bundle.method} with seed {bundle.seed}; give these, or another --out"
            )
        watch(folder, bundle, quiet=quiet)
        return
    if (folder / CLOUD / BUNDLE).exists():
        raise ValueError(f"{folder} holds a federation; go on with it by --resume, or begin another in another --out")
    if not shape:
        cast = cast_of(wanted)
        watch(folder, write_bundles(folder, wanted, cast, addresses_of(cast, {}, None)), quiet=quiet)
        return
    check_means()
    cast = cast_of(wanted)
    with network((CLOUD, *cast.roster)) as made:
        addresses = {name: f"{made.address(name)}:{PORT}" for name in cast.serving}
        watch(folder, write_bundles(folder, wanted, cast, addresses), quiet=quiet, made=made)


def watch(folder: Path, bundle: Bundle, *, quiet: bool, made: Network | None = None) -> None:
    """Start all nodes, show what they do until the cloud is done, and say where the record and its report are."""
    from fedloom.record.report import write_report
    from fedloom.record.runs import read_run

    _, credentials = read_bundle(folder / CLOUD)
    with (
        started(folder, bundle.roster, made) as processes,
        Live(console=notes, transient=True, auto_refresh=False) as live,
    ):
        while not processes.over:
            check_ends(folder, processes)
            if not quiet and notes.is_terminal:
                ended = [name for name, process in processes.running.items() if process.exitcode is not None]
                live.update(table_of(asked(bundle, credentials), ended), refresh=True)
            time.sleep(LOOK_S)
    record = folder / CLOUD / RECORD
    report = write_report([read_run(record)], record / "report.html")
    summary = json.loads((record / "summary.json").read_text())
    accuracy = summary["final"].get("accuracy")
    if accuracy is not None:
        out.print(f"accuracy {accuracy:.2%} after {summary['final']['cloud_round']} cloud rounds", highlight=False)
    out.print(f"record: {record}\nreport: {report}", highlight=False, soft_wrap=True)


def check_ends(folder: Path, processes: Processes) -> None:
    """RuntimeError if the cloud has ended before its time, or nobody is left of a role; with the last words of one of them."""
    failed = processes.failed()
    for role in ("cloud", "edge", "device"):
        of_role = [name for name in processes.running if identity_of(name).role == role]
        if of_role and set(of_role) <= set(failed):
            name = of_role[-1]
            who = "the cloud has" if role == CLOUD else f"all {role}s have"
            log = folder / name / LOG
            raise RuntimeError(f"{who} ended; the last words of {name}: {_last_words(log)}; its log: {log}")


def _last_words(log: Path) -> str:
    """Why a node has ended, or else the last line of its log."""
    lines = log.read_text().splitlines() if log.exists() else []
    if not lines:
        return "it has said nothing"
    try:
        return str(json.loads(lines[-1])["why"])
    except (ValueError, KeyError):
        return lines[-1]

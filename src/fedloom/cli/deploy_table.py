"""Who does what in a federation of processes, as a table: trains, sends, waits, is late, is gone."""

import asyncio
import time
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from fedloom.deployment.bundles import Bundle
    from fedloom.deployment.certificates import Credentials

LOOK_S = 0.5
GONE_S = 15.0  # nobody is silent for so long who is there
MOST_ROWS = 30  # more nodes than that are counted by what they do
WORDS = {
    "fetch": "fetches",
    "hold": "fetches",
    "train": "trains",
    "feature": "trains",
    "merge": "merges",
    "send": "sends",
    "deliver": "sends",
    "report": "sends",
}


def rows_of(status: Mapping[str, Any], ended: Collection[str] = ()) -> list[tuple[str, str, str]]:
    """(who, does, silent) of what the cloud says (fedloom.deployment.cloud.CloudDesk.status). ended: nodes whose processes have.

    A line for every node; above MOST_ROWS of them one for all of a role that do the same, with how many they are.
    """
    nodes = {name: (word_of(name, facts, ended), facts["silent_s"]) for name, facts in status["nodes"].items()}
    if len(nodes) <= MOST_ROWS:
        ordered = sorted(nodes, key=_by_number)
        return [(name, nodes[name][0], f"{nodes[name][1]:.1f} s") for name in ordered]
    together: dict[tuple[str, str], list[float]] = {}
    for name, (word, silent_s) in nodes.items():
        together.setdefault((name.split("-")[0], word), []).append(silent_s)
    return [
        (f"{len(silent)} {role}{'s' if len(silent) > 1 else ''}", word, f"up to {max(silent):.1f} s")
        for (role, word), silent in sorted(together.items(), reverse=True)
    ]


def word_of(name: str, facts: Mapping[str, Any], ended: Collection[str]) -> str:
    """What a node does, in a word or two."""
    if name in ended or facts["lost"] or facts["silent_s"] > GONE_S:
        return "is gone"
    does = ", ".join(sorted({WORDS.get(what, what) for what in facts["does"]})) or "waits"
    return ", ".join([does, *(["is late"] if facts["late"] else []), *(["is there twice"] if facts["twice"] else [])])


def table_of(status: Mapping[str, Any] | None, ended: Collection[str] = ()) -> "Table":
    from rich.table import Table

    title = "the cloud does not answer" if status is None else f"{status['seconds']:.1f} s"
    table = Table("node", "does", "silent", title=title)
    for row in [] if status is None else rows_of(status, ended):
        table.add_row(*row)
    return table


def asked(bundle: "Bundle", credentials: "Credentials") -> dict[str, Any] | None:
    """What the cloud says; None if it does not answer."""
    from fedloom.deployment.roles import ask_status
    from fedloom.deployment.transport import RefusedBy, Unreachable

    try:
        return asyncio.run(ask_status(bundle, credentials, 2.0))
    except (Unreachable, RefusedBy):
        return None


def watch_status(bundle: "Bundle", credentials: "Credentials", console: "Console") -> None:
    """Show the table until the federation is over or the cloud does not answer any more."""
    from rich.live import Live

    with Live(console=console, auto_refresh=False) as live:
        while (status := asked(bundle, credentials)) is not None:
            live.update(table_of(status), refresh=True)
            if status["over"]:
                return
            time.sleep(LOOK_S)


def _by_number(name: str) -> tuple[str, int]:
    role, _, number = name.partition("-")
    return {"edge": "a"}.get(role, role), int(number or 0)

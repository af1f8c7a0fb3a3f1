"""A letter reaches a process: who it is for, and what it means there."""

from typing import TYPE_CHECKING

from . import clouds, devices, edges
from .network import CLOUD, Envelope

if TYPE_CHECKING:
    from .driver import Run


def deliver(run: "Run", envelope: Envelope) -> None:
    """A letter is here. Who is down does not get it, and letters of or for an earlier life are not read."""
    kind, sender, from_boot, to, to_boot, body = envelope
    process = run.net.processes.get(to)
    if process is None or not process.up or to_boot not in (-1, process.boot):
        return
    if from_boot < run.known.get((to, sender), -1):
        return  # of an earlier life of its sender
    match kind:
        case "order":
            devices.ordered(run, to[1], *body)
        case "update":
            edges.updated(run, to, *body)
        case "taken":
            run.devices[to[1]].accepted(body)
            if not run.devices[to[1]].owes:
                run.net.settle(("update", to[1]))
        case "down":
            edges.down(run, to, process, *body)
        case "got":
            if run.cloud.out.get(sender[1]) == body or run.cloud.settled.get(sender[1], 0) >= body:
                clouds.settle_down(run, sender[1], body)
        case "report":
            clouds.reported(run, sender, *body)
        case "heard":
            if run.sent_reports.get(to[1], (None,))[0] == body:
                run.net.settle(("report", to[1]))
        case "hello":
            clouds.hello(run, sender, from_boot)
        case "welcome":
            run.net.settle(("hello", to[1]))
        case "who":
            run.known[to, CLOUD] = from_boot
            body = (None if process.blank else run.memos.get(to[1]), to[1] in run.woken)
            run.net.post("told", to, CLOUD, body, run.boot(CLOUD))
            edges.repeat_report(run, to[1])
        case "told":
            clouds.told(run, sender, from_boot, *body)
        case _:
            raise AssertionError(kind)


def aim(run: "Run", key: tuple) -> None:
    """An update is sent to the edge that its client is with."""
    if key[0] == "update" and run.net.insisted(key) is not None:
        run.net.redirect(key, ("edge", int(run.federation.roster.group_of[key[1]])))

"""Processes stop, with or without their state, and start again."""

import copy
from typing import TYPE_CHECKING

from fedloom.protocol import Device

from . import alarms, moves
from .network import CLOUD, Process, Up

if TYPE_CHECKING:
    from .driver import Run


def fail(run: "Run", what: str) -> None:
    """A process of a role stops, its state kept or lost; or a client moves."""
    chance, processes = run.chance, run.net.processes
    if what == "move":
        moves.move(run)
        return
    role, state = what.split()
    who = chance.choice(sorted(who for who in processes if who[0] == role))
    process = processes[who]
    if not process.up:
        return
    process.up, process.up_at_s = False, run.net.now_s + chance.uniform(0.0, 10.0)
    if state == "lost":
        lose(run, who, process)
    else:
        restore(run, who)
    run.net.at(process.up_at_s, Up(who, process.boot))


def restore(run: "Run", who: tuple) -> None:
    """Its state is kept: a copy of it goes on."""
    federation = run.federation
    shared = [federation.roster, federation.terms, run.plan.edge, run.plan.cloud, *run.kept]
    shared += [federation.edges, *federation.edges] if who == CLOUD else []
    memo = {id(thing): thing for thing in shared}
    if who[0] == "edge":
        federation.edges[who[1]] = copy.deepcopy(federation.edges[who[1]], memo)
    elif who == CLOUD:
        run.cloud = federation.cloud = copy.deepcopy(run.cloud, memo)
    else:
        run.devices[who[1]] = copy.deepcopy(run.devices[who[1]])


def lose(run: "Run", who: tuple, process: Process) -> None:
    """Its state is lost: what it begins anew is another life."""
    process.boot += 1
    run.net.forget(who)
    if who[0] == "device":
        run.devices[who[1]] = Device()
    else:
        process.blank = True
    if who[0] == "edge":
        run.memos.pop(who[1], None)
        run.woken.discard(who[1])
        run.sent_reports.pop(who[1], None)
    if who == CLOUD:
        run.told = {}
        run.cloud.forget()
        run.laws.lost_reports()
        run.reported = [run.models[0]] * len(run.reported)


def come_up(run: "Run", who: tuple, boot: int) -> None:
    """A process is up again."""
    process = run.net.processes.get(who)
    if process is None or process.boot != boot or process.up:
        return
    process.up = True
    if who == CLOUD and process.blank:
        alarms.act(run, CLOUD, "who", None)
    elif who[0] == "edge":
        alarms.act(run, who, "up", None)

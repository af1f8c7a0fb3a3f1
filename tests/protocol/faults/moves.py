"""Clients go elsewhere, leave, or come back."""

from typing import TYPE_CHECKING

import numpy as np

from fedloom.protocol.messages import Moved

from . import devices
from .network import ROSTER

if TYPE_CHECKING:
    from .driver import Run


def look(run: "Run") -> int:
    """Note who is where; the number of the note."""
    run.attendance = run.plan.attendance()
    run.log.append(("look", run.attendance.topology.cover.tolist(), run.attendance.group_of.tolist()))
    run.note_of[id(run.attendance)] = len(run.kept)
    run.kept.append(run.attendance)
    return len(run.kept) - 1


def move(run: "Run") -> None:
    """A client goes elsewhere, leaves, or comes back. The first never leaves."""
    client = run.chance.randrange(len(run.plan.home))
    here = run.chance.random() < 0.8 or client == 0
    run.plan.home[client] = run.chance.randrange(len(run.plan.host)) if here else -1
    note = look(run)
    run.federation.move(run.attendance)
    run.log.append(("move", note))
    run.laws.moved()
    leave(run, [] if here else [client])
    for edge in run.federation.edges:
        run.tell(edge, Moved(run.net.now_s, run.attendance))
    wake(run)
    devices.returned(run, client)


def shuffle(run: "Run") -> list[int]:
    """Between cloud rounds clients may move, leave or come back; those who left."""
    left = []
    for client in range(len(run.plan.home)):
        if run.chance.random() < 0.15:
            here = run.chance.random() < 0.8 or client == 0
            run.plan.home[client] = run.chance.randrange(len(run.plan.host)) if here else -1
            left += [] if here else [client]
    return left


def leave(run: "Run", clients: list[int]) -> None:
    """Clients have left: nobody waits for them."""
    before = run.laws.held()
    run.schedule.gone(clients)
    for client in clients:
        run.net.settle(("update", client))
        for key in [key for key in run.net.insisting() if key[:2] == ("order", client)]:
            run.net.settle(key)
    if clients:
        told, actions = run.federation.gone(np.array(clients), run.net.now_s)
        for edge, event in told:
            run.tell(edge, event)
        run.perform(actions)
        run.laws.excuse({name for name in before - run.laws.held() if name[0] in clients})


def wake(run: "Run") -> None:
    """Groups that had nobody go on, if somebody has come."""
    if run.plan.cloud.waits:
        return
    up = [edge for edge in run.federation.edges if run.listen({edge.group})]
    for edge in run.federation.woken(run.attendance, up):
        if 0 < edge.rounds_left < run.plan.edge_rounds:
            run.net.later(("edge", edge.group), run.net.now_s, "open")
        else:
            run.woken.add(edge.group)
            run.net.later(ROSTER, run.net.now_s, "wake", (edge.group, run.boot(("edge", edge.group))))

"""Sending clients to work in air that is shared: when they are back is known when they are, as others may send meanwhile."""

from functools import partial

import numpy as np

from fedloom.protocol.messages import OnTheWay, Send
from fedloom.simulator.air import Air
from fedloom.simulator.clock import Delivered, Overdue
from fedloom.simulator.held import Errand
from fedloom.simulator.scene import Scene


def send_on_air(air: Air, action: Send, scene: Scene, event: OnTheWay, *, gathers: bool) -> None:
    """Clients fetch, compute and return in the fleet's air; each is told of when it is back, or as many as were sent together
    when all are, if nobody goes by less (gathers) and there is no deadline; who is not back at the deadline is told of then. Who
    meets nobody else in the air is back when it was predicted. Who fails takes no air; who begins again is back as foreseen."""
    errand: Errand = action.parts[0].load
    sent, client, clock = errand.sent, action.client.tolist(), air.clock
    assert sent is not None
    ticket = np.zeros(len(client), dtype=np.int64)
    for part in action.parts:
        ticket[part.at] = part.ticket
    fate, due_s = errand.fate, event.at_s + action.deadline_s
    is_back = np.zeros(len(client), np.bool_) if fate is None else fate.cause >= 0  # who never is, is not late
    usual = list(range(len(client))) if fate is None else np.flatnonzero(fate.usual).tolist()
    together = gathers and not np.isfinite(due_s) and len(usual) == len(client)
    if together and fate is None and action.group in scene.undisturbed:
        clock.foresee(float(sent.arrival_s.max()), Delivered(tuple(client), tuple(ticket.tolist())))
        return
    sent.arrival_s[usual] = np.nan  # until it is known

    def back(j: int, at_s: float) -> None:
        is_back[j], sent.arrival_s[j] = True, at_s
        if not together:
            clock.foresee(at_s, Delivered((client[j],), (int(ticket[j]),)))
        elif is_back.all():
            clock.foresee(at_s, Delivered(tuple(client), tuple(ticket.tolist())))

    ways, who, compute_s = scene.exchange, [client[j] for j in usual], sent.compute_s[usual].tolist()
    times = None if fate is None else (fate.down.on_air[usual].tolist(), fate.up.on_air[usual].tolist())
    air.work(ways.client_down, ways.client_up, who, compute_s, event.at_s, lambda i, s: back(usual[i], s), times)
    for j in np.setdiff1d(np.flatnonzero(np.isfinite(event.takes_s)), usual).tolist():
        clock.call(event.at_s + float(event.takes_s[j]), partial(back, j))
    if np.isfinite(due_s):
        clock.foresee(due_s, Overdue(sent, is_back))
        clock.give_until(action.group, due_s)

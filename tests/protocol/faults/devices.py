"""What devices do: train what they are told to, and deliver it until somebody has it."""

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from .driver import Run


def trained(start: np.ndarray, client: int, ticket: int, steps: int) -> np.ndarray:
    """What a device makes of a model: any function of these will do."""
    return start * 0.75 + np.array([client + 1.0, ticket * 0.5, steps * 0.25 - client])


def ordered(run: "Run", client: int, group: int, ticket: int, steps: int, start: np.ndarray) -> None:
    """A device is told to work."""
    if run.plan.home[client] < 0:
        return
    if run.devices[client].ordered(ticket):
        run.schedule.works(client, run.boot(("device", client)), ticket)
        run.jobs[client] = (ticket, steps, start)
        run.net.settle(("update", client))
        slow = run.chance.choice([0.3, 1.0, 1.0, 3.0, 8.0])
        seconds = steps * float(run.plan.step_s[client]) * slow
        run.net.later(("device", client), run.net.now_s + seconds, "done", ticket)


def finished(run: "Run", client: int, ticket: int) -> None:
    """A device has done its work; it delivers it until somebody has it."""
    device = run.devices[client]
    device.finished(ticket)
    if device.owes and ticket == device.ticket:
        ticket, steps, start = run.jobs[client]
        run.results[client] = trained(start, client, ticket, steps)
        offer(run, client)


def offer(run: "Run", client: int) -> None:
    """The update goes to the edge that the client is with, until it is taken."""
    group, ticket = int(run.federation.roster.group_of[client]), run.devices[client].ticket
    body = (client, ticket, run.results[client])
    run.net.insist(("update", client), "update", ("device", client), ("edge", group), body)


def returned(run: "Run", client: int) -> None:
    """Who comes back delivers what it still owes."""
    if run.plan.home[client] >= 0 and run.devices[client].owes:
        offer(run, client)

"""A cloud round begins and ends: clients may have moved, groups may be others."""

from typing import TYPE_CHECKING

import numpy as np

from fedloom.protocol.messages import Moved

from . import edges, moves
from .network import CLOUD, Process

if TYPE_CHECKING:
    from .driver import Run


def enter(run: "Run", first: bool = False) -> None:
    """A cloud round begins: clients may have moved, groups may be others."""
    federation, plan = run.federation, run.plan
    left = [] if first or plan.wander else moves.shuffle(run)
    if first or not plan.wander:
        stays = federation.regroup(plan.topology())
        attendance = moves.look(run)
        run.log.append(("regroup", [e.aggregators.tolist() for e in federation.edges], stays, attendance, first))
        if not stays:
            new_edges(run)
        run.laws.regrouped(stays)
        run.schedule.regrouped()
        run.laws.moved()
        federation.enter(run.attendance)
        run.log.append(("enter", attendance))
        moves.leave(run, left)
        for edge in federation.edges:
            run.tell(edge, Moved(run.net.now_s, run.attendance))
        moves.wake(run)
    begun = federation.begin(plan.cloud.reports_of_each(None, plan.edge_rounds))
    run.log.append(("begin",))
    run.perform(begun)


def new_edges(run: "Run") -> None:
    """Groups are others: each is a process of its own."""
    for who in [who for who in run.net.processes if who[0] == "edge"]:
        run.net.forget(who)
        del run.net.processes[who]
    run.boots += 1000
    for edge in run.federation.edges:
        run.net.processes["edge", edge.group] = Process(boot=run.boots)
        run.known[CLOUD, ("edge", edge.group)] = run.boots
    run.memos, run.sent_reports, run.woken = {}, {}, set()
    for (client, ticket), (sender, steps, start) in orders_left(run).items():
        edges.order(run, sender, client, ticket, steps, start)


def orders_left(run: "Run") -> dict:
    """Work under way whose order was the business of a group that is no more: those that have its client repeat it."""
    found = {}
    for flight in run.federation.flights():
        for (client, ticket), arrives_s in zip(flight.names, flight.arrives_s.tolist()):
            group = int(run.federation.roster.group_of[client])
            if np.isinf(arrives_s) and group >= 0:
                found[client, ticket] = (group, run.steps[client, ticket], run.starts[client, ticket])
    return found


def after_report(run: "Run") -> None:
    """A cloud round is over when nothing is due; the federation, when the cloud has merged often enough."""
    cloud = run.cloud
    if cloud.due > 0 or run.told is not None:
        return
    late = [name for flight in run.federation.roster.late for name in flight.names]
    run.perform(run.plan.cloud.finish(cloud))
    run.schedule.late_dropped()
    if run.plan.drops_late:
        run.laws.excuse(late)
    if cloud.version >= run.plan.versions:
        run.over = True
    else:
        enter(run)

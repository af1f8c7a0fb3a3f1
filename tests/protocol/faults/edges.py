"""What edges do: send clients to work, take updates, merge, report."""

from typing import TYPE_CHECKING

import numpy as np

from fedloom.protocol.cloud import Said
from fedloom.protocol.messages import Begin, Merge, OnTheWay, Report, Send

from .network import CLOUD, ROSTER, Process

if TYPE_CHECKING:
    from .driver import Run


def send(run: "Run", action: Send) -> None:
    """Clients go to work: each is ordered to, and starts from the mean of the models of its aggregators."""
    edge = run.federation.edges[action.group]
    run.federation.devices.leave(action.client, action.steps, edge.n_rounds)
    names = [name for part in action.parts for name in part.names]
    steps = dict(zip(action.client.tolist(), action.steps.tolist()))
    for client, ticket in names:
        cover = np.flatnonzero(edge.here.topology.cover[:, client]).tolist()
        start = sum((run.edges[n] / len(cover) for n in cover[1:]), run.edges[cover[0]] / len(cover))
        run.starts[client, ticket], run.steps[client, ticket] = start, steps[client]
        order(run, action.group, client, ticket, steps[client], start)
    hosts = [host for part in action.parts for host in part.host.tolist()]
    run.laws.sent(dict(zip(names, hosts)))
    run.schedule.sent(action)
    run.log.append(("send", action.group, names, [steps[k] for k, _ in names], run.note_of[id(edge.here)]))
    m = len(action.client)
    event = OnTheWay(run.net.now_s, action.parts[0], np.full(m, np.nan), np.zeros(m, dtype=np.bool_))
    run.tell(edge, event)


def order(run: "Run", group: int, client: int, ticket: int, steps: int, start: np.ndarray) -> None:
    """A client is told to work, until its update is there."""
    key, to = ("order", client, ticket), ("device", client)
    run.net.insist(key, "order", ("edge", group), to, (group, ticket, steps, start))


def merge(run: "Run", action: Merge) -> None:
    """Aggregators have new models."""
    edge = run.federation.edges[action.group]
    run.laws.merging(action)
    run.schedule.merging(action)
    for part in action.parts:
        names = [name for flight in part.flights for name in flight.names]
        weights, model = part.weights, part.weights.own * run.edges[part.aggregator]
        for name, weight in zip(names, weights.model.tolist()):
            model = model + weight * run.here[name]
        if weights.start is not None:
            for name, weight in zip(names, weights.start.tolist()):
                model = model + weight * run.starts[name]
        run.edges[part.aggregator] = model
        ages, where = part.arrivals.staleness.tolist(), run.note_of[id(edge.here)]
        run.log.append(("merge", action.group, part.aggregator, names, ages, where, model.tolist()))
    run.log.append(("merged", action.group))


def updated(run: "Run", to: tuple, client: int, ticket: int, model: np.ndarray) -> None:
    """An update reaches an edge. Whoever is concerned must be up, else nobody takes it, and it is sent again."""
    federation, name = run.federation, (client, ticket)
    concerned = {e.group for e in federation.edges if e.on_time is not None and name in e.on_time.names}
    concerned = concerned or {int(federation.roster.group_of[client])} - {-1}
    for flight in federation.roster.working.values():
        if name in flight.names:
            concerned |= {int(g) for g in federation.roster.group_of[flight.client] if g >= 0}
    if not run.listen(concerned):
        return
    run.here.setdefault(name, model)
    run.laws.arrived(name)
    for edge, event in federation.delivered(np.array([client]), np.array([ticket]), run.net.now_s):
        run.tell(edge, event)
    run.net.settle(("order", client, ticket))
    run.net.post("taken", to, ("device", client), ticket)


def down(run: "Run", to: tuple, process: Process, group: int, memo: object, model: int) -> None:
    """The cloud's order reaches an edge."""
    net, edge = run.net, run.federation.edges[group]
    net.post("got", to, CLOUD, memo.ticket)
    net.settle(("hello", group))
    if edge.ticket is None or memo.ticket > edge.ticket:
        run.memos[group] = (memo, model)
        run.woken.discard(group)
        run.schedule.begun(group)
        run.sent_reports.pop(group, None)
        net.settle(("report", group))
        if run.plan.cloud.exists:
            for n in edge.aggregators.tolist():
                run.edges[n] = run.models[model]
            run.log.append(("down", edge.aggregators.tolist(), model))
    begin = Begin(net.now_s, run.plan.edge_rounds, run.plan.units, ticket=memo.ticket)
    run.tell(edge, begin)


def repeat_report(run: "Run", group: int) -> None:
    """Send the last report, if there is one, until it is heard."""
    if group in run.sent_reports and not run.net.processes["edge", group].blank:
        run.net.insist(("report", group), "report", ("edge", group), CLOUD, run.sent_reports[group])


def again(run: "Run", lead: int) -> None:
    """What waited is delivered, when all are up whom it concerns."""
    roster = run.federation.roster
    flight = roster.working.get(lead)
    if flight is None or np.isinf(flight.arrives_s).any():
        return
    if not run.listen({int(g) for g in roster.group_of[flight.client] if g >= 0}):
        run.net.later(ROSTER, run.net.now_s + 0.5, "again", lead)
        return
    for edge, event in run.federation.arrived(lead, run.net.now_s):
        run.tell(edge, event)


def report(run: "Run", action: Report) -> None:
    """An edge writes its report, and sends it when it is time to, until the cloud has heard it."""
    i, edge = action.group, run.federation.edges[action.group]
    models = {n: run.edges[n] for n in edge.aggregators.tolist()}
    said = Said(edge.contributed.copy(), edge.contributed_last.copy())
    run.schedule.reporting(action)
    run.sent_reports[i] = (action.ticket, models, said)
    run.log.append(("report", i, action.ticket, edge.aggregators.tolist()))
    run.net.later(("edge", i), action.at_s, "report", action.ticket)

"""What the cloud does: order, take reports, merge, and take up its work again after a loss."""

from typing import TYPE_CHECKING

import numpy as np

from fedloom.protocol.cloud import Said
from fedloom.protocol.messages import Again, CloudMerge, Down

from . import cloud_rounds
from .network import CLOUD

if TYPE_CHECKING:
    from .driver import Run


def order(run: "Run", action: Down) -> None:
    """The cloud sends a group its model, until it has got it."""
    i, to, memo = action.group, ("edge", action.group), run.cloud.memo(action.group)
    assert memo.ticket == action.ticket
    run.log.append(("order", i, run.cloud.version))
    run.net.insist(("down", i), "down", CLOUD, to, (i, memo, run.model), run.known[CLOUD, to])


def merge(run: "Run", action: CloudMerge) -> None:
    """The cloud has a new model."""
    run.laws.merging_cloud(action)
    model = action.weights.own * run.models[run.model]
    for weight, reported in zip(action.weights.edge.tolist(), run.reported):
        model = model + weight * reported
    run.models.append(model)
    run.laws.new_model(run.model, len(run.models) - 1)
    run.model = len(run.models) - 1
    fresh = np.flatnonzero(action.reports.fresh).tolist()
    run.log.append(("cloud merge", fresh, run.note_of[id(run.cloud.attendance)], run.model, model.tolist()))


def reported(run: "Run", sender: tuple, ticket: int, models: dict, said: Said) -> None:
    """A report reaches the cloud."""
    if run.told is not None:
        return  # it does not know yet what it waits for
    group = sender[1]
    run.net.post("heard", CLOUD, sender, ticket)
    if run.cloud.out.get(group) == ticket:
        run.net.settle(("down", group))
        for n, model in models.items():
            run.reported[n] = model
        run.log.append(("accepted", group, ticket))
        run.laws.reported(group, ticket)
    n_reports = run.cloud.n_reports.sum()
    actions = run.cloud.reported(group, run.net.now_s, ticket, said)
    run.schedule.ordering(actions)
    run.perform(actions)
    if run.cloud.n_reports.sum() > n_reports:
        cloud_rounds.after_report(run)


def settle_down(run: "Run", group: int, ticket: int) -> None:
    """A group has got the order of this ticket, or a later one: it is not sent any more."""
    found = run.net.insisted(("down", group))
    if found is not None and found.body[1].ticket <= ticket:
        run.net.settle(("down", group))


def told(run: "Run", sender: tuple, boot: int, memo: tuple | None, woken: bool) -> None:
    """A cloud that has lost its state is told by an edge what it was last sent."""
    if run.told is None:
        return
    run.told[sender[1]] = (boot, memo, woken)
    for group in run.told:
        run.net.settle(("who", group))
    if len(run.told) < len(run.federation.edges):
        return
    answers = run.told
    known = [memo for _, memo, _ in answers.values() if memo is not None]
    wait = {i for i, (_, _, woken) in answers.items() if woken}
    memos = [None if answers[i][1] is None else answers[i][1][0] for i in range(len(answers))]
    run.model = max(known, key=lambda memo: memo[0].version, default=(None, 0))[1]
    run.net.processes[CLOUD].blank = False
    for i, (boot, memo, _) in answers.items():
        if memo is None and run.known.get((CLOUD, ("edge", i)), -1) < boot:
            restart(run, ("edge", i), boot)
        run.known[CLOUD, ("edge", i)] = boot
    run.told = None
    actions = run.cloud.recover(memos, wait)
    newest = max((m for m in memos if m is not None), key=lambda m: m.version, default=None)
    settled = {} if newest is None else newest.settled
    fetched = [
        run.cloud.version if m is None or i in wait or m.ticket <= settled.get(i, 0) else m.version
        for i, m in enumerate(memos)
    ]
    run.log.append(("recovered", run.model, run.cloud.version, fetched))
    if not run.plan.cloud.waits:
        run.cloud.due = max(run.plan.versions - run.cloud.version, 0)
    run.laws.recovered(memos)
    run.perform(actions)
    cloud_rounds.after_report(run)


def hello(run: "Run", sender: tuple, boot: int) -> None:
    """An edge has lost its state, and the cloud hears of it."""
    if run.told is None:
        run.net.post("welcome", CLOUD, sender, None, boot)
        if run.known.get((CLOUD, sender), -1) < boot:
            restart(run, sender, boot)


def restart(run: "Run", sender: tuple, boot: int) -> None:
    """An edge begins anew; whoever waited for what it had is told."""
    run.known[CLOUD, sender] = boot
    run.net.processes[sender].blank &= run.boot(sender) != boot  # it may have lost its state again
    group = sender[1]
    before = run.laws.held()
    edge = run.federation.edges[group]
    run.log.append(("restarted", group))
    for n in edge.aggregators.tolist():
        run.edges[n] = run.models[0]
    told, actions = run.federation.restarted(group, run.net.now_s)
    run.laws.restarted(group, before)
    run.schedule.restarted(group)
    run.schedule.ordering(actions if run.told is None else [])
    for edge, event in told:
        run.tell(edge, event)
    for action in actions:
        if run.told is None or isinstance(action, Again):  # else it is told when the cloud knows what
            run.perform([action])

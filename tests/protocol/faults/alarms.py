"""What a process had set itself to do, and does now if it is up and in the same life."""

from typing import TYPE_CHECKING

from fedloom.protocol.messages import Due, Open

from . import devices, edges, moves
from .network import CLOUD, ROSTER

if TYPE_CHECKING:
    from .driver import Run


def act(run: "Run", owner: tuple, what: str, body: object) -> None:
    """What a process had set itself to do."""
    federation, net, i = run.federation, run.net, owner[1]
    if owner[0] == "edge" and net.processes[owner].blank:
        if what == "up":
            net.insist(("hello", i), "hello", owner, CLOUD, i)
        return
    match what:
        case "open":
            run.log.append(("open", i))
            run.tell(federation.edges[i], Open(net.now_s, federation.next_index(i) - 1, run.attendance))
        case "due":
            run.tell(federation.edges[i], Due(net.now_s, body))
        case "tell":
            run.tell(federation.edges[i], body)
        case "report":
            edges.repeat_report(run, i)
        case "again":
            edges.again(run, body)
        case "asleep":
            if run.told is None:  # else it will see for itself
                run.perform(run.plan.cloud.fell_asleep(run.cloud))
        case "wake":
            group, boot = body
            if run.told is not None or not net.processes[CLOUD].up:
                net.later(ROSTER, net.now_s + 1.0, what, body)
            elif run.boot(("edge", group)) == boot and group in run.woken:
                newer = run.cloud.out.get(group, 0) > (federation.edges[group].ticket or 0)  # it is on its way
                actions = [] if newer else run.cloud.woken(group)
                run.schedule.ordering(actions)
                run.perform(actions)
        case "done":
            devices.finished(run, i, body)
        case "up":
            moves.wake(run)
        case "who":
            for edge in federation.edges:
                net.insist(("who", edge.group), "who", CLOUD, ("edge", edge.group), None)
        case _:
            raise AssertionError(what)

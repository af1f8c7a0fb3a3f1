"""Machines that break a rule, one at a time: the laws of the fault driver notice each, within a few hundred federations."""

import numpy as np
import pytest
from faults.trial import tried

from fedloom.protocol import Async, Barrier, Cloud, Device, Edge, Flight, Immediate, Roster
from fedloom.protocol.rounds import Together


def around(owner, name, change):
    """(owner, name, a method that calls the whole one): change(whole, self, *arguments)."""
    whole = owner.__dict__[name]
    return owner, name, lambda self, *args, **options: change(whole, self, *args, **options)


def merged_and_kept(arrived, mode, edge, event):
    n_merges, actions = edge.n_merges, arrived(mode, edge, event)
    edge.roster.late += [event.flight] if edge.n_merges > n_merges else []
    return actions


def one_short(close, mode, edge, at_s):
    if edge.on_time is not None and len(edge.on_time) > 1:
        edge.on_time = edge.on_time.pick(np.arange(len(edge.on_time) - 1))
    return close(mode, edge, at_s)


def one_put_off(close, mode, edge, at_s):
    if edge.on_time is not None and len(edge.on_time) > 1:
        last = np.arange(len(edge.on_time)) == len(edge.on_time) - 1
        late, edge.on_time = edge.on_time.split(last)
        edge.roster.late.append(late)
    return close(mode, edge, at_s)


def back(anew, edge):
    found = anew(edge)
    found.n_rounds = 0
    return found


def obeys(edge, event):
    edge.ticket = event.ticket
    return False


def works_again(ordered, device, ticket):
    device.ticket = -1
    return ordered(device, ticket)


def unbound(restart, mode, cloud):
    bound, cloud.bound = cloud.bound, None
    actions = restart(mode, cloud)
    cloud.bound = bound
    return actions


def oldest(recover, cloud, memos, woken=()):
    known = min((memo for memo in memos if memo is not None), key=lambda memo: memo.version, default=None)
    same = [memo and memo._replace(version=known.version, settled=known.settled) for memo in memos]
    return recover(cloud, same, woken)


def blind(take_late, roster, *where):
    roster.foreseen = True
    taken = take_late(roster, *where)
    roster.foreseen = False
    return taken


def any_round(take_late, roster, *where):
    wander, roster.wander = roster.wander, False
    taken = take_late(roster, *where)
    roster.wander = wander
    return taken


def drops(finish, mode, cloud):
    actions = finish(mode, cloud)
    cloud.roster.drop_late()
    return actions


BROKEN = {
    "an arrival is merged and kept": (around(Async, "arrived", merged_and_kept), "are merged twice"),
    "who was in time is left out": (around(Together, "_close", one_short), "arrived in time at group . and were not"),
    "who was in time is merged later": (
        around(Together, "_close", one_put_off),
        "arrived in time at group . and were not",
    ),
    "an edge that begins anew counts from zero": (around(Edge, "anew", back), "counts went back"),
    "a cloud takes up an old model": (around(Cloud, "recover", oldest), "is known"),
    "orders are obeyed twice": ((Edge, "_is_copy", obeys), "did not wait for"),
    "copies of orders are worked on": (around(Device, "ordered", works_again), "begins job . after job"),
    "tickets are not looked at": (
        (Flight, "missing", lambda flight, tickets: np.isinf(flight.arrives_s) & (tickets[flight.client] >= 0)),
        "never arrived",
    ),
    "a round too few": (
        around(Edge, "begun", lambda begun, edge, event, rounds: begun(edge, event, min(rounds, 1))),
        "reports after 1 of",
    ),
    "a client too few": (
        around(Edge, "sample", lambda sample, edge, idle, wanted: sample(edge, idle, max(1, wanted - 1))),
        "idle, and should",
    ),
    "alarms of earlier rounds close this one": (
        (Together, "due", lambda mode, edge, event: mode._close(edge, event.at_s) if edge.rounds_left > 0 else []),
        "did not wait for",
    ),
    "a bound on staleness does not bind": (around(Immediate, "_restart", unbound), "go on . ahead of"),
    "who wakes or has lost its state does not ask the bound": (
        (Immediate, "idle", lambda mode, cloud, group: cloud.down(group)),
        "go on . ahead of",
    ),
    "what is late is never dropped": (
        (Roster, "drop_late", lambda roster: None),
        "are late after the cloud has merged",
    ),
    "what is late is always dropped": (around(Barrier, "finish", drops), "arrived and were lost"),
    "moves lose nothing": ((Edge, "of_this_host", lambda edge, flight: flight), "though moves lose them"),
    "who has moved is merged where it was": (around(Roster, "take_late", blind), "their clients are elsewhere"),
    "what is late counts in any round": (around(Roster, "take_late", any_round), "not after the one they were sent in"),
}


@pytest.mark.parametrize("rule", BROKEN)
def test_the_laws_notice_when(rule, monkeypatch):
    (owner, name, broken), message = BROKEN[rule]
    monkeypatch.setattr(owner, name, broken)
    with pytest.raises(AssertionError, match=message):
        for seed in range(500):
            tried(seed)

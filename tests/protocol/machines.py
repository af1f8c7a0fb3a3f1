"""Federations of a few clients, and their answers as plain tuples, so that a test reads as a table of events and answers."""

import numpy as np

from fedloom.grouping import Topology
from fedloom.mixing.merges import CloudLinear, Linear
from fedloom.protocol import Attendance, Barrier, Federation, Rounds, Terms
from fedloom.protocol.messages import (
    Again,
    Arrived,
    Asleep,
    Begin,
    CloudMerge,
    Down,
    Merge,
    OnTheWay,
    Open,
    Ready,
    Report,
    RoundOver,
    Score,
    Send,
    Wake,
)


def ids(*values):
    return np.array(values, dtype=np.int64)


def terms(n_samples, **options):
    """Clients with so many samples each, of two classes."""
    n = np.asarray(n_samples, dtype=np.int64)
    return Terms(n_samples=n, label_counts=np.column_stack([n, n]), unit_steps=np.ones_like(n), seed=1, **options)


def topology(*groups, n_clients, host=None, **options):
    """An aggregator for each list of clients, each on a host of its own unless said otherwise."""
    cover = np.zeros((len(groups), n_clients), dtype=np.bool_)
    for row, members in zip(cover, groups):
        row[list(members)] = True
    return Topology(cover=cover, kind="edge", host=np.arange(len(groups)) if host is None else ids(*host), **options)


def attendance(top, work_s=1.0):
    """All clients are where the topology has them; a step of each (K,) takes work_s, links take nothing."""
    n_clients, group_of = top.cover.shape[1], np.full(top.cover.shape[1], -1)
    for i, aggregators in enumerate(top.pace_groups()):
        group_of[top.cover[aggregators].any(axis=0)] = i
    return Attendance(
        topology=top,
        group_of=group_of,
        n_reached=np.maximum(top.n_reached, 1),
        step_s=np.broadcast_to(np.asarray(work_s, dtype=np.float64), n_clients).copy(),
        link_s=np.zeros(n_clients),
    )


class World:
    """A federation, and who is where. Time is what events say. It opens rounds when an edge is ready and sends clients off when
    it says so, without knowing when they will be back."""

    def __init__(self, *groups, n_samples, edge=None, cloud=None, merge=None, merge_cloud=None, work_s=1.0, **options):
        self.rounds, self.work_s = options.pop("rounds", 1), work_s
        wander, follow = options.pop("wander", False), options.pop("follow", False)
        foreseen, failing = options.pop("foreseen", False), options.pop("failing", False)
        squad, host = options.pop("squad", None), options.pop("host", None)
        self.federation = Federation(
            terms(n_samples, **options),
            edge or Rounds(),
            cloud or Barrier(),
            merge or Linear(),
            merge_cloud or CloudLinear(),
            wander=wander,
            foreseen=foreseen,
            failing=failing,
        )
        self.options = {"n_clients": len(n_samples), "follow": follow, "squad": squad, "host": host}
        self.now = attendance(topology(*groups, **self.options), work_s)
        self.federation.regroup(self.now.topology)
        self.federation.enter(self.now)

    @property
    def cloud(self):
        return self.federation.cloud

    def edge(self, group=0):
        return self.federation.edges[group]

    def put(self, *groups):
        """Clients are elsewhere from now on."""
        self.now = attendance(topology(*groups, **self.options), self.work_s)
        return self.now

    def told(self, event, group=0):
        """What an edge answers, and what follows from it at once, as tuples."""
        return self.done(self.edge(group).handle(event), event.at_s)

    def begin(self, at_s=0.0, group=0, ticket=None):
        """The model is here."""
        return self.told(Begin(at_s, self.rounds, 1, ticket=ticket), group)

    def came(self, at_s, *names):
        """Updates, as (client, ticket), are here."""
        found = []
        for edge, event in self.federation.delivered(ids(*(k for k, _ in names)), ids(*(t for _, t in names)), at_s):
            found += self.done(edge.handle(event), at_s)
        return found

    def gone(self, at_s, *clients):
        """Clients have left for good."""
        events, actions = self.federation.gone(ids(*clients), at_s)
        told = [line for edge, event in events for line in self.done(edge.handle(event), at_s)]
        return [*told, *self.done(actions, at_s)]

    def lost(self, at_s, *aggregators, clients=()):
        """Aggregators are silent for too long: nobody waits for them, and their clients are nowhere from now on."""
        events, actions = self.federation.lost(ids(*aggregators), ids(*clients), at_s)
        top = self.now.topology
        self.now = attendance(top.without(top.host[list(aggregators)]), self.work_s)
        self.federation.move(self.now)
        told = [line for edge, event in events for line in self.done(edge.handle(event), at_s)]
        return [*told, *self.done(actions, at_s)]

    def done(self, actions, at_s):
        """Actions as tuples, with what local ones lead to in their place."""
        found = []
        for action in actions:
            match action:
                case Ready(group, ready_s):
                    index = self.federation.next_index(group) - 1
                    found += self.told(Open(max(at_s, ready_s), index, self.now), group)
                case Send():
                    found.append(plain(action))
                    flight, n = action.parts[0], len(action.client)
                    event = OnTheWay(at_s, flight, np.full(n, np.nan), np.zeros(n, dtype=np.bool_))
                    found += self.told(event, action.group)
                case Again(_, lead):
                    found.append(plain(action))
                    for edge, event in self.federation.arrived(lead, at_s):
                        found += self.done(edge.handle(event), at_s)
                case _:
                    found.append(plain(action))
        return found


def recovered(world, memos):
    """What a cloud does that has lost its state and is told these memos."""
    world.cloud.forget()
    return world.cloud.recover(memos)


def plain(action):
    """An action as a tuple of its name and what matters of it."""
    match action:
        case Ready(_, at_s):
            return ("Ready", at_s)
        case Send():
            names = [name for part in action.parts for name in part.names]
            return ("Send", names, action.steps.tolist())
        case Wake(_, at_s, edge_round):
            return ("Wake", float(at_s), edge_round)
        case Again(_, lead):
            return ("Again", lead)
        case Merge():
            return ("Merge", *(_part(part) for part in action.parts))
        case RoundOver(_, n_rounds):
            return ("RoundOver", n_rounds)
        case Report(group, at_s, aggregators, _):
            return ("Report", group, at_s, aggregators.tolist())
        case Asleep(group):
            return ("Asleep", group)
        case Down(group, ticket):
            return ("Down", group, ticket)
        case CloudMerge(_, weights):
            return ("CloudMerge", round(weights.own, 12), weights.edge.round(12).tolist())
        case Score(version):
            return ("Score", version)
    raise AssertionError(action)


def _part(part):
    """(aggregator, the updates as (client, ticket), their ages)."""
    return (part.aggregator, [name for f in part.flights for name in f.names], part.arrivals.staleness.tolist())


def of_several(world, at_s, *names):
    """An `Arrived` with these updates as they would come straight to an edge, known or not."""
    edge, client = world.edge(), ids(*(k for k, _ in names))
    flight = edge.on_time.pick(np.zeros(len(client), dtype=np.int64)) if edge.on_time is not None else None
    assert flight is not None
    flight.client, flight.ticket = client, ids(*(t for _, t in names))
    return Arrived(at_s, flight)

"""Clients and aggregators that leave, fail, fall silent and come back: what the machines are told of it, and what is let go.

In a deployment it is what really happens; in a simulation, what the outages of a fleet foresee.
"""

from collections.abc import Callable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from fedloom.fleet import Snapshot
from fedloom.grouping import Topology
from fedloom.methods import Method
from fedloom.protocol import Edge, Federation, Flight
from fedloom.protocol.messages import Action, Gone, Send
from fedloom.protocol.messages import Lost as SilentAggregators
from fedloom.simulator.absent import Absent
from fedloom.simulator.clock import Back, Check, Failed, Left, Lost, Returned, Timepiece
from fedloom.simulator.errands import Errands
from fedloom.simulator.held import Held
from fedloom.simulator.presence import Presence
from fedloom.simulator.scene import Scene, Scenes
from fedloom.simulator.world import World

Ints = NDArray[np.int64]
Fault = Left | Failed | Lost | Back | Check | Returned


class Faults:
    """absent: aggregators that are silent; presence: of devices that fail, if they do. perform: do what machines answer; wake:
    groups that slept go on if somebody is there."""

    def __init__(
        self,
        method: Method,
        world: World,
        machines: Federation,
        scenes: Scenes,
        held: Held,
        errands: Errands,
        clock: Timepiece,
        perform: Callable[[Sequence[Action]], None],
        wake: Callable[[Scene], None],
    ) -> None:
        self._method, self._machines, self._scenes = method, machines, scenes
        self._held, self._errands, self._clock, self._perform, self._wake = held, errands, clock, perform, wake
        self.absent = Absent(machines, scenes, held, at_once=not method.cloud.waits)
        self._fleet = world.fleet
        outages = errands.outages
        self.presence = None if outages is None else Presence(outages, machines, self.absent, clock)

    def look(self) -> None:
        """See who is down now."""
        if self.presence is not None:
            self.presence.look()

    def watch(self, topology: Topology) -> None:
        """There are other heads, perhaps."""
        if self.presence is not None:
            self.presence.watch(topology)

    def sent(self, action: Send) -> None:
        """Clients have gone to work; some may fail."""
        if self.presence is not None:
            self.presence.sent(action)
            self.presence.watch(self._machines.topology, action.client)

    def meet(self, fault: Fault) -> None:
        """It happens now."""
        machines = self._machines
        match fault:
            case Left(client, sick):
                self._leave(np.array(client), machines.missing(np.array(client)))
                self._held.reject(client, sick)
            case Failed(client, ticket):
                if failed := machines.missing(np.array(client), np.array(ticket)):
                    self._leave(np.concatenate([flight.client for flight in failed]), failed)
            case Lost(kind, host, client):
                self._lose(kind, host, np.array(client, dtype=np.int64))
            case Back(kind, host):
                if self.absent.back(kind, host):
                    self._wake(self._scenes.now)
            case Check(host):
                assert self.presence is not None
                for change in self.presence.check(host, machines.topology):
                    self.meet(change)
            case Returned():
                if machines.edges:
                    self._wake(self._scenes.now)
                    self.stir()

    def leave_out(self, now: Snapshot) -> tuple[Snapshot, Topology | None]:
        """The snapshot to group clients by, and the grouping that stays if those who are there are too few for it. Without silent
        heads and, if they are grouped anew in every cloud round, without those who are down; the first grouping is of all."""
        if self.presence is None or self._method.group.when != "cloud-round" or not self._machines.edges:
            return self.absent.leave_out(now), self._scenes.base if self.absent.banned else None
        return self.absent.leave_out(now, self.presence.absent), self._scenes.base

    def _leave(self, clients: Ints, jobs: Sequence[Flight]) -> None:
        """Clients will not bring back these jobs, nor are they waited for."""
        self._errands.lose(jobs)
        told, actions = self._machines.gone(clients, self._clock.now_s)
        self._held.withdraw(clients.tolist())
        for edge, gone in told:
            self._perform(edge.handle(gone))
        self._perform(actions)

    def _lose(self, kind: str, host: int, clients: Ints) -> None:
        """An aggregator is silent, and these clients with it."""
        apart = self._machines.roster.flights([])
        told, actions = self.absent.lost(kind, host, clients, self._clock.now_s)
        self._errands.lose([jobs for jobs in _let_go(told, apart) if len(jobs)], head=True)
        for edge, event in told:
            self.absent.let_go(event)
            self._perform(edge.handle(event))
        self._perform(actions)

    def stir(self) -> None:
        """Groups that sleep are woken when one of their members may be there."""
        if self.presence is not None:
            asleep = [edge.group for edge in self._machines.edges if edge.asleep]
            self.presence.stir([self._scenes.now.members(group) for group in asleep])

    def somebody_is_there(self, happen: Callable[[], None]) -> bool:
        """If a cloud round could be begun with nobody, things happen until somebody is there; False if nobody ever is."""
        while (at_s := self._somebody_s()) > self._clock.now_s:
            if not np.isfinite(at_s):
                return False
            self._clock.foresee(at_s, Returned())
            while self._clock.now_s < at_s:
                happen()
        return True

    def _somebody_s(self) -> float:
        """A cloud round is to begin: not before then is anybody there with whom it could, infinite if nobody ever is; now, if
        nobody fails, or groups go on by themselves."""
        edges, presence = self._machines.edges, self.presence
        if presence is None or (edges and not self._method.cloud.waits):
            return self._clock.now_s
        presence.look()
        when = self._method.group.when
        if edges and when != "cloud-round" and self._scenes.base.kind == "head":
            somebody_s = presence.somebody_s(self._scenes.base.host)
        elif self._fleet.in_time and (not edges or when != "once" or self._comes_and_goes()):
            somebody_s = self._fleet.one_of_s(self._clock.now_s, presence.back_s)
        elif edges and when != "cloud-round":
            somebody_s = presence.somebody_s(np.flatnonzero(self._scenes.base.cover.any(axis=0)))
        else:
            somebody_s = presence.somebody_s(np.flatnonzero(self._fleet.snapshot(0).active))
        if not edges and not np.isfinite(somebody_s):
            raise ValueError(
                "no device is ever there, so nobody could train: availability and batteries never let one be up (where devices "
                "or links change with time: while it is in reach of a cell); change fleet.availability, fleet.battery, or where "
                "they are"
            )
        return somebody_s

    def _comes_and_goes(self) -> bool:
        """Whoever is there belongs to a group."""
        return self._scenes.base.follow or self._scenes.base.kind == "cloud"


def _let_go(told: Sequence[tuple[Edge, Gone | SilentAggregators]], apart: Sequence[Flight]) -> Iterator[Flight]:
    """What is lost with aggregators: the jobs of the clients of whom edges are told, of those that wait or are merged by
    themselves (apart) and of open rounds; of those of other groups, what is not here yet."""
    for _, event in told[:1]:  # all are told of the same clients
        yield from (flight.pick(np.isin(flight.client, event.client)) for flight in apart)
    for edge, event in told:
        if edge.on_time is not None:
            theirs = np.isin(edge.on_time.client, event.client)
            yield edge.on_time.pick(
                theirs if isinstance(event, SilentAggregators) else theirs & np.isinf(edge.on_time.arrives_s)
            )

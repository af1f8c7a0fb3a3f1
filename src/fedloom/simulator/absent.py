"""Aggregators that are silent: the federation goes on without them and their clients until they are back."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from fedloom.fleet import Snapshot
from fedloom.grouping import Topology
from fedloom.protocol import Edge, Federation
from fedloom.protocol.messages import Action, Gone, Lost
from fedloom.simulator.held import Held
from fedloom.simulator.scene import Scenes

Ints = NDArray[np.int64]


class Absent:
    """Who is silent, by kind of aggregator and host. at_once: those who are back take part in the running cloud round. banned:
    those that were found to lie, and never are back."""

    def __init__(self, machines: Federation, scenes: Scenes, held: Held, *, at_once: bool) -> None:
        self._machines, self._scenes, self._held, self._at_once = machines, scenes, held, at_once
        self._now: set[tuple[str, int]] = set()
        self.banned: set[tuple[str, int]] = set()
        self._without: frozenset[tuple[str, int]] = frozenset()  # those that the groups were made without

    def lost(
        self, kind: str, host: int, clients: Ints, now_s: float
    ) -> tuple[Sequence[tuple[Edge, Gone | Lost]], Sequence[Action]]:
        """An aggregator is silent, and these clients with it: what the edges are to be told, and what the cloud answers."""
        self._now.add((kind, host))
        topology = self._machines.topology
        aggregators = np.flatnonzero((topology.host == host) & (topology.kind == kind))
        if not len(aggregators):
            return (), ()
        told, actions = self._machines.lost(aggregators, clients, now_s)
        self._scenes.lost |= {(kind, host)}
        self._machines.move(self._scenes.again())
        return told, actions

    def ban(self, kind: str, host: int) -> None:
        """An aggregator is none any more, from the next cloud round on; the last edge server, or device, stays."""
        out, devices = {*self.banned, *self._now, (kind, host)}, np.flatnonzero(self._scenes.now.snapshot.active)
        others = devices if kind == "head" else self._machines.topology.host
        if any((kind, other) not in out for other in others.tolist()):
            self.banned.add((kind, host))

    def heads_banned(self, topology: Topology) -> bool:
        """Whether some of the heads of a topology are banned: clients have to be grouped anew."""
        return any((topology.kind, host) in self.banned for host in topology.host.tolist() if topology.kind == "head")

    @property
    def _out(self) -> frozenset[tuple[str, int]]:
        return frozenset(self._now | self.banned)

    def is_silent(self, kind: str, host: int) -> bool:
        """Whether an aggregator is."""
        return (kind, host) in self._now

    def let_go(self, event: Gone | Lost) -> None:
        """Nobody waits any more for the models of those of whom an edge is told."""
        self._held.withdraw(event.client.tolist())
        if isinstance(event, Lost):
            self._held.lose(event.aggregators)

    def back(self, kind: str, host: int) -> bool:
        """An aggregator is there again: whether its clients are back at once, and not in the next cloud round."""
        self._now.discard((kind, host))
        if self._at_once:
            self._scenes.lost = self._out
            self._machines.move(self._scenes.again())
        return self._at_once

    def begin_cloud_round(self) -> bool:
        """Whether others are silent now than when the groups were made."""
        changed = not self._without == self._scenes.lost == self._out
        self._without = self._scenes.lost = self._out
        return changed

    def leave_out(self, now: Snapshot, down: NDArray[np.bool_] | None = None) -> Snapshot:
        """The snapshot in which devices that are silent heads, or were found to lie as such, or are down (K,), take no part, if
        others are left."""
        heads = [host for kind, host in self._out if kind == "head"]
        if not heads and down is None:
            return now
        there = now.active & ~np.isin(np.arange(len(now.active)), heads)
        there &= ~down if down is not None else True
        return replace(now, active=there) if there.any() else now

"""Stations that are not waited for any more: edge servers and heads that have been silent for too long while the run waits for
them. What they held is counted as gone, as nobody knows whether they come back with their disks; when one is heard again it is
handed what it needs anew."""

import math
from collections import Counter
from collections.abc import Iterator

from fedloom.deployment import naming
from fedloom.deployment.book import Names
from fedloom.deployment.orders import Order, Outbox
from fedloom.deployment.silence import Silence
from fedloom.grouping import Topology
from fedloom.simulator.clock import Back, Lost

OF_STATIONS = ("merge", "hold", "report")


class Losses:
    """lost: stations that are lost now; times: how often each was so far. serving: those that have clients."""

    def __init__(self, silence: Silence, outbox: Outbox, names: Names) -> None:
        self._silence, self._outbox, self._names = silence, outbox, names
        self.lost: set[str] = set()
        self.times: Counter[str] = Counter()
        self.serving: set[str] = set()
        self._cut_off: set[str] = set()  # wait for what was with a station that is lost

    def see(self, topology: Topology) -> None:
        """Who aggregates with whom now."""
        hosts = topology.host[topology.cover.any(axis=1)].tolist()
        self.serving = {naming.station(topology.kind, host) for host in hosts} - {naming.CLOUD}

    def noticed(self) -> Iterator[Lost | Back]:
        """Who is lost or back, as it stands now; if too few would be left, all are waited for."""
        for station in sorted(self.lost):
            if self._silence.is_heard(station):
                yield Back(*naming.aggregator(station))
        waits = {s for node in self._outbox.waiting() if self._silence.is_silent(node) for s in self._to_come(node)}
        silent = {s for s in self._waited_for() if self._silence.is_silent(s)} | self._cut_off | (waits - self.lost)
        left = {s for s in self.serving - silent - self.lost if not self._silence.is_silent(s)}
        least = math.ceil(self._silence.waiting.cloud_quorum * len(self.serving | self.lost))
        if silent and len(left) >= max(1, least):
            for station in sorted(silent):
                yield Lost(*naming.aggregator(station), tuple(sorted(self._clients(station))))

    def lose(self, station: str) -> None:
        """Nobody waits for a station: withdraw what it is to do, and what others are to do with it."""
        self.lost.add(station)
        self.times[station] += 1
        self._cut_off.discard(station)
        self._names.lose(station)
        for node, orders in self._outbox.waiting().items():
            for order in orders:
                own = node == station and order["do"] in OF_STATIONS
                if own or station in order.get("to", ()):
                    self._outbox.take(node, order["id"])
                elif order.get("from") == station:
                    self._from_elsewhere(node, order)

    def cut_off(self, station: str) -> None:
        """A station needs what was with one that is lost, and cannot go on."""
        self._cut_off.add(station)

    def back(self, station: str) -> None:
        """It is there again."""
        self.lost.discard(station)

    def _waited_for(self) -> set[str]:
        """Stations that have something to do, or that devices have to send something to."""
        found = set()
        for node, orders in self._outbox.waiting().items():
            for order in orders:
                found |= {node} if order["do"] in OF_STATIONS else set(order.get("to", ()))
        return (found & self.serving) - self.lost

    def _to_come(self, node: str) -> set[str]:
        """Stations that are to merge what a node has and they have not, and cannot go on without it."""
        orders = self._outbox.waiting().get(node, [])
        return {s for order in orders if order["do"] == "deliver" for s in order["to"]} & self.serving

    def _clients(self, station: str) -> Iterator[int]:
        """Clients at work on what they cannot do without a station."""
        for node, orders in self._outbox.waiting().items():
            client = naming.client_of(node)
            if client is not None and any(o["do"] == "train" and station in o["to"] for o in orders):
                yield client

    def _from_elsewhere(self, node: str, order: Order) -> None:
        """A station is to fetch a model from one that is lost: from another that has it, or it cannot go on either."""
        self._outbox.take(node, order["id"])
        source = self._names.source(order["name"])
        if source is None:
            self.cut_off(node)
        else:
            self._outbox.add(node, order | {"from": source})

"""The best of all groupings of a few devices, by counting every one of them: what a search is held against.

Written apart from the search and its count of costs. What a cluster takes depends on its head and who is in it, so it is
counted once for every head and set of members; where the links of a cluster share a band its edge round is played message by
message (`fedloom.fleet.bands`). Then all groupings are looked up.

n devices, k heads, G groupings.
"""

import itertools
import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from fedloom.fleet.bands import band
from fedloom.fleet.settings.air import Sharing
from fedloom.planning import Objective, Prices
from fedloom.planning.objectives import MIXED
from fedloom.planning.simple_plans import most_clusters

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def n_groupings(prices: Prices) -> int:
    """How many there are, capacities aside."""
    devices = prices.devices
    allowed = int(devices.candidate.sum())
    numbers = range(1, min(most_clusters(devices), allowed) + 1)
    return sum(math.comb(allowed, k) * k ** (devices.n - k) for k in numbers)


def optimum(prices: Prices, objectives: list[Objective]) -> list[float]:
    """The least of each objective."""
    tables = _Tables(prices)
    best = [np.inf] * len(objectives)
    for hosts, choice in groupings(prices):
        figures = tables.figures(hosts, choice)
        for i, objective in enumerate(objectives):
            best[i] = min(best[i], float(_value(objective, figures).min()))
    return best


def _value(objective: Objective, figures: dict[str, Floats]) -> Floats:
    """(G,)."""
    if objective.name != "mix":
        return figures[objective.name]
    assert objective.reference is not None
    return sum((figures[name] / objective.reference[name] for name in MIXED), np.zeros(1)) / len(MIXED)


def groupings(prices: Prices) -> Iterator[tuple[Ints, Ints]]:
    """Heads (k,), and of all groupings with room the number of each device's head among them (G, n)."""
    devices = prices.devices
    allowed = np.flatnonzero(devices.candidate).tolist()
    for k in range(1, min(most_clusters(devices), len(allowed)) + 1):
        ways = np.indices((k,) * (devices.n - k)).reshape(devices.n - k, -1).T  # (G, n - k)
        for hosts in map(np.array, itertools.combinations(allowed, k)):
            choice = np.empty((len(ways), devices.n), np.int64)
            choice[:, hosts] = np.arange(k)
            choice[:, np.setdiff1d(np.arange(devices.n), hosts)] = ways
            size = (choice[:, None, :] == np.arange(k)[:, None]).sum(axis=2)  # (G, k)
            fits = (size <= devices.capacity[hosts]).all(axis=1)
            if fits.any():
                yield hosts, choice[fits]


class _Tables:
    """Of every head (n) and set of members (2^n, by bits): what the cluster takes; NaN where the head is not in it."""

    def __init__(self, prices: Prices) -> None:
        self.prices, n = prices, prices.devices.n
        self.work_s, self.total_j, self.drain = (np.full((n, 2**n), np.nan) for _ in range(3))
        self.off = np.zeros(2**n)
        off = prices.devices.off_labels
        for bits in range(1, 2**n):
            members = np.array([i for i in range(n) if bits >> i & 1])
            self.off[bits] = np.abs(off[members].sum(axis=0)).sum() / 2
            for head in members[prices.devices.candidate[members]].tolist():
                self._count(head, bits, members)

    def _count(self, head: int, bits: int, members: Ints) -> None:
        prices, rounds = self.prices, self.prices.work.edge_rounds
        link = prices.at_head(members, np.full(len(members), head))
        steps_s = prices.steps_s[members]
        self.work_s[head, bits] = rounds * edge_round_s(
            prices.devices.air.d2d, link.fetch_s, steps_s, link.return_s, members == head
        )
        joules = rounds * (link.own_j + prices.compute_j[members])
        joules[members == head] += rounds * link.head_j.sum() + prices.cloud_j[head]
        self.total_j[head, bits] = joules.sum()
        self.drain[head, bits] = (joules / prices.devices.battery_j[members]).max()

    def figures(self, hosts: Ints, choice: Ints) -> dict[str, Floats]:
        """(G,) by name. hosts (k,), choice (G, n)."""
        devices, work = self.prices.devices, self.prices.work
        bits = ((choice[:, None, :] == np.arange(len(hosts))[:, None]) << np.arange(devices.n)).sum(axis=2)  # (G, k)
        messages = work.edge_rounds * (devices.n - len(hosts)) + len(hosts)
        return {
            "seconds": self._seconds(hosts, self.work_s[hosts, bits]),
            "joules": self.total_j[hosts, bits].sum(axis=1),
            "bytes": np.full(len(bits), float((work.up_bytes + work.down_bytes) * messages)),
            "battery": self.drain[hosts, bits].max(axis=1),
            "balance": self.off[bits].sum(axis=1) / max(float(devices.label_counts.sum()), 1.0),
        }

    def _seconds(self, hosts: Ints, work_s: Floats) -> Floats:
        """(G,) of the cloud round; work_s (G, k): edge rounds of each cluster. A band at the server is busy while there is
        anything to send: the last report is there when what was ready since some moment is sent."""
        prices, cloud = self.prices, self.prices.devices.air.cloud
        down_s, up_s = prices.cloud_down_s[hosts], prices.cloud_up_s[hosts]
        if cloud.down.sharing == "time":
            down_s = np.cumsum(down_s)
        elif cloud.down.sharing == "equal":
            down_s = np.minimum(down_s[:, None], down_s).sum(axis=1)
        ready_s = down_s + work_s
        if cloud.up.sharing == "own":
            return np.asarray((ready_s + up_s).max(axis=1))
        later = ready_s[:, None, :] >= ready_s[:, :, None]  # (G, since, who)
        return np.asarray((ready_s + (later * up_s).sum(axis=2)).max(axis=1))


def edge_round_s(
    sharing: Sharing, fetch_s: Floats, steps_s: Floats, return_s: Floats, is_head: NDArray[np.bool_]
) -> float:
    """Of one cluster (m,): until everybody has fetched, computed and returned."""
    if sharing.sharing == "own":
        return float((fetch_s + steps_s + return_s).max())
    shared, last = band(sharing), float(steps_s[is_head].max(initial=0.0))
    todo: list[tuple[float, int]] = []  # ready to return
    for i in np.flatnonzero(~is_head).tolist():
        shared.join(0.0, float(fetch_s[i]), (i, True))
    while todo or shared.next_s < math.inf:
        if todo and todo[0][0] <= shared.next_s:
            at_s, i = todo.pop(0)
            shared.join(at_s, float(return_s[i]), (i, False))
            continue
        now_s = shared.next_s
        for i, fetched in shared.done():
            if fetched:
                todo = sorted([*todo, (now_s + float(steps_s[i]), i)])
            else:
                last = max(last, now_s)
    return last

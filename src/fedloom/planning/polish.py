"""The last improvements of a grouping, by what is asked for itself: single changes, each counted before it is kept.

    a member moves to another head, or becomes one      two members of different clusters change places
    a member takes the place of its head                a cluster joins another, or its members go to the nearest others

Where the slowest cluster or the emptiest battery decides, changes begin there. A change touches two clusters (a dissolved one
more), and only those are counted again. K devices.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from fedloom.planning.costs import costs_of, total_bytes
from fedloom.planning.objectives import Figures, Objective, better
from fedloom.planning.open_heads import Limits
from fedloom.planning.reach import Reach

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

HEADS = 6  # other heads that a member is tried at
SWAPS = 4  # heads with whose members it is tried to change places
SWAPPED = 3  # of each
CENTRES = 6  # members that are tried as heads


class Tally:
    """A grouping and what its clusters take, kept up to date. head (K,); of_host (5, K): seconds of edge rounds, joules, drain,
    off and the most joules of a device, 0 for who is no head."""

    def __init__(self, reach: Reach, head: Ints) -> None:
        self.prices = reach.prices
        self.head = head.copy()
        self.of_host = np.zeros((5, len(head)))
        self._set(self.of_host, np.arange(len(head)), self.head)
        self._samples = float(self.prices.devices.label_counts.sum())
        self.n_clusters = int((self.head == np.arange(len(head))).sum())

    def tried(self, some: Ints, new_head: Ints) -> tuple[Figures, Floats, Ints]:
        """What all would take if the devices `some` (m,) had the heads new_head (m,): every cluster that changes must
        change by them. The figures, and what to keep."""
        old_hosts = np.unique(np.concatenate([self.head[some], new_head]))
        changed = self.head.copy()
        changed[some] = new_head
        touched = np.flatnonzero(np.isin(self.head, old_hosts) | np.isin(changed, old_hosts))
        of_host = self.of_host.copy()
        of_host[:, old_hosts] = 0.0
        self._set(of_host, touched, changed[touched])
        n = self.n_clusters + int((new_head == some).sum()) - int((self.head[some] == some).sum())
        return self._figures(of_host, changed, n), of_host, changed

    def keep(self, of_host: Floats, head: Ints) -> None:
        self.of_host, self.head = of_host, head
        self.n_clusters = int((head == np.arange(len(head))).sum())

    @property
    def figures(self) -> Figures:
        return self._figures(self.of_host, self.head, self.n_clusters)

    @property
    def seconds(self) -> Floats:
        """(K,) of the cloud round of each head's cluster, by itself; 0 for who is no head."""
        alone_s = self.prices.cloud_down_s + self.of_host[0] + self.prices.cloud_up_s
        return np.where(self.head == np.arange(len(self.head)), alone_s, 0.0)

    def _set(self, of_host: Floats, some: Ints, head: Ints) -> None:
        costs = costs_of(self.prices, some, head)
        of_host[:, costs.host] = costs.work_s, costs.total_j, costs.most_drain, costs.off, costs.most_j

    def _figures(self, of_host: Floats, head: Ints, n: int) -> Figures:
        most, hosts = of_host.max(axis=1), np.flatnonzero(head == np.arange(len(head)))
        return Figures(
            clusters=n,
            seconds=self.prices.last_s(hosts, of_host[0, hosts]),
            joules=float(of_host[1].sum()),
            bytes=float(total_bytes(self.prices.work, of_host.shape[1], n)),
            battery=float(most[2]),
            balance=float(of_host[3].sum() / self._samples) if self._samples else 0.0,
            worst_j=float(most[4]),
        )


def polished(
    reach: Reach, head: Ints, objective: Objective, limits: Limits, n_tries: int, rng: np.random.Generator
) -> Ints:
    """Heads (K,), never worse than those given, after at most n_tries changes that were counted."""
    tally = Tally(reach, head)
    key, left = objective.key(tally.figures), n_tries
    fruitless = 0
    while left > 0 and fruitless < len(head):
        for k in _order(tally, objective, rng):
            helped = False
            for some, new_head in changes_of(reach, tally, int(k), limits, rng):
                left -= 1
                figures, of_host, changed = tally.tried(some, new_head)
                if better(objective.key(figures), key):
                    tally.keep(of_host, changed)
                    key, helped = objective.key(figures), True
                    break
                if left <= 0:
                    return tally.head
            fruitless = 0 if helped else fruitless + 1
            if helped or fruitless >= len(head):
                break
    return tally.head


def _order(tally: Tally, objective: Objective, rng: np.random.Generator) -> Ints:
    """Devices in the order in which they are looked at: first those of the cluster that decides."""
    order = rng.permutation(len(tally.head))
    row = {"seconds": 0, "battery": 2, "mix": int(rng.integers(2)) * 2}.get(objective.name)
    if row is None:
        return order
    decides = tally.head[order] == int((tally.of_host[row] if row else tally.seconds).argmax())
    return np.concatenate([order[decides], order[~decides]])


def changes_of(
    reach: Reach, tally: Tally, k: int, limits: Limits, rng: np.random.Generator
) -> Iterator[tuple[Ints, Ints]]:
    """Devices (m,) and their new heads (m,)."""
    if tally.head[k] == k:
        yield from _of_head(reach, tally, k, limits, rng)
    else:
        yield from _of_member(reach, tally, k, limits, rng)


def _of_member(
    reach: Reach, tally: Tally, k: int, limits: Limits, rng: np.random.Generator
) -> Iterator[tuple[Ints, Ints]]:
    devices, head, one = reach.prices.devices, tally.head, np.array([k])
    heads = _near_heads(reach, tally, k)
    size = {int(h): int((head == h).sum()) for h in heads[:HEADS]}
    for h in heads[:HEADS].tolist():
        if size[h] < devices.capacity[h]:
            yield one, np.array([h])
    if devices.candidate[k] and tally.n_clusters < limits.n_max:
        yield one, one
    if devices.candidate[k] and (head == head[k]).sum() <= devices.capacity[k]:
        members = np.flatnonzero(head == head[k])
        yield members, np.full(len(members), k)
    for h in heads[:SWAPS].tolist():
        members = np.flatnonzero((head == h) & (np.arange(len(head)) != h))
        if len(members):
            for other in rng.permutation(members)[:SWAPPED].tolist():
                yield np.array([k, other]), np.array([h, head[k]])


def _of_head(
    reach: Reach, tally: Tally, h: int, limits: Limits, rng: np.random.Generator
) -> Iterator[tuple[Ints, Ints]]:
    devices, head = reach.prices.devices, tally.head
    members = np.flatnonzero(head == h)
    able = members[devices.candidate[members] & (devices.capacity[members] >= len(members)) & (members != h)]
    for k in rng.permutation(able)[:CENTRES].tolist():
        yield members, np.full(len(members), k)
    if tally.n_clusters <= limits.n_min:
        return
    for other in _near_heads(reach, tally, h)[:HEADS].tolist():
        if (head == other).sum() + len(members) <= devices.capacity[other]:
            yield members, np.full(len(members), other)
    apart = _dissolved(reach, tally, members)
    if apart is not None:
        yield members, apart


def _near_heads(reach: Reach, tally: Tally, k: int) -> Ints:
    """Other heads in the list of a device, the cheapest first."""
    index = reach.index[k]
    others = reach.there[k] & (tally.head[index] == index) & (index != tally.head[k]) & (index != k)
    return np.asarray(index[others][np.argsort(reach.joules[k][others], kind="stable")])


def _dissolved(reach: Reach, tally: Tally, members: Ints) -> Ints | None:
    """The cheapest other heads with room for members (m,) of a cluster; None if there are none."""
    size, capacity = np.bincount(tally.head, minlength=len(tally.head)), reach.prices.devices.capacity
    out = np.empty(len(members), dtype=np.int64)
    closing = int(tally.head[members[0]])
    for i, k in enumerate(members.tolist()):
        free = [h for h in _near_heads(reach, tally, k).tolist() if h != closing and size[h] < capacity[h]]
        if not free:
            return None
        out[i] = free[0]
        size[free[0]] += 1
    return out

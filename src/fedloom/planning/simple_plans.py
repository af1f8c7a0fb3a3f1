"""Plans that anybody would try first: k-means on positions, heads in the middle. What a method's plan is compared with.

    geographic    as many clusters as are asked for
    k-means       every number of clusters k, three starts each (one above MANY devices)

The head of a cluster is the candidate nearest to its middle, and devices report to the nearest head: the simple form; who would
give the cluster the least seconds or joules as its head is not looked for. Capacities are kept, and where they keep a device
from its nearest head, so that it would report far away, heads are exchanged for candidates near those who report farthest,
as long as that shortens all ways together: room counts where the devices are, not in the whole fleet.

K devices, m candidates, k heads.
"""

import itertools
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedloom import radio
from fedloom.grouping import Topology, View
from fedloom.grouping.association import fill_by_regret
from fedloom.grouping.geographic import geographic_clusters
from fedloom.methods.method import Group
from fedloom.planning.costs import Prices
from fedloom.planning.devices import Devices
from fedloom.planning.objectives import Figures, figures_of

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

ALL_K = 100  # candidates up to which every k is tried
STARTS = 3  # of k-means for every k
MANY = 1000  # devices, above which there is one start
GRID = 24  # numbers of clusters that are tried for more
EXCHANGES = 20  # of heads
OPENED, CLOSED = 3, 5  # candidates and heads that are looked at for one
MOST_K = 1000  # of them: distances of all devices to all heads are kept


def heads_in_the_middle(devices: Devices, n_clusters: int, n_starts: int = 10) -> Group:
    """Clusters of neighbours by k-means, best of so many starts, the head in the middle, devices at the nearest head with room.

    As many clusters as asked for; more only if no so many candidates have room for everybody, fewer if there are not so many
    candidates. If even all candidates have no room, capacities are not kept, and the notes count the heads that are
    `over_capacity`.
    """

    def group(view: View, rng: np.random.Generator) -> Topology:
        return topology_of(middle_heads(devices, n_clusters, n_starts, rng), devices)

    return group


def middle_heads(devices: Devices, n_clusters: int, n_starts: int, rng: np.random.Generator) -> Ints:
    """(K,) the head of each device; see `heads_in_the_middle`."""
    allowed, room = np.flatnonzero(devices.candidate), devices.capacity
    if room[allowed].sum() < devices.n:
        room = np.full(devices.n, devices.n)
    k = min(max(n_clusters, fewest_heads(room[allowed], devices.n)), len(allowed))
    found = geographic_clusters(devices.position_m, n_clusters=k, n_starts=n_starts, rng=rng)
    heads = _heads_with_room(devices.position_m, found.clusters, allowed, room)
    heads, cluster = _shortened(devices.position_m, heads, allowed, room)
    return np.asarray(heads[cluster])


def topology_of(head: Ints, devices: Devices) -> Topology:
    """Of heads (K,), -1 for who takes no part. Heads with more devices than their capacity are counted in its notes."""
    hosts = np.unique(head[head >= 0])
    clusters = [np.flatnonzero(head == host) for host in hosts]
    over = np.array([len(members) for members in clusters]) > devices.capacity[hosts]
    return Topology.of_heads(clusters, hosts, len(head), {"over_capacity": float(over.sum())})


def fewest_heads(capacity: Ints, n: int) -> int:
    """How many of the candidates, with room for capacity (m,) devices each, n devices need at least; m if all have too little.

    >>> fewest_heads(np.array([2, 5, 3]), 7), fewest_heads(np.array([2, 5, 3]), 11)
    (2, 3)
    """
    largest = np.sort(capacity)[::-1]
    return min(int(np.searchsorted(largest.cumsum(), n)) + 1, len(capacity))


class Grouped(NamedTuple):
    """The head of each device (K,), and what that takes."""

    head: Ints
    figures: Figures


def k_means_sweep(
    prices: Prices,
    rng: np.random.Generator,
    watch: Callable[[int], None] | None = None,
    numbers: list[int] | None = None,
) -> list[Grouped]:
    """Clusters by k-means for every k, or for a grid of GRID numbers if there are more than ALL_K candidates, and STARTS of
    k-means for each. watch: called with every k. numbers: other ones to try."""
    out = []
    for k in numbers_of_clusters(prices.devices) if numbers is None else numbers:
        if watch is not None:
            watch(k)
        for _ in range(STARTS if prices.devices.n <= MANY else 1):
            head = middle_heads(prices.devices, k, 1, rng)
            out.append(Grouped(head, figures_of(prices, head)))
    return out


def most_clusters(devices: Devices) -> int:
    """Half as many as devices, or what capacities need: most devices of more would be by themselves, and average nothing
    between cloud rounds."""
    return max(devices.n // 2, fewest_heads(devices.capacity[devices.candidate], devices.n), 1)


def numbers_of_clusters(devices: Devices) -> list[int]:
    """All k from the fewest that have room for everybody to `most_clusters`, or GRID of them, evenly by ratio."""
    capacity = devices.capacity[devices.candidate]
    least, most = fewest_heads(capacity, devices.n), min(len(capacity), most_clusters(devices))
    if len(capacity) <= ALL_K:
        return list(range(least, most + 1))
    most = max(least, min(most, MOST_K))
    return [int(k) for k in np.unique(np.geomspace(least, most, GRID).round())]


def _heads_with_room(position_m: Floats, clusters: list[Ints], allowed: Ints, capacity: Ints) -> Ints:
    """Heads (k,), different candidates with room for everybody in all: the nearest to the middle of each cluster, the largest
    first; then those are exchanged for others with more room, the cheapest in metres of members for it, until there is enough."""
    size = np.array([len(members) for members in clusters])
    middle = np.stack([position_m[members].mean(axis=0) for members in clusters])
    cost = size[:, None] * radio.distances(middle, position_m[allowed])  # (k, m)
    free = np.zeros(len(allowed))  # infinite for who is taken
    column = np.empty(len(clusters), dtype=np.int64)
    for c in np.argsort(-size, kind="stable").tolist():
        column[c] = int((cost[c] + free).argmin())
        free[column[c]] = np.inf
    while capacity[allowed[column]].sum() < len(position_m):
        more = capacity[allowed] - capacity[allowed[column]][:, None]  # (k, m)
        dearer = cost - cost[np.arange(len(column)), column][:, None]
        price = np.where((more > 0) & (free == 0), dearer / np.maximum(more, 1), np.inf)
        c, j = np.unravel_index(int(price.argmin()), price.shape)
        free[column[c]], free[j] = 0.0, np.inf
        column[c] = j
    return np.asarray(allowed[column])


def _shortened(position_m: Floats, heads: Ints, allowed: Ints, capacity: Ints) -> tuple[Ints, Ints]:
    """Heads (k,) and the cluster of each device (K,), with heads exchanged where capacities keep devices from their nearest.

    At most EXCHANGES times one of the OPENED candidates nearest to who reports farthest takes the place of one of the CLOSED
    heads whose members have the shortest ways to others.
    """
    cluster, away = _nearest_with_room(position_m, heads, capacity)
    own = np.arange(len(cluster))
    for _ in range(EXCHANGES):
        way_m = away[own, cluster]
        kept = np.flatnonzero(way_m > away.min(axis=1))  # from their nearest head
        unused = np.setdiff1d(allowed, heads)
        if not len(kept) or not len(unused):
            break
        farthest = position_m[kept[way_m[kept].argmax()]]
        near = unused[np.argsort(radio.distances(farthest[None], position_m[unused])[0], kind="stable")[:OPENED]]
        others = away.copy()
        others[own, cluster] = np.inf
        closing_m = np.bincount(cluster, others.min(axis=1) - way_m, len(heads))
        best, best_m = None, float(way_m.sum()) * (1 - 1e-9)
        for opened, c in itertools.product(near, np.argsort(closing_m, kind="stable")[:CLOSED]):
            exchanged = heads.copy()
            exchanged[c] = opened
            if capacity[exchanged].sum() >= len(position_m):
                found = _nearest_with_room(position_m, exchanged, capacity)
                total_m = float(found[1][own, found[0]].sum())
                if total_m < best_m:
                    best, best_m = (exchanged, *found), total_m
        if best is None:
            break
        heads, cluster, away = best
    return heads, cluster


def _nearest_with_room(position_m: Floats, heads: Ints, capacity: Ints) -> tuple[Ints, Floats]:
    """The cluster of each device (K,), heads in their own, and metres to all heads (K, k)."""
    away = radio.distances(position_m, position_m[heads])
    cluster = np.full(len(position_m), -1)
    cluster[heads] = np.arange(len(heads))
    if len(heads) == 1:
        return np.zeros_like(cluster), away
    return fill_by_regret(away, cluster, capacity[heads]), away

"""Clusters whose labels are like everybody's: members move and change places as long as that helps.

A cluster is off by half of the absolute sum of its samples of each class beyond its share of everybody's. What moving a device
would change is priced for all devices and clusters at once; the best moves of clusters that do not meet are made together.

K devices, N clusters, C classes.
"""

import numpy as np
from numpy.typing import NDArray

from fedloom.planning.costs import Prices

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

ROUNDS = 400
MOST_PRICED = 4_000_000  # numbers of a table of prices
PAIRS = 64  # devices of a cluster whose exchanges are priced


def balanced(prices: Prices, head: Ints, rng: np.random.Generator) -> Ints:
    """Heads (K,) out of heads (K,), with the same heads; heads themselves stay."""
    devices = prices.devices
    host, at = np.unique(head, return_inverse=True)
    off = devices.off_labels
    if len(host) == 1 or not off.any():
        return head
    total = np.zeros((len(host), off.shape[1]))
    np.add.at(total, at, off)
    size, room = np.bincount(at), devices.capacity[host]
    movable = np.flatnonzero(host[at] != np.arange(devices.n))
    for _ in range(ROUNDS):
        moved = _move(at, total, off, size, room, movable, rng)
        moved = _exchange(at, total, off, movable, rng) or moved
        if not moved:
            break
    return np.asarray(host[at])


def _move(
    at: Ints, total: Floats, off: Floats, size: Ints, room: Ints, movable: Ints, rng: np.random.Generator
) -> bool:
    """Move some devices to other clusters; changes `at`, `total` and `size`."""
    n, classes = total.shape
    most = max(1, MOST_PRICED // (n * classes))
    some = movable if len(movable) <= most else np.sort(rng.choice(movable, most, replace=False))
    now = np.abs(total).sum(axis=1)
    leaves = np.abs(total[at[some]] - off[some]).sum(axis=1) - now[at[some]]
    joins = np.abs(total[None] + off[some][:, None]).sum(axis=2) - now
    gain = leaves[:, None] + joins
    gain[np.arange(len(some)), at[some]] = np.inf
    gain[:, size >= room] = np.inf
    best = gain.argmin(axis=1)
    value = gain[np.arange(len(some)), best]
    busy: set[int] = set()
    for i in np.argsort(value, kind="stable").tolist():
        if value[i] >= -1e-9 or len(busy) > n - 2:
            break
        here, there = int(at[some[i]]), int(best[i])
        if here in busy or there in busy:
            continue
        busy |= {here, there}
        total[here] -= off[some[i]]
        total[there] += off[some[i]]
        size[here], size[there] = size[here] - 1, size[there] + 1
        at[some[i]] = there
    return bool(busy)


def _exchange(at: Ints, total: Floats, off: Floats, movable: Ints, rng: np.random.Generator) -> bool:
    """Let members of clusters, taken in pairs by chance, change places where that helps; changes `at` and `total`."""
    order, changed = rng.permutation(len(total)), False
    groups = np.split(movable[np.argsort(at[movable], kind="stable")], np.cumsum(np.bincount(at[movable]))[:-1])
    members = {int(at[group[0]]): group for group in groups if len(group)}
    for a, b in zip(order[::2].tolist(), order[1::2].tolist()):
        if a not in members or b not in members:
            continue
        one, other = (g if len(g) <= PAIRS else rng.choice(g, PAIRS, replace=False) for g in (members[a], members[b]))
        step = off[other][None] - off[one][:, None]  # (p, q, C)
        now = np.abs(total[a]).sum() + np.abs(total[b]).sum()
        then = np.abs(total[a] + step).sum(axis=2) + np.abs(total[b] - step).sum(axis=2)
        i, j = np.unravel_index(int(then.argmin()), then.shape)
        if then[i, j] < now - 1e-9:
            total[a] += step[i, j]
            total[b] -= step[i, j]
            at[one[i]], at[other[j]] = b, a
            changed = True
    return changed

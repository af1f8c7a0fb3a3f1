"""Heads of least price within limits: heads open, close and change places until no such change helps.

    joules        sum over heads of sending to the server  +  sum over members of sending to and from the head
    air seconds   the same, of the band at the server and of those of heads, where bands are shared

A facility location problem: heads are opened at a price, and devices go to the cheapest open one that they may have. Limits are
seconds of a cloud round, the share of a battery, the air of a head's band, devices of a head, and the number of heads; a device
that nobody may have costs MISSING, so that limits which can be kept are. Every round prices all changes at once and makes as
many of the best as help together; what a change truly comes to, capacities included, is counted before it is kept.

K devices, Q places in a list.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedloom.planning.reach import Reach

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]

MISSING = 1e12  # price of a device without a head
ROUNDS = 60
MOST_TURNS = 100  # in which devices ask for heads
SLACK = 1e-12


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Most seconds of a cloud round, most drain of a battery, least and most heads. round_s: most seconds of an edge round where
    the links of a cluster share a band; then the price is seconds of air, and band_part what one of a head's band counts beside
    one of the server's: heads use theirs at the same time."""

    n_max: int
    n_min: int = 1
    seconds: float = np.inf
    drain: float = np.inf
    round_s: float = np.inf
    band_part: float = 1.0


@dataclass(frozen=True, kw_only=True, eq=False)
class Terms:
    """place (K, Q): price of a device at each place of its list, infinite where limits forbid it, 0 at itself. opening (K,): of
    a head. load (K, Q): what a member takes of its head, who has budget (K,) for all; None: nothing that is scarce."""

    place: Floats
    opening: Floats
    load: Floats | None = None
    budget: Floats | None = None


@dataclass(frozen=True, kw_only=True, eq=False)
class Opened:
    """open (K,): who is a head. place (K,): where in its list the head of a device stands, 0 for a head, -1: none.
    pays (K,): what a device costs, a head its opening, MISSING without one. total."""

    open: Mask
    place: Ints
    pays: Floats

    @property
    def total(self) -> float:
        return float(self.pays.sum())

    @property
    def complete(self) -> bool:
        """Everybody has a head."""
        return bool((self.place >= 0).all())

    def head(self, reach: Reach) -> Ints:
        """(K,); the device itself where it has none."""
        return np.asarray(np.take_along_axis(reach.index, np.maximum(self.place, 0)[:, None], axis=1)[:, 0])


Change = Callable[[Reach, Limits, Terms, Opened], tuple[Ints, Ints]]


def terms_within(reach: Reach, limits: Limits) -> Terms:
    """Joules, or seconds of air where edge rounds are limited."""
    prices, devices, by_air = reach.prices, reach.prices.devices, np.isfinite(limits.round_s)
    wide = limits.seconds * (1 + SLACK), limits.drain * (1 + SLACK)
    fit = (reach.seconds <= wide[0]) & (reach.drain <= wide[1])
    head_fit = (reach.alone_s <= wide[0]) & (reach.alone_drain <= wide[1])
    if by_air:
        fit &= reach.round_s <= limits.round_s * (1 + SLACK)
        head_fit &= prices.steps_s <= limits.round_s * (1 + SLACK)
    price = np.where(reach.there, limits.band_part * reach.air_s, np.inf) if by_air else reach.joules
    place = np.where(fit & head_fit[reach.index], price, np.inf)
    place[:, 0] = np.where(reach.there[:, 0] & head_fit, 0.0, np.inf)
    if by_air:
        budget = np.full(devices.n, limits.round_s * (1 + SLACK))
        return Terms(place=place, opening=prices.cloud_s, load=reach.air_s, budget=budget)
    if not np.isfinite(limits.drain):
        return Terms(place=place, opening=prices.cloud_j)
    mains = np.isinf(devices.battery_j)
    spent_j = limits.drain * (1 + SLACK) * np.where(mains, 0.0, devices.battery_j)
    budget = np.where(mains, np.inf, spent_j - prices.cloud_j - reach.compute_j)
    return Terms(place=place, opening=prices.cloud_j, load=reach.head_j, budget=budget)


def search_heads(reach: Reach, limits: Limits, start: Mask, terms: Terms | None = None) -> Opened:
    """From the heads `start` (K,) on; never worse than them."""
    terms = terms_within(reach, limits) if terms is None else terms
    now = _few_enough(reach, limits, terms, start & np.isfinite(terms.place[:, 0]))
    for _ in range(ROUNDS):
        before = now.total
        for change in (_centred, _opened, _closed, _exchanged):
            now = _tried(reach, limits, terms, now, change)
        if not now.total < before * (1 - 1e-9):
            break
    return now


def _few_enough(reach: Reach, limits: Limits, terms: Terms, heads: Mask) -> Opened:
    """With at most n_max heads: those close that save most, or cost least; with at least n_min, those open."""
    now = assign(reach, terms, heads)
    while (many := int(now.open.sum()) - limits.n_max) > 0:
        hosts, saved = np.flatnonzero(now.open), _closing(reach, terms, now)
        heads = now.open.copy()
        heads[hosts[np.argsort(-saved[hosts], kind="stable")[: -(-many // 2)]]] = False
        now = assign(reach, terms, heads)
    while (few := limits.n_min - int(now.open.sum())) > 0:
        saved = _opening(reach, terms, now)
        some = np.flatnonzero(np.isfinite(saved))
        if not len(some):
            break
        heads = now.open.copy()
        heads[some[np.argsort(-saved[some], kind="stable")[: -(-few // 2)]]] = True
        now = assign(reach, terms, heads)
    return now


def assign(reach: Reach, terms: Terms, heads: Mask) -> Opened:
    """Everybody at the cheapest head with room. Where too many want the same, those stay who would lose most elsewhere."""
    cost = np.where(heads[reach.index], terms.place, np.inf)
    cost[heads, 1:] = np.inf
    own = np.arange(len(cost))
    place = cost.argmin(axis=1)
    for turn in range(MOST_TURNS):
        out = _too_many(reach, terms, cost, place, heads)
        if not len(out):
            break
        if turn == MOST_TURNS - 1:  # they stay without a head
            cost[out] = np.inf
        cost[out, place[out]] = np.inf
        place[out] = cost[out].argmin(axis=1)
    least = cost[own, place]
    pays = np.where(np.isfinite(least), least, MISSING)
    pays[heads] = terms.opening[heads]
    return Opened(open=heads, place=np.where(np.isfinite(least), place, -1), pays=pays)


def _too_many(reach: Reach, terms: Terms, cost: Floats, place: Ints, heads: Mask) -> Ints:
    """Members for whom their head has no room, no energy or no air."""
    n, capacity, load, budget = len(cost), reach.prices.devices.capacity, terms.load, terms.budget
    own = np.arange(n)
    there = np.isfinite(cost[own, place]) & ~heads
    head = np.where(there, reach.index[own, place], -1)
    count = np.bincount(head[there], minlength=n) + heads
    over = count > capacity
    if load is not None and budget is not None:
        over |= np.bincount(head[there], load[own, place][there], n) > np.maximum(budget, 0.0)
    some = np.flatnonzero(there & over[np.maximum(head, 0)])
    if not len(some):
        return some
    rest = cost[some].copy()
    here = rest[np.arange(len(some)), place[some]].copy()
    rest[np.arange(len(some)), place[some]] = np.inf
    regret = rest.min(axis=1) - here  # infinite: has no other
    order = some[np.lexsort((-np.where(np.isfinite(regret), regret, 1e300), head[some]))]
    first = np.concatenate([[True], head[order][1:] != head[order][:-1]])
    start = np.maximum.accumulate(np.where(first, np.arange(len(order)), 0))
    out = np.arange(len(order)) - start + 2 > capacity[head[order]]  # the head itself is one
    if load is not None and budget is not None:
        spent = np.cumsum(load[order, place[order]])
        before = np.where(start > 0, spent[start - 1], 0.0)
        out |= spent - before > budget[head[order]] * (1 + SLACK)
    return np.asarray(order[out])


def _tried(reach: Reach, limits: Limits, terms: Terms, now: Opened, change: Change) -> Opened:
    """As many of the best changes as help, and fewer of them until they do."""
    ups, downs = change(reach, limits, terms, now)
    size = len(ups)
    while size:
        heads = now.open.copy()
        heads[downs[:size][downs[:size] >= 0]] = False
        heads[ups[:size][ups[:size] >= 0]] = True
        if limits.n_min <= heads.sum() <= max(limits.n_max, now.open.sum()):
            then = assign(reach, terms, heads)
            if then.total < now.total * (1 - SLACK):
                return then
        size = size // 4 if size > 3 else size - 1
    return now


def _opening(reach: Reach, terms: Terms, now: Opened) -> Floats:
    """(K,) saved if a device became a head besides."""
    price, member = terms.place, ~now.open
    saved = np.maximum(now.pays[:, None] - price, 0.0)
    saved[~member] = 0.0
    saved[:, 0] = 0.0
    found = np.bincount(reach.index.ravel(), saved.ravel(), len(price)) + now.pays - terms.opening
    return np.where(member & np.isfinite(price[:, 0]), found, -np.inf)


def _closing(reach: Reach, terms: Terms, now: Opened) -> Floats:
    """(K,) saved if a head were none; minus infinity if somebody would have no other."""
    price = terms.place
    others = np.where(now.open[reach.index], price, np.inf)
    others[:, 0] = np.inf
    own = np.arange(len(price))
    others[own, np.maximum(now.place, 0)] = np.inf
    least = others.min(axis=1)
    least = np.where(now.place < 0, now.pays, least)
    lost = np.where(now.open, least, least - now.pays)
    head = now.head(reach)
    with np.errstate(invalid="ignore"):
        found = terms.opening - np.bincount(head, lost, len(price))
    return np.where(now.open & np.isfinite(found), found, -np.inf)


def _opened(reach: Reach, limits: Limits, terms: Terms, now: Opened) -> tuple[Ints, Ints]:
    """Heads to open, at most one of each cluster at once, the best first; none to close."""
    room = limits.n_max - int(now.open.sum())
    saved = _opening(reach, terms, now)
    some = np.flatnonzero(saved > 0)
    some = _one_each(some[np.argsort(-saved[some], kind="stable")], now.head(reach))[: max(room, 0)]
    return some, np.full(len(some), -1)


def _closed(reach: Reach, limits: Limits, terms: Terms, now: Opened) -> tuple[Ints, Ints]:
    """Heads to close."""
    saved = _closing(reach, terms, now)
    too_many = int(now.open.sum()) > limits.n_max
    some = np.flatnonzero(saved > (-np.inf if too_many else 0))
    some = some[np.argsort(-saved[some], kind="stable")]
    some = some[: max(int(now.open.sum()) - limits.n_min, 0)]
    return np.full(len(some), -1), some


def _exchanged(reach: Reach, limits: Limits, terms: Terms, now: Opened) -> tuple[Ints, Ints]:
    """Heads to open and others to close for them."""
    gain, loss = _opening(reach, terms, now), _closing(reach, terms, now)
    ups = np.flatnonzero(np.isfinite(gain))
    ups = _one_each(ups[np.argsort(-gain[ups], kind="stable")], now.head(reach))
    downs = np.flatnonzero(np.isfinite(loss))
    downs = downs[np.argsort(-loss[downs], kind="stable")]
    n = min(len(ups), len(downs))
    keep = gain[ups[:n]] + loss[downs[:n]] > 0
    return ups[:n][keep], downs[:n][keep]


def _centred(reach: Reach, limits: Limits, terms: Terms, now: Opened) -> tuple[Ints, Ints]:
    """Members that would be better heads of their own clusters, and these heads."""
    price, n, head = terms.place, len(terms.place), now.head(reach)
    size = np.bincount(head, minlength=n)
    total = np.bincount(head, now.pays, n)
    same = (head[:, None] == head[reach.index]) & np.isfinite(price)
    same[:, 0] = False
    count = np.bincount(reach.index[same], minlength=n)
    cost = np.bincount(reach.index[same], price[same], n) + terms.opening
    fit = ~now.open & np.isfinite(price[:, 0]) & (count == size[head] - 1)
    saved = np.where(fit, total[head] - cost, -np.inf)
    some = np.flatnonzero(saved > 0)
    some = _one_each(some[np.argsort(-saved[some], kind="stable")], head)
    return some, head[some]


def _one_each(ranked: Ints, group: Ints) -> Ints:
    """The first of each group, in the order in which they come. group (K,)."""
    _, first = np.unique(group[ranked], return_index=True)
    return np.asarray(ranked[np.sort(first)])


def kicked(heads: Mask, terms: Terms, share: float, rng: np.random.Generator) -> Mask:
    """Other heads to start from: each closes with probability `share`, and as many candidates open."""
    out = heads & (rng.random(len(heads)) >= share)
    free = np.flatnonzero(np.isfinite(terms.place[:, 0]) & ~heads)
    n = min(len(free), max(1, int(heads.sum() - out.sum()) + int(rng.integers(-1, 2))))
    if len(free):
        out[rng.choice(free, n, replace=False)] = True
    return out

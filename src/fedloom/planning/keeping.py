"""A new plan near an old one: devices that come, go or move are planned anew, and of the others only so many change their head.

The old plan is repaired first: who is new, or has lost its head, goes to the head that is cheapest in joules and has room, or
becomes one. Then those single changes are made that bring most, until the share that may move has moved; a change that would
move more is not tried. K devices.
"""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from fedloom.planning.costs import Prices
from fedloom.planning.objectives import better, figures_of
from fedloom.planning.open_heads import Limits, assign, search_heads, terms_within
from fedloom.planning.optimise import Optimised
from fedloom.planning.polish import Tally, changes_of
from fedloom.planning.reach import reach_of
from fedloom.planning.simple_plans import Grouped, most_clusters

Ints = NDArray[np.int64]

TRIES = 6000  # single changes that are counted


def kept_plan(prices: Prices, found: Optimised, old: Ints, n_moves: int, rng: np.random.Generator) -> Grouped:
    """The best plan in which at most n_moves of the devices that can stay with their old heads, old (K,), -1 for none, have
    others. If the best plan of all moves no more, it is that."""
    old = can_stay(prices, old)
    if moved(old, found.best.head) <= n_moves:
        return found.best
    reach, limits = reach_of(prices, rng), _limits(prices, old)
    head = repaired(prices, old, rng)
    tally, left = Tally(reach, head), TRIES
    key = found.objective.key(tally.figures)
    helped = True
    while helped and left > 0:
        helped = False
        for k in rng.permutation(len(old)).tolist():
            for some, new_head in changes_of(reach, tally, k, limits, rng):
                left -= 1
                figures, of_host, changed = tally.tried(some, new_head)
                if moved(old, changed) <= n_moves and better(found.objective.key(figures), key):
                    tally.keep(of_host, changed)
                    key, helped = found.objective.key(figures), True
                    break
            if left <= 0:
                break
    return Grouped(tally.head, figures_of(prices, tally.head))


def repaired(prices: Prices, head: Ints, rng: np.random.Generator) -> Ints:
    """(K,): heads for everybody who has none. head (K,): those with whom devices can stay, -1 for none."""
    reach = reach_of(prices, rng, besides=head)
    limits = _limits(prices, head)
    terms = terms_within(reach, limits)
    fixed = (head >= 0)[:, None] & (reach.index != head[:, None])  # who can stay has one choice
    terms = replace(terms, place=np.where(fixed, np.inf, terms.place))
    heads = head == np.arange(len(head))
    now = assign(reach, terms, heads)
    if not now.complete:  # others must become heads
        now = search_heads(reach, limits, heads, terms)
    if not now.complete:  # or there is too little room
        now = search_heads(reach, limits, heads)
    return now.head(reach)


def can_stay(prices: Prices, old: Ints) -> Ints:
    """(K,): the old head, -1 for who has none: if it is no head any more, or has room for fewer, those of the least energy."""
    devices, known = prices.devices, np.maximum(old, 0)
    head = np.where((old >= 0) & (old[known] == old) & devices.candidate[known], old, -1)
    at = prices.at_head(np.arange(len(head)), np.maximum(head, 0))
    joules = at.own_j + at.head_j
    for host in np.unique(head[head >= 0]).tolist():
        members = np.setdiff1d(np.flatnonzero(head == host), [host])
        head[members[np.argsort(joules[members], kind="stable")[devices.capacity[host] - 1 :]]] = -1
    return head


def _limits(prices: Prices, head: Ints) -> Limits:
    """At most as many clusters as any plan has, or as there were."""
    return Limits(n_max=max(most_clusters(prices.devices), int((head == np.arange(len(head))).sum())))


def moved(old: Ints, head: Ints) -> int:
    """How many devices with an old head, old (K,), have another."""
    return int(((old >= 0) & (head != old)).sum())

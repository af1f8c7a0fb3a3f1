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
    """The best plan in which at most n_moves of the devices with an old head that is still there, old (K,), -1 for none, have
    another. If the best plan of all moves no more, it is that."""
    if moved(old, found.best.head) <= n_moves:
        return found.best
    reach = reach_of(prices, rng)
    limits = Limits(n_max=max(most_clusters(prices.devices), int((old == np.arange(len(old))).sum())))
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


def repaired(prices: Prices, old: Ints, rng: np.random.Generator) -> Ints:
    """(K,): the old heads where they can stay, and heads for everybody else."""
    own, devices = np.arange(len(old)), prices.devices
    head = np.where((old >= 0) & (old[np.maximum(old, 0)] == old) & devices.candidate[np.maximum(old, 0)], old, -1)
    reach = reach_of(prices, rng)
    limits = Limits(n_max=len(old))
    terms = terms_within(reach, limits)
    fixed = (head >= 0)[:, None] & (reach.index != head[:, None])  # who can stay has one choice
    terms = replace(terms, place=np.where(fixed, np.inf, terms.place))
    heads = (head == own) & devices.candidate
    now = assign(reach, terms, heads)
    if not now.complete:  # others must become heads, or there is too little room
        now = search_heads(reach, limits, heads, terms)
    if not now.complete:
        now = search_heads(reach, limits, heads)
    return now.head(reach)


def moved(old: Ints, head: Ints) -> int:
    """How many devices with an old head that is there have another."""
    return int(((old >= 0) & (head != old)).sum())

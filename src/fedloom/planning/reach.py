"""Which heads a device may have, and what it would take there: lists for the search.

Up to DENSE candidates every one is in every list. Beyond that a list has the device itself, the NEAREST candidates, and SPREAD
candidates all over the fleet, so that plans of many heads and of few can be found in it.

K devices, Q places in a list.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from fedloom.planning.costs import Prices
from fedloom.planning.head_search import spread_over

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]

DENSE = 700
NEAREST = 40
SPREAD = 100


@dataclass(frozen=True, kw_only=True, eq=False)
class Reach:
    """index (K, Q): candidates, the device itself first; there (K, Q): it is one, and not twice in the list. In a cloud
    round: seconds of a cluster of the two, own_j that the member sends with, head_j the head for it. Per device as a head of
    nobody: alone_s, alone_drain."""

    prices: Prices
    index: Ints
    there: Mask
    seconds: Floats
    own_j: Floats
    head_j: Floats

    @cached_property
    def joules(self) -> Floats:
        """(K, Q) of both."""
        return np.where(self.there, self.own_j + self.head_j, np.inf)

    @cached_property
    def compute_j(self) -> Floats:
        """(K,) of computing, in a cloud round; wherever a device is."""
        return self.prices.work.edge_rounds * self.prices.compute_j

    @cached_property
    def drain(self) -> Floats:
        """(K, Q) of the member's battery."""
        return (self.own_j + self.compute_j[:, None]) / self.prices.devices.battery_j[:, None]

    @cached_property
    def air_s(self) -> Floats:
        """(K, Q) of the head's band in an edge round, both ways."""
        at = self.prices.at_head(np.arange(len(self.index))[:, None], self.index)
        return at.fetch_s + at.return_s

    @cached_property
    def round_s(self) -> Floats:
        """(K, Q) least seconds of an edge round."""
        return np.maximum(self.air_s + self.prices.steps_s[:, None], self.prices.steps_s[self.index])

    @cached_property
    def alone_s(self) -> Floats:
        """(K,)."""
        rounds = self.prices.work.edge_rounds
        return self.prices.cloud_down_s + rounds * self.prices.steps_s + self.prices.cloud_up_s

    @cached_property
    def alone_drain(self) -> Floats:
        """(K,)."""
        return (self.prices.cloud_j + self.compute_j) / self.prices.devices.battery_j


def reach_of(prices: Prices, rng: np.random.Generator, besides: Ints | None = None) -> Reach:
    """Lists for a fleet. besides (K,): one more for each device, -1 for none."""
    devices = prices.devices
    own = np.arange(devices.n)[:, None]
    others = _lists(prices, rng)
    if besides is not None:
        others = np.concatenate([others, np.where(besides[:, None] >= 0, besides[:, None], own)], axis=1)
    index = np.concatenate([own, others], axis=1)
    there = np.concatenate([devices.candidate[:, None], _first_times(others) & (others != own)], axis=1)
    at, work = prices.at_head(own, index), prices.work
    rounds = work.edge_rounds
    round_s = at.fetch_s + prices.steps_s[:, None] + at.return_s
    pair_s = np.maximum(round_s, prices.steps_s[index])  # the head has steps of its own
    seconds = prices.cloud_down_s[index] + rounds * pair_s + prices.cloud_up_s[index]
    return Reach(
        prices=prices, index=index, there=there, seconds=seconds, own_j=rounds * at.own_j, head_j=rounds * at.head_j
    )


def _lists(prices: Prices, rng: np.random.Generator) -> Ints:
    """(K, Q - 1)."""
    devices = prices.devices
    allowed = np.flatnonzero(devices.candidate)
    if len(allowed) <= DENSE:
        return np.broadcast_to(allowed, (devices.n, len(allowed)))
    from scipy.spatial import cKDTree  # takes long to import

    _, near = cKDTree(devices.position_m[allowed]).query(devices.position_m, k=NEAREST)
    far = allowed[spread_over(devices.position_m[allowed], SPREAD, rng)]
    return np.concatenate([allowed[near], np.broadcast_to(far, (devices.n, len(far)))], axis=1)


def _first_times(index: Ints) -> Mask:
    """Where in its row (K, Q) a number stands for the first time."""
    order = np.argsort(index, axis=1, kind="stable")
    ranked = np.take_along_axis(index, order, axis=1)
    first = np.ones(index.shape, np.bool_)
    first[:, 1:] = ranked[:, 1:] != ranked[:, :-1]
    out = np.empty_like(first)
    np.put_along_axis(out, order, first, axis=1)
    return out

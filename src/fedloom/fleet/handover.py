"""When a device that moves changes its home cell.

    badness_nk    metres or dB of path loss between cell n and device k, infinite out of reach: the least is best
    changes       to the best cell, if it is better than the home by more than the margin in every tick of the last
                  time_to_trigger_s, and was the best in all of them (3GPP's event A3 with one timer); at once, if the
                  home is out of reach; to nowhere (-1), if all are

N cells, K devices.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class Homes(NamedTuple):
    """home (K,): -1 for nowhere. better (K,): the cell that has been better by more than the margin, -1 if none is, for
    ticks (K,) before this one."""

    home: Ints
    better: Ints
    ticks: Ints


def nearest(badness: Floats) -> Ints:
    """The best cell (K,) of badness (N, K); the lowest number if tied, -1 if all are out of reach."""
    best = badness.argmin(axis=0)
    return np.where(np.isfinite(badness[best, np.arange(len(best))]), best, -1)


def first(badness: Floats) -> Homes:
    """At the start everybody is with the best cell."""
    home = nearest(badness)
    return Homes(home, np.full(len(home), -1), np.zeros(len(home), dtype=np.int64))


def hand_over(before: Homes, badness: Floats, margin: float, needed: int) -> Homes:
    """One tick later. needed: ticks for which a cell must have been better before.

    >>> before = first(np.array([[10.0], [20.0]]))
    >>> [hand_over(before, np.array([[18.0], [b]]), 5.0, 0).home.tolist() for b in (14.0, 12.0)]
    [[0], [1]]
    """
    who, best = np.arange(badness.shape[1]), nearest(badness)
    own = np.where(before.home >= 0, badness[before.home, who], np.inf)
    wanted = (best >= 0) & (badness[best, who] < own - margin)
    ticks = np.where(wanted & (before.better == best), before.ticks + 1, 0)
    goes = np.isinf(own) | (wanted & (ticks >= needed))
    stays_better = wanted & ~goes
    return Homes(np.where(goes, best, before.home), np.where(stays_better, best, -1), np.where(stays_better, ticks, 0))

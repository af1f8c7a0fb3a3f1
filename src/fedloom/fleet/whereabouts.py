"""Where devices are, and in which cell: as they were placed, after moves between cells by chance, or on their way.

Each is a function of t, the number of a round or tick: what it answers depends on the settings, the seed and t, and not on what
was asked before. K devices, N cells, D coordinates.
"""

from collections.abc import Callable
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from fedloom._random import stream
from fedloom.fleet import cells, mobility, placement
from fedloom.radio import distances

Array = NDArray[np.float64]
Homes = NDArray[np.int64]
Place = tuple[Array, Homes]
"""Positions (K, D) and homes (K,), -1 for a device that is in reach of no cell and takes no part; both read-only."""

KEPT_STATES = 64  # where devices were in so many rounds: edges on clocks of their own are a few edge rounds apart


class Whereabouts(Protocol):
    """at(t): where devices are in round or tick t, from 0."""

    def at(self, t: int) -> Place: ...


class Placed:
    """Nobody moves."""

    def __init__(self, start: Place) -> None:
        self._start = start

    def at(self, t: int) -> Place:
        return self._start


class Hopping:
    """A Markov chain on the cells: a device that moves stands anywhere in its new cell, at its old height. The latest rounds are
    kept, and the start; others are walked to from the latest before them that is."""

    def __init__(self, seed: int, start: Place, cell_m: Array, radius_m: Array, transition: Array) -> None:
        self._seed, self._cell_m, self._radius_m, self._transition = seed, cell_m, radius_m, transition
        self._states = {0: start}

    def at(self, t: int) -> Place:
        if t not in self._states:
            known = max(kept for kept in self._states if kept <= t)
            state = self._states[known]
            for step in range(known + 1, t + 1):
                state = self._states[step] = self._moved(*state, step)
                if len(self._states) > KEPT_STATES:
                    del self._states[next(kept for kept in self._states if kept > 0)]  # the first that was added
        return self._states[t]

    def _moved(self, position_m: Array, home: Homes, t: int) -> Place:
        rng = stream(self._seed, "mobility", t)
        new_home = mobility.move(home, self._transition, rng)
        movers = np.flatnonzero(new_home != home)
        target = new_home[movers]
        height = position_m[movers, 2] if position_m.shape[1] == 3 else np.zeros(len(movers))
        reach_m = placement.radius_at(self._cell_m, self._radius_m, target, height)
        new_position = position_m.copy()
        new_position[movers, :2] = placement.around_cells(self._cell_m[target, :2], reach_m, 1, rng)
        return read_only(new_position, new_home)


class Walking:
    """Devices that move over the ground; their heights stay. A device's home is the nearest of the cells in reach.

    walk: metres (K, 2) at a time in seconds."""

    def __init__(
        self, walk: Callable[[float], Array], tick_s: float, start_m: Array, cell_m: Array, radius_m: Array
    ) -> None:
        self._walk, self._tick_s, self._start_m = walk, tick_s, start_m
        self._cell_m, self._radius_m = cell_m, radius_m
        self._last: tuple[int, Place] | None = None

    def at(self, t: int) -> Place:
        if self._last is None or self._last[0] != t:
            position_m = self._start_m.copy()
            position_m[:, :2] = self._walk(t * self._tick_s)
            self._last = (t, read_only(position_m, self._homes(position_m)))
        return self._last[1]

    def _homes(self, position_m: Array) -> Homes:
        distance = distances(self._cell_m, position_m)
        near = np.where(cells.within(distance, self._radius_m), distance, np.inf)
        return np.where(np.isfinite(near.min(axis=0)), near.argmin(axis=0), -1)


def read_only(position_m: Array, home: Homes) -> Place:
    """A place that nobody can change."""
    position_m, home = position_m.view(), home.view()
    position_m.flags.writeable = home.flags.writeable = False
    return position_m, home

"""Where devices are, and in which cell: as they were placed, after moves between cells by chance, or on their way.

Each is a function of t, the number of a round or tick: what it answers depends on the settings, the seed and t, and not on what
was asked before. K devices, N cells, D coordinates.
"""

from collections.abc import Callable
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from fedloom._random import stream
from fedloom.fleet import cells, handover, mobility, placement
from fedloom.fleet.chain import Chain
from fedloom.radio import distances

Array = NDArray[np.float64]
Homes = NDArray[np.int64]
Place = tuple[Array, Homes]
"""Positions (K, D) and homes (K,), -1 for a device that is in reach of no cell and takes no part; both read-only."""

Badness = Callable[[Array, Array], Array]
"""Of cells for devices (N, K), the least is best; from the devices' positions (K, D) and distances (N, K)."""


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
    """A Markov chain on the cells: a device that moves stands anywhere in its new cell, at its old height."""

    def __init__(self, seed: int, start: Place, cell_m: Array, radius_m: Array, transition: Array) -> None:
        self._seed, self._cell_m, self._radius_m, self._transition = seed, cell_m, radius_m, transition
        self._chain = Chain(start, self._moved)

    def at(self, t: int) -> Place:
        return self._chain.at(t)

    def _moved(self, place: Place, t: int) -> Place:
        position_m, home = place
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
    """Devices that move over the ground; their heights stay. A device's home is the best of the cells in reach, at once, or
    after hysteresis.

    walk: metres (K, 2) in a tick. rule: margin of badness, and ticks for which it must last; None: at once."""

    def __init__(
        self,
        walk: Callable[[int], Array],
        start_m: Array,
        cell_m: Array,
        radius_m: Array,
        badness: Badness,
        rule: tuple[float, int] | None,
    ) -> None:
        self._walk, self._start_m, self._badness, self._rule = walk, start_m, badness, rule
        self._cell_m, self._radius_m = cell_m, radius_m
        self._last: tuple[int, Place] | None = None
        self._chain = None if rule is None else Chain(handover.first(self._seen(self._position(0))), self._handed_over)

    def at(self, t: int) -> Place:
        if self._last is None or self._last[0] != t:
            if self._chain is None:
                position_m = self._position(t)
                home = handover.nearest(self._seen(position_m))
            else:
                home, position_m = self._chain.at(t).home, self._position(t)
            self._last = (t, read_only(position_m, home))
        return self._last[1]

    def _position(self, t: int) -> Array:
        position_m = self._start_m.copy()
        position_m[:, :2] = self._walk(t)
        return position_m

    def _seen(self, position_m: Array) -> Array:
        """Badness (N, K), infinite out of reach."""
        distance = distances(self._cell_m, position_m)
        return np.where(cells.within(distance, self._radius_m), self._badness(position_m, distance), np.inf)

    def _handed_over(self, before: handover.Homes, t: int) -> handover.Homes:
        assert self._rule is not None
        return handover.hand_over(before, self._seen(self._position(t)), *self._rule)


def read_only(position_m: Array, home: Homes) -> Place:
    """A place that nobody can change."""
    position_m, home = position_m.view(), home.view()
    position_m.flags.writeable = home.flags.writeable = False
    return position_m, home

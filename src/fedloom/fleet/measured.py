"""Rates between devices and cells as they were measured: which links there are, and what they carry. N cells, K devices."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from fedloom.fleet.settings.links import DeviceEdge, EdgeLink
from fedloom.fleet.settings.measured import MatrixLink, TraceLink
from fedloom.fleet.trace import Held

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]
Homes = NDArray[np.int64]


class Measured:
    """up, down: bit/s (N, K) at a time, of a hop that was measured, else None. in_time: they change, until still_from_s. ever
    (N, K): links that are not down all the time; None if nothing was measured."""

    def __init__(self, edge: DeviceEdge, n_cells: int) -> None:
        ways = (edge.up, edge.down)
        self._rates = [_rates(way, n_cells) for way in ways]
        self.in_time = any(isinstance(way, TraceLink) for way in ways)
        times_s = [times for way in ways if isinstance(way, TraceLink) for times in way.times_s if len(times)]
        self.still_from_s = max((times[-1] for times in times_s), default=0.0)
        self.ever: Mask | None = None
        for way in ways:
            if (ever := _ever(way, n_cells)) is not None:
                self.ever = ever if self.ever is None else self.ever & ever

    def at(self, time_s: float) -> tuple[Array | None, Array | None]:
        """Up and down."""
        up, down = (None if rates is None else rates(time_s) for rates in self._rates)
        return up, down


def reached(in_reach: Mask, up: Array | None, down: Array | None) -> Mask:
    """Which cells reach whom (N, K): those that do by distance, and whose measured links are not down."""
    for rates in (up, down):
        if rates is not None:
            in_reach = in_reach & (rates > 0)
    return in_reach


def homes(home: Homes, in_reach: Mask, up: Array | None, down: Array | None) -> Homes:
    """Homes (K,) of devices whose homes by distance are these: the cell in reach with the highest measured rate, if their own is
    down; -1 if all are, or it is out of coverage."""
    who = np.arange(len(home))
    rates = up if up is not None else down
    assert rates is not None
    best = np.where(in_reach, rates, -1.0).argmax(axis=0)
    other = np.where(in_reach[best, who] & (home >= 0), best, -1)
    return np.where((home >= 0) & in_reach[home, who], home, other)


def _rates(way: EdgeLink, n_cells: int) -> Callable[[float], Array] | None:
    if isinstance(way, MatrixLink):
        matrix = np.array(way.bit_s, dtype=np.float64).T
        return lambda time_s: matrix
    if isinstance(way, TraceLink):
        held = Held(way.times_s, way.bit_s)
        return lambda time_s: held.at(time_s).reshape(-1, n_cells).T
    return None


def _ever(way: EdgeLink, n_cells: int) -> Mask | None:
    if isinstance(way, MatrixLink):
        return np.asarray(np.array(way.bit_s).T > 0)
    if isinstance(way, TraceLink):
        return np.array([any(rate > 0 for rate in series) for series in way.bit_s]).reshape(-1, n_cells).T
    return None

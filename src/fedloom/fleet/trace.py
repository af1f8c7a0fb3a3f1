"""Measurements in time: lines of several series (a device, or a device and a cell), each with its moments, ascending.

Positions are joined by straight lines; rates and speeds hold from one line to the next. Before its first line a series is as that
says, after its last it stays.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Series = Sequence[Sequence[float]]


class Moments:
    """times_s: of M series, each ascending; one may have no lines."""

    def __init__(self, times_s: Series) -> None:
        count = np.array([len(times) for times in times_s], dtype=np.int64)
        self.first = np.cumsum(count) - count
        self.end = self.first + count
        self.time_s = joined(times_s)

    def last(self, time_s: float) -> Ints:
        """(M,) the line of each series that is the last at this time, or its first, if that is later; of a series without lines
        a number that means nothing. By bisection of all at once."""
        low, high = self.first, self.end  # lines before low are not later, those from high on are
        while (open_ := low < high).any():
            middle = (low + high) // 2
            passed = open_ & (self.time_s[np.minimum(middle, len(self.time_s) - 1)] <= time_s)
            low, high = np.where(passed, middle + 1, low), np.where(open_ & ~passed, middle, high)
        return np.asarray(np.maximum(low - 1, self.first).clip(max=max(len(self.time_s) - 1, 0)))


class Held:
    """Values that hold from one line to the next; `missing` of a series without lines."""

    def __init__(self, times_s: Series, values: Series, missing: float = 0.0) -> None:
        self._moments, self._values, self._missing = Moments(times_s), joined(values), missing
        self._empty = self._moments.first == self._moments.end

    def at(self, time_s: float) -> Floats:
        """(M,) at a time."""
        if not len(self._values):
            return np.full(len(self._empty), self._missing)
        return np.where(self._empty, self._missing, self._values[self._moments.last(time_s)])


class Paths:
    """Positions (M, 2) that go straight from one line to the next; those of start_m (M, 2) of a device without lines."""

    def __init__(self, times_s: Series, x_m: Series, y_m: Series, start_m: Floats) -> None:
        self._moments, self._start_m = Moments(times_s), start_m
        self._points_m = np.stack([joined(x_m), joined(y_m)], axis=1)
        self._empty = self._moments.first == self._moments.end

    def at(self, time_s: float) -> Floats:
        """(M, 2) at a time."""
        if not len(self._points_m):
            return self._start_m.copy()
        here = self._moments.last(time_s)
        there = np.where(here + 1 < self._moments.end, here + 1, here)
        begun_s, ends_s = self._moments.time_s[here], self._moments.time_s[there]
        share = np.clip((time_s - begun_s) / np.where(ends_s > begun_s, ends_s - begun_s, 1.0), 0.0, 1.0)[:, None]
        points_m = (1 - share) * self._points_m[here] + share * self._points_m[there]
        return np.where(self._empty[:, None], self._start_m, points_m)


def joined(series: Series) -> Floats:
    """All lines, one series after the other."""
    return np.array([value for one in series for value in one], dtype=np.float64)

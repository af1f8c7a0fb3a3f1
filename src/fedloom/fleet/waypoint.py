"""Random waypoint walks: where each device is at a moment, as a function of the seed, the device and the time alone.

Leg l of device k goes from where leg l - 1 ended (leg 0: from its place) straight to a point that is uniform in the area, at a
speed that is uniform in its range, and ends with a pause. Four draws, each keyed by (seed, what it is, k, l).

    x(t) = from + (to - from) min(1, (t - begun) speed / |to - from|)
"""

import numpy as np
from numpy.typing import NDArray

from fedloom._random import uniform_of

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

OF_LEG = 2**20  # devices are fewer: number and leg make one key


class Waypoint:
    """K devices from start_m (K, 2). area_m: x_min, x_max, y_min, y_max. Only the leg that each is on is kept; who asks for a
    time before it makes the device begin anew."""

    def __init__(
        self,
        seed: int,
        start_m: Floats,
        area_m: tuple[float, float, float, float],
        speed_m_s: tuple[float, float],
        pause_s: tuple[float, float],
    ) -> None:
        self._seed, self._start_m, self._area_m = seed, start_m, area_m
        self._speed_m_s, self._pause_s = speed_m_s, pause_s
        n = len(start_m)
        self._leg = np.full(n, -1)
        self._from_m, self._to_m = start_m.copy(), start_m.copy()
        self._begun_s, self._walk_s, self._ends_s = np.zeros(n), np.zeros(n), np.zeros(n)

    def at(self, time_s: float) -> Floats:
        """Positions (K, 2) at a time of at least 0."""
        earlier = np.flatnonzero(self._begun_s > time_s)
        self._leg[earlier], self._to_m[earlier], self._ends_s[earlier] = -1, self._start_m[earlier], 0.0
        due = np.flatnonzero((self._ends_s <= time_s) | (self._leg < 0))
        while len(due):
            self._next_leg(due)
            due = due[self._ends_s[due] <= time_s]
        share = np.clip((time_s - self._begun_s) / self._walk_s, 0.0, 1.0)[:, None]
        return np.asarray((1 - share) * self._from_m + share * self._to_m)

    def _next_leg(self, who: Ints) -> None:
        self._leg[who] += 1
        x_min, x_max, y_min, y_max = self._area_m
        target = np.stack([self._drawn("x", who, (x_min, x_max)), self._drawn("y", who, (y_min, y_max))], axis=1)
        self._from_m[who], self._begun_s[who] = self._to_m[who], self._ends_s[who]
        self._to_m[who] = target
        way_m = np.linalg.norm(target - self._from_m[who], axis=1)
        self._walk_s[who] = np.maximum(way_m / self._drawn("speed", who, self._speed_m_s), 1e-6)
        self._ends_s[who] = self._begun_s[who] + self._walk_s[who] + self._drawn("pause", who, self._pause_s)

    def _drawn(self, what: str, who: Ints, between: tuple[float, float]) -> Floats:
        """(m,) uniform between two numbers, for the legs that these devices are on."""
        lot = uniform_of(self._seed, f"waypoint {what}", self._leg[who] * OF_LEG + who)
        return np.asarray(between[0] + (between[1] - between[0]) * lot)

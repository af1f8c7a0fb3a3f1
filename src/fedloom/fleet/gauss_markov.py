"""Gauss-Markov walks: velocities with a memory (B. Liang, Z. J. Haas, INFOCOM 1999), in each of two coordinates.

    a       = exp(-tick_s / memory_s)
    v_0     = m + sigma w_0                                          w: standard normal, of each device, tick and coordinate
    v_(i+1) = a v_i + (1 - a) m + sigma sqrt(1 - a^2) w_(i+1)
    x_(i+1) = x_i + tick_s v_i                                       mirrored at the borders of the area

m is a device's own mean velocity: `speed_m_s` in a direction that is drawn. At all times v has the mean m and the standard
deviation sigma, and velocities that are t seconds apart have the correlation exp(-t / memory_s), whatever the tick is. A border
mirrors the walk: the same walk without borders, folded into the area.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedloom._random import normal_of, uniform_of
from fedloom.fleet.chain import Chain

Floats = NDArray[np.float64]

OF_TICK = 2**20  # devices are fewer: number and tick make one key


class Motion(NamedTuple):
    """Where each device would be without borders, and its velocity, (K, 2)."""

    x_m: Floats
    v_m_s: Floats


class GaussMarkov:
    """K devices from start_m (K, 2), inside of area_m: x_min, x_max, y_min, y_max."""

    def __init__(
        self,
        seed: int,
        start_m: Floats,
        area_m: tuple[float, float, float, float],
        tick_s: float,
        *,
        speed_m_s: float,
        sigma_m_s: float,
        memory_s: float,
    ) -> None:
        self._seed, self._tick_s, self._who = seed, tick_s, np.arange(len(start_m))
        self._low = np.array([area_m[0], area_m[2]])
        self._size = np.array([area_m[1], area_m[3]]) - self._low
        self._check_inside(start_m)
        angle = 2 * np.pi * uniform_of(seed, "gauss-markov direction", self._who)
        self._mean = speed_m_s * np.stack([np.cos(angle), np.sin(angle)], axis=1)
        self._keeps = float(np.exp(-tick_s / memory_s))
        self._sigma_m_s = sigma_m_s
        self._chain = Chain(Motion(start_m, self._mean + sigma_m_s * self._noise(0)), self._step)

    def at(self, tick: int) -> Floats:
        """Positions (K, 2)."""
        x_m = self._chain.at(tick).x_m
        beyond = (x_m - self._low) % (2 * self._size)
        inside = (x_m >= self._low) & (x_m <= self._low + self._size)
        return np.where(inside, x_m, self._low + np.minimum(beyond, 2 * self._size - beyond))

    def velocity(self, tick: int) -> Floats:
        """(K, 2), as it would be without borders."""
        return self._chain.at(tick).v_m_s

    def _step(self, before: Motion, tick: int) -> Motion:
        a = self._keeps
        drift = a * before.v_m_s + (1 - a) * self._mean
        v_m_s = drift + self._sigma_m_s * np.sqrt(1 - a * a) * self._noise(tick)
        return Motion(before.x_m + self._tick_s * before.v_m_s, v_m_s)

    def _noise(self, tick: int) -> Floats:
        both = np.stack([self._who, self._who + OF_TICK], axis=1)
        return normal_of(self._seed, "gauss-markov", both + 2 * OF_TICK * tick)

    def _check_inside(self, start_m: Floats) -> None:
        outside = ((start_m < self._low) | (start_m > self._low + self._size)).any(axis=1)
        if outside.any():
            k = int(outside.argmax())
            x_max, y_max = (self._low + self._size).tolist()
            raise ValueError(
                f"device {k} is placed at ({start_m[k, 0]:g}, {start_m[k, 1]:g}) m, outside of mobility.area_m, x "
                f"{self._low[0]:g}..{x_max:g} m, y {self._low[1]:g}..{y_max:g} m; enlarge the area or leave it out"
            )

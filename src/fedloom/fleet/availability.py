"""When devices are there: each is on and off in turn, for times of a law or as a trace has them.

The same serves for being plugged in. `Turns.at(time_s)` says who is on and until when; it depends on the settings, the seed and
the time, and not on what was asked before. All lots are those of a device and the number of its turn.
"""

import copy
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from fedloom._random import uniform_of

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

DAY_S = 86_400.0
HOUR_S = 3600.0
_TURNS = 2**32  # a device has fewer


class Turns:
    """K devices. first_on (K,): whether each is on at the start; follow: when the turns `number` (m,) of devices (m,) end that
    begin at since_s (m,), with on (m,): those who are on in it; infinite for a turn that never ends."""

    def __init__(self, first_on: Bools, follow: "Follow") -> None:
        self._first_on, self._follow = first_on, follow
        n = len(first_on)
        self._number, self._since_s, self._until_s = np.zeros(n, dtype=np.int64), np.zeros(n), np.zeros(n)
        self._begin(np.arange(n))

    def _begin(self, devices: Ints) -> None:
        """These are in their first turns."""
        self._number[devices], self._since_s[devices] = 0, 0.0
        self._until_s[devices] = self._ends(devices, self._since_s[devices])

    def copy(self) -> "Turns":
        """The same, for looking ahead: where it stands is its own."""
        other = copy.copy(self)
        other._number = self._number.copy()
        other._since_s, other._until_s = self._since_s.copy(), self._until_s.copy()
        return other

    def at(self, time_s: float) -> tuple[Bools, Floats]:
        """(K,) who is on at a time, and (K,) when that is next otherwise. At the very moment of a change it has changed."""
        everybody = np.arange(len(self._first_on))
        return self.of(everybody, np.full(len(everybody), time_s))

    def of(self, devices: Ints, time_s: Floats) -> tuple[Bools, Floats]:
        """The same of some devices (m,), each once, at times of their own (m,), not before 0."""
        if (again := devices[time_s < self._since_s[devices]]).size:
            self._begin(again)
        while len(over := np.flatnonzero(self._until_s[devices] <= time_s)):
            who = devices[over]
            self._number[who] += 1
            self._since_s[who] = self._until_s[who]
            self._until_s[who] = self._ends(who, self._since_s[who])
        return self._first_on[devices] ^ (self._number[devices] % 2 == 1), self._until_s[devices]

    def _ends(self, devices: Ints, since_s: Floats) -> Floats:
        number = self._number[devices]
        return self._follow(devices, number, since_s, self._first_on[devices] ^ (number % 2 == 1))


Follow = Callable[[Ints, Ints, Floats, Bools], Floats]


def exponential(seed: int, purpose: str, n_devices: int, on_s: float, off_s: float) -> Turns:
    """Times on and off are exponential with these means, each of a device by itself; on at the start with the share of the time
    that devices are on in the long run, so that it is the same at all times."""
    everybody = np.arange(n_devices)

    def follow(devices: Ints, number: Ints, since_s: Floats, on: Bools) -> Floats:
        lots = uniform_of(seed, f"{purpose} turn", devices * _TURNS + number)
        return np.asarray(since_s - np.where(on, on_s, off_s) * np.log(lots))

    first_on = uniform_of(seed, f"{purpose} start", everybody) < on_s / (on_s + off_s)
    return Turns(first_on, follow)


def periodic(on_s: Floats, off_s: Floats, begin_s: Floats) -> Turns:
    """On for on_s (K,), off for off_s (K,), and so on for ever; begin_s (K,): a moment at which a time on begins."""
    begin_s = begin_s % (on_s + off_s)  # the first that is not before the start
    first_on = (begin_s > off_s) | (begin_s == 0)

    def follow(devices: Ints, number: Ints, since_s: Floats, on: Bools) -> Floats:
        begins, lasts_s = begin_s[devices], np.where(on, on_s[devices], off_s[devices])
        cut_s = np.where(
            on & (begins > 0), begins - off_s[devices], np.where(on, lasts_s, begins)
        )  # what is left of it
        return np.where(number == 0, cut_s, since_s + lasts_s)

    return Turns(first_on, follow)


def traced(first_on: Bools, changes_s: Sequence[Floats]) -> Turns:
    """As measured: who is on at the start (K,), and the moments at which each changes, ascending."""
    first = np.concatenate([[0], np.cumsum([len(times) for times in changes_s])])
    flat = np.concatenate([np.zeros(0), *changes_s])

    def follow(devices: Ints, number: Ints, since_s: Floats, on: Bools) -> Floats:
        at = first[devices] + number
        there = at < first[devices + 1]
        return np.where(there, flat[np.where(there, at, 0)] if len(flat) else np.inf, np.inf)

    return Turns(first_on, follow)

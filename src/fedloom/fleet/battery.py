"""Batteries: what is in them, and when they are empty or charged again.

A battery of `capacity_j` loses what its device takes and gets `charge_w` while it is plugged in; it never holds more than its
capacity nor less than nothing. Powers are constant from one moment to the next, so that levels are straight lines and the moment
at which one is empty is exact. A device whose battery is empty is off and takes nothing; it is on again when the battery is
charged to a share of its capacity. Infinite capacity: it needs none.
"""

import copy
from typing import Self

import numpy as np
from numpy.typing import NDArray

from fedloom.fleet.availability import Turns

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

EMPTY = 1e-12  # of the capacity: less is rounding
MOST_TURNS = 100_000  # of charging, after which a battery counts as one that is never charged


class Batteries:
    """K devices. level_j (K,): what each holds at at_s (K,), of at most capacity_j (K,). off (K,): those that are empty and not
    charged again. drained_j, charged_j (K,): what went out and in so far. idle_w: what a device takes all the time; charge_w:
    what it gets while `plugged` has it on; back_at: share of the capacity with which one that was empty is on again."""

    def __init__(
        self,
        capacity_j: Floats,
        level_j: Floats,
        *,
        idle_w: float = 0.0,
        charge_w: float = 0.0,
        back_at: float = 0.2,
        plugged: Turns | None = None,
    ) -> None:
        n = len(capacity_j)
        self.capacity_j, self.level_j = capacity_j, np.minimum(level_j, capacity_j)
        self.at_s, self.drained_j, self.charged_j = np.zeros(n), np.zeros(n), np.zeros(n)
        self.off = self.level_j <= 0
        self._finite_j = np.where(np.isfinite(capacity_j), capacity_j, 0.0)
        self._idle_w, self._charge_w, self._back_j = idle_w, charge_w, back_at * self._finite_j
        self._plugged = plugged if charge_w > 0 else None

    def idle_until(self, who: Ints, time_s: float) -> None:
        """Devices `who` (m,) do nothing until a time; those who are there already stay as they are."""
        behind = who[self.at_s[who] < time_s]
        self._idle(behind, np.full(len(behind), time_s))

    def begin(self, who: Ints, time_s: Floats) -> None:
        """Devices `who` (m,), each once, have idled until times of their own (m,); who was to be busy until later is free."""
        behind, end_s = who[self.at_s[who] < time_s], time_s[self.at_s[who] < time_s]
        self._idle(behind, end_s)
        ahead = self.at_s[who] > time_s
        self.at_s[who[ahead]] = time_s[ahead]

    def work(self, who: Ints, seconds: Floats, watts: Floats) -> Floats:
        """Devices `who` (m,), which are not off, go on for seconds (m,) at watts (m,) on top of idling. Returns when each was
        empty, infinite if it was not: there it stops."""
        end_s, empty_s = self.at_s[who] + seconds, np.full(len(who), np.inf)
        while len(some := np.flatnonzero((self.at_s[who] < end_s) & ~self.off[who])):
            self._go_on(who[some], end_s[some], watts[some])
        stopped = self.off[who]
        empty_s[stopped] = self.at_s[who][stopped]
        return empty_s

    def _idle(self, who: Ints, end_s: Floats) -> None:
        while len(who):
            self._go_on(who, end_s, np.zeros(len(who)))
            still = self.at_s[who] < end_s
            who, end_s = who[still], end_s[still]

    def take(self, who: Ints, joules: Floats) -> None:
        """Take joules (m,) at once; `who` (m,) may be named several times."""
        some, at = np.unique(who, return_inverse=True)
        taken_j = np.minimum(np.bincount(at, weights=joules, minlength=len(some)), self.level_j[some])
        self.level_j[some] -= taken_j
        self.drained_j[some] += taken_j
        self.off[some] |= self.level_j[some] <= EMPTY * self._finite_j[some]

    def next_s(self, who: Ints) -> Floats:
        """When what holds now of idle devices (m,) holds no longer: they are plugged in or out, empty, or on again."""
        until_s, event_s, _, _ = self._next(who, np.zeros(len(who)))
        return np.minimum(until_s, event_s)

    def back_s(self, who: Ints) -> Floats:
        """When devices (m,) that are off will be on again; infinite if never."""
        ahead, back_s = self._copy(), np.full(len(who), np.inf)
        waiting = np.flatnonzero(self.off[who])
        back_s[~self.off[who]] = self.at_s[who][~self.off[who]]
        for _ in range(MOST_TURNS if self._plugged is not None else 0):
            if not len(waiting):
                break
            ahead._go_on(who[waiting], np.full(len(waiting), np.inf), np.zeros(len(waiting)))
            on = ~ahead.off[who[waiting]]
            back_s[waiting[on]] = ahead.at_s[who[waiting[on]]]
            waiting = waiting[~on & np.isfinite(ahead.at_s[who[waiting]])]
        return back_s

    def _copy(self) -> Self:
        other = copy.copy(self)
        for name in ("level_j", "at_s", "drained_j", "charged_j", "off"):
            setattr(other, name, getattr(self, name).copy())
        other._plugged = None if self._plugged is None else self._plugged.copy()
        return other

    def _next(self, who: Ints, watts: Floats) -> tuple[Floats, Floats, Floats, Floats]:
        """Of devices (m,): when each is plugged in or out, and when it is empty or on again if it is not until then; the watts
        that it gets and takes meanwhile."""
        at_s, level_j, off = self.at_s[who], self.level_j[who], self.off[who]
        until_s, gets_w = np.full(len(who), np.inf), np.zeros(len(who))
        if self._plugged is not None:
            on, until_s = self._plugged.of(who, at_s)
            gets_w = np.where(on, self._charge_w, 0.0)
        takes_w = np.where(off, 0.0, self._idle_w + watts)
        to_go_j = np.where(off, np.maximum(self._back_j[who] - level_j, 0.0), level_j)
        rate_w = np.where(off, gets_w, takes_w - gets_w)
        moving = (rate_w > 0) & np.isfinite(to_go_j)
        event_s = np.full(len(who), np.inf)
        with np.errstate(over="ignore"):  # in ages
            event_s[moving] = at_s[moving] + to_go_j[moving] / rate_w[moving]
        return until_s, event_s, gets_w, takes_w

    def _go_on(self, who: Ints, end_s: Floats, watts: Floats) -> None:
        """To the end of the straight line that each of `who` (m,) is on, but not beyond end_s (m,)."""
        until_s, event_s, gets_w, takes_w = self._next(who, watts)
        now_s = np.minimum(np.minimum(until_s, event_s), end_s)
        seconds = np.where(np.isfinite(now_s), now_s - self.at_s[who], 0.0)
        off, happened = self.off[who], (event_s <= now_s) & np.isfinite(event_s)
        out_j, in_j = takes_w * seconds, gets_w * seconds
        full_j = self.level_j[who] + in_j - out_j
        new_j = np.clip(full_j, 0.0, self.capacity_j[who])
        new_j = np.where(happened, np.where(off, np.maximum(self._back_j[who], new_j), 0.0), new_j)
        wasted_j = np.where(np.isfinite(full_j), np.maximum(full_j - self._finite_j[who], 0.0), 0.0)
        self.level_j[who] = new_j
        self.drained_j[who] += out_j
        self.charged_j[who] += in_j - wasted_j
        self.at_s[who] = now_s
        self.off[who] = off ^ happened

"""States that follow one from the other, step by step, of which any can be asked for."""

from collections.abc import Callable
from typing import Generic, TypeVar

S = TypeVar("S")

KEPT_STATES = 64  # the last ones: edges on clocks of their own are a few edge rounds apart
EVERY = 1000  # one of so many is kept for good, and the first


class Chain(Generic[S]):
    """The state at t = 0 is `start`; step(state, t) is the one at t, after the one at t - 1. What is asked for is walked to from
    the latest before it that is kept."""

    def __init__(self, start: S, step: Callable[[S, int], S]) -> None:
        self._step = step
        self._kept, self._recent = {0: start}, dict[int, S]()

    def at(self, t: int) -> S:
        if t in self._recent:
            return self._recent[t]
        known = max(i for states in (self._kept, self._recent) for i in states if i <= t)
        state = self._recent[known] if known in self._recent else self._kept[known]
        for i in range(known + 1, t + 1):
            state = self._step(state, i)
            (self._recent if i % EVERY else self._kept)[i] = state
            if len(self._recent) > KEPT_STATES:
                del self._recent[next(iter(self._recent))]  # the first that was added
        return state

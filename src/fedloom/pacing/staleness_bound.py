"""How far edges may run ahead of each other when the cloud does not wait.

Our reconstruction of HiFlash's adaptive staleness control, of whose paper we had the abstract alone: the rules are ours.

An edge may start again if the cloud's version is at most S_max ahead of the oldest version that is still worked on. S_max
climbs: after every window of pushes it moves by one, in the same direction as before if accuracy rose faster per second
than in the window before, else in the other. It replaces a controller that learns.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from fedloom import _check


@dataclass(frozen=True, kw_only=True)
class StalenessBound:
    """How far aggregators may run ahead of each other, and how that is adapted."""

    s_max: int = 2
    """Most versions that whoever starts may be ahead of the oldest that is still worked on."""
    least: int = 1
    """Of s_max, when it is adapted."""
    most: int = 10
    """Of s_max, when it is adapted."""
    adapt_every: int = 0
    """It is adapted after so many cloud merges, a window, by the accuracy on samples that no client has; 0: never."""
    direction: int = 1
    """In which it moves next, +1 or -1."""
    rate: float | None = None
    """Accuracy per second of the last window; None before the first is over."""

    def __post_init__(self) -> None:
        _check.whole("adapt_every", self.adapt_every, least=0)
        _check.whole("least", self.least, least=0)
        if not self.least <= self.s_max <= self.most:
            raise ValueError(f"s_max must be between {self.least} and {self.most}, got {self.s_max}")
        if self.direction not in (-1, 1):
            raise ValueError(f"direction must be 1 or -1, got {self.direction}")


def next_bound(bound: StalenessBound, gain: float, elapsed_s: float) -> StalenessBound:
    """The bound after a window in which accuracy rose by `gain` in `elapsed_s` seconds.

    The first window has none to be compared with and moves as the direction says. At an end of the range S_max stays,
    until a worse window turns the direction.

    >>> first = next_bound(StalenessBound(), gain=0.2, elapsed_s=100)
    >>> first.s_max, next_bound(first, gain=0.1, elapsed_s=100).s_max
    (3, 2)
    """
    _check.positive("elapsed_s", elapsed_s)
    rate = gain / elapsed_s
    better = bound.rate is None or rate > bound.rate
    direction = bound.direction if better else -bound.direction
    s_max = min(max(bound.s_max + direction, bound.least), bound.most)
    return replace(bound, s_max=s_max, direction=direction, rate=rate)


def may_start(version: int, working: Sequence[int], s_max: int) -> bool:
    """Whether an edge may start again: version - min(working) <= s_max.

    version: cloud merges so far; working: the versions that the edges at work had fetched. Those that wait are left out,
    as they would block each other for ever; if nobody works, everybody may start.
    """
    return not working or version - min(working) <= s_max

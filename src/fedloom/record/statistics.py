"""What seeds can tell: means with a confidence interval, and differences of runs that saw the same world.

    mean ± t_{n-1} s / sqrt(n),   95 % of Student's t, s the sample standard deviation over n seeds

Two methods with the same seed see the same placement, data, batches, jitter and sampling, so their differences seed by seed are
what is judged, never two spreads side by side. Fewer than LEAST seeds decide nothing: the interval of two is 9 s wide on
either side.
"""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

LEAST = 3  # seeds below which nothing is called better than something else
LEVEL = 0.95


@dataclass(frozen=True)
class Interval:
    """Mean of n values and the ends of its confidence interval; without two values it reaches everywhere."""

    mean: float
    low: float
    high: float
    n: int

    @property
    def decides(self) -> bool:
        """Whether there are enough seeds for a verdict at all."""
        return self.n >= LEAST

    @property
    def half(self) -> float:
        """Half of its width."""
        return (self.high - self.low) / 2

    def excludes(self, value: float = 0.0) -> bool:
        """Whether `value` lies outside, judged on enough seeds."""
        return self.decides and not self.low <= value <= self.high

    def inside(self, low: float, high: float) -> bool:
        """Whether all of it lies in low..high, judged on enough seeds."""
        return self.decides and low <= self.low and self.high <= high

    def outside(self, low: float, high: float) -> bool:
        """Whether none of it lies in low..high, judged on enough seeds."""
        return self.decides and (self.high < low or self.low > high)


def interval(values: Sequence[float], level: float = LEVEL) -> Interval:
    """Of one value per seed.

    >>> found = interval([1.0, 2.0, 3.0])
    >>> round(found.mean, 3), round(found.low, 3), round(found.high, 3), found.n
    (2.0, -0.484, 4.484, 3)
    """
    if not values:
        raise ValueError("an interval needs at least one value, got none")
    mean, n = statistics.fmean(values), len(values)
    if n == 1:
        return Interval(mean, -math.inf, math.inf, 1)
    from scipy.special import stdtrit

    half = float(stdtrit(n - 1, (1 + level) / 2)) * statistics.stdev(values) / math.sqrt(n)
    return Interval(mean, mean - half, mean + half, n)


def paired(first: Mapping[int, float], second: Mapping[int, float]) -> list[float]:
    """first - second for every seed that both have, by ascending seed.

    >>> paired({0: 0.75, 1: 1.0, 2: 0.5}, {1: 0.75, 0: 0.5})
    [0.25, 0.25]
    """
    return [first[seed] - second[seed] for seed in sorted(first.keys() & second.keys())]

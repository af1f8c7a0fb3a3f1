"""Weights of asynchronous merges: the older an update, the less it moves the model.

w <- (1 - a) w + a w_new,   a = a_0 (1 + s)^(-power),   s = staleness
"""

from collections.abc import Callable

import numpy as np

from fedloom import _check
from fedloom.mixing.weights import Arrivals, CloudWeights, EdgeWeights, Reports


def polynomial_edge(a0: float = 0.6, power: float = 0.5) -> Callable[[Arrivals], EdgeWeights]:
    """Merge arrivals one after the other in the order given, each with its own a."""
    _check_a0(a0, power)

    def weigh(arrivals: Arrivals) -> EdgeWeights:
        a = a0 * (1.0 + arrivals.staleness) ** -power
        kept = np.append(np.cumprod((1 - a)[::-1])[::-1], 1.0)  # what is left of the model after merges i, i+1, ...
        return EdgeWeights(own=float(kept[0]), model=a * kept[1:])

    return weigh


def polynomial_cloud(a0: float = 0.6, power: float = 0.5) -> Callable[[Reports], CloudWeights]:
    """Merge the aggregators that have just reported, in index order."""
    _check_a0(a0, power)

    def weigh(reports: Reports) -> CloudWeights:
        own, edge = 1.0, np.zeros(len(reports.total))
        for n in np.flatnonzero(reports.fresh):
            a = a0 * (1.0 + reports.staleness[n]) ** -power
            own, edge = own * (1 - a), edge * (1 - a)
            edge[n] += a
        return CloudWeights(own=own, edge=edge)

    return weigh


def _check_a0(a0: float, power: float) -> None:
    _check.positive("a0", a0)
    _check.positive("power", power, zero=True)
    if a0 > 1:
        raise ValueError(f"a0 must be at most 1, got {a0:g}")

"""The older an update, the less it moves the model.

    one at a time     w <- (1 - a) w + a w_new,   a = a_0 (1 + s)^(-power)                         (ours: hiflash_r, feduc_r)
    all at once       tau_i = 1 / (1 + s_i),  N = sum_i n_i                                        (CSAHFL, eq. 10)
        delta         w <- w + sum_i tau_i n_i (w_i - start_i) / N
        renorm        w <- sum_i tau_i n_i w_i / sum_i tau_i n_i
        literal       w <- sum_i tau_i n_i w_i / N

s is the staleness in merges or edge rounds, 0 for a fresh update. The printed form of eq. (10) is "literal": each stale
update shrinks the model, as the weights sum to less than 1. "delta" keeps the printed N and takes w_i for what the client
changed, so that the missing weight falls to the old model. Without stale updates, from the aggregator's own model, all
three are the mean by samples.
"""

from collections.abc import Callable
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from fedloom import _check
from fedloom.mixing.weights import Arrivals, CloudWeights, EdgeWeights, Floats, Reports

StaleMode = Literal["delta", "renorm", "literal"]


def discounted(mode: StaleMode = "delta") -> Callable[[Arrivals], EdgeWeights]:
    """Merge fresh and stale arrivals by samples, the stale ones discounted (CSAHFL, eq. 10). Nobody came: no change."""
    _check.one_of("mode", mode, ("delta", "renorm", "literal"))

    def weigh(arrivals: Arrivals) -> EdgeWeights:
        if not len(arrivals.client):
            return EdgeWeights(own=1.0, model=np.zeros(0))
        counted = arrivals.n_samples / (1.0 + arrivals.staleness)
        if mode == "renorm":
            return EdgeWeights(own=0.0, model=counted / counted.sum())
        model = counted / arrivals.n_samples.sum()
        if mode == "literal":
            return EdgeWeights(own=0.0, model=model)
        return EdgeWeights(own=1.0, model=model, start=-model)

    return weigh


def staleness_weight(staleness: ArrayLike, a0: float | Floats = 0.6, power: float = 0.5) -> Floats:
    """a of the merge above, in (0, 1]: of a push by an edge, with s cloud merges since it fetched the model. Ours, for hiflash_r.

    >>> staleness_weight([0, 3]).tolist()
    [0.6, 0.3]
    """
    s = np.asarray(staleness, dtype=np.float64)
    _check.positive("staleness", s, zero=True)
    _check_a0(a0, power)
    return np.asarray(a0 * (1.0 + s) ** -power)


def group_rate(n_group: ArrayLike, n_edge: ArrayLike, staleness: ArrayLike, power: float = 0.5) -> Floats:
    """How far a group of clients moves the model of its edge: r = (N_group / N_edge) (1 + s)^(-power) (ours, for feduc_r).

    n_group, n_edge: samples of the group and of all clients of the edge; staleness: merges by other groups since this
    one fetched the model.

    >>> group_rate(250, 1000, 3).tolist()
    0.125
    """
    _check.positive("n_group", n_group)
    share = np.asarray(n_group, dtype=np.float64) / np.asarray(n_edge, dtype=np.float64)
    if (share > 1).any():
        raise ValueError(f"n_group must be at most n_edge, got shares of up to {share.max():g}")
    return staleness_weight(staleness, share, power)


def polynomial_edge(a0: float = 0.6, power: float = 0.5) -> Callable[[Arrivals], EdgeWeights]:
    """Merge arrivals one after the other in the order given, each with its own a."""
    _check_a0(a0, power)

    def weigh(arrivals: Arrivals) -> EdgeWeights:
        a = staleness_weight(arrivals.staleness, a0, power)
        kept = np.append(np.cumprod((1 - a)[::-1])[::-1], 1.0)  # what is left of the model after merges i, i+1, ...
        return EdgeWeights(own=float(kept[0]), model=a * kept[1:])

    return weigh


def polynomial_cloud(a0: float = 0.6, power: float = 0.5) -> Callable[[Reports], CloudWeights]:
    """Merge the aggregators that have just reported, in index order."""
    _check_a0(a0, power)

    def weigh(reports: Reports) -> CloudWeights:
        own, edge = 1.0, np.zeros(len(reports.total))
        for n in np.flatnonzero(reports.fresh):
            a = float(staleness_weight(reports.staleness[n], a0, power))
            own, edge = own * (1 - a), edge * (1 - a)
            edge[n] += a
        return CloudWeights(own=own, edge=edge)

    return weigh


def _check_a0(a0: float | Floats, power: float) -> None:
    _check.positive("a0", a0)
    _check.positive("power", power, zero=True)
    if (np.asarray(a0) > 1).any():
        raise ValueError(f"a0 must be at most 1, got {np.max(a0):g}")

"""Looking at models before they are merged: what is not finite, or lies absurdly far off, is left out of any merge.

    edge    d_i = ||w_i - s_i||      how far an update is from where it started
    cloud   d_n = ||v_n - w_old||    how far an aggregator's model is from the cloud's old one, of those with news
    left out:  not finite,  d > times_median * median(d),  or  d > norm

The median is over what is finite; where it is 0 (nobody else has moved) it bounds nothing. A merge by weights that is screened
looks at models, so they are all held at once; its weights are those of the method for the updates that are left, and with
nobody left out it is the same merge. m updates, N aggregators, P values.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from fedloom import _check
from fedloom._sums import weighted_sum
from fedloom.mixing.merges import (
    ByRows,
    CloudByRows,
    CloudLinear,
    CloudRule,
    EdgeRule,
    MergeCloud,
    MergeEdge,
    Rows,
    WeighCloud,
    WeighEdge,
)
from fedloom.mixing.weights import Arrivals, Floats, Reports

Mask = NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True)
class Screen:
    """times_median: how many times the median change is too much; norm: what change is too much in any case. None: no bound."""

    times_median: float | None = 1e3
    norm: float | None = None

    def __post_init__(self) -> None:
        for name in ("times_median", "norm"):
            value = getattr(self, name)
            if value is not None:
                _check.positive(name, value)

    def too_far(self, rows: Rows, begun: Rows) -> Mask:
        """(m,): which of the rows (m, P) are left out; begun (m, P), or (P,) for all of them.

        >>> Screen(times_median=10).too_far(np.array([[1.0], [2.0], [50.0], [np.nan]]), np.zeros(1)).tolist()  # median 2
        [False, False, True, True]
        """
        with np.errstate(invalid="ignore", over="ignore"):
            length = np.array([np.linalg.norm(row) for row in rows.astype(np.float64) - begun])
        finite = np.isfinite(length)
        bound = np.inf if self.norm is None else self.norm
        middle = float(np.median(length[finite])) if finite.any() else 0.0
        if self.times_median is not None and middle > 0:
            bound = min(bound, self.times_median * middle)
        return np.asarray(~finite | (np.where(finite, length, 0.0) > bound))


def screened(merge: MergeEdge, screen: Screen) -> ByRows:
    """A merge at aggregators whose updates are looked at before."""
    return replace(merge if isinstance(merge, ByRows) else ByRows(by_weights(merge.weigh), merge.then), screen=screen)


def cloud_screened(merge: MergeCloud, screen: Screen) -> CloudByRows:
    """The same at the cloud."""
    if isinstance(merge, CloudLinear):
        merge = CloudByRows(cloud_by_weights(merge.weigh), shown=merge.weigh, then=merge.then)
    return replace(merge, screen=screen)


def by_weights(weigh: WeighEdge) -> EdgeRule:
    """The merge by weights of models that are there, in the order in which they are added where they are trained."""

    def rule(arrivals: Arrivals, old: Rows, rows: Rows, starts: Rows) -> Floats:
        order = np.argsort(arrivals.client, kind="stable")
        found = weigh(arrivals)
        total = weighted_sum(rows[order], found.model[order])
        if found.own:
            total = total + found.own * old.astype(np.float64)
        return total if found.start is None else total + found.start @ starts.astype(np.float64)

    return rule


def cloud_by_weights(weigh: WeighCloud) -> CloudRule:
    """The same at the cloud, in the order of aggregators."""

    def rule(reports: Reports, old: Rows, rows: Rows) -> NDArray[np.floating]:
        found = weigh(reports)
        parts = [(row, w) for row, w in [(old, found.own), *zip(rows, found.edge.tolist())] if w]
        if len(parts) == 1 and parts[0][1] == 1.0:
            return np.asarray(parts[0][0])
        total: Floats = np.zeros(())
        for row, weight in parts:
            total = total + weight * row.astype(np.float64)
        return total

    return rule

"""From arrivals and reports to the votes that a robust rule is given, and from what it finds to the new model.

    edge    v_i = w_i                     of an update that is fresh
            v_i = w_old + (w_i - s_i)     of one that is late, or where the weights say that changes are added: s_i its start
    cloud   v_n = w_n                     of an aggregator that has just reported somebody's update
    w_new   = b w_old + a rule(v),        a = sum_i a_i,   b: the rest

The weights a_i are the method's own (by samples, split where a client has several aggregators; or discounted, or any other).
Where they leave something to the old model (asynchronous merges, discounts), so does the rule: it replaces the mean and not the
step. What weights give to those without a vote falls to the old model.

Why changes of late updates: a model that began two rounds ago lies two rounds behind, and a rule that compares models would
take it for an outlier or be dragged back by it; what it changed is as good as before. Why not of all: clients in several cells
begin between the models of their aggregators, and by that models mix. Where an update began with the old model, both are the
same, and it is taken as it is, to the bit.

Not finite: left out before anything is weighed. At the cloud an aggregator without news holds what it was handed; it has no
vote and counts as one without samples. m votes, P values, N aggregators.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from fedloom._sums import weighted_sum
from fedloom.mixing.merges import ByRows, CloudByRows, Root, Rows, WeighCloud, WeighEdge
from fedloom.mixing.size import by_split_size, by_total
from fedloom.mixing.weights import Arrivals, Floats, Reports

Sum = Callable[[Rows, Floats], Floats]
Mask = NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True, eq=False)
class Votes:
    """What a rule is given: rows (m, P), finite, m >= 1; weights (m,), above 0 with sum 1; old (P,), the model before;
    n_sick: so many were left out before (not finite, or too far); add: rows, weights -> their weighted sum, as it is formed at
    this level; reference (P,): what trusted data make of the old model, if there are some."""

    rows: Rows
    weights: Floats
    old: Rows
    n_sick: int
    add: Sum
    reference: Rows | None = None

    def mean(self, kept: Mask | None = None) -> Floats:
        """The weighted mean (P,) of those that are kept (m,)."""
        if kept is None or kept.all():
            return self.add(self.rows, self.weights)
        return self.add(self.rows[kept], self.weights[kept] / self.weights[kept].sum())


Rule = Callable[[Votes], NDArray[np.floating]]


def at_edge(rule: Rule, weigh: WeighEdge = by_split_size, root: Root | None = None) -> ByRows:
    """The rule at aggregators. weigh: the weights of a linear merge, `Linear.weigh` of the method that is changed. root: trusted
    data, which every aggregator trains on, too."""

    def merge(arrivals: Arrivals, old: Rows, rows: Rows, starts: Rows) -> NDArray[np.floating]:
        order = np.argsort(arrivals.client, kind="stable")  # the engines' order of addition
        kept = order[_finite(rows)[order]]
        if not len(kept):
            return old
        heard = arrivals.only(kept)
        found = weigh(heard)
        moved = arrivals.staleness[kept] > 0 if found.start is None else np.ones(len(kept), dtype=np.bool_)
        votes = _moved(old, rows[kept], starts[kept], moved)
        own = found.own if found.start is None else found.own + float(found.start.sum())
        return _stepped(rule, old, votes, found.model, own, heard.n_sick, weighted_sum, arrivals.reference)

    return ByRows(merge, root=root)


def at_cloud(rule: Rule, weigh: WeighCloud = by_total, root: Root | None = None) -> CloudByRows:
    """The rule at the cloud. weigh: as `CloudLinear.weigh`; models of clusters are made by it, too. root: trusted data, which the
    cloud trains on."""

    def merge(reports: Reports, old: Rows, rows: Rows) -> NDArray[np.floating]:
        news = reports.fresh & (reports.reported > 0)
        kept = news & _finite(rows)
        if not kept.any():
            return old
        found = weigh(reports.only(kept))
        voting = kept & (found.edge > 0)
        if not voting.any():
            return old
        own = found.own + float(found.edge[~voting].sum())
        n_sick = int((news & ~kept).sum())
        edge = found.edge[voting]
        return _stepped(rule, old, rows[voting], edge, own, n_sick, _plain_sum, reports.reference)

    return CloudByRows(merge, shown=weigh, root=root)


def _stepped(
    rule: Rule, old: Rows, rows: Rows, weights: Floats, own: float, n_sick: int, add: Sum, reference: Rows | None
) -> Floats:
    """own * old + sum(weights) * what the rule finds."""
    total = float(weights.sum())
    votes = Votes(rows=rows, weights=weights, old=old, n_sick=n_sick, add=add, reference=reference)
    if own == 0.0 and abs(total - 1.0) < 1e-9:  # dividing by a sum of 0.9999999999999999 would cost the last bit
        return np.asarray(rule(votes))
    found = rule(replace(votes, weights=weights / total))
    return np.asarray(own * old.astype(np.float64) + total * found)


def _moved(old: Rows, rows: Rows, starts: Rows, moved: Mask) -> Rows:
    """Rows (m, P), those that are to be moved (m,) by the way from where they began to the old model."""
    there = np.array([bool(m) and not np.array_equal(s, old) for m, s in zip(moved, starts)])
    if not there.any():
        return rows
    out = rows.copy()
    for i in np.flatnonzero(there):
        out[i] = old + (rows[i].astype(np.float64) - starts[i])
    return out


def _finite(rows: Rows) -> Mask:
    """(m,): every value of a row is finite. Sums in double precision of values in single precision cannot overflow."""
    with np.errstate(invalid="ignore"):
        return np.asarray(np.isfinite(rows.sum(axis=1, dtype=np.float64)))


def _plain_sum(rows: Rows, weights: Floats) -> Floats:
    """As the cloud adds: product, then sum, in the order of aggregators; one model with weight 1 is that model."""
    if len(rows) == 1 and weights[0] == 1.0:
        return np.asarray(rows[0].astype(np.float64))
    total = np.zeros(())
    for row, weight in zip(rows, weights.tolist()):
        total = total + weight * row.astype(np.float64)
    return np.asarray(total)

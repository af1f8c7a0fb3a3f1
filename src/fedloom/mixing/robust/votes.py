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
from typing import NamedTuple

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
    this level; reference (P,): what trusted data make of the old model, if there are some; scores (m,): what is remembered of the
    senders, by a rule that does."""

    rows: Rows
    weights: Floats
    old: Rows
    n_sick: int
    add: Sum
    reference: Rows | None = None
    scores: Floats | None = None

    def mean(self, kept: Mask | None = None) -> Floats:
        """The weighted mean (P,) of those that are kept (m,)."""
        if kept is None or kept.all():
            return self.add(self.rows, self.weights)
        return self.add(self.rows[kept], self.weights[kept] / self.weights[kept].sum())


Rule = Callable[[Votes], NDArray[np.floating]]


@dataclass(frozen=True)
class Remembering:
    """A rule with a memory. judge: (votes with the scores of their senders so far) -> their scores (m,) with these votes, by
    which the rule goes."""

    rule: Rule
    judge: Callable[[Votes], Floats]


def at_edge(rule: Rule | Remembering, weigh: WeighEdge = by_split_size, root: Root | None = None) -> ByRows:
    """The rule at aggregators. weigh: the weights of a linear merge, `Linear.weigh` of the method that is changed. root: trusted
    data, which every aggregator trains on, too."""
    plain = rule.rule if isinstance(rule, Remembering) else rule

    def poll(arrivals: Arrivals, old: Rows, rows: Rows, starts: Rows, kept: NDArray[np.int64]) -> _Poll:
        heard = arrivals.only(kept)
        found = weigh(heard)
        moved = arrivals.staleness[kept] > 0 if found.start is None else np.ones(len(kept), dtype=np.bool_)
        votes = _moved(old, rows[kept], starts[kept], moved)
        own = found.own if found.start is None else found.own + float(found.start.sum())
        return _poll(votes, found.model, own, old, heard, weighted_sum)

    def merge(arrivals: Arrivals, old: Rows, rows: Rows, starts: Rows) -> NDArray[np.floating]:
        kept = _in_order(arrivals, rows)
        return poll(arrivals, old, rows, starts, kept).stepped(plain) if len(kept) else old

    def remember(arrivals: Arrivals, old: Rows, rows: Rows, starts: Rows, scores: Floats) -> Floats:
        assert isinstance(rule, Remembering)
        kept, after = _in_order(arrivals, rows), scores.copy()
        if len(kept):
            after[kept] = rule.judge(poll(replace(arrivals, scores=scores), old, rows, starts, kept).votes)
        return after

    return ByRows(merge, root=root, remember=remember if isinstance(rule, Remembering) else None)


def at_cloud(rule: Rule | Remembering, weigh: WeighCloud = by_total, root: Root | None = None) -> CloudByRows:
    """The rule at the cloud. weigh: as `CloudLinear.weigh`; models of clusters are made by it, too. root: trusted data, which the
    cloud trains on."""
    plain = rule.rule if isinstance(rule, Remembering) else rule

    def poll(reports: Reports, old: Rows, rows: Rows) -> tuple[Mask, _Poll | None]:
        news = reports.fresh & (reports.reported > 0)
        kept = news & _finite(rows)
        if not kept.any():
            return kept, None
        found = weigh(reports.only(kept))
        voting = kept & (found.edge > 0)
        if not voting.any():
            return voting, None
        own = found.own + float(found.edge[~voting].sum())
        scores = None if reports.scores is None else reports.scores[voting]
        heard = _Heard(int((news & ~kept).sum()), reports.reference, scores)
        return voting, _poll(rows[voting], found.edge[voting], own, old, heard, _plain_sum)

    def merge(reports: Reports, old: Rows, rows: Rows) -> NDArray[np.floating]:
        _, found = poll(reports, old, rows)
        return old if found is None else found.stepped(plain)

    def remember(reports: Reports, old: Rows, rows: Rows, scores: Floats) -> Floats:
        assert isinstance(rule, Remembering)
        voting, found = poll(replace(reports, scores=scores), old, rows)
        after = scores.copy()
        if found is not None:
            after[voting] = rule.judge(found.votes)
        return after

    return CloudByRows(merge, shown=weigh, root=root, remember=remember if isinstance(rule, Remembering) else None)


class _Heard(NamedTuple):
    """What is told beside the votes; arrivals have the same names."""

    n_sick: int
    reference: Rows | None
    scores: Floats | None


@dataclass(frozen=True, eq=False)
class _Poll:
    """The votes, and how much of the new model is the old one, and what the rule finds."""

    votes: Votes
    own: float
    total: float

    def stepped(self, rule: Rule) -> Floats:
        """own * old + total * what the rule finds."""
        if self.own == 0.0 and self.total == 1.0:
            return np.asarray(rule(self.votes))
        return np.asarray(self.own * self.votes.old.astype(np.float64) + self.total * rule(self.votes))


def _poll(rows: Rows, weights: Floats, own: float, old: Rows, heard: Arrivals | _Heard, add: Sum) -> _Poll:
    total = float(weights.sum())
    if own == 0.0 and abs(total - 1.0) < 1e-9:  # dividing by a sum of 0.9999999999999999 would cost the last bit
        total = 1.0
    else:
        weights = weights / total
    votes = Votes(
        rows=rows,
        weights=weights,
        old=old,
        n_sick=heard.n_sick,
        add=add,
        reference=heard.reference,
        scores=heard.scores,
    )
    return _Poll(votes, own, total)


def _in_order(arrivals: Arrivals, rows: Rows) -> NDArray[np.int64]:
    """Those that are finite, in the engines' order of addition."""
    order = np.argsort(arrivals.client, kind="stable")
    return np.asarray(order[_finite(rows)[order]])


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

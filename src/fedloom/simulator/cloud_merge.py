"""Merges at the cloud as notes in the book, without reports that are sick (fedloom.simulator.sick)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from fedloom.mixing import CloudByRows, CloudWeights, Reports
from fedloom.mixing.merges import MergeCloud
from fedloom.simulator.book import Ingredients, Model, Recipe, Row, combine, derive
from fedloom.simulator.sick import NORM, NOT_FINITE, Sick, Update

Mask = NDArray[np.bool_]
Ints = NDArray[np.int64]
Rows = NDArray[np.float32]
Without = Callable[[Mask], list[tuple[Model, float]]]


@dataclass(frozen=True, eq=False)
class Told:
    """By aggregator (N,), the last report that came, None if none did; and where it is noted which of them are sick. doubtful:
    some may be when they come; otherwise what a merge by weights is told is a mean of models that are not."""

    reports: Sequence[Update | None]
    sick: Sick | None
    doubtful: bool = False

    @property
    def left_out(self) -> Mask:
        """(N,)"""
        sick = self.sick
        return np.array([sick is not None and update is not None and update in sick for update in self.reports])

    @property
    def lies(self) -> Mask:
        """(N,) which of them are found to be lies when the cloud merges."""
        sick = self.sick
        if not sick:  # there is nothing to look up
            return np.zeros(len(self.reports), dtype=np.bool_)
        return np.array([update is not None and sick.is_found(update) for update in self.reports])

    def believed(self, rule: MergeCloud, reports: Reports, weights: CloudWeights) -> tuple[Reports, CloudWeights]:
        """What the cloud knows, and the weights, without lies."""
        lies = self.lies
        if not lies.any():
            return reports, weights
        heard = reports.only(~lies)
        if not (heard.total > 0).any():
            return heard, CloudWeights(own=1.0, edge=np.zeros(len(lies)))
        return heard, rule.weights(heard)

    def note(self, out: Mask, cause: str) -> None:
        """These (N,) are left out."""
        for update, mine in zip(self.reports, out.tolist()):
            if mine and update is not None and self.sick is not None:
                self.sick.add(update, cause)


def merged(
    rule: MergeCloud,
    reports: Reports,
    weights: CloudWeights,
    old: Model,
    models: Sequence[Model],
    told: Told,
    reference: Model | None = None,
    scores: Model | None = None,
) -> Model:
    """What the cloud makes of its old model and those of the aggregators (N,). reference: what trusted data make of the old one;
    scores: of the aggregators after this merge, if the rule remembers."""
    parts = [(old, weights.own), *zip(models, weights.edge.tolist())]
    steps = max(m.steps for m, w in parts if w)
    if isinstance(rule, CloudByRows):
        more = [model for model in (reference, scores) if model is not None]
        return derive([old, *models, *more], _by_rows(rule, reports, told), steps)

    def without(out: Mask) -> list[tuple[Model, float]]:
        heard = reports.only(~out)
        if not (heard.total > 0).any():
            return [(old, 1.0)]
        found = rule.weights(heard)
        return [(old, found.own), *zip(models, found.edge.tolist())]

    made = combine(parts, [], steps=steps)
    return left_out_of(made, [old, *models], without, told)


def left_out_of(made: Model, models: Sequence[Model], without: Without, told: Told) -> Model:
    """A model of weighted reports that is made without those that are sick; if it is one of these itself, another like it."""
    if not told.doubtful:
        return made
    if any(made is model for model in models):
        made = derive([made], lambda rows: rows[0], made.steps)
    known = [0]

    def leave_out() -> Ingredients | None:
        out = told.left_out
        if int(out.sum()) == known[0]:
            return None
        known[0] = int(out.sum())
        return [(model, weight) for model, weight in without(out) if weight], []

    made.leave_out = leave_out
    return made


def _by_rows(rule: CloudByRows, reports: Reports, told: Told) -> Recipe:
    """The rule of those that are left; the others look like the old model to it, and as if they had nothing to say."""

    def merge(rows: list[Row]) -> NDArray[np.floating]:
        old, models, heard, more = _heard(rule, reports, told, rows)
        if heard is not reports and not _news(heard).any():
            return old
        if rule.remember is not None:
            heard = replace(heard, scores=more.pop().astype(np.float64))
        if more:
            heard = replace(heard, reference=more[0])
        return rule.rule(heard, old, models)

    return merge


def judged(
    rule: CloudByRows, reports: Reports, old: Model, models: Sequence[Model], told: Told, scores: Model, host: Ints
) -> tuple[Model, Model]:
    """Scores of hosts after a merge, from those before it, and those of the aggregators (N,) on hosts (N,). One with several
    aggregators has the mean of what they come to."""

    def judge(rows: list[Row]) -> NDArray[np.floating]:
        assert rule.remember is not None
        was, models, heard, (before,) = _heard(rule, reports, told, rows)
        after = before.astype(np.float64)
        if _news(heard).any():
            found = rule.remember(heard, was, models, after[host])
            after[host] = (np.bincount(host, found) / np.maximum(np.bincount(host), 1))[host]
        return after

    after = derive([old, *models, scores], judge, steps=0)
    return after, derive([after], lambda rows: rows[0][host], steps=0)


def _heard(rule: CloudByRows, reports: Reports, told: Told, rows: list[Row]) -> tuple[Row, Rows, Reports, list[Row]]:
    """The old model, those of the aggregators (N, P), what is told of those that are left, and the rest of the rows."""
    n = len(reports.total)
    old, models = rows[0], np.stack(rows[1 : 1 + n])
    out, news = told.left_out, _news(reports)
    if rule.screen is not None and (news & ~out).any():
        far = np.zeros(len(models), dtype=np.bool_)
        far[news & ~out] = rule.screen.too_far(models[news & ~out], old)
        told.note(far & np.isfinite(models).all(axis=1), NORM)
        told.note(far & ~np.isfinite(models).all(axis=1), NOT_FINITE)
        out = out | far
    models[out] = old
    return old, models, reports.only(~out) if out.any() else reports, rows[1 + n :]


def _news(reports: Reports) -> Mask:
    """(N,)"""
    return np.asarray(reports.fresh & (reports.reported > 0))

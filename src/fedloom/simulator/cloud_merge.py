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
        return np.array([sick is not None and update is not None and sick.is_found(update) for update in self.reports])

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
) -> Model:
    """What the cloud makes of its old model and those of the aggregators (N,). reference: what trusted data make of the old."""
    parts = [(old, weights.own), *zip(models, weights.edge.tolist())]
    steps = max(m.steps for m, w in parts if w)
    if isinstance(rule, CloudByRows):
        return derive([old, *models, *([] if reference is None else [reference])], _by_rows(rule, reports, told), steps)

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
        n = len(reports.total)
        old, models = rows[0], np.stack(rows[1 : 1 + n])
        heard = reports if len(rows) == 1 + n else replace(reports, reference=rows[-1])
        out, news = told.left_out, reports.fresh & (reports.reported > 0)
        if rule.screen is not None and (news & ~out).any():
            far = np.zeros(len(models), dtype=np.bool_)
            far[news & ~out] = rule.screen.too_far(models[news & ~out], old)
            told.note(far & np.isfinite(models).all(axis=1), NORM)
            told.note(far & ~np.isfinite(models).all(axis=1), NOT_FINITE)
            out = out | far
        if not out.any():
            return rule.rule(heard, old, models)
        models[out] = old
        return old if not (news & ~out).any() else rule.rule(heard.only(~out), old, models)

    return merge

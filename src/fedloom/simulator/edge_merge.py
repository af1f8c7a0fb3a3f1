"""Merges at aggregators as notes in the book: by weights, which are known beforehand, or by a rule that looks at the models.

Updates that are sick (fedloom.simulator.sick) are left out of both: of a merge by weights when it is made, with the weights of
the method for the others; before a rule is asked otherwise. If nobody is left, the old model stays.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from fedloom.mixing import Arrivals, ByRows, EdgeWeights
from fedloom.mixing.merges import MergeEdge
from fedloom.protocol import Flight
from fedloom.protocol.messages import Part
from fedloom.simulator.book import Ingredients, Model, Recipe, Row, combine, derive
from fedloom.simulator.sick import NORM, Sick

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]
Values = TypeVar("Values", NDArray[np.float64], NDArray[np.bool_])


def by_rows(
    rule: MergeEdge,
    old: Model,
    part: Part,
    steps: int,
    sick: Sick | None,
    reference: Model | None = None,
    scores: Model | None = None,
) -> tuple[Model, Model | None]:
    """A merge that is a function of the models: it is done when they are computed. reference: what trusted data make of the old
    model. scores: of all devices, if the merge remembers. The new model, and the scores after the merge."""
    assert isinstance(rule, ByRows)
    jobs = [(f.load, int(j)) for f in part.flights for j in f.at]
    results = [load.result(j) for load, j in jobs]
    starts = [load.dispatch.starts[load.dispatch.start[j]] for load, j in jobs]
    arrived = None if sick is None else Arrived.of(part.flights, sick)
    parts = [old, *results, *starts]
    if scores is not None:
        scores = derive([*parts, scores], judge_by_rows(rule, part.arrivals, len(jobs), arrived), steps=0)
    parts += [model for model in (reference, scores) if model is not None]
    return derive(parts, merge_by_rows(rule, part.arrivals, len(jobs), arrived), steps), scores


@dataclass(frozen=True, eq=False)
class Arrived:
    """Updates by client (m,) and first step (m,), and where it is noted which of them are sick."""

    client: Ints
    first_step: Ints
    sick: Sick

    @classmethod
    def of(cls, flights: Sequence[Flight], sick: Sick) -> "Arrived":
        columns = [(f.load.dispatch.client[f.at], f.load.dispatch.first_step[f.at]) for f in flights]
        client, first_step = (np.concatenate(column) for column in zip(*columns))
        return cls(client, first_step, sick)

    @property
    def left_out(self) -> Mask:
        """(m,)"""
        return self.sick.among(self.client, self.first_step)

    def note(self, too_far: Mask) -> None:
        """These (m,) are left out of one merge."""
        for i in np.flatnonzero(too_far).tolist():
            self.sick.add(("client", int(self.client[i]), int(self.first_step[i])), NORM)


def merge_by_rows(rule: ByRows, arrivals: Arrivals, n_jobs: int, arrived: Arrived | None = None) -> Recipe:
    """The recipe of a merge of the old model, n_jobs updates, what they started from, a reference if there is one, and the scores
    of all devices after it if it remembers."""

    def merge(rows: list[Row]) -> NDArray[np.floating]:
        old, updates, starts, more = _cut(rows, n_jobs)
        out = _left_out(rule, updates, starts, arrived)
        if out.all():
            return old
        heard = arrivals.only(~out) if out.any() else arrivals
        if rule.remember is not None:
            heard = replace(heard, scores=more.pop()[heard.client].astype(np.float64))
        if more:
            heard = replace(heard, reference=more[0])
        return rule.rule(heard, old, _stacked(updates, ~out), _stacked(starts, ~out))

    return merge


def judge_by_rows(rule: ByRows, arrivals: Arrivals, n_jobs: int, arrived: Arrived | None = None) -> Recipe:
    """The recipe of the scores of all devices after such a merge; those before it are the last row."""

    def judge(rows: list[Row]) -> NDArray[np.floating]:
        assert rule.remember is not None
        old, updates, starts, (scores,) = _cut(rows, n_jobs)
        out = _left_out(rule, updates, starts, arrived)
        after = scores.astype(np.float64)
        if not out.all():
            heard = arrivals.only(~out) if out.any() else arrivals
            models, begun = _stacked(updates, ~out), _stacked(starts, ~out)
            after[heard.client] = rule.remember(heard, old, models, begun, after[heard.client])
        return after

    return judge


def _cut(rows: list[Row], n_jobs: int) -> tuple[Row, list[Row], list[Row], list[Row]]:
    """The old model, updates, what they started from, and the rest."""
    return rows[0], rows[1 : 1 + n_jobs], rows[1 + n_jobs : 1 + 2 * n_jobs], rows[1 + 2 * n_jobs :]


def _left_out(rule: ByRows, updates: list[Row], starts: list[Row], arrived: Arrived | None) -> Mask:
    """(m,): updates that are sick, or too far for the screen, which is noted."""
    out = np.zeros(len(updates), dtype=np.bool_) if arrived is None else arrived.left_out
    if rule.screen is None or out.all():
        return out
    far = np.zeros(len(updates), dtype=np.bool_)
    far[~out] = rule.screen.too_far(_stacked(updates, ~out), _stacked(starts, ~out))
    if arrived is not None:
        arrived.note(far)
    return out | far


def _stacked(rows: list[Row], kept: Mask) -> NDArray[np.float32]:
    return np.stack(rows if kept.all() else [row for row, here in zip(rows, kept) if here])


def by_weights(merge: MergeEdge, old: Model, part: Part, steps: int, sick: Sick | None) -> Model:
    """own * old + the updates by their weights + what they started from by theirs."""
    assert part.weights is not None
    models, jobs = _ingredients(old, part.flights, part.weights)
    merged = combine(models, jobs, steps)
    if merged.steps != steps or any(merged is model for model, _ in models[1:]):
        merged = derive([merged], same, steps)
    if sick is not None and not merged.settled and merged is not old:
        merged.leave_out = _Without(merge, old, part, sick)
    return merged


def weights_now(merge: MergeEdge, part: Part, sick: Sick | None) -> Callable[[], EdgeWeights]:
    """Asks by how much the old model and each update (m,) count in a merge by weights without those that are sick by then."""
    assert part.weights is not None
    planned = part.weights

    def found() -> EdgeWeights:
        out = None if sick is None else Arrived.of(part.flights, sick).left_out
        if out is None or not out.any():
            return planned
        if out.all():
            return EdgeWeights(own=1.0, model=np.zeros(len(out)))
        weights = merge.weights(part.arrivals.only(~out))
        assert weights is not None
        start = None if weights.start is None else _spread(weights.start, ~out)
        return EdgeWeights(own=weights.own, model=_spread(weights.model, ~out), start=start)

    return found


def _spread(values: Floats, at: Mask) -> Floats:
    """Values where the mask (m,) says so, 0 elsewhere."""
    wide = np.zeros(len(at))
    wide[at] = values
    return wide


class _Without:
    """What a merge by weights is made of without updates that are sick by now; None if these are no more than before."""

    def __init__(self, merge: MergeEdge, old: Model, part: Part, sick: Sick) -> None:
        self._merge, self._old, self._part, self._sick = merge, old, part, sick
        self._n_known = 0

    def __call__(self) -> Ingredients | None:
        part, out = self._part, Arrived.of(self._part.flights, self._sick).left_out
        n = int(out.sum())
        if n == self._n_known:
            return None
        self._n_known = n
        if out.all():
            return [(self._old, 1.0)], []
        weights = self._merge.weights(part.arrivals.only(~out))
        assert weights is not None
        flights = [f.pick(~mine) for f, mine in zip(part.flights, _by_flight(out, part.flights))]
        models, jobs = _ingredients(self._old, [f for f in flights if len(f)], weights)
        return [(model, weight) for model, weight in models if weight], jobs


def _ingredients(old: Model, flights: Sequence[Flight], weights: EdgeWeights) -> Ingredients:
    """Models and jobs with their weights; the old one is the first. What arrives as it was trained is not looked at by itself."""
    models = [(old, weights.own)]
    if weights.start is not None:
        for flight, values in zip(flights, _by_flight(weights.start, flights)):
            dispatch = flight.load.dispatch
            sums = np.bincount(dispatch.start[flight.at], weights=values, minlength=len(dispatch.starts))
            models += list(zip(dispatch.starts, sums.tolist()))
    jobs = []
    for flight, values in zip(flights, _by_flight(weights.model, flights)):
        arriving = flight.load.arriving
        at = flight.at
        if arriving:
            other = np.array([j in arriving for j in at.tolist()], dtype=np.bool_)
            models += [(arriving[j], w) for j, w in zip(at[other].tolist(), values[other].tolist())]
            at, values = at[~other], values[~other]
        if len(at):
            jobs.append((flight.load.dispatch, at, values))
    return models, jobs


def same(rows: list[Row]) -> Row:
    """The rule of a model that is another one: what its only client sent, or as old as what it is in the place of."""
    return rows[0]


def _by_flight(values: Values, flights: Sequence[Flight]) -> list[Values]:
    """Values of all updates, one after the other, cut by flight."""
    return [values] if len(flights) == 1 else np.split(values, np.cumsum([len(f) for f in flights])[:-1])

"""How models are merged: by weights that are known beforehand, or by any function of the models themselves.

`Linear` never sees a model: merges are noted and computed later, many at a time. `ByRows` is asked when the models are there, and
may do anything with them (mixing/robust has some); `weighted` makes a rule of weights that depend on models.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from fedloom import _check
from fedloom.mixing.server import ServerStep
from fedloom.mixing.size import by_size, by_total
from fedloom.mixing.weights import Arrivals, CloudWeights, EdgeWeights, Reports

Rows = NDArray[np.float32]
WeighEdge = Callable[[Arrivals], EdgeWeights]
WeighCloud = Callable[[Reports], CloudWeights]
EdgeRule = Callable[[Arrivals, Rows, Rows, Rows], NDArray[np.floating]]
CloudRule = Callable[[Reports, Rows, Rows], NDArray[np.floating]]
Floats = NDArray[np.float64]
EdgeMemory = Callable[[Arrivals, Rows, Rows, Rows, Floats], Floats]
CloudMemory = Callable[[Reports, Rows, Rows, Floats], Floats]


class Looks(Protocol):
    """Looks at models before they are merged; fedloom.mixing.screen.Screen does."""

    def too_far(self, rows: Rows, begun: Rows) -> NDArray[np.bool_]:
        """(m,): which of the rows (m, P) are left out; begun (m, P), or (P,) for all of them."""
        ...


@dataclass(frozen=True, kw_only=True)
class Root:
    """Trusted data of the servers: so many training samples that no client has."""

    samples: int = 100

    def __post_init__(self) -> None:
        _check.whole("samples", self.samples)


@dataclass(frozen=True)
class Linear:
    """At an aggregator: weights by what is known of the updates."""

    weigh: WeighEdge = by_size
    """How much the old model and each update count."""
    then: ServerStep | None = None
    """What is done with the step from the old model to the merged one; by default it is taken."""

    def weights(self, arrivals: Arrivals) -> EdgeWeights | None:
        return self.weigh(arrivals)


@dataclass(frozen=True)
class ByRows:
    """At an aggregator: any function of the models."""

    rule: EdgeRule
    """(arrivals, the old model (P,), the updates (m, P), what they started from (m, P)) -> the new model (P,)."""
    then: ServerStep | None = None
    """What is done with the step from the old model to the merged one; by default it is taken."""
    screen: Looks | None = None
    """Which of the updates are left out before the rule is asked, beside those that are not finite."""
    root: Root | None = None
    """Trusted data: what they make of the old model is told with the arrivals (`reference`)."""
    remember: EdgeMemory | None = None
    """As `rule`, and the scores (m,) that the senders had, 1 in the beginning -> those that they have now, which are told with
    the arrivals (`scores`). A host remembers every client that it has met."""

    def weights(self, arrivals: Arrivals) -> EdgeWeights | None:
        return None


@dataclass(frozen=True)
class CloudLinear:
    """At the cloud: weights by what is known of the reports."""

    weigh: WeighCloud = by_total
    """How much the old model and each aggregator's count."""
    then: ServerStep | None = None
    """What is done with the step from the old model to the merged one; by default it is taken."""

    def weights(self, reports: Reports) -> CloudWeights:
        return self.weigh(reports)


@dataclass(frozen=True)
class CloudByRows:
    """At the cloud: any function of the models."""

    rule: CloudRule
    """(reports, the old model (P,), the aggregators' (N, P)) -> the new model (P,)."""
    shown: WeighCloud = by_total
    """By which models of clusters are made, and aggregators shown: known before the models are."""
    then: ServerStep | None = None
    """What is done with the step from the old model to the merged one; by default it is taken."""
    screen: Looks | None = None
    """Which of the reports are left out before the rule is asked, beside those that are not finite."""
    root: Root | None = None
    """Trusted data: what they make of the old model is told with the reports (`reference`)."""
    remember: CloudMemory | None = None
    """As `rule`, and the scores (N,) that the hosts of the aggregators had, 1 in the beginning -> those that they have now, which
    are told with the reports (`scores`)."""

    def weights(self, reports: Reports) -> CloudWeights:
        return self.shown(reports)


MergeEdge = Linear | ByRows
MergeCloud = CloudLinear | CloudByRows


def weighted(weigh: Callable[[Arrivals, Rows, Rows, Rows], EdgeWeights]) -> EdgeRule:
    """The rule of weights that depend on the models, at an aggregator."""

    def rule(arrivals: Arrivals, old: Rows, rows: Rows, starts: Rows) -> NDArray[np.floating]:
        found = weigh(arrivals, old, rows, starts)
        total = found.own * old.astype(np.float64) + found.model @ rows
        return np.asarray(total if found.start is None else total + found.start @ starts)

    return rule


def cloud_weighted(weigh: Callable[[Reports, Rows, Rows], CloudWeights]) -> CloudRule:
    """The same at the cloud."""

    def rule(reports: Reports, old: Rows, rows: Rows) -> NDArray[np.floating]:
        found = weigh(reports, old, rows)
        return np.asarray(found.own * old.astype(np.float64) + found.edge @ rows)

    return rule

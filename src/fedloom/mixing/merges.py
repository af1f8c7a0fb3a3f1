"""How models are merged: by weights that are known beforehand, or by weights that depend on the models themselves.

`Linear` never sees a model: merges are noted and computed later, many at a time. `ByRows` is asked when the models are there.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedloom.mixing.size import by_size, by_total
from fedloom.mixing.weights import Arrivals, CloudWeights, EdgeWeights, Reports

Rows = NDArray[np.float32]
WeighEdge = Callable[[Arrivals], EdgeWeights]
WeighCloud = Callable[[Reports], CloudWeights]


@dataclass(frozen=True)
class Linear:
    """At an aggregator: weights by what is known of the updates."""

    weigh: WeighEdge = by_size
    """How much the old model and each update count."""

    def weights(self, arrivals: Arrivals) -> EdgeWeights | None:
        return self.weigh(arrivals)


@dataclass(frozen=True)
class ByRows:
    """At an aggregator: weights that depend on the models."""

    weigh: Callable[[Arrivals, Rows, Rows, Rows], EdgeWeights]
    """(arrivals, the old model (P,), the updates (m, P), what they started from (m, P)) -> weights."""

    def weights(self, arrivals: Arrivals) -> EdgeWeights | None:
        return None


@dataclass(frozen=True)
class CloudLinear:
    """At the cloud: weights by what is known of the reports."""

    weigh: WeighCloud = by_total
    """How much the old model and each aggregator's count."""

    def weights(self, reports: Reports) -> CloudWeights:
        return self.weigh(reports)


@dataclass(frozen=True)
class CloudByRows:
    """At the cloud: weights that depend on the models."""

    weigh: Callable[[Reports, Rows, Rows], CloudWeights]
    """(reports, the old model (P,), the aggregators' (N, P)) -> weights."""
    shown: WeighCloud = by_total
    """By which models of clusters are made, and aggregators shown: known before the models are."""

    def weights(self, reports: Reports) -> CloudWeights:
        return self.shown(reports)


MergeEdge = Linear | ByRows
MergeCloud = CloudLinear | CloudByRows

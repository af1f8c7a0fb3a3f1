"""A method is a frozen record of parts: five answers, no behaviour of its own."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fedloom import _check
from fedloom.grouping import Need, Topology, View
from fedloom.mixing import (
    Arrivals,
    CloudWeights,
    EdgeWeights,
    Reports,
    by_size,
    by_total,
    mean_of_aggregators,
)
from fedloom.mixing.weights import Floats
from fedloom.pacing import Offer, Pace, Periods, Progress, lockstep

Group = Callable[[View, np.random.Generator], Topology]
PaceRule = Callable[[Offer], Pace]
PeriodRule = Callable[[Progress], Periods]
Start = Callable[[Topology], Floats]
WeighEdge = Callable[[Arrivals], EdgeWeights]
WeighCloud = Callable[[Reports], CloudWeights]


@dataclass(frozen=True, kw_only=True)
class Method:
    """Which parts, with which constants. `with_` makes a variant: any part may be combined with any other.

    group: who aggregates with whom, asked again at every `regroup`: "once", "moved" (a client changed cells), or
    "cloud-round". feature_s: seconds it takes to collect a feature for grouping, if not what computing and sending take;
    keep_progress: clients that trained for a feature go on from there in the first edge round. pace: how much work and
    how long to wait in an edge round. edge: "rounds" merges when a round closes, "async" merges every arrival at once and
    sends the client back to work. box_s: if given, aggregators run the edge rounds that fit into so many seconds as
    predicted, and report when they are over (or later, if jitter makes rounds longer than predicted); otherwise the
    scenario's number of edge rounds. periods: local work and edge rounds of each cloud round, if not the scenario's.
    start: the models clients begin with. weigh_edge, weigh_cloud: how much each model counts. cloud: "barrier" waits for
    all aggregators, "immediate" merges each report when it comes, "never": there is no cloud, and the mean by weigh_cloud
    is for evaluation only. proximal: mu of the local objective's proximal term.
    """

    name: str
    summary: str
    group: Group
    needs: frozenset[Need] = frozenset({Need.SIZES})
    regroup: str = "moved"
    pace: PaceRule = lockstep
    edge: str = "rounds"
    box_s: float | None = None
    start: Start = mean_of_aggregators
    weigh_edge: WeighEdge = by_size
    weigh_cloud: WeighCloud = by_total
    cloud: str = "barrier"
    periods: PeriodRule | None = None
    feature_s: float | None = None
    keep_progress: bool = True
    proximal: float = 0.0

    def __post_init__(self) -> None:
        _check.one_of("regroup", self.regroup, ("once", "moved", "cloud-round"))
        _check.one_of("edge", self.edge, ("rounds", "async"))
        _check.one_of("cloud", self.cloud, ("barrier", "immediate", "never"))
        _check.positive("proximal", self.proximal, zero=True)
        if self.feature_s is not None:
            _check.positive("feature_s", self.feature_s, zero=True)
        if self.box_s is not None:
            _check.positive("box_s", self.box_s)
            if self.edge == "async" or self.cloud != "barrier":
                raise ValueError("a time box needs edge='rounds' and cloud='barrier': it says when everybody reports")

    def with_(self, **parts: Any) -> "Method":
        """The same method with some parts exchanged."""
        return replace(self, **parts)

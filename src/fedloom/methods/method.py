"""A method is a frozen record of parts: five answers, no behaviour of its own."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

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
from fedloom.pacing import Offer, Pace, Periods, Progress, StalenessBound, lockstep

Group = Callable[[View, np.random.Generator], Topology]
PaceRule = Callable[[Offer], Pace]
PeriodRule = Callable[[Progress], Periods]
Start = Callable[[Topology], Floats]
WeighEdge = Callable[[Arrivals], EdgeWeights]
WeighCloud = Callable[[Reports], CloudWeights]
Rows = NDArray[np.float32]
WeighEdgeRows = Callable[[Arrivals, Rows, Rows, Rows], EdgeWeights]
WeighCloudRows = Callable[[Reports, Rows, Rows], CloudWeights]
StartRow = Callable[[Rows, Rows], float]
Uplink = Callable[[Floats, Floats], Floats]


@dataclass(frozen=True, kw_only=True, eq=False)
class Allotment:
    """What each of the N aggregators of a topology is to do in a cloud round, where it is not what the scenario says.

    edge_rounds (N,): edge rounds before it reports, at least 1. power_w (N,): with what a head sends to the cloud. notes:
    figures to be recorded with those of the grouping.
    """

    edge_rounds: NDArray[np.int64] | None = None
    power_w: Floats | None = None
    notes: Mapping[str, float | Floats] = field(default_factory=dict)

    def check(self, n_aggregators: int) -> None:
        """Refuse what does not fit so many aggregators."""
        for name, value in (("edge_rounds", self.edge_rounds), ("power_w", self.power_w)):
            if value is not None and value.shape != (n_aggregators,):
                raise ValueError(
                    f"{name} must have one number for each of {n_aggregators} aggregators, got {value.shape}"
                )
        if self.edge_rounds is not None and (self.edge_rounds < 1).any():
            raise ValueError(f"aggregators need at least one edge round, got {self.edge_rounds.tolist()}")


Allot = Callable[[View, Topology, np.random.Generator], Allotment]


@dataclass(frozen=True, kw_only=True)
class Method:
    """Which parts, with which constants. `with_` makes a variant: any part may be combined with any other.

    group: who aggregates with whom, asked again at every `regroup`: "once", "moved" (a client changed cells), or
    "cloud-round". warmup_rounds: cloud rounds of FedAvg before the first grouping. feature_s: seconds it takes to collect a
    feature for grouping, if not what computing and sending take; keep_progress: clients that trained for a feature go on
    from there in the first edge round. pace: how much work and how long to wait in an edge round. edge: "rounds" merges when
    a round closes, "async" merges every arrival at once and sends the client back to work (or the squad, if the topology has
    squads). uplink: when uploads that share the air are over, from when the clients' computing ends (m,) and what an upload
    takes (m,); else each has a link of its own. It is asked for every cell, head or server by itself, with all that clients sent
    together have to send in its air: a client's second link costs air in its own cell, and one transmission for several cells
    takes air in each. box_s: if given, aggregators run the edge rounds that fit into so many seconds as predicted, and report
    when these are over; a round that jitter keeps open until then is closed, who has not arrived is late, and no round opens any
    more. Otherwise the scenario's number of edge rounds. edge_rounds: edge rounds from one report to the
    next, if not the scenario's; with an immediate cloud there are then more reports in a cloud round, so that it has the
    scenario's edge rounds. periods: local work and edge rounds of each cloud round, if not the scenario's. start: the models
    clients begin with. weigh_edge, weigh_cloud: how much each model counts. cloud: "barrier" waits for all aggregators,
    "immediate" merges each report when it comes, "never": there is no cloud, and the mean by weigh_cloud is for evaluation
    only. proximal: mu of the local objective's proximal term. drop_at_cloud: updates that are late when the cloud merges are
    dropped, not merged later; lost_on_move: so are those of clients that have meanwhile moved to another host.

    cluster_share: what goes back down after a cloud merge is so much of the cluster's model, which is the mean of its
    aggregators' by their cloud weights, and the rest of the global one. bound: with an immediate cloud, how far aggregators
    may run ahead of each other; adapted after every `bound_every` cloud merges by the accuracy on samples that no client
    has, if that is not 0.

    Weights that depend on models, computed when the models are: weigh_edge_rows (arrivals, old (P,), models (m, P), the
    starts they came from (m, P)) and weigh_cloud_rows (reports, old (P,), models (N, P)) instead of weigh_edge and
    weigh_cloud (which then only weighs what is evaluated); start_row (aggregator's (P,), own last (P,)): how much of the
    aggregator's model a client starts from that has trained before, the rest being its own last one.

    allot: edge rounds and powers of each aggregator, decided after every grouping from what the server knows then (not from
    features). cloud_uplink: as uplink, for the reports of aggregators, which then wait until all are ready to send.
    """

    name: str
    summary: str
    group: Group
    needs: frozenset[Need] = frozenset({Need.SIZES})
    regroup: str = "moved"
    warmup_rounds: int = 0
    pace: PaceRule = lockstep
    edge: str = "rounds"
    box_s: float | None = None
    start: Start = mean_of_aggregators
    weigh_edge: WeighEdge = by_size
    weigh_cloud: WeighCloud = by_total
    cloud: str = "barrier"
    periods: PeriodRule | None = None
    edge_rounds: int | None = None
    feature_s: float | None = None
    keep_progress: bool = True
    proximal: float = 0.0
    drop_at_cloud: bool = False
    lost_on_move: bool = False
    uplink: Uplink | None = None
    cluster_share: float = 0.0
    bound: StalenessBound | None = None
    bound_every: int = 0
    weigh_edge_rows: WeighEdgeRows | None = None
    weigh_cloud_rows: WeighCloudRows | None = None
    start_row: StartRow | None = None
    allot: Allot | None = None
    cloud_uplink: Uplink | None = None

    def __post_init__(self) -> None:
        _check.one_of("regroup", self.regroup, ("once", "moved", "cloud-round"))
        _check.one_of("edge", self.edge, ("rounds", "async"))
        _check.one_of("cloud", self.cloud, ("barrier", "immediate", "never"))
        _check.positive("proximal", self.proximal, zero=True)
        if self.edge_rounds is not None:
            _check.whole("edge_rounds", self.edge_rounds)
        _check.whole("bound_every", self.bound_every, least=0)
        _check.whole("warmup_rounds", self.warmup_rounds, least=0)
        if self.warmup_rounds and (self.cloud != "barrier" or self.allot or self.edge == "async"):
            raise ValueError(
                "warmup_rounds are rounds of FedAvg: they need edge='rounds', cloud='barrier' and no allot part"
            )
        if not 0 <= self.cluster_share <= 1:
            raise ValueError(f"cluster_share must be between 0 and 1, got {self.cluster_share:g}")
        if self.cluster_share and self.cloud != "barrier":
            raise ValueError(
                "models of clusters are made when all aggregators report: cluster_share needs cloud='barrier'"
            )
        if self.bound is not None and self.cloud != "immediate":
            raise ValueError("a bound on staleness is for cloud='immediate'; a cloud that waits for all has none")
        if (self.allot or self.cloud_uplink) and (self.cloud != "barrier" or self.box_s is not None):
            raise ValueError(
                "allot and cloud_uplink are for a cloud that waits for all (cloud='barrier'), without a time box"
            )
        if self.drop_at_cloud and (self.edge != "rounds" or self.cloud != "barrier"):
            raise ValueError(
                "drop_at_cloud is for edge='rounds' and cloud='barrier': elsewhere no update is late at the cloud"
            )
        if self.feature_s is not None:
            _check.positive("feature_s", self.feature_s, zero=True)
            if not math.isfinite(self.feature_s):
                raise ValueError(f"feature_s must be finite, so that grouping ends, got {self.feature_s:g}")
        if self.box_s is not None:
            _check.positive("box_s", self.box_s)
            if not math.isfinite(self.box_s):
                raise ValueError(f"box_s must be finite, so that a cloud round ends, got {self.box_s:g}")
            if self.edge == "async" or self.cloud != "barrier":
                raise ValueError("a time box needs edge='rounds' and cloud='barrier': it says when everybody reports")

    def with_(self, **parts: Any) -> "Method":
        """The same method with some parts exchanged."""
        return replace(self, **parts)

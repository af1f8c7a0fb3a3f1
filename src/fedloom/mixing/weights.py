"""What an average is made of: the records that weighing functions take and return.

An edge merge is the linear combination  own * old model + sum_i model_i * w_i + sum_i start_i * s_i  of the
aggregator's old model, the models w_i that arrived and the models s_i from which they had started; a cloud merge is
own * old model + sum_n edge_n * v_n. Weighing decides the coefficients and never sees a model.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, eq=False)
class Arrivals:
    """The m updates that one aggregator merges now.

    client (m,); n_samples (m,) of each client; n_reached (m,): to how many aggregators the client reports;
    staleness (m,): merges of this aggregator (asynchronous) or edge rounds since the client was sent to work, 0 = fresh;
    total: samples of all clients attached to the aggregator; steps (m,): local steps that each client did. occasion: what tells
    this merge from all others of a run (its seed first), for rules that draw. n_sick: so many more came and were left out;
    reference (P,): what trusted data make of the old model, if the merge has some; scores (m,): what the aggregator thinks of the
    clients, if the merge remembers.
    """

    client: NDArray[np.int64]
    n_samples: NDArray[np.int64]
    n_reached: NDArray[np.int64]
    staleness: NDArray[np.int64]
    total: float = 0.0
    steps: NDArray[np.int64] | None = None
    occasion: tuple[int, ...] = (0,)
    n_sick: int = 0
    reference: NDArray[np.float32] | None = None
    scores: Floats | None = None

    def only(self, kept: NDArray[np.bool_] | NDArray[np.int64]) -> "Arrivals":
        """As if only some of them, by mask (m,) or by number, had come."""
        return replace(
            self,
            client=self.client[kept],
            n_samples=self.n_samples[kept],
            n_reached=self.n_reached[kept],
            staleness=self.staleness[kept],
            steps=None if self.steps is None else self.steps[kept],
            n_sick=self.n_sick + len(self.client) - len(self.client[kept]),
            scores=None if self.scores is None else self.scores[kept],
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class EdgeWeights:
    """Coefficients of an edge merge: own (scalar), model (m,), start (m,) or None for zeros."""

    own: float
    model: Floats
    start: Floats | None = None


@dataclass(frozen=True, kw_only=True, eq=False)
class Reports:
    """What the cloud knows of the N aggregators when it merges.

    total (N,): samples of all clients attached to n, those of a client in several cells split evenly; reported (N,):
    the same of the fresh ones, counting only clients whose update they merged since the last cloud merge, each once;
    staleness (N,): cloud merges since n fetched its model; fresh (N,): its report has just come.

    reported_last (N,): as reported, in its last edge round only; n_reports (N,): its reports so far, with this one;
    cluster (N,): the cluster 0, 1, ... that n works for; label_counts (clusters, C): samples of each class of all members of
    a cluster, on whatever host. reference (P,): what trusted data make of the old model, if the merge has some. scores (N,): what
    the cloud thinks of the aggregators, if the merge remembers.
    """

    total: Floats
    reported: Floats
    staleness: NDArray[np.int64]
    fresh: NDArray[np.bool_]
    reported_last: Floats | None = None
    n_reports: NDArray[np.int64] | None = None
    cluster: NDArray[np.int64] | None = None
    label_counts: NDArray[np.int64] | None = None
    reference: NDArray[np.float32] | None = None
    scores: Floats | None = None

    def only(self, kept: NDArray[np.bool_]) -> "Reports":
        """As if only some of the aggregators (N,) had reported, and the others had no samples."""
        last = self.reported_last
        return replace(
            self,
            total=self.total * kept,
            reported=self.reported * kept,
            fresh=self.fresh & kept,
            reported_last=None if last is None else last * kept,
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class CloudWeights:
    """Coefficients of a cloud merge: own (scalar), edge (N,)."""

    own: float
    edge: Floats

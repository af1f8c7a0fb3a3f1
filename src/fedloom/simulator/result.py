"""What a run gives, and what it takes to go on with one."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fedloom.grouping import Topology
from fedloom.simulator.ledger import Ledger
from fedloom.simulator.trails import Verdict
from fedloom.simulator.world import Decision

if TYPE_CHECKING:
    import polars

Measures = dict[str, float | int]


@dataclass(frozen=True, kw_only=True, eq=False)
class Place:
    """Who was where from `cloud_round` on: topology, home cells (K,), positions (K, D), seconds up to the aggregator (K,)."""

    cloud_round: int
    topology: Topology
    home: NDArray[np.int64]
    position_m: NDArray[np.float64]
    up_s: NDArray[np.float64]

    def same_as(self, other: "Place") -> bool:
        pairs = [
            (self.topology.cover, other.topology.cover),
            (self.topology.host, other.topology.host),
            (self.home, other.home),
            (self.position_m, other.position_m),
        ]
        return self.topology.kind == other.topology.kind and all(a is b or np.array_equal(a, b) for a, b in pairs)


@dataclass(frozen=True, kw_only=True, eq=False)
class Result:
    """What a run gives: measures per evaluation, who was where (the first round of every change), the ledger, and the
    global model's row (P,), None in a dry run."""

    measures: list[Measures]
    places: list[Place]
    ledger: Ledger
    row: NDArray[np.float32] | None

    @property
    def metrics(self) -> "polars.DataFrame":
        """One line per evaluation."""
        import polars

        return polars.DataFrame(self.measures, infer_schema_length=None)


@dataclass(frozen=True, kw_only=True, eq=False)
class Checkpoint:
    """Enough to go on after `cloud_round` rounds, or in the middle of the next one: what was measured, and the rows of the
    models still in use (M, P).

    The clock is not stored: it does not depend on the models but by groupings that were decided on features, which are
    kept in `decisions`, by accuracies that a bound on staleness went by, kept in `scores`, and by what audits of aggregators
    found, kept in `verdicts`; so it is run again without training, which is quick.

    In the middle of a cloud round: looks, evaluations between cloud rounds since the last one; waves, batches of the training
    under way that are done (0: between cloud rounds), and the sums they gave (P,) to models that wait for more of them, by
    their place in the book's order. last_row (P,): of the model measured last, if theory is. own (m, S): states that are
    no models (of clients, scores), own_at: their places among the models, own_width: their lengths.
    sick: updates that were left out, with their causes.
    """

    cloud_round: int
    measures: list[Measures]
    models: NDArray[np.float32]
    decisions: dict[int, Decision] = field(default_factory=dict)
    scores: dict[int, float] = field(default_factory=dict)
    verdicts: dict[int, Sequence[Verdict]] = field(default_factory=dict)
    looks: int = 0
    waves: int = 0
    sums: dict[int, NDArray[np.float64]] = field(default_factory=dict)
    last_row: NDArray[np.float32] | None = None
    own: NDArray[np.float32] = field(default_factory=lambda: np.zeros((0, 0), dtype=np.float32))
    own_at: list[int] = field(default_factory=list)
    own_width: list[int] = field(default_factory=list)
    sick: list[tuple[str, int, int, str]] = field(default_factory=list)

    @property
    def moment(self) -> tuple[int, int, int, int, int]:
        """Of two checkpoints of a run, the later one has the larger."""
        return self.cloud_round, self.looks, len(self.scores), len(self.verdicts), self.waves

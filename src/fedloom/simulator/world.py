"""What the clock needs to know of a scenario, and what it tells after every cloud round."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from fedloom.fleet import Fleet, Snapshot
from fedloom.grouping import Topology
from fedloom.pacing import Periods
from fedloom.privacy.secure_aggregation import Pairwise
from fedloom.protocol import Terms
from fedloom.simulator.book import Model
from fedloom.simulator.features import Layers
from fedloom.simulator.hostility import Hostility
from fedloom.simulator.sick import Sick
from fedloom.training.batches import steps_per_pass
from fedloom.training.state import Layout

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, eq=False)
class World:
    """Everything the clock needs to know of a scenario: K clients with their data sizes, and the training settings.

    Local work is `local_epochs` passes over the client's data if given, else `local_steps` mini-batches. participation:
    share of an aggregator's clients that is sampled in every edge round; clients_per_round: or so many of every host (at the
    cloud: as many as all cells together would). total_steps: if given, the local steps of a client in all: the last edge round
    and the last cloud round are shorter if they must be. model_bits: size of a model on air; coded_bits: of one that goes up and
    of one that goes down, where they are coded. lr: learning rate at a step of a model's history. trainable (P,): where a
    model's row holds trained parameters, which noise is added to on a noisy link; None: everywhere. coded (P,): what is coded.
    layout: of the states of a client rule, if there is one: rows then have shared states behind the model. trainings: models
    that a client trains in a step. drop_sick: updates that are not finite are left out; else they end the run.
    hostility: who is hostile. secure: how updates are masked, if that is to be counted.
    """

    fleet: Fleet
    n_samples: Ints
    label_counts: Ints
    batch_size: int
    model_bits: float
    seed: int
    drop_last: bool = False
    local_steps: int = 5
    local_epochs: int | None = None
    edge_rounds: int = 5
    participation: float = 1.0
    clients_per_round: int | None = None
    total_steps: int | None = None
    lr: Callable[[int], float] = lambda step: 1.0
    trainable: NDArray[np.bool_] | None = None
    coded: NDArray[np.bool_] | None = None
    coded_bits: tuple[float, float] | None = None
    layout: Layout | None = None
    trainings: int = 1
    drop_sick: bool = True
    hostility: Hostility | None = None
    secure: Pairwise | None = None

    def step_s(self, snapshot: Snapshot) -> Floats:
        """(K,) seconds of a local step, as predicted."""
        return snapshot.step_seconds(self.batch_size, self.n_samples) * self.trainings

    @property
    def told_n_samples(self) -> Ints:
        """(K,) what clients say that they have."""
        return self.n_samples if self.hostility is None else self.hostility.n_samples(self.n_samples)

    @property
    def told_label_counts(self) -> Ints:
        """(K, C) what clients say that they have."""
        return self.label_counts if self.hostility is None else self.hostility.label_counts(self.label_counts)

    @property
    def wide_bits(self) -> float:
        """Of a model with the shared states of a client rule, as they are."""
        return self.model_bits if self.layout is None else self.model_bits * self.layout.width / self.layout.n_values

    @property
    def model_bytes(self) -> int:
        """Of a model on air."""
        return round(self.model_bits / 8)

    @property
    def up_bits(self) -> float:
        """Of what is sent up of a model."""
        return self.model_bits if self.coded_bits is None else self.coded_bits[0]

    @property
    def down_bits(self) -> float:
        """Of what is sent down of a model."""
        return self.model_bits if self.coded_bits is None else self.coded_bits[1]

    @property
    def up_bytes(self) -> int:
        """Of what is sent up of a model."""
        return round(self.up_bits / 8)

    @property
    def down_bytes(self) -> int:
        """Of what is sent down of a model."""
        return round(self.down_bits / 8)

    @property
    def unit_steps(self) -> Ints:
        """(K,) steps of one epoch if work is counted in epochs, else 1."""
        return np.ones(len(self.n_samples), dtype=np.int64) if self.local_epochs is None else self.pass_steps

    @property
    def pass_steps(self) -> Ints:
        """(K,) steps of one pass over the client's data."""
        return np.array([steps_per_pass(int(n), self.batch_size, self.drop_last) for n in self.n_samples])

    @property
    def periods(self) -> Periods:
        """Units of local work in an edge round, and edge rounds in a cloud round."""
        units = self.local_steps if self.local_epochs is None else self.local_epochs
        return Periods(local_steps=units, edge_rounds=self.edge_rounds)

    @property
    def terms(self) -> Terms:
        """What all machines of the federation have agreed on."""
        return Terms(
            n_samples=self.told_n_samples,
            label_counts=self.told_label_counts,
            unit_steps=self.unit_steps,
            seed=self.seed,
            participation=self.participation,
            clients_per_round=self.clients_per_round,
            n_cells=self.fleet.snapshot(0).n_cells,
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class CloudRound:
    """The state after a cloud merge, or between two (`between`: then cloud_round is the last that is over, and the model what
    the cloud would make of the aggregators' models, which nobody holds). Counts and ledger totals are since the start of the
    run.

    edges: the aggregators' models that were merged, with their weights. reported_models, cluster_models (N,): the last model
    each aggregator reported, and the model of its cluster. device_models: what each device trained last, by device, if that
    is kept. costs: the ledger of this cloud round by aggregator. client_steps (K,): local steps in this cloud round, without
    features. group_rounds: edge rounds of each pace group in this cloud round (barrier), or so far. up_s (K,): seconds a
    client needs to send its model to its aggregators. handovers: times a client changed its home. uncovered: clients that are
    out of coverage now, where that changes with time. s_max: the bound on
    staleness, if there is one. noise_std: of the noise that the cloud's merge added to every parameter, 0 without noisy links.
    found: aggregators that were found to lie, None without audit. sick: updates that were left out, as far as models are
    computed. residuals: what senders keep of models that are coded. states: by client, what it keeps for a client rule. failures:
    what devices that fail come to, by name, if they do. masks: what secure aggregation comes to, by name, if it is counted. last:
    no cloud round follows.
    """

    cloud_round: int
    edge_rounds: int
    time_s: float
    model: Model
    edges: list[tuple[Model, float]]
    reported_models: list[Model]
    cluster_models: list[Model]
    topology: Topology
    snapshot: Snapshot
    client_steps: Ints
    group_rounds: Ints
    up_s: Floats
    n_updates: int
    n_late: int
    handovers: int
    s_max: int | None
    uncovered: int | None = None
    noise_std: float = 0.0
    last: bool = False
    between: bool = False
    device_models: Mapping[int, Model] = field(default_factory=dict)
    residuals: list[Model] = field(default_factory=list)
    states: Mapping[int, Model] = field(default_factory=dict)
    failures: Mapping[str, float] = field(default_factory=dict)
    masks: Mapping[str, float] = field(default_factory=dict)
    sick: Sick | None = None
    found: int | None = None
    costs: Mapping[str, list[str] | NDArray[np.generic]] = field(default_factory=dict)

    @property
    def local_steps(self) -> int:
        return self.model.steps


@dataclass(frozen=True, kw_only=True, eq=False)
class Decision:
    """A grouping that depended on models: which features were asked for, and what came out."""

    asked: tuple[tuple[str, Layers], ...]
    topology: Topology

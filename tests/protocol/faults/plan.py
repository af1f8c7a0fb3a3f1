"""A random federation: its parts, clients and faults, all from a seed."""

import random
from dataclasses import dataclass, field

import numpy as np

from fedloom.grouping import Topology
from fedloom.mixing import Arrivals, CloudWeights, EdgeWeights, Reports, by_reported, by_size, by_split_size, by_total
from fedloom.mixing.staleness import discounted
from fedloom.pacing import StalenessBound, fixed_deadline, lockstep, median_iqr
from fedloom.protocol import Async, Attendance, Barrier, CloudMode, EdgeMode, Immediate, NoCloud, Rounds, Terms, TimeBox


def one_by_one(arrivals: Arrivals) -> EdgeWeights:
    """Each update in turn takes half of the model, the less the older it is."""
    own, model = 1.0, np.zeros(len(arrivals.client))
    for i, age in enumerate(arrivals.staleness.tolist()):
        a = 0.5 / (1 + age)
        own, model = own * (1 - a), model * (1 - a)
        model[i] = a
    return EdgeWeights(own=own, model=model)


def pushes(reports: Reports) -> CloudWeights:
    """The same at the cloud."""
    own, edge = 1.0, np.zeros(len(reports.total))
    for n in np.flatnonzero(reports.fresh).tolist():
        a = 0.5 / (1 + int(reports.staleness[n]))
        own, edge = own * (1 - a), edge * (1 - a)
        edge[n] = a
    return CloudWeights(own=own, edge=edge)


EDGE_RULES = {"size": by_size, "split": by_split_size, "delta": discounted("delta"), "one": one_by_one}
CLOUD_RULES = {"total": by_total, "reported": by_reported, "push": pushes}


@dataclass
class Plan:
    """edge, cloud: the modes; edge_rule, cloud_rule: names of weights. versions: cloud merges until the federation ends. home: of
    each client, -1 if it is not there. host: of each aggregator."""

    seed: int
    edge: EdgeMode
    cloud: CloudMode
    edge_rule: str
    cloud_rule: str
    terms: Terms
    host: np.ndarray
    home: list[int]
    second: list[int]
    squad: np.ndarray | None
    step_s: np.ndarray
    wander: bool
    edge_rounds: int
    units: int
    versions: int
    lost: float
    doubled: float
    delay_s: float
    faults: list[tuple[float, str]] = field(default_factory=list)
    patience: int = 60_000

    @property
    def drops_late(self) -> bool:
        """What is late when the cloud merges is lost."""
        return isinstance(self.cloud, Barrier) and self.cloud.drop_late

    def topology(self) -> Topology:
        """Who reports where: each client to an aggregator, some to a second one."""
        cover = np.zeros((len(self.host), len(self.home)), dtype=np.bool_)
        for client, (first, other) in enumerate(zip(self.home, self.second)):
            if first >= 0:
                cover[first, client] = True
                if other >= 0:
                    cover[other, client] = True
        return Topology(cover=cover, kind="edge", host=self.host, follow=self.wander, squad=self.squad)

    def attendance(self) -> Attendance:
        topology = self.topology()
        group_of = np.full(len(self.home), -1)
        groups = [np.array([n]) for n in range(len(self.host))] if self.wander else topology.pace_groups()
        if self.cloud.waits and not self.wander:  # as the federation has them
            groups = [aggregators for aggregators in groups if topology.cover[aggregators].any()]
        for i, aggregators in enumerate(groups):
            group_of[topology.cover[aggregators].any(axis=0)] = i
        return Attendance(
            topology=topology,
            group_of=group_of,
            n_reached=np.maximum(topology.n_reached, 1),
            step_s=self.step_s,
            link_s=np.full(len(self.home), 0.5),
        )


def plan_of(seed: int) -> Plan:
    """All of a federation that is decided before it begins."""
    chance = random.Random(seed)
    n_edges, n_clients = chance.randint(1, 4), min(chance.randint(2, 12), chance.randint(2, 12))
    cloud = _cloud(chance)
    wander = chance.random() < 0.4
    edge, squads = _edge(chance)
    n_samples = np.array([chance.randint(1, 50) for _ in range(n_clients)])
    home = [chance.randrange(n_edges) for _ in range(n_clients)]
    overlap = not wander and cloud.waits and chance.random() < 0.3
    return Plan(
        seed=seed,
        edge=edge,
        cloud=cloud,
        edge_rule=chance.choice(["size", "split", "delta", "one"]),
        cloud_rule=chance.choice(["total", "reported", "push"]) if cloud.waits else chance.choice(["reported", "push"]),
        terms=Terms(
            n_samples=n_samples,
            label_counts=np.column_stack([n_samples, n_samples]),
            unit_steps=np.array([chance.choice([1, 1, 2]) for _ in range(n_clients)]),
            seed=seed,
            participation=chance.choice([1.0, 1.0, 0.5, 0.3]),
        ),
        host=np.arange(n_edges) // (2 if not wander and cloud.waits and chance.random() < 0.2 else 1),
        home=home,
        second=[chance.randrange(n_edges) if overlap and chance.random() < 0.3 else -1 for _ in home],
        squad=np.array([chance.randrange(3) for _ in home]) if squads else None,
        step_s=np.array([chance.uniform(0.2, 2.0) for _ in home]),
        wander=wander,
        edge_rounds=chance.choice([1, 1, 2, 3]),
        units=chance.randint(1, 2),
        versions=chance.choice([1, 2, 2, 3]) * (1 if cloud.waits else n_edges),
        lost=chance.choice([0.0, 0.05, 0.2, 0.4]),
        doubled=chance.choice([0.0, 0.1, 0.4]),
        delay_s=chance.choice([0.01, 0.1, 0.5, 2.0]),
        faults=_faults(chance, wander),
    )


def _edge(chance: random.Random) -> tuple[EdgeMode, bool]:
    lost = chance.random() < 0.3
    match chance.randrange(6):
        case 0 | 1:
            return Rounds(pace=lockstep, lost_on_move=lost), False
        case 2:
            deadline = fixed_deadline(chance.uniform(0.5, 6.0), early_close=chance.random() < 0.7)
            return Rounds(pace=deadline, lost_on_move=lost), False
        case 3:
            return Rounds(pace=median_iqr(chance.uniform(0.0, 1.5)), lost_on_move=lost), False
        case 4:
            pace = chance.choice([lockstep, fixed_deadline(2.0)])
            return TimeBox(seconds=chance.uniform(2.0, 15.0), pace=pace, lost_on_move=lost), False
    return Async(lost_on_move=lost), chance.random() < 0.4


def _cloud(chance: random.Random) -> CloudMode:
    match chance.randrange(6):
        case 0 | 1:
            return Barrier(drop_late=chance.random() < 0.2)
        case 2:
            return NoCloud()
        case 3:
            return Immediate()
    return Immediate(bound=StalenessBound(s_max=chance.randint(1, 3), adapt_every=chance.choice([0, 0, 2, 3])))


def _faults(chance: random.Random, wander: bool) -> list[tuple[float, str]]:
    """When something fails or somebody moves."""
    kinds = ["device kept", "device lost", "edge kept", "edge lost", "cloud kept", "cloud lost"]
    found = [(chance.uniform(0.0, 25.0), chance.choice(kinds)) for _ in range(chance.choice([0, 0, 2, 4, 8]))]
    if wander:
        found += [(chance.uniform(0.0, 25.0), "move") for _ in range(chance.randint(0, 12))]
    return sorted(found)

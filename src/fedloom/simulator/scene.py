"""What holds during one edge round: where clients are, whom they report to, and what links and computing cost."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedloom.fleet import Snapshot
from fedloom.grouping import Topology
from fedloom.simulator.exchange import Exchange, exchange

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, eq=False)
class Scene:
    """K clients, N aggregators in pace groups.

    step_s (K,): seconds of a local step; link_s (K,): seconds to fetch a model and return it; group_of (K,): the pace group
    of each client, -1 for none; start_weights (kinds, N): the different rows of B, start_of (K,): which of them is a client's.
    """

    snapshot: Snapshot
    topology: Topology
    exchange: Exchange
    step_s: Floats
    link_s: Floats
    group_of: Ints
    n_reached: Ints
    start_weights: Floats
    start_of: Ints

    def members(self, group: int) -> Ints:
        """Clients of a pace group."""
        return np.flatnonzero(self.group_of == group)


def make_scene(
    snapshot: Snapshot, topology: Topology, groups: list[Ints], starts: Floats, bits: float, step_s: Floats
) -> Scene:
    """groups: the aggregators of each pace group; starts (K, N): B; bits: size of a model."""
    ways = exchange(snapshot, topology, bits)
    group_of = np.full(topology.cover.shape[1], -1)
    for i, aggregators in enumerate(groups):
        group_of[topology.cover[aggregators].any(axis=0)] = i
    kinds, start_of = np.unique(starts, axis=0, return_inverse=True)
    return Scene(
        snapshot=snapshot,
        topology=topology,
        exchange=ways,
        step_s=step_s,
        link_s=ways.client_down.seconds + ways.client_up.seconds,
        group_of=group_of,
        n_reached=topology.n_reached.clip(min=1),
        start_weights=kinds,
        start_of=start_of,
    )

"""What holds during one edge round: where clients are, whom they report to, and what links and computing cost."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedloom import radio
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
    noise_std: of the noise on every parameter of a model that reaches the cloud over a link of its own, if there is some: of
    heads (N,), or of clients (K,) that report to the cloud itself.
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
    noise_std: Floats | None = None

    def members(self, group: int) -> Ints:
        """Clients of a pace group."""
        return np.flatnonzero(self.group_of == group)


def make_scene(
    snapshot: Snapshot,
    topology: Topology,
    groups: list[Ints],
    starts: Floats,
    bits: float,
    step_s: Floats,
    power_w: Floats | None = None,
) -> Scene:
    """groups: the aggregators of each pace group; starts (K, N): B; bits: size of a model; power_w (N,): of heads that
    send to the cloud, if not as the link says."""
    ways = exchange(snapshot, topology, bits, power_w)
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
        noise_std=_noise_std(snapshot, topology, power_w),
    )


def _noise_std(snapshot: Snapshot, topology: Topology, power_w: Floats | None) -> Floats | None:
    if not snapshot.cloud_noisy or topology.kind == "edge":
        return None
    link = snapshot.cloud_up if topology.kind == "cloud" else snapshot.cloud_up.pick(topology.host)
    assert link.snr_per_w is not None  # the settings see to it
    return radio.noise_std(link.power_w if power_w is None else power_w, link.snr_per_w, 1.0)

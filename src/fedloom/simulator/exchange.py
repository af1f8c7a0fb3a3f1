"""What it costs to move one model between clients, aggregators and the cloud, for one topology of one cloud round."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedloom.fleet import Link, Snapshot
from fedloom.grouping import Topology
from fedloom.simulator.ledger import Ledger

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Leg:
    """One hop of a way. Per client (or aggregator): links that carry the model, transmissions (fewer than links where
    one is heard by several receivers), seconds on air and joules."""

    hop: str
    links: Ints
    sent: Ints
    seconds: Floats
    joules: Floats


@dataclass(frozen=True, eq=False)
class Way:
    """How a model travels for each of a number of clients (or aggregators): seconds until it is there, and the legs."""

    direction: str
    seconds: Floats
    legs: tuple[Leg, ...]

    def book(self, ledger: Ledger, who: Ints, n_bytes: int, a_model: bool = True) -> None:
        """Enter the messages of `who` into the ledger; those that are no model are not counted as links."""
        for leg in self.legs:
            sent = int(leg.sent[who].sum())
            if sent:
                ledger.send(
                    leg.hop,
                    self.direction,
                    n_links=int(leg.links[who].sum()) if a_model else 0,
                    n_parties=int(np.count_nonzero(leg.links[who])) if a_model else 0,
                    n_bytes=sent * n_bytes,
                    airtime_s=float(leg.seconds[who].sum()),
                    energy_j=float(leg.joules[who].sum()),
                )


@dataclass(frozen=True, eq=False)
class Exchange:
    """Ways of one model: client_down and client_up per client (K,), cloud_down and cloud_up per aggregator (N,).

    A client with several aggregators sends to all of them at once; it is done when the slowest link is.
    """

    client_down: Way
    client_up: Way
    cloud_down: Way
    cloud_up: Way


def exchange(snapshot: Snapshot, topology: Topology, bits: float, power_w: Floats | None = None) -> Exchange:
    """Ways for models of `bits` bits. Clients that no aggregator covers cost nothing.

    power_w (N,): with what heads send to the cloud, if not as the link says.
    """
    if power_w is not None and (topology.kind != "head" or snapshot.cloud_via_edge):
        raise ValueError(
            f"powers are chosen for heads that send to the cloud over a link of their own; got aggregators of kind "
            f"{topology.kind} and device_cloud via {'edge' if snapshot.cloud_via_edge else 'direct'}"
        )
    if topology.kind == "cloud":
        everyone = np.arange(topology.cover.shape[1])
        nothing_s = np.zeros(topology.n_aggregators)
        free = Way("up", nothing_s, ()), Way("down", nothing_s, ())
        used = np.asarray(topology.cover.any(axis=0))
        return Exchange(
            _to_cloud(snapshot, everyone, used, bits, "down"),
            _to_cloud(snapshot, everyone, used, bits, "up"),
            free[1],
            free[0],
        )
    if topology.kind == "edge":
        hop = "device_edge"
        links = {
            "up": snapshot.edge_up.pick(topology.host),
            "down": snapshot.edge_down.pick(topology.host),
        }
        own = np.zeros_like(topology.cover)
        cloud = [
            _way(
                d,
                "edge_cloud",
                link.pick(topology.host),
                np.ones((1, topology.n_aggregators), np.bool_),
                bits,
            )
            for d, link in (("down", snapshot.backhaul_down), ("up", snapshot.backhaul_up))
        ]
    else:
        hop = "device_head"
        up = snapshot.d2d.pick(topology.host)
        nothing = Link(
            fixed_s=np.zeros(up.rate_bit_s.shape), rate_bit_s=np.full(up.rate_bit_s.shape, np.inf), power_w=0.0
        )
        links = {"up": up, "down": nothing if snapshot.head_broadcast_free else up}
        own = topology.host[:, None] == np.arange(topology.cover.shape[1])[None, :]
        used = np.ones(topology.n_aggregators, np.bool_)
        cloud = [_to_cloud(snapshot, topology.host, used, bits, d) for d in ("down", "up")]
        if power_w is not None:
            sent = snapshot.cloud_up.pick(topology.host).sent_at(power_w)
            cloud[1] = _way("up", "device_cloud", sent, used[None, :], bits)
    cover = topology.cover & ~own  # a head needs no link to itself
    once = snapshot.uplink_once and topology.kind == "edge"
    return Exchange(
        _way("down", hop, links["down"], cover, bits), _way("up", hop, links["up"], cover, bits, once), *cloud
    )


def _way(direction: str, hop: str, link: Link, used: NDArray[np.bool_], bits: float, once: bool = False) -> Way:
    """One hop; used (N, K): the links that carry the model. Seconds are those of each client's slowest link.

    once: a client sends one time for all its links, so long that the slowest hears it.
    """
    seconds = np.where(used, np.broadcast_to(link.seconds(bits), used.shape), 0.0)
    joules = np.where(used, np.broadcast_to(link.energy_j(bits), used.shape), 0.0)
    n_links = used.sum(axis=0)
    if once:
        leg = Leg(hop, n_links, n_links.clip(max=1), seconds.max(axis=0), joules.max(axis=0))
    else:
        leg = Leg(hop, n_links, n_links, seconds.sum(axis=0), joules.sum(axis=0))
    return Way(direction, seconds.max(axis=0), (leg,))


def _to_cloud(snapshot: Snapshot, device: Ints, used: NDArray[np.bool_], bits: float, direction: str) -> Way:
    """Between devices (m,) and the cloud: over their own link, or relayed by the edge server of their home cell."""
    if not snapshot.cloud_via_edge:
        link = snapshot.cloud_up if direction == "up" else snapshot.cloud_down
        return _way(direction, "device_cloud", link.pick(device), used[None, :], bits)
    home = snapshot.home[device]
    near = snapshot.edge_up if direction == "up" else snapshot.edge_down
    far = snapshot.backhaul_up if direction == "up" else snapshot.backhaul_down
    first = _way(direction, "device_edge", near.pick((home, device)), used[None, :], bits)
    second = _way(direction, "edge_cloud", far.pick(home), used[None, :], bits)
    return Way(direction, first.seconds + second.seconds, first.legs + second.legs)

"""How fast every link of a deployment on one machine is made, so that the clock of the simulator can be held against it.

A link between two nodes gets the rate at which a model takes the seconds that the simulator counts for it:

    rate = bits that are carried / (fixed_s + bits that are counted / rate_bit_s)

The scenario may count other bits for a model (`model_bits`) than are carried, 32 for each of its values or what the codec of
the way writes; the seconds are the scenario's, whatever is carried. Links that the fleet says nothing about, or that are free,
are not slowed. What goes to the cloud by way of an edge server takes both hops, one after the other, as in the simulator.
Sharing of the air between senders is left out.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from fedloom.deployment import naming
from fedloom.deployment.shaping import Network, Rates, Shaper
from fedloom.fleet import Snapshot
from fedloom.grouping import Topology
from fedloom.simulator.exchange import Way, exchange
from fedloom.simulator.scene import Scene

Pair = tuple[str, str]
FREE_BIT_S = 2e9  # links that are faster than this machine carries bytes are not slowed


class Shaped:
    """Told of the scene in which clients are sent to work, gives links its rates."""

    def __init__(
        self, network: Network, model_bits: float, wire_bits: float, coded_bits: tuple[float, float] | None = None
    ) -> None:
        self._shaper, self._bits = Shaper(network), (model_bits, wire_bits, coded_bits)
        self._scene: Scene | None = None

    def __call__(self, scene: Scene) -> None:
        if scene is not self._scene:
            self._scene = scene
            self._shaper.shape(link_rates(scene, *self._bits))

    def carried(self) -> dict[str, int]:
        """Bytes that every node has sent so far, with all headers."""
        return self._shaper.carried()


def link_rates(
    scene: Scene, model_bits: float, wire_bits: float, coded_bits: tuple[float, float] | None = None
) -> Rates:
    """bit/s by (sender, receiver), for the links of a scene. wire_bits: of a model as it is carried; coded_bits: of what is
    carried up and down of one, if that is coded."""
    up_bits, down_bits = coded_bits or (wire_bits, wire_bits)
    found = {pair: (wire_bits, s) for pair, s in _device_cloud(scene.snapshot, model_bits)}
    found |= {pair: (up_bits if way == "up" else down_bits, s) for pair, s, way in _of_topology(scene)}
    rates = {pair: bits / s for pair, (bits, s) in found.items() if 0 < s < np.inf}
    return {pair: rate for pair, rate in rates.items() if rate < FREE_BIT_S}


def _device_cloud(snapshot: Snapshot, bits: float) -> Iterator[tuple[Pair, float]]:
    """Between every device and the cloud, for features."""
    everyone = Topology(cover=snapshot.active[None, :], kind="cloud", host=np.zeros(1, dtype=np.int64))
    ways = exchange(snapshot, everyone, bits)
    for k in np.flatnonzero(snapshot.active).tolist():
        yield (naming.device(k), naming.CLOUD), float(ways.client_up.seconds[k])
        yield (naming.CLOUD, naming.device(k)), float(ways.client_down.seconds[k])


def _of_topology(scene: Scene) -> Iterator[tuple[Pair, float, str]]:
    """Of clients and aggregators, and of aggregators and the cloud; and the direction."""
    topology, ways = scene.topology, scene.exchange
    if topology.kind == "cloud":
        for k in np.flatnonzero(topology.cover.any(axis=0)).tolist():
            yield (naming.device(k), naming.CLOUD), float(ways.client_up.seconds[k]), "up"
            yield (naming.CLOUD, naming.device(k)), float(ways.client_down.seconds[k]), "down"
        return
    for client, station, s in _links(ways.client_up, topology.kind, topology.host):
        yield (client, station), s, "up"
    for client, station, s in _links(ways.client_down, topology.kind, topology.host):
        yield (station, client), s, "down"
    for n, host in enumerate(topology.host.tolist()):
        station = naming.station(topology.kind, host)
        yield (station, naming.CLOUD), float(ways.cloud_up.seconds[n]), "up"
        yield (naming.CLOUD, station), float(ways.cloud_down.seconds[n]), "down"


def _links(way: Way, kind: str, host: NDArray[np.int64]) -> Iterator[tuple[str, str, float]]:
    """(client, station, seconds) of every single link."""
    (leg,) = way.legs
    assert leg.single is not None
    one = leg.single
    for client, aggregator, s in zip(one.sender.tolist(), one.aggregator.tolist(), one.seconds.tolist()):
        yield naming.device(client), naming.station(kind, int(host[aggregator])), s

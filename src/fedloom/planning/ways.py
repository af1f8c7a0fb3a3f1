"""The links that a model takes in a plan: the ways and legs of the simulator, but one link per device, so that nothing of the
size of all pairs is needed.

Devices send at their own power. The server's joules are not counted: it is no device.

K devices, N aggregators.
"""

import numpy as np
from numpy.typing import NDArray

from fedloom import radio
from fedloom.grouping import Topology
from fedloom.planning.costs import Prices
from fedloom.planning.devices import Devices
from fedloom.simulator.exchange import Exchange, Leg, Links, Way

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]


def exchange_of(prices: Prices, topology: Topology, head: Ints, taking_part: Mask) -> Exchange:
    """The ways of one model as `exchange` gives them, for clients with one aggregator each."""
    devices = prices.devices
    n, own_w = devices.n, devices.power_w
    down_s, up_s, none_w = prices.cloud_down_s, prices.cloud_up_s, np.zeros(n)
    if topology.kind == "cloud":
        none = np.zeros(1)
        return Exchange(
            _way("down", "device_cloud", down_s, none_w, taking_part, np.zeros(n, np.int64)),
            _way("up", "device_cloud", up_s, own_w, taking_part, np.zeros(n, np.int64)),
            Way("down", none, ()),
            Way("up", none, ()),
        )
    host, own = topology.host, np.arange(n)
    near = prices.at_head(own, np.where(taking_part, head, own))
    member, heads = taking_part & (head != own), np.ones(len(host), np.bool_)  # a head needs no link to itself
    server = np.zeros(len(host), np.int64)
    return Exchange(
        _way("down", "device_head", near.fetch_s, own_w[np.where(taking_part, head, 0)], member, head),
        _way("up", "device_head", near.return_s, own_w, member, head),
        _way("down", "device_cloud", down_s[host], none_w[host], heads, server),
        _way("up", "device_cloud", up_s[host], prices.to_server_w[host], heads, server),
    )


def _way(direction: str, hop: str, seconds: Floats, power_w: Floats, used: Mask, air: Ints) -> Way:
    """One link each (m,), of senders of `power_w` (m,), in the air of a head or of the server, air (m,)."""
    seconds = np.where(used, seconds, 0.0)
    links, joules, at = used.astype(np.int64), radio.energy_j(power_w, seconds), np.flatnonzero(used)
    first = np.concatenate([[0], np.cumsum(links)])
    single = Links(at, air[at], air[at], seconds[at], joules[at], first)
    return Way(direction, seconds, (Leg(hop, links, links, seconds, joules, single),))


def to_aggregator_m(devices: Devices, head: Ints, taking_part: Mask) -> Floats:
    """(K,) metres to the head, or to the server where there is none; 0 for who takes no part."""
    step = devices.position_m - devices.position_m[np.maximum(head, 0)]
    metres = np.where(head >= 0, np.sqrt((step**2).sum(axis=1)), devices.to_server_m)
    return np.where(taking_part, metres, 0.0)

"""The links that a model takes in a plan: the ways and legs of the simulator, but one link per device, so that nothing of the
size of all pairs is needed.

Devices send at their own power. The server sends at SERVER_W and its joules are not counted: it is no device.

K devices, N aggregators.
"""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from fedloom import radio
from fedloom.grouping import Topology
from fedloom.planning.devices import Devices
from fedloom.simulator.exchange import Exchange, Leg, Way

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]

SERVER_W = 1.0


def exchange_of(
    devices: Devices,
    topology: Topology,
    head: Ints,
    taking_part: Mask,
    bits: Mapping[str, float],
    uplink_w: Floats | None = None,
) -> Exchange:
    """The ways of one model as `exchange` gives them, for clients with one aggregator each, which send at their own power;
    heads to the server with uplink_w (N,), if that is given. bits: of what goes "up" and "down" of it."""
    own, n = devices.power_w, devices.n
    if topology.kind == "cloud":
        far, none = devices.to_server_m, np.zeros(1)
        return Exchange(
            _way("down", "device_cloud", devices.rates(far, np.full(n, SERVER_W)), np.zeros(n), taking_part, bits),
            _way("up", "device_cloud", devices.rates(far, own), own, taking_part, bits),
            Way("down", none, ()),
            Way("up", none, ()),
        )
    host = topology.host
    far, near = devices.to_server_m[host], to_aggregator_m(devices, head, taking_part)
    member, heads = taking_part & (head != np.arange(n)), np.ones(len(host), np.bool_)  # a head needs no link to itself
    of_head = own[np.where(taking_part, head, 0)]
    to_server_w = own[host] if uplink_w is None else uplink_w
    return Exchange(
        _way("down", "device_head", devices.rates(near, of_head), of_head, member, bits),
        _way("up", "device_head", devices.rates(near, own), own, member, bits),
        _way(
            "down", "device_cloud", devices.rates(far, np.full(len(host), SERVER_W)), np.zeros(len(host)), heads, bits
        ),
        _way("up", "device_cloud", devices.rates(far, to_server_w), to_server_w, heads, bits),
    )


def _way(direction: str, hop: str, rate_bit_s: Floats, power_w: Floats, used: Mask, bits: Mapping[str, float]) -> Way:
    """One link each (m,), of senders of `power_w` (m,)."""
    seconds = np.where(used, radio.airtime_s(bits[direction], rate_bit_s), 0.0)
    links = used.astype(np.int64)
    return Way(direction, seconds, (Leg(hop, links, links, seconds, radio.energy_j(power_w, seconds)),))


def to_aggregator_m(devices: Devices, head: Ints, taking_part: Mask) -> Floats:
    """(K,) metres to the head, or to the server where there is none; 0 for who takes no part."""
    step = devices.position_m - devices.position_m[np.maximum(head, 0)]
    metres = np.where(head >= 0, np.sqrt((step**2).sum(axis=1)), devices.to_server_m)
    return np.where(taking_part, metres, 0.0)

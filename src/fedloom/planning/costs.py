"""What a grouping takes in a cloud round: the one count that the search minimises and the plan reports.

    edge round of a cluster    max over members of  fetch + local steps + return
    cloud round                fetch from the server + edge rounds * edge round + report to the server; the slowest cluster counts
    joules                     of computing, and of sending: members to their heads, heads to each member and to the server
    drain                      most of its battery that a device spends

What a cluster takes depends on its own head and members only, so that a search that changes two clusters counts two; where
links share a band (`shared_bands`) that holds inside clusters, and all of them meet at the server.

K devices, m of them that are looked at, N clusters, C classes.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedloom import radio
from fedloom.methods import Method
from fedloom.planning import shared_bands
from fedloom.planning.devices import Devices
from fedloom.training.state import layout_of

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

MOST_PAIRS = 600  # devices, of which all pairs are kept
SERVER_W = 1.0  # the server sends at; it is no device, and its joules are not counted


@dataclass(frozen=True, kw_only=True)
class Work:
    """What a cloud round is: local steps in an edge round, edge rounds, and bytes of a model; coded_bytes: of what goes up and
    down of one, where that is coded or more is sent beside it; trainings: models that a device trains in a step."""

    model_bytes: int
    local_steps: int = 5
    edge_rounds: int = 5
    coded_bytes: tuple[int, int] | None = None
    trainings: int = 1

    @property
    def up_bytes(self) -> int:
        """Of what is sent up of a model."""
        return self.model_bytes if self.coded_bytes is None else self.coded_bytes[0]

    @property
    def down_bytes(self) -> int:
        """Of what is sent down of a model."""
        return self.model_bytes if self.coded_bytes is None else self.coded_bytes[1]

    def by(self, method: Method) -> "Work":
        """The same as a method does it: models coded as it codes them, of 4 bytes a value, with what its clients send beside
        them, and as many trained in a step as its rule says."""
        rule, n = method.local.rule, max(1, round(self.model_bytes / 4))
        layout = layout_of(rule, n)
        work = self if rule is None else replace(self, trainings=rule.trainings)
        if method.coding.plain and (layout is None or layout.width == n):
            return work
        coded = None if layout is None else layout.mask(np.ones(n, np.bool_), of_shared=True)
        bits = method.coding.bits(n, 8.0 * self.model_bytes, coded, n if layout is None else layout.width)
        return replace(work, coded_bytes=(round(bits[0] / 8), round(bits[1] / 8)))


class AtHead(NamedTuple):
    """Of a device at a head, in one edge round: seconds to fetch a model and to return it, joules that it spends on sending
    (own_j) and that its head does (head_j). All 0 for a head itself."""

    fetch_s: Floats
    return_s: Floats
    own_j: Floats
    head_j: Floats


@dataclass(frozen=True, kw_only=True, eq=False)
class Prices:
    """Of links and work. uplink_w (K,): with what a device would send to the server as a head; its own power if not given."""

    devices: Devices
    work: Work
    uplink_w: Floats | None = None

    @property
    def up_bits(self) -> float:
        """Of what goes up of a model."""
        return 8.0 * self.work.up_bytes

    @property
    def down_bits(self) -> float:
        """Of what goes down of a model."""
        return 8.0 * self.work.down_bytes

    @cached_property
    def steps_s(self) -> Floats:
        """(K,) seconds of the local steps of an edge round."""
        return self.work.local_steps * self.devices.step_s * self.work.trainings

    @cached_property
    def compute_j(self) -> Floats:
        """(K,) joules of the local steps of an edge round."""
        return self.devices.compute_w * self.steps_s

    @cached_property
    def cloud_down_s(self) -> Floats:
        """(K,) seconds of a model from the server."""
        rate = self.devices.server_rates("down", np.full(self.devices.n, SERVER_W))
        return np.asarray(radio.airtime_s(self.down_bits, rate))

    @cached_property
    def cloud_up_s(self) -> Floats:
        """(K,) seconds of a model to the server."""
        return np.asarray(radio.airtime_s(self.up_bits, self.devices.server_rates("up", self.to_server_w)))

    @property
    def to_server_w(self) -> Floats:
        """(K,) W."""
        return self.devices.power_w if self.uplink_w is None else self.uplink_w

    @cached_property
    def cloud_s(self) -> Floats:
        """(K,) seconds of a head's exchange with the server."""
        return self.cloud_down_s + self.cloud_up_s

    @cached_property
    def cloud_j(self) -> Floats:
        """(K,) joules that a head spends on sending to the server."""
        return np.asarray(radio.energy_j(self.to_server_w, self.cloud_up_s))

    def reported_s(self, host: Ints, work_s: Floats) -> Floats:
        """(N,) seconds until the reports of clusters are at the server whose edge rounds take work_s (N,). host (N,), rising:
        their heads, to which models go out in this order."""
        return shared_bands.reported_s(self.devices.air.cloud, self.cloud_down_s[host], work_s, self.cloud_up_s[host])

    def last_s(self, host: Ints, work_s: Floats) -> float:
        """The last of `reported_s`."""
        return shared_bands.last_s(self.devices.air.cloud, self.cloud_down_s[host], work_s, self.cloud_up_s[host])

    def at_head(self, device: Ints, head: Ints) -> AtHead:
        """Of devices at heads; device and head of shapes that fit together."""
        if self.devices.n <= MOST_PAIRS:
            return AtHead(*(table[device, head] for table in self._pairs))
        return self._counted(device, head)

    @cached_property
    def _pairs(self) -> AtHead:
        """(K, K) of all devices at all heads: a search asks for the same ones again and again."""
        own = np.arange(self.devices.n)
        return self._counted(own[:, None], own[None, :])

    def _counted(self, device: Ints, head: Ints) -> AtHead:
        devices, power = self.devices, self.devices.power_w
        device, head = np.broadcast_arrays(device, head)
        away = devices.position_m[device] - devices.position_m[head]
        gain = devices.gain(np.sqrt((away**2).sum(axis=-1)))
        itself = device == head
        fetch, back = (
            np.where(itself, 0.0, devices.gain_s(gain, power[k], bits))
            for k, bits in ((head, self.down_bits), (device, self.up_bits))
        )
        return AtHead(
            fetch, back, np.asarray(radio.energy_j(power[device], back)), np.asarray(radio.energy_j(power[head], fetch))
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class Costs:
    """Of some clusters. at (m,): the cluster of each device. Per device (m,): joules it spends, drain: of its battery.
    Per cluster (N,): host, the head; size; round_s of an edge round, work_s of all of them; seconds of the cloud round, if these
    are all clusters; total_j; most_j of one device; most_drain; off: samples that would have to change their label for labels
    like everybody's."""

    at: Ints
    joules: Floats
    drain: Floats
    host: Ints
    size: Ints
    round_s: Floats
    work_s: Floats
    seconds: Floats
    total_j: Floats
    most_j: Floats
    most_drain: Floats
    off: Floats


def costs_of(prices: Prices, device: Ints, head: Ints, edge_rounds: Ints | int | None = None) -> Costs:
    """Of the clusters of devices (m,) with heads (m,), whose own head is themselves.
    edge_rounds: of all clusters, or of each (N,), heads rising; those of the work if not given."""
    devices = prices.devices
    rounds = prices.work.edge_rounds if edge_rounds is None else edge_rounds
    link = prices.at_head(device, head)
    host, at = np.unique(head, return_inverse=True)
    n = len(host)
    times = np.broadcast_to(np.asarray(rounds), (n,))
    is_head = device == head
    back_s = shared_bands.back_s(devices.air.d2d, at, n, link.fetch_s, prices.steps_s[device], link.return_s, is_head)
    round_s = _most(at, back_s, n)
    joules = times[at] * (link.own_j + prices.compute_j[device])
    served = np.bincount(at, times[at] * link.head_j, n)
    joules[is_head] += served[at[is_head]] + prices.cloud_j[device[is_head]]
    drain = joules / devices.battery_j[device]
    return Costs(
        at=at,
        joules=joules,
        drain=drain,
        host=host,
        size=np.bincount(at, minlength=n),
        round_s=round_s,
        work_s=times * round_s,
        seconds=prices.reported_s(host, times * round_s),
        total_j=np.bincount(at, weights=joules, minlength=n).astype(np.float64),
        most_j=_most(at, joules, n),
        most_drain=_most(at, drain, n),
        off=off_labels(at, n, devices.off_labels[device]),
    )


def off_labels(at: Ints, n: int, off: Floats) -> Floats:
    """(n,): half of the absolute sums over clusters, `at` (m,), of off (m, C)."""
    total = np.zeros((n, off.shape[1]))
    np.add.at(total, at, off)
    return np.asarray(np.abs(total).sum(axis=1) / 2)


def total_bytes(work: Work, n_devices: int, n_clusters: int) -> int:
    """Of a cloud round: members with their heads in every edge round, heads with the server once."""
    return (work.up_bytes + work.down_bytes) * (work.edge_rounds * (n_devices - n_clusters) + n_clusters)


def _most(at: Ints, value: Floats, n: int) -> Floats:
    out = np.zeros(n)
    np.maximum.at(out, at, value)
    return out

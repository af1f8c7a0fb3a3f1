"""What one cloud round takes, without any training.

Counted with the ways, legs and ledger of the simulator and the same radio:

    edge round of a cluster    max over members of  fetch + steps * seconds per step + return
    cloud round                max over clusters of  fetch + edge rounds * edge round + report

as the protocol has it for methods that wait for everybody. Where bands are shared, messages are sent in the simulator's air.

K devices, N aggregators, C classes.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedloom.grouping import Topology
from fedloom.methods import Method
from fedloom.methods.method import Allotment
from fedloom.pacing import Offer, rounds_in_box
from fedloom.planning.costs import Prices, Work, costs_of
from fedloom.planning.devices import Devices
from fedloom.planning.ways import exchange_of, to_aggregator_m
from fedloom.simulator.air import back_s
from fedloom.simulator.exchange import Exchange, Way
from fedloom.simulator.ledger import Bill, Ledger

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True, eq=False)
class Plan:
    """Who reports to whom, and what one cloud round takes.

    Per device (K,): cluster (-1: takes no part), head (device; -1 for the server), distance_m to it, power_w it sends at (a
    head: to the server), link_s: seconds of one model over its slowest link, in the slower direction; seconds it is busy, joules
    it spends on computing and sending, bytes_sent, bytes_received. Per aggregator (N,): edge_round_s, edge_rounds,
    cluster_s of its cloud round, imbalance: total variation distance of its labels to those of all, 0 to 1; NaN if labels are
    not known. time_s, ledger: of the cloud round; without joules of the server. side_by_side_s: time_s if heads did not
    wait for each other to send to the server, where the method makes them. notes: of what was allotted.
    """

    name: str
    topology: Topology
    cluster: Ints
    head: Ints
    distance_m: Floats
    power_w: Floats
    link_s: Floats
    seconds: Floats
    joules: Floats
    bytes_sent: Ints
    bytes_received: Ints
    edge_round_s: Floats
    edge_rounds: Ints
    cluster_s: Floats
    imbalance: Floats
    time_s: float
    side_by_side_s: float
    ledger: Ledger
    notes: dict[str, float | Floats]

    @property
    def n_clusters(self) -> int:
        """N."""
        return self.topology.n_aggregators

    @property
    def size(self) -> Ints:
        """(N,) devices of each cluster."""
        return np.asarray(self.topology.cover.sum(axis=1))

    def mean_imbalance(self, n_samples: Ints) -> float:
        """Over clusters, each with the weight of its samples."""
        weight = self.topology.cover @ n_samples
        return float(self.imbalance @ weight / weight.sum()) if weight.any() else float("nan")


def predict(
    devices: Devices, method: Method, topology: Topology, work: Work, allotment: Allotment | None = None
) -> Plan:
    """One cloud round of a method that waits for everybody, with the clusters of `topology` and what is allotted to them."""
    allotment = allotment or Allotment()
    allotment.check(topology.n_aggregators)
    _check_predictable(method, topology)
    cover = topology.cover
    taking_part: Mask = np.asarray(cover.any(axis=0))
    cluster = np.where(taking_part, cover.argmax(axis=0), -1)
    head = np.where(taking_part, topology.host[cluster], -1) if topology.kind == "head" else np.full(devices.n, -1)
    prices = Prices(devices=devices, work=work, uplink_w=_uplink_w(devices, topology, allotment))
    ways = exchange_of(prices, topology, head, taking_part)
    work_s = _work_s(prices, ways, cover)
    clock = _clock(prices, method, topology, ways, work_s, allotment)
    times = np.where(taking_part, clock.rounds[cluster], 0)  # (K,) edge rounds of each device
    spent = _spent(prices, ways, times, times * work_s)
    if topology.kind == "head":
        some = np.flatnonzero(taking_part)
        costs = costs_of(prices, some, head[some], clock.rounds[np.argsort(topology.host)])
        spent.joules[some] = costs.joules
        _add_heads(spent, ways, topology.host, head, times, work)
    return Plan(
        name=method.name,
        topology=topology,
        cluster=cluster,
        head=head,
        distance_m=to_aggregator_m(devices, head, taking_part),
        power_w=prices.to_server_w.copy(),
        link_s=spent.link_s,
        seconds=spent.seconds,
        joules=spent.joules,
        bytes_sent=spent.bytes_sent,
        bytes_received=spent.bytes_received,
        edge_round_s=clock.round_s,
        edge_rounds=clock.rounds,
        cluster_s=clock.cluster_s,
        imbalance=label_imbalance(cover, devices.label_counts),
        time_s=float(clock.cluster_s.max()),
        side_by_side_s=clock.side_by_side_s,
        ledger=_ledger(prices, ways, times),
        notes=dict(allotment.notes),
    )


def _check_predictable(method: Method, topology: Topology) -> None:
    """What a round takes must follow from what is known before, and each device must have one aggregator."""
    if topology.kind == "edge":
        raise ValueError(
            f"{method.name} groups devices by the cells of edge servers, and a table of devices has none; plan with a method "
            "that makes devices heads of clusters"
        )
    if not (method.edge.waits_for_all and method.cloud.exists and method.cloud.waits):
        raise ValueError(
            f"{method.name} does not wait for all devices, so a round cannot be predicted without running it"
        )
    if topology.n_reached.max() > 1:
        raise ValueError(f"{method.name} lets devices report to several heads, which a plan does not show")


def _work_s(prices: Prices, ways: Exchange, cover: Mask) -> Floats:
    """(K,): seconds of an edge round of each device: fetch, local steps, return. cover (N, K)."""
    devices, down, up = prices.devices, ways.client_down, ways.client_up
    if devices.air.is_shared:
        out = np.zeros(devices.n)
        for members in map(np.flatnonzero, cover):
            out[members] = back_s(devices.air, down, up, members, prices.steps_s[members])
        return out
    offer = Offer(
        client=np.arange(devices.n),
        full_steps=np.full(devices.n, prices.work.local_steps),
        unit_steps=np.ones(devices.n, np.int64),
        step_s=devices.step_s * prices.work.trainings,
        link_s=down.seconds + up.seconds,
    )
    return offer.full_s


class _Clock(NamedTuple):
    """Per aggregator (N,): seconds of an edge round, edge rounds, seconds of the cloud round; side_by_side_s: of all, if heads
    did not wait for each other to send to the server."""

    round_s: Floats
    rounds: Ints
    cluster_s: Floats
    side_by_side_s: float


def _clock(
    prices: Prices, method: Method, topology: Topology, ways: Exchange, device_s: Floats, allotment: Allotment
) -> _Clock:
    """When clusters are done. device_s (K,): seconds of an edge round of each device."""
    round_s = np.array([device_s[members].max(initial=0.0) for members in topology.cover])
    fixed = np.full(len(round_s), prices.work.edge_rounds)
    rounds = fixed if allotment.edge_rounds is None else allotment.edge_rounds
    box_s = method.edge.box_s
    if box_s is not None:
        rounds = np.array([rounds_in_box(box_s, s) for s in round_s])
    work_s = np.maximum(rounds * round_s, box_s or 0.0)
    cluster_s = ways.cloud_down.seconds + work_s + ways.cloud_up.seconds
    side_by_side_s = float(cluster_s.max())
    if method.cloud.uplink is not None and prices.devices.air.cloud.up.sharing == "own":
        cluster_s = method.cloud.uplink(ways.cloud_down.seconds + work_s, ways.cloud_up.seconds)
    elif topology.kind == "head":
        order = np.argsort(topology.host)  # in which models go out
        cluster_s[order] = prices.reported_s(topology.host[order], work_s[order])
    return _Clock(round_s, rounds, cluster_s, side_by_side_s)


class _Spent(NamedTuple):
    """Per device (K,), as in `Plan`."""

    link_s: Floats
    seconds: Floats
    joules: Floats
    bytes_sent: Ints
    bytes_received: Ints


def _spent(prices: Prices, ways: Exchange, times: Ints, seconds: Floats) -> _Spent:
    """What devices spend as members. times (K,): edge rounds of each; seconds (K,): that it is busy in them."""
    sent = _per_client(ways.client_up, times * prices.work.up_bytes)
    received = _per_client(ways.client_down, times * prices.work.down_bytes)
    link_s = np.maximum(ways.client_down.seconds, ways.client_up.seconds)
    joules = _joules(ways.client_up, times) + times * prices.compute_j
    return _Spent(link_s, seconds, joules, sent, received)


def _add_heads(spent: _Spent, ways: Exchange, host: Ints, head: Ints, times: Ints, work: Work) -> None:
    """Add what heads are busy and send: with the server, host (N,), and with their members, head (K,) of each device."""
    spent.link_s[host] = np.maximum(ways.cloud_down.seconds, ways.cloud_up.seconds)
    spent.seconds[host] += ways.cloud_down.seconds + ways.cloud_up.seconds
    spent.bytes_sent[host] += work.up_bytes
    spent.bytes_received[host] += work.down_bytes
    members = (head >= 0) & (head != np.arange(len(head)))
    np.add.at(spent.bytes_sent, head[members], times[members] * work.down_bytes)
    np.add.at(spent.bytes_received, head[members], times[members] * work.up_bytes)


def _uplink_w(devices: Devices, topology: Topology, allotment: Allotment) -> Floats | None:
    """(K,) W with which heads send to the server; None: each with its own."""
    if allotment.power_w is None:
        return None
    power_w = devices.power_w.copy()
    power_w[topology.host] = allotment.power_w
    return power_w


def _ledger(prices: Prices, ways: Exchange, times: Ints) -> Ledger:
    """Of the cloud round. times (K,): edge rounds of each device."""
    ledger, work = Ledger(), prices.work
    for way, n_times in ((ways.client_down, times), (ways.client_up, times), (ways.cloud_down, 1), (ways.cloud_up, 1)):
        n_bytes = work.up_bytes if way.direction == "up" else work.down_bytes
        _book(ledger, way, np.broadcast_to(n_times, way.seconds.shape), n_bytes)
    ledger.compute(float((times * prices.steps_s).sum()), float((times * prices.compute_j).sum()))
    return ledger


def label_imbalance(cover: Mask, label_counts: Ints) -> Floats:
    """(N,): total variation distance of each cluster's labels to those of all, 0 (alike) to 1; 0 for clusters without
    samples, NaN if labels are not known. cover (N, K), label_counts (K, C)."""
    everybody = label_counts[cover.any(axis=0)].sum(axis=0)
    if not everybody.any():
        return np.full(len(cover), np.nan)
    counts = cover @ label_counts  # (N, C)
    total = counts.sum(axis=1, keepdims=True)
    share = counts / np.maximum(total, 1)
    return np.asarray(np.where(total[:, 0] > 0, np.abs(share - everybody / everybody.sum()).sum(axis=1) / 2, 0.0))


def _book(ledger: Ledger, way: Way, times: Ints, n_bytes: int) -> None:
    """Every message of the way so many times (m,)."""
    for leg in way.legs:
        bill = Bill(
            hop=leg.hop,
            direction=way.direction,
            n_links=int((times * leg.links).sum()),
            n_parties=int((times * leg.links).sum()),
            n_bytes=int((times * leg.sent).sum()) * n_bytes,
            airtime_s=float((times * leg.seconds).sum()),
            energy_j=float((times * leg.joules).sum()),
        )
        ledger.pay([bill])


def _joules(way: Way, times: Ints | int) -> Floats:
    return sum((times * leg.joules for leg in way.legs), np.zeros(way.seconds.shape))


def _per_client(way: Way, n_bytes: Ints) -> Ints:
    return sum((n_bytes * leg.sent for leg in way.legs), np.zeros(way.seconds.shape, np.int64))

"""A plan for a fleet that exists: who reports to whom, and what one cloud round will take, without any training.

Grouping is a method's own; devices reveal what a table of them holds. What a round takes is counted with the ways, legs and
ledger of the simulator and the same radio, but one link per device, so that nothing of the size of all pairs is needed:

    edge round of a cluster    max over members of  fetch + steps * seconds per step + return
    cloud round                max over clusters of  fetch + edge rounds * edge round + report

as the loop of `federation` has it for methods that wait for everybody. Devices send at their own power. The server sends at
SERVER_W and its joules are not counted: it is no device.

K devices, N aggregators, C classes.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from fedloom import _check, radio
from fedloom.fleet import ComputeSettings, CoordinatesPlacement, Fleet, FleetSettings, Link, RadioLink, Snapshot
from fedloom.fleet import compute as computing
from fedloom.fleet.hops import radio_rate, snr_per_w
from fedloom.fleet.table import FleetTable
from fedloom.grouping import Need, Topology, View
from fedloom.grouping.exact import exact_heads
from fedloom.grouping.head_problem import HeadProblem, head_problem
from fedloom.grouping.head_selection import HeadSelection, select_heads
from fedloom.grouping.unit_gradients import RANK
from fedloom.methods import Method
from fedloom.methods.method import Allotment, Group
from fedloom.pacing import Offer, rounds_in_box
from fedloom.simulator.exchange import Exchange, Leg, Way
from fedloom.simulator.ledger import Ledger

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]

SERVER_W = 1.0
BATCH_SIZE = 32
LEAST_CAPACITY = 10  # of heads, if nothing is said of it
DATA_WEIGHT = 0.2  # alpha of a plan: balance where it costs little; papers use 0.5
MOST_CANDIDATES = 100  # that a search looks at if nothing else is asked for
MOST_PAIRED = 3000  # devices up to which methods may look at all pairs of them
MOST_EXACT = 12  # devices for which the best plan is proven in reasonable time


@dataclass(frozen=True, kw_only=True, eq=False)
class Devices:
    """What is known of a fleet. position_m (K, 2), server_m (2,): metres. power_w (K,): transmit power. step_s (K,): seconds
    of a local step. n_samples (K,), label_counts (K, C; C may be 0). capacity (K,): most devices it may serve as a head.
    candidate (K,): it may be a head. gradients (K, p) or None. link: band and path loss of all links; its power is not used."""

    position_m: Floats
    server_m: Floats
    power_w: Floats
    step_s: Floats
    n_samples: Ints
    label_counts: Ints
    capacity: Ints
    candidate: Mask
    gradients: NDArray[np.floating] | None = None
    link: RadioLink = field(default_factory=RadioLink)

    @property
    def n(self) -> int:
        """K."""
        return len(self.position_m)

    @cached_property
    def to_server_m(self) -> Floats:
        """(K,)."""
        return np.asarray(radio.distances(self.position_m, self.server_m[None])[:, 0])

    @property
    def directions(self) -> NDArray[np.floating] | None:
        """(K, p): gradients, or what labels say of them, or None."""
        if self.gradients is not None or not self.labels_tell:
            return self.gradients
        return label_gradients(self.label_counts)

    @property
    def labels_tell(self) -> bool:
        """Some device has labels that differ from all classes alike, so that they say something of its gradient."""
        return bool(self.label_counts.shape[1] and label_gradients(self.label_counts).any())

    def rates(self, distance_m: Floats, power_w: Floats) -> Floats:
        """bit/s over `distance_m` at `power_w`, both of one shape."""
        rate = np.empty(distance_m.shape)
        for power in np.unique(power_w).tolist():
            here = power_w == power
            rate[here] = radio_rate(self.link.model_copy(update={"power_w": power}), distance_m[here])
        return rate

    def link_s(self, sender: Ints, distance_m: Floats, bits: float) -> Floats:
        """Seconds of a message over `distance_m`, in its shape, from the devices `sender`, each at its own power."""
        return np.asarray(radio.airtime_s(bits, self.rates(distance_m, self.power_w[sender])))

    def snapshot(self, bits: float) -> Snapshot:
        """The fleet as methods see it that send models of so many bits. Links between devices (sender, receiver) take the
        seconds and joules of that model at the sender's power, which are those that a plan is charged; they differ by direction,
        so they are given as they are and not as throughputs, of which two ends would have to report the same."""
        points = tuple(map(tuple, self.position_m.tolist()))
        settings = FleetSettings(
            n_devices=self.n,
            placement=CoordinatesPlacement(positions_m=points),
            server_m=tuple(self.server_m.tolist()),
        )

        def d2d() -> Link:
            distance = radio.distances(self.position_m, self.position_m)
            sender = np.broadcast_to(np.arange(self.n)[:, None], distance.shape)
            seconds = self.link_s(sender, distance, bits)
            np.fill_diagonal(seconds, 0.0)
            return Link(fixed_s=seconds, rate_bit_s=np.full(seconds.shape, np.inf), power_w=self.power_w[sender])

        uplink = Link(
            fixed_s=np.zeros(self.n),
            rate_bit_s=self.rates(self.to_server_m, self.power_w),
            power_w=self.power_w,
            snr_per_w=snr_per_w(self.link, self.to_server_m),
            bandwidth_hz=self.link.bandwidth_hz,
        )
        now = Fleet.from_settings(settings, seed=0).snapshot(0)
        return replace(now, make_d2d=d2d, cloud_up=uplink, cloud_via_edge=False)


def devices_of(
    table: FleetTable,
    server_m: Floats,
    *,
    capacity: int | None = None,
    gradients: NDArray[np.floating] | None = None,
    bandwidth_hz: float = RadioLink().bandwidth_hz,
) -> Devices:
    """A table's devices. What it does not say is the same for all: the simulator's 10 mW and 0.01 s per step, a mini-batch of
    samples, `capacity` (by default a fifth of the fleet, at least LEAST_CAPACITY), and everybody may be a head.
    bandwidth_hz: of every link."""
    _check.positive("bandwidth_hz", bandwidth_hz)
    n = table.n_devices
    capacity = max(LEAST_CAPACITY, -(-n // 5)) if capacity is None else capacity
    n_samples = np.full(n, BATCH_SIZE) if table.n_samples is None else table.n_samples
    settings, speed = ComputeSettings(), np.full(n, ComputeSettings().law.least)
    if table.steps_per_s is not None:
        speed = 1 / table.steps_per_s
    elif table.samples_per_s is not None:
        settings, speed = ComputeSettings(unit="seconds-per-sample"), 1 / table.samples_per_s
    limit = np.full(n, capacity) if table.capacity is None else table.capacity
    return Devices(
        position_m=table.position_m,
        server_m=server_m,
        power_w=np.full(n, RadioLink().power_w) if table.power_w is None else table.power_w,
        step_s=computing.step_seconds(settings, speed, BATCH_SIZE, n_samples),
        n_samples=n_samples,
        label_counts=np.zeros((n, 0), np.int64) if table.label_counts is None else table.label_counts,
        capacity=np.minimum(limit, n),
        candidate=np.ones(n, np.bool_) if table.candidate is None else table.candidate,
        gradients=gradients,
        link=RadioLink(bandwidth_hz=bandwidth_hz),
    )


def missing_columns(table: FleetTable, needs: frozenset[Need], gradients: bool) -> dict[str, str]:
    """Columns (or options) that a table does not have, and what they would improve, for a method of these needs."""
    by_data = needs & {Need.GRADIENTS, Need.UPDATES}
    missing = {}
    if table.steps_per_s is None and table.samples_per_s is None:
        and_groups = " and clusters" if Need.SPEEDS in needs else ""
        missing["steps_per_s"] = f"round times{and_groups} that know slow devices; now all take 0.01 s a step"
    if table.power_w is None:
        missing["tx_power_w"] = "joules and link rates of each device; now all send at 10 mW"
    if table.label_counts is None and by_data and not gradients:
        missing["label_<name>"] = "clusters whose data are like everybody's; now the data play no part"
    elif table.label_counts is None:
        missing["label_<name>"] = "how much the labels of clusters differ from everybody's"
    elif by_data and not gradients:
        missing["--gradients"] = "clusters by what devices learn; now by what their labels say of it"
    if table.capacity is None:
        missing["capacity"] = "clusters as large as their heads can serve; now all heads are alike"
    if table.candidate is None:
        missing["candidate"] = "heads only where you want them; now any device may be one"
    if table.n_samples is None:
        missing["n_samples"] = "work and weights by the data a device has; now all have the same"
    return missing


def label_gradients(label_counts: Ints) -> Floats:
    """(K, C) out of samples of each class (K, C): what labels alone say of a device's gradient.

    1 / C - share of each class: the gradient of the biases of a softmax output that takes all classes for equally likely,
    as untrained models do. Zero for a device without samples.
    """
    total = label_counts.sum(axis=1, keepdims=True)
    share = label_counts / np.maximum(total, 1)
    return np.asarray(np.where(total > 0, 1 / label_counts.shape[1] - share, 0.0))


@dataclass(frozen=True, kw_only=True)
class Work:
    """What a cloud round is: local steps in an edge round, edge rounds, and bytes of a model."""

    model_bytes: int
    local_steps: int = 5
    edge_rounds: int = 5


@dataclass(frozen=True, kw_only=True, eq=False)
class Plan:
    """Who reports to whom, and what one cloud round takes.

    Per device (K,): cluster (-1: takes no part), head (device; -1 for the server), distance_m to it, power_w it sends at (a
    head: to the server), link_s: seconds of one model over its slowest link, in the slower direction; seconds it is busy, joules
    it spends on sending, bytes_sent, bytes_received. Per aggregator (N,): edge_round_s, edge_rounds,
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


def make_plan(devices: Devices, method: Method, work: Work, rng: np.random.Generator) -> Plan:
    """Ask the method who aggregates with whom, and predict a cloud round."""
    unknown = sorted(method.needs & {Need.PREDICTIONS, Need.SIGNATURES})
    if unknown:
        raise ValueError(f"{method.name} groups by {' and '.join(unknown)}, which a table of devices does not have")
    if Need.LABELS in method.needs and not devices.label_counts.shape[1]:
        raise ValueError(f"{method.name} groups by samples per class; add columns label_<name>, one per class")
    if Need.LINKS in method.needs and devices.n > MOST_PAIRED:
        raise ValueError(
            f"{method.name} compares all pairs of devices and plans at most {MOST_PAIRED:,} of them, got {devices.n:,}; "
            "use a method that needs no link rates, or plan parts of the fleet"
        )
    view = View(
        needs=method.needs,
        _snapshot=devices.snapshot(8.0 * work.model_bytes),
        cloud_round=0,
        all_n_samples=devices.n_samples,
        all_label_counts=devices.label_counts,
        all_step_s=devices.step_s,
        all_work_s=work.local_steps * devices.step_s,
        model_bits=8.0 * work.model_bytes,
        collect=lambda kind, layers: _feature(devices, kind),
        edge_rounds=work.edge_rounds,
    )
    topology = method.group.rule(view, rng)
    allotment = Allotment() if method.allot is None else method.allot(view, topology, rng)
    return predict(devices, method, topology, work, allotment)


def predict(
    devices: Devices, method: Method, topology: Topology, work: Work, allotment: Allotment | None = None
) -> Plan:
    """One cloud round of a method that waits for everybody, with the clusters of `topology` and what is allotted to them."""
    allotment = allotment or Allotment()
    allotment.check(topology.n_aggregators)
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
    cover = topology.cover
    taking_part: Mask = np.asarray(cover.any(axis=0))
    cluster = np.where(taking_part, cover.argmax(axis=0), -1)
    at_server = topology.kind == "cloud"
    head = np.full(devices.n, -1) if at_server else np.where(taking_part, topology.host[cluster], -1)
    ways = exchange_of(devices, topology, head, taking_part, 8.0 * work.model_bytes, allotment.power_w)

    down, up = ways.client_down.seconds, ways.client_up.seconds
    offer = Offer(
        client=np.arange(devices.n),
        full_steps=np.full(devices.n, work.local_steps),
        unit_steps=np.ones(devices.n, np.int64),
        step_s=devices.step_s,
        link_s=down + up,
    )
    round_s = np.array([offer.full_s[members].max(initial=0.0) for members in cover])  # (N,)
    rounds = np.full(len(cover), work.edge_rounds) if allotment.edge_rounds is None else allotment.edge_rounds
    box_s = method.edge.box_s
    if box_s is not None:
        rounds = np.array([rounds_in_box(box_s, s) for s in round_s])
    work_s = np.maximum(rounds * round_s, box_s or 0.0)
    cluster_s = ways.cloud_down.seconds + work_s + ways.cloud_up.seconds
    side_by_side_s = float(cluster_s.max())
    if method.cloud.uplink is not None:
        cluster_s = method.cloud.uplink(ways.cloud_down.seconds + work_s, ways.cloud_up.seconds)

    times = np.where(taking_part, rounds[cluster], 0)  # (K,) edge rounds of each device
    ledger = Ledger()
    for way, n_times in ((ways.client_down, times), (ways.client_up, times), (ways.cloud_down, 1), (ways.cloud_up, 1)):
        _book(ledger, way, np.broadcast_to(n_times, way.seconds.shape), work.model_bytes)
    ledger.compute(float((times * work.local_steps * devices.step_s).sum()), 0.0)

    seconds = times * offer.full_s
    sent, received = (_per_client(way, times * work.model_bytes) for way in (ways.client_up, ways.client_down))
    joules, power_w, link_s = _joules(ways.client_up, times), devices.power_w.copy(), np.maximum(down, up)
    if not at_server:
        host = topology.host
        link_s[host] = np.maximum(ways.cloud_down.seconds, ways.cloud_up.seconds)
        seconds[host] += ways.cloud_down.seconds + ways.cloud_up.seconds
        joules[host] += _joules(ways.cloud_up, 1)
        sent[host] += work.model_bytes
        received[host] += work.model_bytes
        if allotment.power_w is not None:
            power_w[host] = allotment.power_w
        members = taking_part & (head != np.arange(devices.n))  # what a head sends to them, it pays for
        np.add.at(joules, head[members], _joules(ways.client_down, times)[members])
        np.add.at(sent, head[members], times[members] * work.model_bytes)
        np.add.at(received, head[members], times[members] * work.model_bytes)
    return Plan(
        name=method.name,
        topology=topology,
        cluster=cluster,
        head=head,
        distance_m=_distances(devices, head, taking_part),
        power_w=power_w,
        link_s=link_s,
        seconds=seconds,
        joules=joules,
        bytes_sent=sent,
        bytes_received=received,
        edge_round_s=round_s,
        edge_rounds=rounds,
        cluster_s=cluster_s,
        imbalance=label_imbalance(cover, devices.label_counts),
        time_s=float(cluster_s.max()),
        side_by_side_s=side_by_side_s,
        ledger=ledger,
        notes=dict(allotment.notes),
    )


def exchange_of(
    devices: Devices,
    topology: Topology,
    head: Ints,
    taking_part: Mask,
    bits: float,
    uplink_w: Floats | None = None,
) -> Exchange:
    """The ways of one model as `exchange` gives them, for clients with one aggregator each, which send at their own power;
    heads to the server with uplink_w (N,), if that is given."""
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
    far, near = devices.to_server_m[host], _distances(devices, head, taking_part)
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


def choose_candidates(devices: Devices, most: int, rng: np.random.Generator) -> Ints:
    """At most `most` devices that may be heads, rising: those nearest to the centres of as many parts of the fleet.

    More where that many have no room for everybody: a third more than those of the largest capacities that have.
    """
    allowed = np.flatnonzero(devices.candidate)
    room = int(devices.capacity[allowed].sum())
    if room < devices.n:
        raise ValueError(
            f"the {len(allowed)} devices that may be heads have room for {room} devices in all, and there are {devices.n}; "
            "raise capacities or let more devices be candidates"
        )
    largest = np.sort(devices.capacity[allowed])[::-1]
    enough = int(np.searchsorted(largest.cumsum(), devices.n)) + 1
    most = min(len(allowed), max(most, -(-enough * 4 // 3)))
    if most == len(allowed):
        return allowed
    chosen = allowed[_spread(devices.position_m[allowed], most, rng)]
    for k in allowed[np.argsort(-devices.capacity[allowed], kind="stable")].tolist():
        if devices.capacity[chosen].sum() >= devices.n:
            break
        chosen = np.union1d(chosen, [k])
    return np.sort(chosen)


def heads_by_data_and_distance(
    devices: Devices,
    *,
    alpha: float | None,
    n_candidates: int | None,
    exact: bool,
    watch: Callable[[int, float], None] | None = None,
) -> Group:
    """Grouping by gradients and distance (DDC, eq. 16 to 19) with the capacities and candidates of a fleet.

    Likeness is the mean over devices, not over clusters as published: no few small clusters can make up for a large one.
    alpha: weight of data against distance, by default 0.2, or 0 if nothing is known of the data. exact: the proven best.
    watch: of the search, see `select_heads`.
    """

    def group(view: View, rng: np.random.Generator) -> Topology:
        problem = _problem(devices, alpha, n_candidates or (10 if exact else MOST_CANDIDATES), rng)
        if exact and devices.n > MOST_EXACT:
            raise ValueError(
                f"the best plan can be proven for at most {MOST_EXACT} devices, got {devices.n}; leave out --exact"
            )
        found = exact_heads(problem) if exact else _search(problem, rng, watch)
        notes = {
            "objective": found.scores.objective,
            "candidates": float(len(problem.candidates)),
            "alpha": problem.alpha,
        }
        return Topology.of_heads(found.clusters, found.heads, devices.n, notes)

    return group


def _search(
    problem: HeadProblem, rng: np.random.Generator, watch: Callable[[int, float], None] | None
) -> HeadSelection:
    """The search for heads; where capacities differ also from the fewest heads that have room, and the better of both."""
    found = select_heads(problem, rng=rng, watch=watch)
    if len(set(problem.capacity.tolist())) == 1:
        return found
    largest = np.argsort(-problem.capacity, kind="stable")
    enough = int(np.searchsorted(problem.capacity[largest].cumsum(), problem.n_devices)) + 1
    other = select_heads(problem, start=problem.candidates[largest[:enough]], rng=rng, watch=watch)
    return min(found, other, key=lambda one: one.scores.objective)


def _problem(devices: Devices, alpha: float | None, n_candidates: int, rng: np.random.Generator) -> HeadProblem:
    directions = devices.directions
    if alpha is None:
        alpha = 0.0 if directions is None else DATA_WEIGHT
    if alpha > 0 and directions is None:
        raise ValueError(
            f"alpha {alpha:g} weighs the devices' data against distance, and nothing is known of the data: give gradients, or "
            "samples per class in columns label_<name>, or alpha 0"
        )
    if not devices.to_server_m.any():
        raise ValueError(
            "all devices stand where the server is, so that distances say nothing; give the server's position"
        )
    rank = None if directions is None or min(directions.shape) <= RANK else RANK
    return head_problem(
        devices.position_m,
        devices.server_m,
        directions,
        alpha=alpha,
        candidates=choose_candidates(devices, n_candidates, rng),
        capacity=devices.capacity,
        weighting="size",
        rank=rank,
        rng=rng,
    )


def _feature(devices: Devices, kind: str) -> NDArray[np.floating]:
    """What a method asks for, as far as it is known, else zero: gradients stand for updates, of which they are the direction."""
    if kind == "labels":
        return devices.label_counts.astype(np.float64)
    directions = devices.directions
    return np.zeros((devices.n, 1)) if directions is None else directions


def _way(direction: str, hop: str, rate_bit_s: Floats, power_w: Floats, used: Mask, bits: float) -> Way:
    """One link each (m,), of senders of `power_w` (m,)."""
    seconds = np.where(used, radio.airtime_s(bits, rate_bit_s), 0.0)
    links = used.astype(np.int64)
    return Way(direction, seconds, (Leg(hop, links, links, seconds, radio.energy_j(power_w, seconds)),))


def _book(ledger: Ledger, way: Way, times: Ints, n_bytes: int) -> None:
    """Every message of the way so many times (m,)."""
    for leg in way.legs:
        ledger.send(
            leg.hop,
            way.direction,
            n_links=int((times * leg.links).sum()),
            n_parties=int((times * leg.links).sum()),
            n_bytes=int((times * leg.sent).sum()) * n_bytes,
            airtime_s=float((times * leg.seconds).sum()),
            energy_j=float((times * leg.joules).sum()),
        )


def _joules(way: Way, times: Ints | int) -> Floats:
    return sum((times * leg.joules for leg in way.legs), np.zeros(way.seconds.shape))


def _per_client(way: Way, n_bytes: Ints) -> Ints:
    return sum((n_bytes * leg.sent for leg in way.legs), np.zeros(way.seconds.shape, np.int64))


def _distances(devices: Devices, head: Ints, taking_part: Mask) -> Floats:
    """(K,) metres to the head, or to the server where there is none; 0 for who takes no part."""
    step = devices.position_m - devices.position_m[np.maximum(head, 0)]
    metres = np.where(head >= 0, np.sqrt((step**2).sum(axis=1)), devices.to_server_m)
    return np.where(taking_part, metres, 0.0)


def _spread(points: Floats, n: int, rng: np.random.Generator) -> Ints:
    """n of the points (m, 2), rising: those nearest to the centres of k-means."""
    from sklearn.cluster import MiniBatchKMeans  # takes long to import

    centres = MiniBatchKMeans(n, n_init=1, random_state=int(rng.integers(2**31))).fit(points).cluster_centers_
    return np.sort(_nearest_each(centres, points))


def _nearest_each(centres: Floats, points: Floats) -> Ints:
    """(n,): for every centre (n, 2) in turn the nearest of the points (m, 2), m >= n, that no other has."""
    away = radio.distances(centres, points)  # (n, m)
    out = np.empty(len(centres), dtype=np.int64)
    for i in range(len(centres)):
        out[i] = int(away[i].argmin())
        away[:, out[i]] = np.inf
    return out

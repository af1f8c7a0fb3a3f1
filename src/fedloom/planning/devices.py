"""What is known of a fleet that exists: the devices of a table, and which columns would tell more.

Devices send at their own power over one radio band. K devices, C classes.
"""

from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from fedloom import _check, radio
from fedloom.fleet import ComputeSettings, CoordinatesPlacement, Fleet, FleetSettings, Link, RadioLink, Snapshot
from fedloom.fleet import compute as computing
from fedloom.fleet.hops import noise_w, path_gain
from fedloom.fleet.settings.air import AirSettings, Peers, Sharing, ToServer
from fedloom.fleet.table import FleetTable
from fedloom.grouping import Need

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]
BATCH_SIZE = 32
SHARINGS = ("own", "time", "equal")  # of bands that plans count
LEAST_CAPACITY = 10  # of heads, if nothing is said of it


@dataclass(frozen=True, kw_only=True, eq=False)
class Devices:
    """What is known of a fleet. position_m (K, 2), server_m (2,): metres. power_w (K,): transmit power. step_s (K,): seconds
    of a local step. n_samples (K,), label_counts (K, C; C may be 0). capacity (K,): most devices it may serve as a head.
    candidate (K,): it may be a head. gradients (K, p) or None. link: band and path loss of all links; its power is not used.
    battery_j (K,): joules of its battery, infinite if it needs none; alike for all if nothing is known.
    up_bit_s, down_bit_s (K,): measured rates to and from the server, in place of the radio's. air: how links share bands.
    compute_w: W of every device while it trains."""

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
    battery_j: Floats
    up_bit_s: Floats | None = None
    down_bit_s: Floats | None = None
    air: AirSettings = field(default_factory=AirSettings)
    compute_w: float = 0.0

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
        return self._rate(self.gain(distance_m), power_w)

    def server_rates(self, direction: str, power_w: Floats) -> Floats:
        """(K,) bit/s "up" to the server or "down" from it at power_w (K,); measured ones where they are known."""
        measured = self.up_bit_s if direction == "up" else self.down_bit_s
        return self.rates(self.to_server_m, power_w) if measured is None else measured

    def gain(self, distance_m: Floats) -> Floats:
        """Of the path, in the shape of the distances."""
        return path_gain(self.link, distance_m)

    def gain_s(self, gain: Floats, power_w: Floats, bits: float) -> Floats:
        """Seconds of a message over a path of this gain at `power_w`, in their shape."""
        return np.asarray(radio.airtime_s(bits, self._rate(gain, power_w)))

    def _rate(self, gain: Floats, power_w: Floats) -> Floats:
        return np.asarray(radio.shannon_rate(self.link.bandwidth_hz, radio.snr(power_w, gain, noise_w(self.link))))

    @cached_property
    def off_labels(self) -> Floats:
        """(K, C): samples of each class beyond what the device's share of everybody's would be."""
        total = self.label_counts.sum()
        everybody = self.label_counts.sum(axis=0) / max(total, 1)
        return np.asarray(self.label_counts - self.label_counts.sum(axis=1, keepdims=True) * everybody)

    def link_s(self, sender: Ints, distance_m: Floats, bits: float) -> Floats:
        """Seconds of a message over `distance_m`, in its shape, from the devices `sender`, each at its own power."""
        return np.asarray(radio.airtime_s(bits, self.rates(distance_m, self.power_w[sender])))

    def snapshot(self, bits: float, down_bits: float) -> Snapshot:
        """The fleet as methods see it that send so many bits of a model up, and down. Links between devices (sender, receiver)
        take the seconds and joules of that model at the sender's power, which are those that a plan is charged; they differ by
        direction, so they are given as they are and not as throughputs, of which two ends would have to report the same. So they
        are known for one size, and refused to methods that ask for them if what goes up and down is not of the same."""
        points = tuple(map(tuple, self.position_m.tolist()))
        settings = FleetSettings(
            n_devices=self.n,
            placement=CoordinatesPlacement(positions_m=points),
            server_m=tuple(self.server_m.tolist()),
            compute=ComputeSettings(power_w=self.compute_w),
        )

        def d2d() -> Link:
            if bits != down_bits:
                raise ValueError(
                    f"links between the devices of a table take the seconds of one size of models, and here {bits / 8:,.0f} "
                    f"bytes go up and {down_bits / 8:,.0f} down; code both ways alike, or plan with a method that "
                    "needs no link rates"
                )
            distance = radio.distances(self.position_m, self.position_m)
            sender = np.broadcast_to(np.arange(self.n)[:, None], distance.shape)
            seconds = self.link_s(sender, distance, bits)
            np.fill_diagonal(seconds, 0.0)
            return Link(fixed_s=seconds, rate_bit_s=np.full(seconds.shape, np.inf), power_w=self.power_w[sender])

        uplink = Link(
            fixed_s=np.zeros(self.n),
            rate_bit_s=self.server_rates("up", self.power_w),
            power_w=self.power_w,
            snr_per_w=radio.snr(1.0, self.gain(self.to_server_m), noise_w(self.link)),
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
    sharing: str = "own",
    server_sharing: str | None = None,
    compute_w: float = 0.0,
) -> Devices:
    """A table's devices. What it does not say is the same for all: the simulator's 10 mW and 0.01 s per step, a mini-batch of
    samples, `capacity` (by default a fifth of the fleet, at least LEAST_CAPACITY), and everybody may be a head.
    bandwidth_hz: of every link; sharing: how the links of a cluster share it, one of SHARINGS, and server_sharing those with the
    server, up and down, alike if not given. compute_w: W of a device while it trains."""
    _check.positive("bandwidth_hz", bandwidth_hz)
    _check.positive("compute_w", compute_w, zero=True)
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
        battery_j=np.ones(n) if table.battery_j is None else table.battery_j,
        up_bit_s=table.up_bit_s,
        down_bit_s=table.down_bit_s,
        link=RadioLink(bandwidth_hz=bandwidth_hz),
        air=air_of(sharing, sharing if server_sharing is None else server_sharing),
        compute_w=compute_w,
    )


def air_of(sharing: str, server_sharing: str) -> AirSettings:
    """A band of every cluster for both directions, and one up and one down at the server, each shared so."""
    for one in (sharing, server_sharing):
        if one not in SHARINGS:
            raise ValueError(f"a plan's bands are shared by one of {', '.join(SHARINGS)}; got {one!r}")
    at_server = Sharing.model_validate({"sharing": server_sharing})
    return AirSettings(d2d=Peers.model_validate({"sharing": sharing}), cloud=ToServer(up=at_server, down=at_server))


def check_room(devices: Devices) -> None:
    """Refuse a fleet whose candidates have no room for everybody."""
    allowed = np.flatnonzero(devices.candidate)
    room = int(devices.capacity[allowed].sum())
    if room < devices.n:
        raise ValueError(
            f"the {len(allowed)} devices that may be heads have room for {room} devices in all, and there are {devices.n}; "
            "raise capacities or let more devices be candidates"
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
    if table.battery_j is None:
        missing["battery_j"] = "how long batteries last, and plans that spare them; now all are alike"
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

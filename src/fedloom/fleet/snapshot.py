"""The fleet during one round, as plain arrays. K devices, N cells, D coordinates (2 or 3)."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedloom import radio
from fedloom.fleet import compute
from fedloom.fleet.settings.air import AirSettings
from fedloom.fleet.settings.compute import ComputeSettings
from fedloom.fleet.settings.links import FalseReports

Array = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, eq=False)
class Link:
    """What it costs to send one message over each link of a hop.

        seconds = fixed_s + bits / rate_bit_s          energy = power_w seconds

    `fixed_s` and `rate_bit_s` have the shape of the hop, `power_w` is the sender's: one for all, or in this shape. Rate
    infinity is free, rate 0 cannot be used: infinitely long, and of infinite energy unless the power is 0.

    Of a radio link more is known: snr_per_w, the SNR for each watt that is sent, in the shape of the hop, and its bandwidth.
    """

    fixed_s: Array
    rate_bit_s: Array
    power_w: float | Array
    snr_per_w: Array | None = None
    bandwidth_hz: float | None = None

    def seconds(self, bits: float) -> Array:
        """Seconds for a message of `bits`, in the shape of the hop."""
        return self.fixed_s + radio.airtime_s(bits, self.rate_bit_s)

    def energy_j(self, bits: float) -> Array:
        """Joules the sender spends on a message of `bits`, in the shape of the hop; 0 if the power is."""
        return radio.energy_j(self.power_w, self.seconds(bits))

    def pick(self, index: NDArray[np.int64] | tuple[NDArray[np.int64], NDArray[np.int64]]) -> "Link":
        """Some of the links."""
        return replace(
            self,
            fixed_s=self.fixed_s[index],
            rate_bit_s=self.rate_bit_s[index],
            power_w=self.power_w[index] if isinstance(self.power_w, np.ndarray) else self.power_w,
            snr_per_w=None if self.snr_per_w is None else self.snr_per_w[index],
        )

    def back(self) -> "Link":
        """Links between devices (K, K), receiver first."""
        return replace(
            self,
            fixed_s=self.fixed_s.T,
            rate_bit_s=self.rate_bit_s.T,
            power_w=self.power_w.T if isinstance(self.power_w, np.ndarray) else self.power_w,
            snr_per_w=None if self.snr_per_w is None else self.snr_per_w.T,
        )

    def sent_at(self, power_w: Array) -> "Link":
        """The same radio links with other powers, in the shape of the hop."""
        if self.snr_per_w is None or self.bandwidth_hz is None:
            raise ValueError(
                "powers can be chosen for radio links only; use kind radio for the link (of heads to the cloud: "
                "device_cloud: {via: direct, up: {kind: radio}})"
            )
        rate = radio.shannon_rate(self.bandwidth_hz, power_w * self.snr_per_w)
        return replace(self, rate_bit_s=rate, power_w=power_w)


@dataclass(frozen=True, kw_only=True, eq=False)
class Snapshot:
    """Where everything is and what links and computing cost, during one round. Arrays are read-only.

    position_m (K, D), cell_m (N, D), server_m (D,): metres. radius_m (N,), infinite for a cell that reaches
    everybody. active (K,): false for a device that is in reach of no cell and was dropped; its home is -1 and
    it takes no part. in_reach (N, K). home (K,): one of the cells in reach.

    edge_up, edge_down (N, K): device to edge server and back, rate 0 where out of reach. backhaul_up,
    backhaul_down (N,): edge server to cloud and back. d2d (K, K): device to device, sender first, free on the
    diagonal, symmetric unless devices send at powers of their own; built when first asked for. cloud_up, cloud_down (K,):
    device to cloud and back over a link of its own. With `cloud_via_edge` there is none: a message goes over the edge link
    of the home cell and the backhaul, whoever counts adds the two hops, and cloud_up and cloud_down are all zero.
    cloud_noisy: models that are sent over cloud_up arrive with noise.

    uplink_once: a device that reports to several edge servers sends once for all of them to hear, uplink_overhead times as long.
    head_broadcast_free: a head's model reaches its members in no time. air: how messages share bands.

    compute (K,): in the unit of `compute_settings`.
    """

    position_m: Array
    cell_m: Array
    radius_m: Array
    server_m: Array
    active: NDArray[np.bool_]
    in_reach: NDArray[np.bool_]
    home: NDArray[np.int64]
    edge_up: Link
    edge_down: Link
    backhaul_up: Link
    backhaul_down: Link
    cloud_up: Link
    cloud_down: Link
    cloud_via_edge: bool
    compute: Array
    compute_settings: ComputeSettings
    uplink_once: bool = False
    uplink_overhead: float = 1.0
    head_broadcast_free: bool = False
    cloud_noisy: bool = False
    false_reports: FalseReports | None = None
    air: AirSettings = field(default_factory=AirSettings)
    make_d2d: Callable[[], Link] = field(repr=False)

    @cached_property
    def d2d(self) -> Link:
        """Device to device (K, K)."""
        return self.make_d2d()

    @property
    def d2d_reports(self) -> Array:
        """Rates between devices as they report them (K, K), bit/s: row k is what device k says of its links. Where the two
        directions differ, because devices send at powers of their own, both ends report the slower."""
        rates = self.d2d.rate_bit_s.copy()
        if isinstance(self.d2d.power_w, np.ndarray):
            rates = np.minimum(rates, rates.T)
        if self.false_reports is not None:
            rates[list(self.false_reports.devices)] *= self.false_reports.factor
        return rates

    @property
    def compute_power_w(self) -> float:
        """Power of a device while it trains."""
        return self.compute_settings.power_w

    @property
    def jitter_sigma(self) -> float:
        """Realised compute times are the planned ones times exp(sigma z), z standard normal."""
        return self.compute_settings.jitter_sigma

    @property
    def n_devices(self) -> int:
        """K."""
        return len(self.home)

    @property
    def n_cells(self) -> int:
        """N."""
        return len(self.radius_m)

    def step_seconds(self, batch_size: int, n_samples: ArrayLike) -> Array:
        """Seconds (K,) of one local step on each device with `n_samples` (K,); see `compute.step_seconds`."""
        return compute.step_seconds(self.compute_settings, self.compute, batch_size, n_samples)

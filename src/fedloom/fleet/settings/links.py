"""Links of a fleet: what a message takes over each, and which links there are between devices, edge servers and the cloud."""

from typing import Annotated, Literal, Self

import numpy as np
from pydantic import Field, field_validator, model_validator

from fedloom._settings import Row, Settings
from fedloom.fleet import links
from fedloom.fleet.settings.measured import MatrixLink, TraceLink
from fedloom.fleet.settings.quantities import (
    Amount,
    BitRate,
    Count,
    Decibel,
    Factor,
    Hertz,
    Length,
    Rate,
    Seconds,
    Sigma,
    Watts,
)


class LogDistanceLoss(Settings):
    """loss = intercept + slope log10(max(d, floor) / reference) dB."""

    kind: Literal["log-distance"] = "log-distance"
    intercept_db: Decibel = 128.1
    slope_db: float = Field(default=37.6, ge=-100, le=100)
    reference_m: Length = 1000.0
    floor_m: Length = 1.0


class FreeSpaceLoss(Settings):
    """gain = gain_tx gain_rx (c / (4 pi carrier max(d, floor)))^exponent."""

    kind: Literal["free-space"] = "free-space"
    carrier_hz: float = Field(default=915e6, ge=1e3, le=1e15)
    exponent: float = Field(default=3.76, gt=0, le=20)
    gain_tx: Factor = 10**0.5
    gain_rx: Factor = 1.0
    floor_m: Length = 1.0


PathLoss = Annotated[LogDistanceLoss | FreeSpaceLoss, Field(discriminator="kind")]


class FreeLink(Settings):
    """Takes no time."""

    kind: Literal["free"] = "free"
    power_w: Watts = 0.0


class FixedLink(Settings):
    """Takes `seconds` whatever the message."""

    kind: Literal["fixed"] = "fixed"
    seconds: Seconds
    power_w: Watts = 0.0


class RateLink(Settings):
    """bits / rate; with `sigma` the rate is bit_s exp(sigma z), z standard normal, drawn per device."""

    kind: Literal["rate"] = "rate"
    bit_s: BitRate = 1e7
    sigma: Sigma = 0.0
    power_w: Watts = 0.0


class RadioLink(Settings):
    """Shannon rate over the distance of sender and receiver (DDC, section 5). `antennas` of the receiver, whose signals
    are combined: so many times the SNR of one (CAMU, section II-B). `fading` "rayleigh": the gain of every link, of mean 1
    over the path's, is drawn when links are: once, or as `redraw.links` says; between devices the same in both directions.
    `mains`: joules of the sender are not counted."""

    kind: Literal["radio"] = "radio"
    power_w: float = Field(default=0.01, ge=1e-15, le=1e9)
    bandwidth_hz: Hertz = 1e6
    noise_dbm_hz: Decibel = -173.0
    antennas: int = Field(default=1, ge=1, le=1_000_000)
    fading: Literal["none", "rayleigh"] = "none"
    path_loss: PathLoss = LogDistanceLoss()
    mains: bool = Field(default=False, exclude_if=lambda value: not value)


class DrawnLinks(Settings):
    """Device to device: {low..high} or [low, high) times `unit_bit_s`, per pair (ranges: LTC, section 5.2; the law is ours)."""

    kind: Literal["drawn"] = "drawn"
    low: Amount = 1.0
    high: Amount = 5.0
    integer: bool = True
    unit_bit_s: BitRate = 1.0
    power_w: Watts = 0.0

    @model_validator(mode="after")
    def _drawable(self) -> Self:
        links.drawn(1, self.low, self.high, np.random.default_rng(0), self.integer)
        return self


class GivenLinks(Settings):
    """Device to device: a symmetric matrix of rates; the diagonal is ignored. `file`: a table of it, with a line and a column for
    each device."""

    kind: Literal["given"] = "given"
    matrix_bit_s: Row[Row[Rate]]
    power_w: Watts = 0.0

    @field_validator("matrix_bit_s")
    @classmethod
    def _valid(cls, matrix_bit_s: tuple[tuple[float, ...], ...]) -> tuple[tuple[float, ...], ...]:
        for device, row in enumerate(matrix_bit_s):
            if len(row) != len(matrix_bit_s):
                raise ValueError(f"row {device} must have {len(matrix_bit_s)} numbers, got {len(row)}")
        links.given(matrix_bit_s)
        return matrix_bit_s


class FalseReports(Settings):
    """Devices that report `factor` times the true rate of all their links to other devices."""

    devices: Row[Count] = Field(min_length=1)
    factor: Factor = 2.0


HopLink = Annotated[FreeLink | FixedLink | RateLink | RadioLink, Field(discriminator="kind")]
PeerLink = Annotated[FreeLink | FixedLink | RateLink | RadioLink | DrawnLinks | GivenLinks, Field(discriminator="kind")]


EdgeLink = Annotated[FreeLink | FixedLink | RateLink | RadioLink | MatrixLink | TraceLink, Field(discriminator="kind")]


class DeviceEdge(Settings):
    """Between devices and the edge servers of the cells.

    `uplink`: whether a device that reports to several edge servers sends to each of them (unicast), or once for all to
    hear (once: coordinated multi-point reception, HHFL, section III-A), at the rate of the slowest link (ours). `overhead`: so
    many times the seconds on air of what several servers hear, for the signals by which they work together.
    """

    up: EdgeLink = RateLink()
    down: EdgeLink = RateLink()
    uplink: Literal["unicast", "once"] = "unicast"
    overhead: float = Field(default=1.0, ge=1, le=1e6, exclude_if=lambda value: value == 1)

    @model_validator(mode="after")
    def _overhead_of_one_for_all(self) -> Self:
        if self.overhead != 1 and self.uplink != "once":
            raise ValueError(f"overhead has no effect with uplink {self.uplink}; set uplink: once")
        return self


class EdgeCloud(Settings):
    """Between edge servers and the cloud."""

    up: HopLink = FreeLink()
    down: HopLink = FreeLink()


class DeviceCloud(Settings):
    """Between devices (heads) and the cloud: relayed by the home cell, or over a link of their own.

    `noisy`: models that are sent up over a radio link of their own arrive with Gaussian noise on every parameter, of a
    standard deviation of 1 / sqrt(SNR) (CAMU, eq. 35).
    """

    via: Literal["edge", "direct"] = "edge"
    up: HopLink = RateLink()
    down: HopLink = RateLink()
    noisy: bool = False

    @model_validator(mode="after")
    def _noise_needs_radio(self) -> Self:
        if self.noisy and (self.via != "direct" or not isinstance(self.up, RadioLink)):
            raise ValueError("noisy needs via: direct and up of kind radio, whose SNR says how much noise there is")
        return self

    @model_validator(mode="after")
    def _no_idle_links(self) -> Self:
        idle = [name for name in ("down", "up") if getattr(self, name) != RateLink()]
        if self.via == "edge" and idle:
            raise ValueError(f"{' and '.join(idle)} has no effect via edge; set via: direct or leave it out")
        return self

"""Links of a fleet: what a message takes over each, and which links there are between devices, edge servers and the cloud."""

from typing import Annotated, Literal, Self

import numpy as np
from pydantic import Field, field_validator, model_validator

from fedloom._settings import Row, Settings
from fedloom.fleet import links
from fedloom.fleet.settings.measured import MatrixLink, TraceLink
from fedloom.fleet.settings.path_loss import LogDistanceLoss, PathLoss, Tr38901Loss
from fedloom.fleet.settings.quantities import (
    Amount,
    BitRate,
    Count,
    Decibel,
    Factor,
    Hertz,
    Rate,
    Seconds,
    Sigma,
    Watts,
)


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


class Interference(Settings):
    """Power of neighbouring cells that use the same band, each `load` of the time (fedloom.radio.interference)."""

    load: float = Field(ge=0, le=1)


class RadioLink(Settings):
    """Shannon rate over the distance of sender and receiver (DDC, section 5). `antennas` of the receiver, whose signals
    are combined: so many times the SNR of one (CAMU, section II-B). `fading` "rayleigh" or "rician": the gain of every link, of
    mean 1 over the path's, is drawn when links are: once, or as `redraw.links` says; between devices the same in both
    directions. `k_db`, of "rician": power of the direct ray over that of all others; by tr38901 links without a line of sight
    have no direct ray, and k_db is the mean of its tables if it is not given. `noise_figure_db`: of the receiver, on top of
    `noise_dbm_hz`. `interference`: of other cells, between devices and edge servers. `mains`: joules of the sender are not
    counted."""

    kind: Literal["radio"] = "radio"
    power_w: float = Field(default=0.01, ge=1e-15, le=1e9)
    bandwidth_hz: Hertz = 1e6
    noise_dbm_hz: Decibel = -173.0
    antennas: int = Field(default=1, ge=1, le=1_000_000)
    fading: Literal["none", "rayleigh", "rician"] = "none"
    path_loss: PathLoss = LogDistanceLoss()
    mains: bool = Field(default=False, exclude_if=lambda value: not value)
    noise_figure_db: float = Field(default=0.0, ge=0, le=100, exclude_if=lambda value: value == 0)
    k_db: float | None = Field(default=None, ge=-100, le=100, exclude_if=lambda value: value is None)
    interference: Interference | None = Field(default=None, exclude_if=lambda value: value is None)

    @model_validator(mode="after")
    def _k_of_rician(self) -> Self:
        if self.fading != "rician" and self.k_db is not None:
            raise ValueError(f"k_db has no effect with fading {self.fading}; set fading: rician or leave it out")
        if self.fading == "rician" and self.k_db is None and not isinstance(self.path_loss, Tr38901Loss):
            raise ValueError("fading rician needs k_db, the power of the direct ray over that of all others, in dB")
        return self

    @property
    def resolved_k_db(self) -> float:
        """Of Rician fading: what is set, or what the tables of tr38901 say."""
        if self.k_db is None and isinstance(self.path_loss, Tr38901Loss):
            return self.path_loss.constants.k_db
        assert self.k_db is not None  # the settings see to it
        return self.k_db


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


def refuse_interference(link: PeerLink) -> None:
    """Where there are no cells, there are no neighbouring ones."""
    if isinstance(link, RadioLink) and link.interference is not None:
        raise ValueError("interference is of neighbouring cells, and set in device_edge.up and device_edge.down only")


def check_peers(link: PeerLink) -> None:
    """Refuse what cannot be between two devices."""
    refuse_interference(link)
    loss = link.path_loss if isinstance(link, RadioLink) else None
    if isinstance(loss, Tr38901Loss) and loss.scenario in ("uma", "rma"):
        raise ValueError(
            f"scenario {loss.scenario} is of sites above the roofs, which devices are not; use umi, inh-open or inh-mixed "
            "between devices"
        )
    if isinstance(loss, Tr38901Loss) and loss.site_height_m is not None:
        raise ValueError("site_height_m has no effect between devices; set device_height_m")


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

    @field_validator("up", "down")
    @classmethod
    def _no_device(cls, link: HopLink) -> HopLink:
        if isinstance(link, RadioLink) and isinstance(link.path_loss, Tr38901Loss):
            raise ValueError("tr38901 is between a site and a device; use log-distance or free-space for edge servers")
        refuse_interference(link)
        return link


class DeviceCloud(Settings):
    """Between devices (heads) and the cloud: relayed by the home cell, or over a link of their own.

    `noisy`: models that are sent up over a radio link of their own arrive with Gaussian noise on every parameter, of a
    standard deviation of 1 / sqrt(SNR) (CAMU, eq. 35).
    """

    via: Literal["edge", "direct"] = "edge"
    up: HopLink = RateLink()
    down: HopLink = RateLink()
    noisy: bool = False

    @field_validator("up", "down")
    @classmethod
    def _no_neighbours(cls, link: HopLink) -> HopLink:
        refuse_interference(link)
        return link

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

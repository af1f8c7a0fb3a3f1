"""A fleet as it stands in a scenario file. Lengths in m, times in s, rates in bit/s, powers in W.

Every part has a `kind`; all but `n_devices` has a default: one cell that reaches everybody, devices in a disc
of 100 m around it, 10 Mbit/s to the edge and among devices, a free backhaul, 0.01 s per local step.
"""

from typing import Annotated, Literal, Self

import numpy as np
from pydantic import Field, ValidationInfo, field_validator, model_validator

from fedloom._settings import FilePath, Pair, Row, Settings, Triple
from fedloom.fleet import links, placement
from fedloom.fleet.placement import FAR_M, MOST_DEVICES

# Bounds far outside of anything that exists, and far inside of what numbers can hold: no time, energy or rate that is made of
# them overflows.
SLOWEST = 1e-9  # steps or cycles a second
Count = Annotated[int, Field(ge=0, le=MOST_DEVICES)]
Coordinate = Annotated[float, Field(ge=-FAR_M, le=FAR_M)]  # m
Length = Annotated[float, Field(ge=1e-3, le=FAR_M)]  # m
Seconds = Annotated[float, Field(ge=0, le=1e9)]
BitRate = Annotated[float, Field(ge=1e-3, le=1e15)]  # bit/s
Hertz = Annotated[float, Field(ge=1e-3, le=1e15)]
Watts = Annotated[float, Field(ge=0, le=1e9)]
Rate = Annotated[float, Field(le=1e15)]  # bit/s; what is below 0 is told by links.given
Sigma = Annotated[float, Field(ge=0, le=10)]  # of the logarithm: ten are a factor of 22,000
Share = Annotated[float, Field(gt=0, le=1)]
Decibel = Annotated[float, Field(ge=-500, le=500)]
Factor = Annotated[float, Field(ge=1e-9, le=1e9)]
Amount = Annotated[float, Field(ge=0, le=1e15)]  # seconds, steps a second, cycles a second, multiples of a rate
Flat = Pair[Coordinate]
Point = Pair[Coordinate] | Triple[Coordinate]
Region = Annotated[tuple[Coordinate, Coordinate, Coordinate, Coordinate], Field(strict=False, fail_fast=True)]
Radius = Length | Row[Length]


# Cells


class SingleCell(Settings):
    """One cell that reaches everybody."""

    kind: Literal["single"] = "single"
    centre_m: Point = (0.0, 0.0)

    @property
    def n_cells(self) -> int:
        """Number of cells."""
        return 1


class GridCells(Settings):
    """Cells on a triangle, a hexagonal spiral or a line.

    Without `radius_m` it is 0.83, 1/sqrt(3) or 0.5 times the spacing: HHFL's shares of the overlaps, no gaps,
    no overlaps.
    """

    kind: Literal["grid"] = "grid"
    shape: Literal["triangle", "hex", "line"] = "triangle"
    n: int = Field(default=3, ge=1, le=10**12)
    spacing_m: Length = 1000.0
    radius_m: Radius | None = Field(default=None, validate_default=True)

    @field_validator("n")
    @classmethod
    def _three_on_a_triangle(cls, n: int, info: ValidationInfo) -> int:
        if info.data.get("shape") == "triangle" and n != 3:
            raise ValueError(f"shape triangle has n = 3 cells, got {n}; use hex or line instead")
        return n

    @field_validator("radius_m")
    @classmethod
    def _one_radius_per_cell(cls, radius_m: Radius | None, info: ValidationInfo) -> Radius | None:
        _same_length("radius_m", radius_m, info.data.get("n"))
        return radius_m

    @property
    def n_cells(self) -> int:
        """Number of cells."""
        return self.n

    @property
    def resolved_radius_m(self) -> Radius:
        """The radius, or what the shape makes of none."""
        if self.radius_m is not None:
            return self.radius_m
        return self.spacing_m * {"triangle": 0.83, "hex": 1 / 3**0.5, "line": 0.5}[self.shape]


class ExplicitCells(Settings):
    """Cells with given centres, (x, y) or (x, y, z), and one radius for all or one each."""

    kind: Literal["explicit"] = "explicit"
    centres_m: Row[Point] = Field(min_length=1)
    radius_m: Radius

    @field_validator("centres_m")
    @classmethod
    def _one_dimension(cls, centres_m: tuple[Point, ...]) -> tuple[Point, ...]:
        _same_dimension("cell", centres_m)
        return centres_m

    @field_validator("radius_m")
    @classmethod
    def _one_radius_per_cell(cls, radius_m: Radius, info: ValidationInfo) -> Radius:
        _same_length("radius_m", radius_m, len(info.data["centres_m"]) if "centres_m" in info.data else None)
        return radius_m

    @property
    def n_cells(self) -> int:
        """Number of cells."""
        return len(self.centres_m)


Cells = Annotated[SingleCell | GridCells | ExplicitCells, Field(discriminator="kind")]


# Placement


class DiscPlacement(Settings):
    """Uniform in a disc."""

    kind: Literal["disc"] = "disc"
    radius_m: Length = 100.0
    centre_m: Flat = (0.0, 0.0)


class SquarePlacement(Settings):
    """Uniform in a square."""

    kind: Literal["square"] = "square"
    side_m: Length = 100.0
    centre_m: Flat = (0.0, 0.0)


class RectanglesPlacement(Settings):
    """Uniform in rectangles (x_min, x_max, y_min, y_max), `counts` devices in each (CAMU, section V-A)."""

    kind: Literal["rectangles"] = "rectangles"
    regions_m: Row[Region] = Field(min_length=1)
    counts: Row[Count]
    z_m: Coordinate | None = None

    @model_validator(mode="after")
    def _drawable(self) -> Self:
        placement.rectangles(self.regions_m, [min(n, 1) for n in self.counts], np.random.default_rng(0))
        return self


class CellsPlacement(Settings):
    """Uniform in the disc of each cell, equally many in each; a remainder goes to the first cells."""

    kind: Literal["cells"] = "cells"


class ThreeCellsPlacement(Settings):
    """Three overlapping cells with exact counts per region (HHFL, section V-A).

    With `overlap`, devices are relocated from these counts until that many of all are in reach of several
    cells; numbers and homes stay (the sweep of HHFL, section V-B3; 21 is its case 6).
    """

    kind: Literal["three-cells"] = "three-cells"
    exclusive: Count = 14
    pair: Count = 4
    triple: Count = 3
    overlap: Count | None = None

    @field_validator("pair")
    @classmethod
    def _pair_in_halves(cls, pair: int) -> int:
        placement.three_cells(0, pair, 0)
        return pair

    @field_validator("triple")
    @classmethod
    def _triple_in_thirds(cls, triple: int) -> int:
        placement.three_cells(0, 0, triple)
        return triple

    @field_validator("overlap")
    @classmethod
    def _overlap_in_thirds(cls, overlap: int | None, info: ValidationInfo) -> int | None:
        if overlap is not None and {"exclusive", "pair", "triple"} <= info.data.keys():  # else these have errors
            exclusive, pair, triple = (info.data[name] for name in ("exclusive", "pair", "triple"))
            placement.check_overlap(overlap, 3 * (exclusive + pair) + triple)
        return overlap

    @property
    def n_devices(self) -> int:
        """3 (exclusive + pair) + triple."""
        return 3 * (self.exclusive + self.pair) + self.triple


class CoordinatesPlacement(Settings):
    """Given positions, (x, y) or (x, y, z), one per device."""

    kind: Literal["coordinates"] = "coordinates"
    positions_m: Row[Point] = Field(min_length=1)

    @field_validator("positions_m")
    @classmethod
    def _one_dimension(cls, positions_m: tuple[Point, ...]) -> tuple[Point, ...]:
        _same_dimension("device", positions_m)
        return positions_m


class CsvPlacement(Settings):
    """Positions from a file with the columns x_m, y_m and perhaps z_m, one line per device."""

    kind: Literal["csv"] = "csv"
    path: FilePath


Placement = Annotated[
    DiscPlacement
    | SquarePlacement
    | RectanglesPlacement
    | CellsPlacement
    | ThreeCellsPlacement
    | CoordinatesPlacement
    | CsvPlacement,
    Field(discriminator="kind"),
]


# Links


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
    over the path's, is drawn when links are: once, or as `redraw.links` says; between devices the same in both directions."""

    kind: Literal["radio"] = "radio"
    power_w: float = Field(default=0.01, ge=1e-15, le=1e9)
    bandwidth_hz: Hertz = 1e6
    noise_dbm_hz: Decibel = -173.0
    antennas: int = Field(default=1, ge=1, le=1_000_000)
    fading: Literal["none", "rayleigh"] = "none"
    path_loss: PathLoss = LogDistanceLoss()


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
    """Device to device: a symmetric matrix of rates; the diagonal is ignored."""

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


class DeviceEdge(Settings):
    """Between devices and the edge servers of the cells.

    `uplink`: whether a device that reports to several edge servers sends to each of them (unicast), or once for all to
    hear (once: coordinated multi-point reception, HHFL, section III-A), at the rate of the slowest link (ours).
    """

    up: HopLink = RateLink()
    down: HopLink = RateLink()
    uplink: Literal["unicast", "once"] = "unicast"


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


# Compute, redrawing, mobility


class FixedLaw(Settings):
    """The same for all."""

    kind: Literal["fixed"] = "fixed"
    value: Amount

    @property
    def least(self) -> float:
        """The smallest value that can come."""
        return self.value


class UniformLaw(Settings):
    """Uniform on [low, high), or on {low..high} if `integer`."""

    kind: Literal["uniform"] = "uniform"
    low: Amount
    high: Amount
    integer: bool = False

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        _ordered(self.low, self.high)
        if self.integer and not (self.low.is_integer() and self.high.is_integer()):
            raise ValueError(f"low and high must be whole if integer, got {self.low:g} and {self.high:g}")
        return self

    @property
    def least(self) -> float:
        """The smallest value that can come."""
        return self.low


class NormalLaw(Settings):
    """Normal, clipped to low..high (CSAHFL, section 4.1, whose least and most we read as clipping)."""

    kind: Literal["normal"] = "normal"
    mean: float = Field(ge=-1e15, le=1e15)
    std: Amount
    low: Amount
    high: Amount

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        _ordered(self.low, self.high)
        return self

    @property
    def least(self) -> float:
        """The smallest value that can come."""
        return self.low


class ClassesLaw(Settings):
    """A few classes of devices in fixed shares (equal if not given), each value times 1 ± `spread`."""

    kind: Literal["classes"] = "classes"
    values: Row[Amount] = Field(min_length=1)
    shares: Row[Share] | None = None
    spread: float = Field(default=0.0, ge=0, lt=1)

    @field_validator("shares")
    @classmethod
    def _shares_of_one(cls, shares: tuple[float, ...] | None, info: ValidationInfo) -> tuple[float, ...] | None:
        if shares is None:
            return shares
        _same_length("shares", shares, len(info.data["values"]) if "values" in info.data else None)
        if abs(sum(shares) - 1) > 1e-6:
            raise ValueError(f"shares must sum to 1, got {sum(shares):g}")
        return shares

    @property
    def least(self) -> float:
        """The smallest value that can come."""
        return min(self.values) * (1 - self.spread)


Law = Annotated[FixedLaw | UniformLaw | NormalLaw | ClassesLaw, Field(discriminator="kind")]
Unit = Literal["seconds-per-step", "seconds-per-sample", "seconds-per-session", "steps-per-second", "cycles-per-second"]


class ComputeSettings(Settings):
    """How fast devices train: a law for one number per device, and what the number means.

    A session is `session_steps` local steps or `session_epochs` passes over the device's data. `jitter_sigma`
    is for the simulator: a realised time is multiplied by exp(sigma z), z standard normal.
    """

    law: Law = FixedLaw(value=0.01)
    unit: Unit = "seconds-per-step"
    session_steps: int | None = Field(default=None, ge=1, le=1_000_000_000)
    session_epochs: int | None = Field(default=None, ge=1, le=1_000_000_000)
    cycles_per_sample: float | None = Field(default=None, ge=1e-9, le=1e18)
    power_w: Watts = 0.0
    jitter_sigma: Sigma = 0.0

    @model_validator(mode="after")
    def _unit_is_complete(self) -> Self:
        n_session = (self.session_steps is not None) + (self.session_epochs is not None)
        if n_session != (self.unit == "seconds-per-session"):
            raise ValueError(
                "unit seconds-per-session needs exactly one of session_steps and session_epochs, other units "
                f"none; got unit {self.unit}, session_steps {self.session_steps}, "
                f"session_epochs {self.session_epochs}"
            )
        if (self.cycles_per_sample is not None) != (self.unit == "cycles-per-second"):
            raise ValueError(
                "unit cycles-per-second needs cycles_per_sample, other units must not have it; "
                f"got unit {self.unit}, cycles_per_sample {self.cycles_per_sample}"
            )
        if self.unit.endswith("per-second") and self.law.least < SLOWEST:
            raise ValueError(
                f"a law in {self.unit} must stay above 0, at least at {SLOWEST:g}, got a least value of {self.law.least:g}"
            )
        return self


When = Literal["never", "cloud-round", "edge-round"]


class Redraw(Settings):
    """What is drawn anew for every cloud round, or for every edge round of the run."""

    links: When = "never"
    compute: When = "never"


class MobilitySettings(Settings):
    """Between rounds a device stays with probability `p_stay`, else goes to a neighbour cell (CSAHFL, section 4.1).

    `every` cloud round: the first is as the devices were placed. Every edge round: they have moved once before the first.
    """

    p_stay: float = Field(ge=0, le=1)
    neighbours: Literal["ring", "path", "complete", "adjacent"] = "ring"
    every: Literal["cloud-round", "edge-round"] = "cloud-round"


class FleetSettings(Settings):
    """Devices, cells, links, compute and mobility."""

    n_devices: int = Field(ge=1, le=10**12)
    cells: Cells = SingleCell()
    placement: Placement = DiscPlacement()
    homes: Literal["even", "nearest", "random"] = "even"
    uncovered: Literal["error", "drop"] = "error"
    device_edge: DeviceEdge = DeviceEdge()
    device_device: PeerLink = RateLink()
    head_broadcast: Literal["link", "free"] = "link"
    false_reports: FalseReports | None = None
    edge_cloud: EdgeCloud = EdgeCloud()
    device_cloud: DeviceCloud = DeviceCloud()
    server_m: Point = (0.0, 0.0)
    compute: ComputeSettings = ComputeSettings()
    redraw: Redraw = Redraw()
    mobility: MobilitySettings | None = None

    @field_validator("placement")
    @classmethod
    def _placement_fits(cls, value: Placement, info: ValidationInfo) -> Placement:
        n_devices, cells = info.data.get("n_devices"), info.data.get("cells")
        if n_devices is None or cells is None:
            return value  # these fields have their own errors
        placed = n_devices
        if isinstance(value, ThreeCellsPlacement):
            placed = value.n_devices
            if cells.n_cells != 3:
                raise ValueError(f"three-cells needs 3 cells, got cells kind {cells.kind} with {cells.n_cells}")
        elif isinstance(value, RectanglesPlacement):
            placed = sum(value.counts)
        elif isinstance(value, CoordinatesPlacement):
            placed = len(value.positions_m)
        elif isinstance(value, CellsPlacement) and isinstance(cells, SingleCell):
            raise ValueError("kind cells needs cells with a radius, got kind single; use a disc instead")
        if placed != n_devices:
            raise ValueError(f"kind {value.kind} places {placed} devices, but n_devices is {n_devices}")
        return value

    @field_validator("device_device")
    @classmethod
    def _matrix_fits(cls, value: PeerLink, info: ValidationInfo) -> PeerLink:
        n_devices = info.data.get("n_devices")
        if isinstance(value, GivenLinks) and n_devices not in (None, len(value.matrix_bit_s)):
            raise ValueError(f"matrix_bit_s is for {len(value.matrix_bit_s)} devices, but n_devices is {n_devices}")
        return value

    @field_validator("false_reports")
    @classmethod
    def _liars_exist(cls, value: FalseReports | None, info: ValidationInfo) -> FalseReports | None:
        n_devices = info.data.get("n_devices")
        if value is not None and n_devices is not None and max(value.devices) >= n_devices:
            raise ValueError(f"devices must be below n_devices, {n_devices}, got {max(value.devices)}")
        return value

    @field_validator("mobility")
    @classmethod
    def _somewhere_to_go(cls, value: MobilitySettings | None, info: ValidationInfo) -> MobilitySettings | None:
        cells = info.data.get("cells")
        if value is not None and cells is not None and cells.n_cells < 2:
            raise ValueError("mobility needs at least two cells, got one; leave it out or set cells")
        return value


def _same_length(name: str, value: object, n: int | None) -> None:
    if isinstance(value, tuple) and n is not None and len(value) != n:
        raise ValueError(f"{name} must have {n} numbers, got {len(value)}")


def _same_dimension(what: str, points: tuple[Point, ...]) -> None:
    for index, point in enumerate(points):
        if len(point) != len(points[0]):
            raise ValueError(
                f"{what} {index} has {len(point)} coordinates, but {what} 0 has {len(points[0])}; "
                "give a height to all or to none"
            )


def _ordered(low: float, high: float) -> None:
    if low > high:
        raise ValueError(f"low must be at most high, got low {low:g} and high {high:g}")

"""A whole fleet: devices, cells, links, compute, what is drawn anew, mobility, and whether they fit together."""

from collections.abc import Mapping
from typing import Any, Literal, Self

from pydantic import Field, ValidationInfo, field_validator, model_validator

from fedloom._settings import Settings
from fedloom.fleet.placement import MOST_DEVICES
from fedloom.fleet.settings.air import AirSettings
from fedloom.fleet.settings.cells import Cells, SingleCell
from fedloom.fleet.settings.compute import ComputeSettings
from fedloom.fleet.settings.devices import DeviceSettings, with_table, with_traces
from fedloom.fleet.settings.failures import Availability, BatterySettings, Daily, Dropout, OnOff, PacketLoss, Trace
from fedloom.fleet.settings.links import (
    DeviceCloud,
    DeviceEdge,
    EdgeCloud,
    FalseReports,
    GivenLinks,
    PeerLink,
    RadioLink,
    RateLink,
)
from fedloom.fleet.settings.measured import MatrixLink, TraceLink, TraceMobility, with_measurements
from fedloom.fleet.settings.mobility import Handover, Mobility, MobilitySettings, When, is_walk
from fedloom.fleet.settings.placement import (
    CellsPlacement,
    CoordinatesPlacement,
    DiscPlacement,
    Placement,
    RectanglesPlacement,
    ThreeCellsPlacement,
)
from fedloom.fleet.settings.quantities import Point


class Redraw(Settings):
    """What is drawn anew for every cloud round, for every edge round of the run, or for every tick of the fleet."""

    links: When = "never"
    compute: When = "never"


class FleetSettings(Settings):
    """Devices, cells, links, their air, compute, mobility, and how devices fail: when they are there (`availability`), what they
    run on (`battery`), work that is broken off (`dropout`), packets that are lost (`loss`). `devices`: what is known of each.
    `table`, the path of a fleet table, stands for number, placement and `devices`. `tick_s`: what changes with time is the same
    for so many seconds."""

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
    mobility: Mobility | None = None
    handover: Handover | None = Field(default=None, exclude_if=lambda value: value is None)
    tick_s: float = Field(default=1.0, ge=1e-3, le=86_400, exclude_if=lambda value: value == 1.0)
    availability: Availability | None = Field(default=None, exclude_if=lambda value: value is None)
    battery: BatterySettings | None = Field(default=None, exclude_if=lambda value: value is None)
    dropout: Dropout | None = Field(default=None, exclude_if=lambda value: value is None)
    loss: PacketLoss | None = Field(default=None, exclude_if=lambda value: value is None)
    devices: DeviceSettings | None = Field(default=None, exclude_if=lambda value: value is None)
    air: AirSettings = Field(default=AirSettings(), exclude_if=lambda value: value == AirSettings())

    @model_validator(mode="before")
    @classmethod
    def _read_table(cls, data: Any) -> Any:
        if isinstance(data, Mapping) and data.get("table") is not None:
            return with_table(dict(data))
        if (
            isinstance(data, Mapping)
            and isinstance(data.get("n_devices"), int)
            and 1 <= data["n_devices"] <= MOST_DEVICES
        ):
            return with_measurements(with_traces(dict(data), data["n_devices"]), data["n_devices"])
        return data

    @model_validator(mode="before")
    @classmethod
    def _walkers_go_by_the_nearest_cell(cls, data: Any) -> Any:
        if isinstance(data, Mapping) and "homes" not in data and is_walk(data.get("mobility")):
            return {**data, "homes": "nearest"}
        return data

    @field_validator("devices")
    @classmethod
    def _devices_fit(cls, value: DeviceSettings | None, info: ValidationInfo) -> DeviceSettings | None:
        if value is not None and info.data.get("n_devices") is not None:
            value.check(info.data["n_devices"])
        return value

    @field_validator("availability", "battery")
    @classmethod
    def _traces_fit(
        cls, value: OnOff | Daily | Trace | BatterySettings | None, info: ValidationInfo
    ) -> OnOff | Daily | Trace | BatterySettings | None:
        charging = value.charging if isinstance(value, BatterySettings) else None
        law = value if charging is None else charging.when
        if isinstance(law, Trace) and info.data.get("n_devices") is not None:
            law.check(info.data["n_devices"])
        return value

    @model_validator(mode="after")
    def _batteries_have_a_size(self) -> Self:
        known = self.devices is not None and self.devices.battery_j is not None
        if self.battery is not None and self.battery.capacity_j is None and not known:
            raise ValueError("battery needs capacity_j, or battery_j for each of the devices")
        return self

    @field_validator("air")
    @classmethod
    def _cells_have_air(cls, value: AirSettings, info: ValidationInfo) -> AirSettings:
        if info.data.get("cells") is not None:
            value.check(info.data["cells"].n_cells)
        return value

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
            raise ValueError(
                f"kind {value.kind} places {placed} devices, but n_devices is {n_devices}; change both, so that they agree"
            )
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
    def _somewhere_to_go(cls, value: Mobility | None, info: ValidationInfo) -> Mobility | None:
        cells = info.data.get("cells")
        if isinstance(value, MobilitySettings) and cells is not None and cells.n_cells < 2:
            raise ValueError("mobility needs at least two cells, got one; leave it out or set cells")
        return value

    @model_validator(mode="after")
    def _homes_fit(self) -> Self:
        walk, radio = is_walk(self.mobility), self.radio_to_cells
        if walk and self.homes != "nearest":
            raise ValueError(
                f"devices that move over the ground have their homes in the nearest cell; got homes {self.homes}: leave it out"
            )
        if self.handover is not None and not walk:
            raise ValueError("handover is for devices that move over the ground: waypoint, gauss-markov or trace")
        if self.handover is not None and self.handover.hysteresis_db is not None and radio is None:
            raise ValueError("hysteresis_db needs a radio link in device_edge, up or down; give hysteresis_m instead")
        return self

    @model_validator(mode="after")
    def _measurements_fit(self) -> Self:
        n, n_cells = self.n_devices, self.cells.n_cells
        if isinstance(self.mobility, TraceMobility):
            _same("mobility: the trace", len(self.mobility.times_s), n)
        if self.compute.trace is not None:
            _same("compute: the trace", len(self.compute.trace.times_s), n)
            if self.devices is not None and (self.devices.steps_per_s or self.devices.samples_per_s):
                raise ValueError(
                    "compute.trace and the fleet's table both say how fast devices are; leave one of them out"
                )
        for name, own in (("up", "up_bit_s"), ("down", "down_bit_s")):
            way = getattr(self.device_edge, name)
            if isinstance(way, MatrixLink):
                _same(f"device_edge.{name}: the matrix", len(way.bit_s), n)
                if any(len(row) != n_cells for row in way.bit_s):
                    raise ValueError(f"device_edge.{name}: the matrix must have a number for each of {n_cells} cells")
            elif isinstance(way, TraceLink) and len(way.times_s) != n * n_cells:
                raise ValueError(
                    f"device_edge.{name}: the trace has {len(way.times_s)} series, expected one for each of {n} devices and "
                    f"{n_cells} cells"
                )
            if isinstance(way, MatrixLink | TraceLink) and self.devices is not None and getattr(self.devices, own):
                raise ValueError(
                    f"device_edge.{name} and {own} of devices both say what was measured; leave one of them out"
                )
        return self

    @property
    def in_time(self) -> bool:
        """Something changes with time, and not with rounds only: a snapshot of the fleet is that of a tick."""
        traced = any(isinstance(way, TraceLink) for way in (self.device_edge.up, self.device_edge.down))
        moves = self.mobility is not None and self.mobility.every == "tick"
        return moves or traced or self.compute.trace is not None or "tick" in (self.redraw.links, self.redraw.compute)

    @property
    def radio_to_cells(self) -> RadioLink | None:
        """The radio by which devices know how good a cell is: that of the cell, else their own."""
        return next((way for way in (self.device_edge.down, self.device_edge.up) if isinstance(way, RadioLink)), None)


def _same(what: str, got: int, n_devices: int) -> None:
    if got != n_devices:
        raise ValueError(f"{what} is of {got} devices, but n_devices is {n_devices}")

"""A whole fleet: devices, cells, links, compute, what is drawn anew, mobility, and whether they fit together."""

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field, ValidationInfo, field_validator, model_validator

from fedloom._settings import Settings
from fedloom.fleet.settings.air import AirSettings, ToServer
from fedloom.fleet.settings.cells import Cells, SingleCell
from fedloom.fleet.settings.compute import ComputeSettings
from fedloom.fleet.settings.devices import DeviceSettings, with_table
from fedloom.fleet.settings.links import (
    DeviceCloud,
    DeviceEdge,
    EdgeCloud,
    FalseReports,
    GivenLinks,
    PeerLink,
    RateLink,
)
from fedloom.fleet.settings.placement import (
    CellsPlacement,
    CoordinatesPlacement,
    DiscPlacement,
    Placement,
    RectanglesPlacement,
    ThreeCellsPlacement,
)
from fedloom.fleet.settings.quantities import Point

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
    """Devices, cells, links, their air, compute and mobility. `devices`: what is known of each. `table`, the path of a fleet
    table, stands for number, placement and `devices`."""

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
    devices: DeviceSettings | None = Field(default=None, exclude_if=lambda value: value is None)
    air: AirSettings = Field(default=AirSettings(), exclude_if=lambda value: value == AirSettings())

    @model_validator(mode="before")
    @classmethod
    def _read_table(cls, data: Any) -> Any:
        if isinstance(data, Mapping) and data.get("table") is not None:
            return with_table(dict(data))
        return data

    @field_validator("devices")
    @classmethod
    def _devices_fit(cls, value: DeviceSettings | None, info: ValidationInfo) -> DeviceSettings | None:
        if value is not None and info.data.get("n_devices") is not None:
            value.check(info.data["n_devices"])
        return value

    @field_validator("air")
    @classmethod
    def _cells_have_air(cls, value: AirSettings, info: ValidationInfo) -> AirSettings:
        if info.data.get("cells") is not None:
            value.check(info.data["cells"].n_cells)
        cloud = info.data.get("device_cloud")
        if cloud is not None and cloud.via == "edge" and value.cloud != ToServer():
            raise ValueError(
                "cloud has no effect if device_cloud is via edge, where the air is that of the cells: use up and down"
            )
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
    def _somewhere_to_go(cls, value: MobilitySettings | None, info: ValidationInfo) -> MobilitySettings | None:
        cells = info.data.get("cells")
        if value is not None and cells is not None and cells.n_cells < 2:
            raise ValueError("mobility needs at least two cells, got one; leave it out or set cells")
        return value

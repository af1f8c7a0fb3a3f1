"""How much of the sent power arrives: the kinds of path loss of a radio link."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from fedloom._settings import Settings
from fedloom.fleet.settings.quantities import Decibel, Factor, Length
from fedloom.radio import tr38901

Height = Annotated[float, Field(ge=0.1, le=1000)]  # m


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


class Tr38901Loss(Settings):
    """3GPP TR 38.901 between a site (the antenna of a cell, or the server's) and a device, or between two devices.

    `antenna_gain_db`: of both antennas together. Heights: of antennas whose position has none or 0; by default those usual in the
    scenario. `line_of_sight`: drawn by its probability, the same for all who are near each other, or as said. `shadowing`: a map
    of each site, which stays as it is however often links are redrawn. `indoor`: share of the devices that are in buildings,
    unless the fleet says which; walls are of `penetration` low or high. Streets and buildings: of rma.
    """

    kind: Literal["tr38901"] = "tr38901"
    scenario: Literal["uma", "umi", "rma", "inh-open", "inh-mixed"]
    carrier_hz: float = Field(default=3.5e9, ge=0.5e9, le=100e9)
    antenna_gain_db: float = Field(default=0.0, ge=-100, le=100)
    site_height_m: Height | None = None
    device_height_m: Height | None = None
    line_of_sight: Literal["drawn", "always", "never"] = "drawn"
    shadowing: bool = True
    indoor: float = Field(default=0.0, ge=0, le=1)
    penetration: Literal["low", "high"] = "low"
    street_m: float = Field(default=20.0, ge=5, le=50)
    building_m: float = Field(default=5.0, ge=5, le=50)

    @property
    def constants(self) -> tr38901.Scenario:
        """What the tables say of the scenario."""
        return tr38901.SCENARIOS[self.scenario]

    @model_validator(mode="after")
    def _in_the_tables(self) -> Self:
        if self.carrier_hz > self.constants.most_carrier_hz:
            raise ValueError(
                f"{self.scenario} is known up to {self.constants.most_carrier_hz / 1e9:g} GHz, got a carrier_hz of "
                f"{self.carrier_hz:g}"
            )
        if self.scenario == "rma" and self.penetration == "high":
            raise ValueError("rma knows walls of low penetration loss only; leave penetration out")
        if self.scenario.startswith("inh") and (self.indoor > 0 or self.penetration != "low"):
            raise ValueError(
                f"{self.scenario} is within one building, where there are no outer walls in between; leave indoor and "
                "penetration out"
            )
        if self.scenario != "rma" and (self.street_m, self.building_m) != (20.0, 5.0):
            raise ValueError(f"street_m and building_m have no effect in {self.scenario}; leave them out")
        for name, (low, high) in (
            ("site_height_m", self.constants.site_heights_m),
            ("device_height_m", self.constants.device_heights_m),
        ):
            value = getattr(self, name)
            if value is not None and not low <= value <= high:
                raise ValueError(f"{self.scenario} is known for a {name} of {low:g} to {high:g} m, got {value:g}")
        return self


PathLoss = Annotated[LogDistanceLoss | FreeSpaceLoss | Tr38901Loss, Field(discriminator="kind")]

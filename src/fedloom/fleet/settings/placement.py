"""Where the devices of a fleet are."""

from typing import Annotated, Literal, Self

import numpy as np
from pydantic import Field, ValidationInfo, field_validator, model_validator

from fedloom._settings import Row, Settings
from fedloom.fleet import placement
from fedloom.fleet.settings.quantities import Coordinate, Count, Flat, Length, Point, Region, same_dimension


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
        same_dimension("device", positions_m)
        return positions_m


Placement = Annotated[
    DiscPlacement | SquarePlacement | RectanglesPlacement | CellsPlacement | ThreeCellsPlacement | CoordinatesPlacement,
    Field(discriminator="kind"),
]

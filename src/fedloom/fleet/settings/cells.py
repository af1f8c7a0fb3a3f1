"""Cells of a fleet: one that reaches everybody, a grid of them, or given ones."""

from typing import Annotated, Literal

from pydantic import Field, ValidationInfo, field_validator

from fedloom._settings import Row, Settings
from fedloom.fleet.settings.quantities import Length, Point, Radius, same_dimension, same_length


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
        same_length("radius_m", radius_m, info.data.get("n"))
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
        same_dimension("cell", centres_m)
        return centres_m

    @field_validator("radius_m")
    @classmethod
    def _one_radius_per_cell(cls, radius_m: Radius, info: ValidationInfo) -> Radius:
        same_length("radius_m", radius_m, len(info.data["centres_m"]) if "centres_m" in info.data else None)
        return radius_m

    @property
    def n_cells(self) -> int:
        """Number of cells."""
        return len(self.centres_m)


Cells = Annotated[SingleCell | GridCells | ExplicitCells, Field(discriminator="kind")]

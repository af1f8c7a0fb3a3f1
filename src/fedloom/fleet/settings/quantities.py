"""Numbers and points of a fleet's settings with their bounds, and checks that several parts share."""

from typing import Annotated

from pydantic import Field

from fedloom._settings import Pair, Row, Triple
from fedloom.fleet.placement import FAR_M, MOST_DEVICES

# Bounds far outside of anything that exists, and far inside of what numbers can hold: no time, energy or rate that is made of
# them overflows.
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


def same_length(name: str, value: object, n: int | None) -> None:
    """Several values, if there are several, must be n; None: it is not known how many."""
    if isinstance(value, tuple) and n is not None and len(value) != n:
        raise ValueError(f"{name} must have {n} numbers, got {len(value)}")


def same_dimension(what: str, points: tuple[Point, ...]) -> None:
    """All points must have a height, or none."""
    for index, point in enumerate(points):
        if len(point) != len(points[0]):
            raise ValueError(
                f"{what} {index} has {len(point)} coordinates, but {what} 0 has {len(points[0])}; "
                "give a height to all or to none"
            )

"""What was measured of a fleet, in settings: positions, rates and speeds in time, and matrices of rates.

In a scenario they stand as files, `file: PATH`; the settings hold what is in these, so that a run is known by what it was given.
"""

import itertools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from fedloom._settings import Row, Settings
from fedloom.fleet import trace_files
from fedloom.fleet.settings.quantities import Coordinate, Watts
from fedloom.fleet.trace_files import FASTEST_BIT_S, LATEST_S, SPEEDS, Traced

Moment = Annotated[float, Field(ge=0, le=LATEST_S)]
LinkRate = Annotated[float, Field(ge=0, le=FASTEST_BIT_S)]
StepRate = Annotated[float, Field(ge=SPEEDS[0], le=SPEEDS[1])]
PARTS = ("mobility", "device_edge", "compute", "device_device")  # that may have files


class TraceMobility(Settings):
    """Positions as they were measured, `file`: a table of time_s, device and x_m, y_m or latitude, longitude. Between two lines a
    device goes straight; before its first and after its last it stays there; without a line it stays where it was placed."""

    kind: Literal["trace"] = "trace"
    times_s: Row[Row[Moment]]
    x_m: Row[Row[Coordinate]]
    y_m: Row[Row[Coordinate]]

    @model_validator(mode="after")
    def _fits(self) -> Self:
        check_series(self.times_s, x_m=self.x_m, y_m=self.y_m)
        return self

    @property
    def every(self) -> Literal["tick"]:
        """Positions change from tick to tick."""
        return "tick"


class TraceLink(Settings):
    """Rates as they were measured, `file`: a table of time_s, device, cell, bit_s. They hold from one line to the next, and
    before the first; a link without a line, or of rate 0, is down. Series k N + n is of device k and cell n of N."""

    kind: Literal["trace"] = "trace"
    times_s: Row[Row[Moment]]
    bit_s: Row[Row[LinkRate]]
    power_w: Watts = 0.0

    @model_validator(mode="after")
    def _fits(self) -> Self:
        check_series(self.times_s, bit_s=self.bit_s)
        return self


class MatrixLink(Settings):
    """Rates as they were measured, the same at all times, `file`: a table with a line for each device and a column for each cell,
    by its number. 0 or nothing is a link that is down."""

    kind: Literal["matrix"] = "matrix"
    bit_s: Row[Row[LinkRate]]
    power_w: Watts = 0.0


class SpeedTrace(Settings):
    """Speeds as they were measured, `file`: a table of time_s, device, steps_per_s. They hold from one line to the next, and
    before the first."""

    times_s: Row[Row[Moment]]
    steps_per_s: Row[Row[StepRate]]

    @model_validator(mode="after")
    def _fits(self) -> Self:
        check_series(self.times_s, steps_per_s=self.steps_per_s)
        if not all(self.times_s):
            raise ValueError(f"every device must have a line, device {self.times_s.index(())} has none")
        return self


def check_series(times_s: tuple[tuple[float, ...], ...], **values: tuple[tuple[float, ...], ...]) -> None:
    """Times must ascend in every series, and each must have a value."""
    for name, series in values.items():
        if [*map(len, times_s)] != [*map(len, series)]:
            raise ValueError(f"{name} must have a number for each of times_s, in every series")
    for i, times in enumerate(times_s):
        if any(a >= b for a, b in itertools.pairwise(times)):
            raise ValueError(f"times_s of series {i} must ascend")


def with_measurements(
    data: dict[str, Any], devices: int | Sequence[str], origin: tuple[float, float] | None = None
) -> dict[str, Any]:
    """Settings of a fleet with what stands in the files of its measurements instead of their paths. devices: how many there are,
    or their ids; origin: latitude and longitude of (0, 0) m, if its table is in degrees."""
    n_cells, found = _n_cells(data.get("cells")), dict(data)
    if not any("file" in part for name in PARTS for part in _parts(data.get(name))):
        return found
    ids = [str(k) for k in range(devices)] if isinstance(devices, int) else devices

    def positions(path: str | Path) -> dict[str, Any]:
        return _of(trace_files.read_positions(path, ids, origin, table=not isinstance(devices, int)))

    def rates(path: str | Path) -> dict[str, Any]:
        return _of(trace_files.read_rates(path, ids, n_cells))

    def speeds(path: str | Path) -> dict[str, Any]:
        return _of(trace_files.read_speeds(path, ids))

    def matrix(path: str | Path) -> dict[str, Any]:
        return {"bit_s": trace_files.read_matrix(path, ids, [str(n) for n in range(n_cells)]).tolist()}

    def between(path: str | Path) -> dict[str, Any]:
        return {"matrix_bit_s": trace_files.read_matrix(path, ids, ids).tolist()}

    _replace(found, ("mobility",), "trace", positions)
    for way in ("up", "down"):
        _replace(found, ("device_edge", way), "trace", rates)
        _replace(found, ("device_edge", way), "matrix", matrix)
    _replace(found, ("compute", "trace"), None, speeds)
    _replace(found, ("device_device",), "given", between)
    return found


def _parts(part: Any) -> list[Mapping[str, Any]]:
    """A part of settings, and its parts."""
    if not isinstance(part, Mapping):
        return []
    return [part, *(inner for inner in part.values() if isinstance(inner, Mapping))]


def _of(found: Traced) -> dict[str, Any]:
    return {"times_s": found.times_s, **found.values}


def _replace(
    data: dict[str, Any], path: Sequence[str], kind: str | None, read: Callable[[str | Path], dict[str, Any]]
) -> None:
    """What a file holds, in the place of its path: in the part of the settings at `path`, if it is of this kind and has one."""
    name, *rest = path
    part = data.get(name)
    if not isinstance(part, Mapping):
        return
    part = data[name] = dict(part)
    if rest:
        _replace(part, rest, kind, read)
    elif part.get("file") is not None and (kind is None or part.get("kind") == kind):
        file = part.pop("file")
        if not isinstance(file, str | Path):
            raise ValueError(
                f"the file of a trace or matrix must be the path of a CSV or Parquet file, got {file!r:.60}"
            )
        try:
            data[name] = part | read(file)
        except OSError as error:
            raise ValueError(f"file: {file} cannot be read ({error.strerror or error})") from None


def _n_cells(cells: Any) -> int:
    """How many cells there are by settings that were not checked yet; what is wrong with them is told later."""
    if not isinstance(cells, Mapping):
        return getattr(cells, "n_cells", 1)
    kind, centres, n = cells.get("kind", "single"), cells.get("centres_m"), cells.get("n", 3)
    if kind == "grid":
        return n if isinstance(n, int) and 0 < n <= 10**6 else 1
    return max(len(centres), 1) if kind == "explicit" and isinstance(centres, list | tuple) else 1

"""Measurements as tables, CSV or Parquet, a line for each, in any order; the first line names the columns.

    positions    time_s, device, and x_m, y_m in metres or latitude, longitude in degrees
    rates        time_s, device, cell, bit_s: between a device and the edge server of a cell, 0 for a link that is down
    speeds       time_s, device, steps_per_s: local steps (mini-batches) a second
    matrix       device, and a column for each cell (or each device) with bit_s; an empty cell is a link that is down

time_s is from the start of the run; device is an id of the fleet's table, or a number from 0 on; cell is a number from 0 on.
What is wrong with a file is said with its line and column.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedloom.fleet.placement import FAR_M
from fedloom.fleet.table import metres
from fedloom.fleet.table_cells import Cells, Expected, listed, read_cells
from fedloom.gate import Refused, shown
from fedloom.gate.child import Child
from fedloom.gate.table_text import number
from fedloom.gate.words import one_line

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

LATEST_S = 1e9
SLOWEST_BIT_S, FASTEST_BIT_S = 1e-3, 1e15  # of a link that is not down
SPEEDS = (1e-9, 1e15)
MEANING = {name: name for name in ("time_s", "device", "cell", "bit_s", "steps_per_s", "x_m", "y_m")} | {
    "id": "device",
    "x": "x_m",
    "y": "y_m",
    "latitude": "latitude",
    "lat": "latitude",
    "longitude": "longitude",
    "lon": "longitude",
    "lng": "longitude",
    "long": "longitude",
}
POSITIONS = Expected("a trace, a table of positions", "position", "time_s,device,x_m,y_m or latitude,longitude")
RATES = Expected("a trace, a table of rates", "rate", "time_s,device,cell,bit_s")
SPEED = Expected("a trace, a table of speeds", "speed", "time_s,device,steps_per_s")
MATRIX = Expected("a matrix of rates", "device", "device and the cells or devices")
RANGES = {
    "time_s": (0.0, LATEST_S),
    "x_m": (-FAR_M, FAR_M),
    "y_m": (-FAR_M, FAR_M),
    "latitude": (-90.0, 90.0),
    "longitude": (-180.0, 180.0),
    "bit_s": (SLOWEST_BIT_S, FASTEST_BIT_S),
    "steps_per_s": SPEEDS,
}


UNITS = {"time_s": "seconds", "bit_s": "bit/s", "steps_per_s": "steps a second"} | {
    **dict.fromkeys(("x_m", "y_m"), "metres"),
    **dict.fromkeys(("latitude", "longitude"), "degrees"),
}


class Traced(NamedTuple):
    """Of each series its times, ascending, and what was measured then, by name."""

    times_s: list[list[float]]
    values: dict[str, list[list[float]]]


def read_positions(
    path: str | Path,
    ids: Sequence[str],
    origin: tuple[float, float] | None = None,
    child: Child | None = None,
    *,
    table: bool = False,
) -> Traced:
    """x_m and y_m of each device. table: the fleet has one, of the same coordinates; origin: latitude and longitude of its (0, 0)
    m if they are degrees. Without a table that is the middle of the trace."""
    cells = read_cells(Path(path), MEANING, None, child, POSITIONS)
    in_degrees = "latitude" in cells.header or "longitude" in cells.header
    if in_degrees and ("x_m" in cells.header or "y_m" in cells.header):
        raise Refused(f"{cells.file} has positions in metres and in degrees; leave out one of the two")
    if table and in_degrees != (origin is not None):
        units = ("degrees", "metres") if in_degrees else ("metres", "degrees")
        raise Refused(
            f"{cells.file} has positions in {units[0]}, and the fleet's table in {units[1]}: nothing says how they lie to each "
            f"other; give both in {units[0]} or both in {units[1]}"
        )
    pair = ("latitude", "longitude") if in_degrees else ("x_m", "y_m")
    columns = number_columns(cells, "time_s", *pair)
    points = np.stack([columns[name] for name in pair], axis=1)
    if in_degrees:
        points = metres(points, origin)
    return series(
        cells, device_numbers(cells, ids), len(ids), columns["time_s"], {"x_m": points[:, 0], "y_m": points[:, 1]}
    )


def read_rates(path: str | Path, ids: Sequence[str], n_cells: int, child: Child | None = None) -> Traced:
    """bit_s of each device and cell: series k n_cells + n of device k and cell n."""
    cells = read_cells(Path(path), MEANING, None, child, RATES)
    columns = number_columns(cells, "time_s", "bit_s", needs=("cell",))
    pair = device_numbers(cells, ids) * n_cells + _cell_numbers(cells, n_cells)
    return series(cells, pair, len(ids) * n_cells, columns["time_s"], {"bit_s": columns["bit_s"]})


def read_speeds(path: str | Path, ids: Sequence[str], child: Child | None = None) -> Traced:
    """steps_per_s of each device, all of which must have a line."""
    cells = read_cells(Path(path), MEANING, None, child, SPEED)
    columns = number_columns(cells, "time_s", "steps_per_s")
    found = series(
        cells, device_numbers(cells, ids), len(ids), columns["time_s"], {"steps_per_s": columns["steps_per_s"]}
    )
    silent = [name for name, times in zip(ids, found.times_s) if not times]
    if silent:
        raise Refused(f"{cells.file}: expected a line of every device, got none of {listed(silent)}")
    return found


def read_matrix(path: str | Path, ids: Sequence[str], others: Sequence[str], child: Child | None = None) -> Floats:
    """(devices, others) bit/s, rows and columns in their orders whatever the file's; others: numbers of cells, or ids."""
    cells = read_cells(Path(path), {"device": "device", "id": "device"}, None, child, MATRIX)
    wanted = set(others)
    missing, more = (
        [n for n in others if n not in cells.header],
        [n for n in cells.header if n not in wanted | {"device"}],
    )
    if "device" not in cells.header or missing or more:
        raise Refused(
            f"{cells.file}, {cells.first}: expected the column device and one for each of {_named(others)}; missing: "
            f"{listed(missing) or 'none of these'}, too many: {listed(more) or 'none'}"
        )
    who = device_numbers(cells, ids)
    rows = np.stack([_numbers(cells, name, "bit_s", empty=0.0) for name in others], axis=1)
    count = np.bincount(who, minlength=len(ids))
    if (count != 1).any():
        k = int((count != 1).argmax())
        raise Refused(f"{cells.file}: expected one line for each device, got {count[k]} of device {shown(ids[k])}")
    matrix = np.empty_like(rows)
    matrix[who] = rows
    return matrix


def series(cells: Cells, of: Ints, n: int, time_s: Floats, values: dict[str, Floats]) -> Traced:
    """Lines (L,) sorted into the n series that they are of (L,); two of one series at the same time are refused."""
    order = np.lexsort((time_s, of))
    same = np.flatnonzero((np.diff(of[order]) == 0) & (np.diff(time_s[order]) == 0))
    if len(same):
        one, other = sorted(order[same[0] : same[0] + 2].tolist())
        raise Refused(
            f"{cells.file}, {cells.where[other]}: the device has another line with the same time_s, {cells.where[one]}; "
            "leave out one of them"
        )
    cuts = np.cumsum(np.bincount(of, minlength=n))[:-1]
    split = {name: [part.tolist() for part in np.split(column[order], cuts)] for name, column in values.items()}
    return Traced([part.tolist() for part in np.split(time_s[order], cuts)], split)


def number_columns(cells: Cells, *names: str, needs: Sequence[str] = ()) -> dict[str, Floats]:
    """(L,) by name; these columns must be there, device, and what is needed besides."""
    wanted = ("time_s", "device", *needs, *(name for name in names if name != "time_s"))
    if any(name not in cells.header for name in wanted):
        raise Refused(
            f"{cells.file}, {cells.first}: expected the columns {', '.join(wanted)}; got {listed(cells.header)}"
        )
    return {name: _numbers(cells, name, name) for name in names}


def _numbers(cells: Cells, column: str, what: str, empty: float | None = None) -> Floats:
    """(L,), each within the range of what it is; empty: what an empty cell stands for."""
    texts, (low, high) = cells.column(column), RANGES[what]
    found = np.array([empty if empty is not None and not text else number(text) for text in texts])
    bad, also = ~((found >= low) & (found <= high)), ""
    if what == "bit_s":
        bad, also = bad & (found != 0), " or 0"  # of a link that is down
    if bad.any():
        at = int(bad.argmax())
        raise Refused(
            f"{cells.file}, {cells.where[at]}, column {one_line(column, 60)}: expected {UNITS[what]} in {low:g}..{high:g}{also}, "
            f"got {shown(texts[at])}"
        )
    return found


def device_numbers(cells: Cells, ids: Sequence[str]) -> Ints:
    """(L,) numbers of devices."""
    place, texts = {name: k for k, name in enumerate(ids)}, cells.column("device")
    found = np.array([place.get(text, -1) for text in texts])
    if (found < 0).any():
        at = int((found < 0).argmax())
        raise Refused(
            f"{cells.file}, {cells.where[at]}, column device: expected one of {_named(ids)}, got {shown(texts[at])}"
        )
    return found


def _cell_numbers(cells: Cells, n_cells: int) -> Ints:
    texts = cells.column("cell")
    found = np.array([number(text) for text in texts])
    bad = ~((found >= 0) & (found < n_cells) & (found == np.floor(found)))
    if bad.any():
        at = int(bad.argmax())
        raise Refused(
            f"{cells.file}, {cells.where[at]}, column cell: expected a whole number in 0..{n_cells - 1}, got "
            f"{shown(texts[at])}"
        )
    return found.astype(np.int64)


def _named(names: Sequence[str]) -> str:
    more = f" and {len(names) - 5:,} others" if len(names) > 5 else ""
    return f"{listed(list(names[:5]))}{more}"

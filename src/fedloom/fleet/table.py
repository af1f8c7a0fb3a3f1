"""A fleet as a table, CSV or Parquet: one line per device, the first line names the columns. Plans, scenarios
(`fleet: {table: FILE}`) and deployments read it with this.

    x_m, y_m                   metres, and perhaps z_m, or
    latitude, longitude        degrees, turned into metres east and north of the middle of the fleet
    id                         a name of its own for each device; else they are numbered from 0
    steps_per_s                local steps (mini-batches) a second, or samples_per_s
    tx_power_w                 transmit power, or tx_power_dbm
    battery_j                  energy of its battery, or battery_wh; mains: it needs none
    up_bit_s, down_bit_s       measured rates to and from the server
    capacity                   most devices it can serve as a head, itself included
    candidate                  whether it may be a head: yes or no, true or false, 1 or 0
    n_samples                  training samples
    label_<name>               training samples of each class, a column per class

Only the position is required. Degrees are projected by east = R cos(middle latitude) (longitude - middle), north =
R (latitude - middle): distances of fleets of 50 km are right to one percent below 60 degrees of latitude.
"""

import difflib
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedloom.fleet.placement import FAR_M
from fedloom.fleet.table_cells import Cells, listed, read_cells
from fedloom.gate import Refused, shown
from fedloom.gate.child import Child
from fedloom.gate.table_text import number
from fedloom.gate.words import one_line
from fedloom.radio import dbm_to_w

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

EARTH_M = 6_371_008.8  # mean radius
LABEL = "label_"
NAMES = {  # of columns, and other spellings
    "id": ("device", "device_id", "name"),
    "x_m": ("x",),
    "y_m": ("y",),
    "z_m": ("z",),
    "latitude": ("lat",),
    "longitude": ("lon", "lng", "long"),
    "steps_per_s": (),
    "samples_per_s": (),
    "tx_power_w": (),
    "tx_power_dbm": (),
    "battery_j": (),
    "battery_wh": (),
    "up_bit_s": (),
    "down_bit_s": (),
    "capacity": (),
    "candidate": (),
    "n_samples": ("samples",),
}
RANGES = {  # least, most
    "x_m": (-FAR_M, FAR_M),
    "y_m": (-FAR_M, FAR_M),
    "z_m": (-FAR_M, FAR_M),
    "latitude": (-90.0, 90.0),
    "longitude": (-180.0, 180.0),
    "tx_power_dbm": (-60.0, 60.0),
}
ABOVE_ZERO = {  # least, most
    "steps_per_s": (1e-9, 1e15),
    "samples_per_s": (1e-9, 1e15),
    "tx_power_w": (1e-15, 1e9),
    "battery_j": (1e-9, 1e18),
    "battery_wh": (1e-9, 1e15),
    "up_bit_s": (1e-9, 1e18),
    "down_bit_s": (1e-9, 1e18),
}
MAINS = "mains"
COUNTS = {"capacity": 1, "n_samples": 0}  # whole numbers, and the least


@dataclass(frozen=True, kw_only=True, eq=False)
class FleetTable:
    """K devices. ids: K different names. position_m (K, 2). origin: latitude and longitude of (0, 0), if it came in degrees.

    None where the table has no such column: height_m, steps_per_s, samples_per_s, power_w (W), battery_j (infinite for
    mains), up_bit_s, down_bit_s, capacity, n_samples (K,);
    candidate (K,) bool; label_counts (K, C), of the classes `labels`. n_samples is the sum of label_counts if only these are
    there. ignored: columns that mean nothing here.
    """

    ids: tuple[str, ...]
    position_m: Floats
    height_m: Floats | None = None
    origin: tuple[float, float] | None = None
    steps_per_s: Floats | None = None
    samples_per_s: Floats | None = None
    power_w: Floats | None = None
    capacity: Ints | None = None
    candidate: NDArray[np.bool_] | None = None
    n_samples: Ints | None = None
    label_counts: Ints | None = None
    labels: tuple[str, ...] = ()
    battery_j: Floats | None = None
    up_bit_s: Floats | None = None
    down_bit_s: Floats | None = None
    ignored: tuple[str, ...] = ()

    @property
    def n_devices(self) -> int:
        """K."""
        return len(self.ids)

    def only(self, keep: NDArray[np.bool_]) -> "FleetTable":
        """The devices of keep (K,); if the table is in degrees, in metres around their middle."""
        some: dict[str, Any] = {
            field.name: value[keep]
            for field in fields(self)
            if isinstance(value := getattr(self, field.name), np.ndarray) and field.name != "position_m"
        }
        points, origin = self.position_m[keep], self.origin
        if origin is not None:
            degrees = np.array([self.to_degrees(point) for point in points])
            origin = _middle(degrees)
            points = _project(degrees, origin)
        ids = tuple(name for name, kept in zip(self.ids, keep) if kept)
        return replace(self, ids=ids, position_m=points, origin=origin, **some)

    def to_metres(self, point: tuple[float, float]) -> Floats:
        """A point given like the devices, (x, y) in metres or (latitude, longitude) in degrees: (2,), metres."""
        if self.origin is None:
            if not max(map(abs, point)) <= FAR_M:
                raise Refused(f"a point must be within {FAR_M:g} m, got {point[0]:g},{point[1]:g}")
            return np.array(point, dtype=np.float64)
        for name, value in zip(("latitude", "longitude"), point):
            low, high = RANGES[name]
            if not low <= value <= high:
                raise Refused(
                    f"the table is in degrees, so a point is latitude,longitude; {name} must be in {low:g}..{high:g}, "
                    f"got {value:g}"
                )
        projected: Floats = _project(np.array([point]), self.origin)[0]
        return projected

    def to_degrees(self, point_m: Floats) -> tuple[float, float] | None:
        """Latitude and longitude of a point (2,) in metres, to 1e-7 degrees, which are a centimetre; None if the table is in
        metres. What came in degrees comes out as it was."""
        if self.origin is None:
            return None
        latitude = self.origin[0] + np.rad2deg(point_m[1] / EARTH_M)
        east = np.rad2deg(point_m[0] / (EARTH_M * np.cos(np.deg2rad(self.origin[0]))))
        longitude = (self.origin[1] + east + 180) % 360 - 180
        return round(float(latitude), 7), round(float(longitude), 7)


def read_fleet(path: str | Path, child: Child | None = None) -> FleetTable:
    """The fleet in a CSV or Parquet file; what is wrong with it is said with its line and column. child: a reader of Parquet
    files that runs already, for many files."""
    meaning = {other: name for name, others in NAMES.items() for other in (name, *others)}
    cells = read_cells(Path(path), meaning, LABEL, child)
    table = {name: _numbers(cells, name) for name in cells.header if _is_number(name)}
    position, origin = _positions(cells, table)
    for one, other in (
        ("steps_per_s", "samples_per_s"),
        ("tx_power_w", "tx_power_dbm"),
        ("battery_j", "battery_wh"),
    ):
        if one in table and other in table:
            raise Refused(f"{cells.file}, {cells.first}: got both {one} and {other}; leave out one of them")
    labels = tuple(name for name in cells.header if name.startswith(LABEL))
    label_counts = np.stack([table[name] for name in labels], axis=1).astype(np.int64) if labels else None
    return FleetTable(
        ids=_ids(cells),
        position_m=position,
        height_m=table.get("z_m"),
        origin=origin,
        steps_per_s=table.get("steps_per_s"),
        samples_per_s=table.get("samples_per_s"),
        power_w=dbm_to_w(table["tx_power_dbm"]) if "tx_power_dbm" in table else table.get("tx_power_w"),
        battery_j=3600 * table["battery_wh"] if "battery_wh" in table else table.get("battery_j"),
        up_bit_s=table.get("up_bit_s"),
        down_bit_s=table.get("down_bit_s"),
        capacity=table["capacity"].astype(np.int64) if "capacity" in table else None,
        candidate=_yes_no(cells) if "candidate" in cells.header else None,
        n_samples=_n_samples(cells, table, label_counts),
        label_counts=label_counts,
        labels=tuple(name.removeprefix(LABEL) for name in labels),
        ignored=tuple(name for name in cells.header if name not in NAMES and not name.startswith(LABEL)),
    )


def _n_samples(cells: Cells, table: dict[str, Floats], label_counts: Ints | None) -> Ints | None:
    """(K,): as said, which must be the sum over classes if these are there."""
    given = table["n_samples"].astype(np.int64) if "n_samples" in table else None
    if label_counts is None:
        return given
    total: Ints = label_counts.sum(axis=1)
    if given is not None and (given != total).any():
        k = int(np.argmax(given != total))
        raise Refused(
            f"{cells.file}, {cells.where[k]}: n_samples is {given[k]}, but the samples of all classes are {total[k]}; "
            "correct one of them or leave out n_samples"
        )
    return total


def _is_number(name: str) -> bool:
    return name.startswith(LABEL) or (name in NAMES and name not in ("id", "candidate"))


def _positions(cells: Cells, table: dict[str, Floats]) -> tuple[Floats, tuple[float, float] | None]:
    file, header = cells.file, cells.header
    pairs = ("x_m", "y_m"), ("latitude", "longitude")
    if all(name in table for pair in pairs for name in pair):
        raise Refused(f"{file} has positions in metres and in degrees; leave out one of the two")
    for pair in pairs:
        if all(name in table for name in pair):
            points = np.stack([table[name] for name in pair], axis=1)
            if pair[0] == "x_m":
                return points, None
            origin = _middle(points)
            return _project(points, origin), origin
    known = [name for name in ("x_m", "y_m", "latitude", "longitude") if name not in header]
    close = {name: difflib.get_close_matches(name, header, n=1, cutoff=0.5) for name in known}
    hints = [f"{one_line(near[0], 60)} for {name}" for name, near in close.items() if near and near[0] not in NAMES]
    hint = f"; did you mean to rename {' and '.join(dict.fromkeys(hints))}?" if hints else ""
    raise Refused(
        f"{file}, {cells.first}: expected the columns x_m and y_m (metres), or latitude and longitude (degrees); "
        f"got {listed(header)}{hint}"
    )


def metres(degrees: Floats, origin: tuple[float, float] | None = None) -> Floats:
    """(L, 2) latitude, longitude -> metres east and north of the origin, or of their middle."""
    return _project(degrees, _middle(degrees) if origin is None else origin)


def _middle(degrees: Floats) -> tuple[float, float]:
    """The middle of the least and the largest; of longitudes, on the side of the earth where the first device is."""
    east = (degrees[:, 1] - degrees[0, 1] + 180) % 360 - 180
    latitude = (degrees[:, 0].min() + degrees[:, 0].max()) / 2
    longitude = (degrees[0, 1] + (east.min() + east.max()) / 2 + 180) % 360 - 180
    return float(latitude), float(longitude)


def _project(degrees: Floats, origin: tuple[float, float]) -> Floats:
    """(K, 2) latitude, longitude -> metres east and north of the origin.

    >>> _project(np.array([[48.0, 11.0], [48.0, 11.01]]), (48.0, 11.0)).round(1).tolist()
    [[0.0, 0.0], [744.0, 0.0]]
    """
    north = np.deg2rad(degrees[:, 0] - origin[0])
    east = np.deg2rad((degrees[:, 1] - origin[1] + 180) % 360 - 180)
    return EARTH_M * np.stack([np.cos(np.deg2rad(origin[0])) * east, north], axis=1)


def _numbers(cells: Cells, name: str) -> Floats:
    """(K,), each within the range of its column; infinite for a battery that is none."""
    texts = cells.column(name)
    out = np.array([np.inf if name.startswith("battery") and t.lower() == MAINS else number(t) for t in texts])
    bad = ~_in_range(name, out)
    if bad.any():
        k = int(bad.argmax())
        raise Refused(
            f"{cells.file}, {cells.where[k]}, column {one_line(name, 60)}: expected {_wanted(name, out[k])}, got "
            f"{shown(texts[k])}"
        )
    return out


def _in_range(name: str, value: Floats) -> NDArray[np.bool_]:
    if (least := _least_count(name)) is not None:
        return np.asarray((value >= least) & (value == np.floor(value)) & (value < 1e15))
    low, high = ABOVE_ZERO.get(name) or RANGES[name]
    mains = np.isposinf(value) & name.startswith("battery")
    return np.asarray((low <= value) & (value <= high) | mains)


def _wanted(name: str, value: float) -> str:
    """What should stand in a cell of a column, for who wrote another value."""
    if (least := _least_count(name)) is not None:
        return f"a whole number of at least {least}"
    low, high = ABOVE_ZERO.get(name) or RANGES[name]
    if name in ABOVE_ZERO and not value > 0:
        return "a number above 0" + (f", or {MAINS}" if name.startswith("battery") else "")
    return f"a number in {low:g}..{high:g}"


def _least_count(name: str) -> int | None:
    """The least of a column of whole numbers."""
    return COUNTS.get(name, 0 if name.startswith(LABEL) else None)


def _yes_no(cells: Cells) -> NDArray[np.bool_]:
    out = cells.yes_no("candidate")
    if not out.any():
        raise Refused(f"{cells.file}: no device is a candidate, so none could be a head; set candidate to yes for some")
    return out


def _ids(cells: Cells) -> tuple[str, ...]:
    if "id" not in cells.header:
        return tuple(map(str, range(len(cells.rows))))
    first: dict[str, str] = {}
    texts = cells.column("id")
    for text, where in zip(texts, cells.where):
        if not text:
            raise Refused(f"{cells.file}, {where}: the device has no id; name it or leave out the column")
        if text in first:
            raise Refused(f"{cells.file}, {where}: id {shown(text)} was given to a device in {first[text]} already")
        first[text] = where
    return tuple(texts)

"""A fleet as a table: one line per device, the first line names the columns.

    x_m, y_m                   metres, or
    latitude, longitude        degrees, turned into metres east and north of the middle of the fleet
    id                         a name of its own for each device; else they are numbered from 0
    steps_per_s                local steps (mini-batches) a second, or samples_per_s
    tx_power_w                 transmit power, or tx_power_dbm
    capacity                   most devices it can serve as a head, itself included
    candidate                  whether it may be a head: yes or no, true or false, 1 or 0
    n_samples                  training samples
    label_<name>               training samples of each class, a column per class

Only the position is required. Degrees are projected by east = R cos(middle latitude) (longitude - middle), north =
R (latitude - middle): distances of fleets of 50 km are right to one percent below 60 degrees of latitude.
"""

import difflib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedloom.fleet.placement import FAR_M, MOST_DEVICES
from fedloom.gate import Refused, arrays, files, finite, shown, table_text
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
    "latitude": ("lat",),
    "longitude": ("lon", "lng", "long"),
    "steps_per_s": (),
    "samples_per_s": (),
    "tx_power_w": (),
    "tx_power_dbm": (),
    "capacity": (),
    "candidate": (),
    "n_samples": ("samples",),
}
YES_NO = {"yes": True, "true": True, "1": True, "y": True, "no": False, "false": False, "0": False, "n": False}
RANGES = {  # least, most
    "x_m": (-FAR_M, FAR_M),
    "y_m": (-FAR_M, FAR_M),
    "latitude": (-90.0, 90.0),
    "longitude": (-180.0, 180.0),
    "tx_power_dbm": (-60.0, 60.0),
}
ABOVE_ZERO = ("steps_per_s", "samples_per_s", "tx_power_w")
COUNTS = {"capacity": 1, "n_samples": 0}  # whole numbers, and the least


@dataclass(frozen=True, kw_only=True, eq=False)
class FleetTable:
    """K devices. ids: K different names. position_m (K, 2). origin: latitude and longitude of (0, 0), if it came in degrees.

    None where the table has no such column: steps_per_s, samples_per_s, power_w (W), capacity, n_samples (K,);
    candidate (K,) bool; label_counts (K, C), of the classes `labels`. n_samples is the sum of label_counts if only these are
    there. ignored: columns that mean nothing here.
    """

    ids: tuple[str, ...]
    position_m: Floats
    origin: tuple[float, float] | None = None
    steps_per_s: Floats | None = None
    samples_per_s: Floats | None = None
    power_w: Floats | None = None
    capacity: Ints | None = None
    candidate: NDArray[np.bool_] | None = None
    n_samples: Ints | None = None
    label_counts: Ints | None = None
    labels: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()

    @property
    def n_devices(self) -> int:
        """K."""
        return len(self.ids)

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


def read_fleet(path: str | Path) -> FleetTable:
    """The fleet in a CSV file; what is wrong with it is said with its line and column."""
    file = Path(path)
    header, rows, lines = _read(file)
    column = {name: [row[i] for row in rows] for i, name in enumerate(header)}
    table = {name: _numbers(file, name, texts, lines) for name, texts in column.items() if _is_number(name)}
    position, origin = _positions(file, header, table)
    for one, other in (("steps_per_s", "samples_per_s"), ("tx_power_w", "tx_power_dbm")):
        if one in table and other in table:
            raise Refused(f"{file}, line 1: got both {one} and {other}; leave out one of them")
    labels = tuple(name for name in header if name.startswith(LABEL))
    label_counts = np.stack([table[name] for name in labels], axis=1).astype(np.int64) if labels else None
    n_samples = table["n_samples"].astype(np.int64) if "n_samples" in table else None
    if label_counts is not None:
        total = label_counts.sum(axis=1)
        if n_samples is not None and (n_samples != total).any():
            k = int(np.argmax(n_samples != total))
            raise Refused(
                f"{file}, line {lines[k]}: n_samples is {n_samples[k]}, but the samples of all classes are {total[k]}; "
                "correct one of them or leave out n_samples"
            )
        n_samples = total
    power = table.get("tx_power_w")
    if "tx_power_dbm" in table:
        power = dbm_to_w(table["tx_power_dbm"])
    return FleetTable(
        ids=_ids(file, column.get("id"), lines),
        position_m=position,
        origin=origin,
        steps_per_s=table.get("steps_per_s"),
        samples_per_s=table.get("samples_per_s"),
        power_w=power,
        capacity=table["capacity"].astype(np.int64) if "capacity" in table else None,
        candidate=_yes_no(file, column["candidate"], lines) if "candidate" in column else None,
        n_samples=n_samples,
        label_counts=label_counts,
        labels=tuple(name.removeprefix(LABEL) for name in labels),
        ignored=tuple(name for name in header if name not in NAMES and not name.startswith(LABEL)),
    )


def read_gradients(path: str | Path, n_devices: int) -> NDArray[np.floating[Any]]:
    """(K, p), a row per device in the order of the fleet: an .npy file, an .npz file with one array or one called
    gradients, or a .csv file of numbers, with or without a line of names."""
    file = Path(path)
    if file.suffix not in (".csv", ".npy", ".npz"):
        raise Refused(f"{one_line(str(file))}: gradients must be an .npy, .npz or .csv file")
    try:
        rows = _number_rows(file) if file.suffix == ".csv" else _stored(file)
    except FileNotFoundError:
        raise FileNotFoundError(f"there is no file {file}; give the path of gradients") from None
    if rows.ndim != 2 or rows.dtype.kind not in "fiu":
        raise Refused(f"{file}: expected numbers with a row per device, (K, p), got {rows.dtype} of shape {rows.shape}")
    if len(rows) != n_devices:
        raise Refused(f"{file}: expected a row for each of the {n_devices} devices of the fleet, got {len(rows)} rows")
    finite.finite(f"{file}: gradients", rows)
    return rows if rows.dtype == np.float32 else rows.astype(np.float64, copy=False)


def _read(file: Path) -> tuple[list[str], list[list[str]], list[int]]:
    """Names of columns, the lines after them, and where in the file they are."""
    try:
        found = table_text.lines(file, "a fleet, a table of devices")
        first = next(found, None)
    except FileNotFoundError:
        raise FileNotFoundError(f"there is no file {file}; give the path of the fleet") from None
    if first is None or first[0] != 1:
        raise Refused(
            f"{file} is empty or has no line of column names; expected x_m,y_m or latitude,longitude in its first line"
        )
    header = _header(file, first[1])
    rows: list[list[str]] = []
    lines: list[int] = []
    for line, row in found:
        if len(row) != len(header):
            raise Refused(f"{file}, line {line}: expected {len(header)} columns, as in the first line, got {len(row)}")
        if len(rows) == MOST_DEVICES:
            raise Refused(f"{file}, line {line}: more than {MOST_DEVICES:,} devices")
        rows.append(row)
        lines.append(line)
    if not rows:
        raise Refused(f"{file}: expected one line per device after the line of column names, got none")
    return header, rows, lines


def _header(file: Path, row: list[str]) -> list[str]:
    """Names of columns as in NAMES; others as they are."""
    if len(row) == 1 and (";" in row[0] or "\t" in row[0]):
        raise Refused(f"{file}, line 1: columns must be separated by commas, got {shown(row[0])}")
    meaning = {other: name for name, others in NAMES.items() for other in (name, *others)}
    names = [meaning.get(name.lower(), name.lower() if name.lower().startswith(LABEL) else name) for name in row]
    names = [name or f"(column {i})" for i, name in enumerate(names, start=1)]  # spreadsheets leave empty ones
    twice = sorted(name for name, n in Counter(names).items() if n > 1)
    if twice:
        raise Refused(f"{file}, line 1: every column must be there once, got {_list(twice)} more than once")
    return names


def _is_number(name: str) -> bool:
    return name.startswith(LABEL) or (name in NAMES and name not in ("id", "candidate"))


def _positions(
    file: Path, header: Sequence[str], table: dict[str, Floats]
) -> tuple[Floats, tuple[float, float] | None]:
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
        f"{file}, line 1: expected the columns x_m and y_m (metres), or latitude and longitude (degrees); "
        f"got {_list(header)}{hint}"
    )


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


def _numbers(file: Path, name: str, texts: Sequence[str], lines: Sequence[int]) -> Floats:
    whole = COUNTS.get(name, 0 if name.startswith(LABEL) else None)
    low, high = RANGES.get(name, (-np.inf, np.inf))
    out = np.empty(len(texts))
    for k, text in enumerate(texts):
        value = number(text)
        if whole is not None:
            good, wanted = value >= whole and value == np.floor(value) < 1e15, f"a whole number of at least {whole}"
        elif name in ABOVE_ZERO:
            good, wanted = 0 < value < np.inf, "a number above 0"
        else:
            good = low <= value <= high and abs(value) < np.inf
            wanted = "a finite number" if low == -np.inf else f"a number in {low:g}..{high:g}"
        if not good:
            raise Refused(f"{file}, line {lines[k]}, column {one_line(name, 60)}: expected {wanted}, got {shown(text)}")
        out[k] = value
    return out


def _yes_no(file: Path, texts: Sequence[str], lines: Sequence[int]) -> NDArray[np.bool_]:
    for text, line in zip(texts, lines):
        if text.lower() not in YES_NO:
            raise Refused(f"{file}, line {line}, column candidate: expected yes or no (or 1 or 0), got {shown(text)}")
    out = np.array([YES_NO[text.lower()] for text in texts])
    if not out.any():
        raise Refused(f"{file}: no device is a candidate, so none could be a head; set candidate to yes for some")
    return out


def _ids(file: Path, texts: Sequence[str] | None, lines: Sequence[int]) -> tuple[str, ...]:
    if texts is None:
        return tuple(map(str, range(len(lines))))
    first: dict[str, int] = {}
    for text, line in zip(texts, lines):
        if not text:
            raise Refused(f"{file}, line {line}: the device has no id; name it or leave out the column")
        if text in first:
            raise Refused(f"{file}, line {line}: id {shown(text)} was given to a device in line {first[text]} already")
        first[text] = line
    return tuple(texts)


def _stored(file: Path) -> NDArray[Any]:
    data = files.read_bytes(file, "gradients")
    if file.suffix == ".npy":
        return arrays.npy(data, str(file))
    names = arrays.npz_names(data, str(file))
    if "gradients" not in names and len(names) != 1:
        raise Refused(f"{file}: expected one array or one called gradients, got {shown(names)}")
    (found,) = arrays.npz(data, str(file), ("gradients" if "gradients" in names else names[0],))
    return found


def _number_rows(file: Path) -> Floats:
    rows: list[list[float]] = []
    for line, row in table_text.lines(file, "gradients"):
        values = [number(cell) for cell in row]
        if any(map(np.isnan, values)):
            if line == 1:  # names
                continue
            raise Refused(f"{file}, line {line}: expected numbers only, a line per device")
        if rows and len(values) != len(rows[0]):
            raise Refused(f"{file}, line {line}: expected {len(rows[0])} numbers as before, got {len(values)}")
        rows.append(values)
    return np.array(rows) if rows else np.zeros((0, 1))


def _list(names: Sequence[str]) -> str:
    """Names for a message: the first few, on one line."""
    return one_line(", ".join(names[:30]) + (", ..." if len(names) > 30 else ""), 300)

"""Gradients of the devices of a fleet, as a file: a row per device, in the order of the fleet."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedloom.gate import Refused, arrays, files, finite, shown, table_text
from fedloom.gate.table_text import number
from fedloom.gate.words import one_line

Floats = NDArray[np.float64]


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

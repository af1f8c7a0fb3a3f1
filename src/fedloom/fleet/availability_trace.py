"""Traces of who is there, or plugged in, as a table, CSV or Parquet: a line for every change, in any order.

    time_s     seconds from the start of the run
    device     its number, from 0; its id, if the fleet comes from a table
    on         1 or 0, yes or no, true or false: how it is from then on (also called up, or plugged)

Before its first line a device is the opposite of it, if that is later than 0; a device without a line is on all the time. Lines
that change nothing are allowed, two at the same time of one device are not.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from fedloom.fleet.table_cells import Expected, listed, read_cells
from fedloom.fleet.trace_files import device_numbers, number_columns, series
from fedloom.gate import Refused
from fedloom.gate.child import Child

MEANING = {"time_s": "time_s", "device": "device", "id": "device", "on": "on", "up": "on", "plugged": "on"}
TRACE = Expected("a trace, a table of who is there when", "change", "time_s,device,on")


class Traced(NamedTuple):
    """Of each device whether it is on at the start, and when it changes, ascending."""

    first_on: list[bool]
    changes_s: list[list[float]]


def read_trace(path: str | Path, devices: int | Sequence[str], child: Child | None = None) -> Traced:
    """The trace in a file. devices: how many there are, or their ids; what is wrong is said with its line and column."""
    cells = read_cells(Path(path), MEANING, None, child, TRACE)
    if any(name not in cells.header for name in ("time_s", "device", "on")):
        raise Refused(
            f"{cells.file}, {cells.first}: expected the columns time_s, device and on; got {listed(cells.header)}"
        )
    names = devices if not isinstance(devices, int) else [str(k) for k in range(devices)]
    who, time_s = device_numbers(cells, names), number_columns(cells, "time_s")["time_s"]
    lines = series(cells, who, len(names), time_s, {"on": cells.yes_no("on").astype(np.float64)})
    first_on, changes_s = [True] * len(names), [list[float]() for _ in names]
    for k, (times, states) in enumerate(zip(lines.times_s, lines.values["on"])):
        if times:
            first_on[k] = bool(states[0]) if times[0] == 0 else not states[0]
            changed = np.diff(states, prepend=float(first_on[k])) != 0
            changes_s[k] = np.array(times)[changed].tolist()
    return Traced(first_on, changes_s)

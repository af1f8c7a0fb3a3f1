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
from numpy.typing import NDArray

from fedloom.fleet.table_cells import Cells, Expected, listed, read_cells
from fedloom.gate import Refused, shown
from fedloom.gate.child import Child
from fedloom.gate.table_text import number

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

MEANING = {"time_s": "time_s", "device": "device", "id": "device", "on": "on", "up": "on", "plugged": "on"}
LATEST_S = 1e9
TRACE = Expected("a trace, a table of who is there when", "change", "time_s,device,on")


class Traced(NamedTuple):
    """Of each device whether it is on at the start, and when it changes, ascending."""

    first_on: list[bool]
    changes_s: list[list[float]]


def read_trace(path: str | Path, devices: int | Sequence[str], child: Child | None = None) -> Traced:
    """The trace in a file. devices: how many there are, or their ids; what is wrong is said with its line and column."""
    cells = read_cells(Path(path), MEANING, None, child, TRACE)
    missing = [name for name in ("time_s", "device", "on") if name not in cells.header]
    if missing:
        raise Refused(
            f"{cells.file}, {cells.first}: expected the columns time_s, device and on; got {listed(cells.header)}"
        )
    names = devices if not isinstance(devices, int) else [str(k) for k in range(devices)]
    who, time_s, on = _devices(cells, names), _times(cells), cells.yes_no("on")
    first_on, changes_s = [True] * len(names), [list[float]() for _ in names]
    order = np.lexsort((time_s, who))
    starts = np.flatnonzero(np.diff(who[order], prepend=-1))
    for mine in np.split(order, starts)[1:]:
        k, times, states = int(who[mine[0]]), time_s[mine], on[mine]
        _no_two(cells, mine, times)
        first_on[k] = bool(states[0]) if times[0] == 0 else not states[0]
        changed = np.diff(states, prepend=first_on[k]) != 0
        changes_s[k] = times[changed].tolist()
    return Traced(first_on, changes_s)


def _devices(cells: Cells, names: Sequence[str]) -> Ints:
    place = {name: k for k, name in enumerate(names)}
    found = np.array([place.get(text, -1) for text in cells.column("device")])
    if (found < 0).any():
        at = int(np.argmax(found < 0))
        raise Refused(
            f"{cells.file}, {cells.where[at]}, column device: expected one of {listed(list(names[:5]))}"
            f"{f' and {len(names) - 5:,} others' if len(names) > 5 else ''}, got {shown(cells.column('device')[at])}"
        )
    return found


def _times(cells: Cells) -> Floats:
    texts = cells.column("time_s")
    found = np.array([number(text) for text in texts])
    bad = ~((found >= 0) & (found <= LATEST_S))
    if bad.any():
        at = int(bad.argmax())
        raise Refused(
            f"{cells.file}, {cells.where[at]}, column time_s: expected seconds in 0..{LATEST_S:g}, got {shown(texts[at])}"
        )
    return found


def _no_two(cells: Cells, lines: Ints, times: Floats) -> None:
    same = np.flatnonzero(np.diff(times) == 0)
    if len(same):
        one, other = sorted(lines[same[0] : same[0] + 2].tolist())
        raise Refused(
            f"{cells.file}, {cells.where[other]}: the device has another line with the same time_s, {cells.where[one]}; "
            "leave out one of them"
        )

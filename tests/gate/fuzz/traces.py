"""Traces and matrices of measurements, for mutation."""

import io
import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from fedloom.fleet.trace_files import (
    FASTEST_BIT_S,
    LATEST_S,
    Traced,
    read_matrix,
    read_positions,
    read_rates,
    read_speeds,
)
from fedloom.gate import parquet
from fedloom.gate.child import Child

IDS = ("0", "b", "q,1")
POSITIONS = (
    b'time_s,device,x_m,y_m\n0,0,1,2\n10,0,3.5,-4\n5,b,1e3,0\n7,"q,1",0,0\n',
    b"id,lat,lon,time_s\n0,48.1,11.5,0\n0,48.2,11.6,60\nb,48.0,-11.0,3\n",
)
RATES = (b'time_s,device,cell,bit_s\n0,0,0,1e6\n10,0,0,0\n0,b,1,5e5\n3,"q,1",1,2\n',)
SPEEDS = (b'time_s,device,steps_per_s\n0,0,10\n60,0,5\n0,b,1\n0,"q,1",3\n',)
MATRICES = (b'device,0,1\nb,1e6,\n0,0,2e6\n"q,1",3,4\n', b'id,1,0\nb,1e6,2\n0,0,2e6\n"q,1",3,4\n')


def positions(file: Callable[[bytes, str], Path]) -> Callable[[bytes], Any]:
    """A parser, of what is written by `file`; so are the others."""
    return lambda data: read_positions(file(data, "trace.csv"), IDS)


def rates(file: Callable[[bytes, str], Path]) -> Callable[[bytes], Any]:
    return lambda data: read_rates(file(data, "trace.csv"), IDS, 2)


def speeds(file: Callable[[bytes, str], Path]) -> Callable[[bytes], Any]:
    return lambda data: read_speeds(file(data, "trace.csv"), IDS)


def matrix(file: Callable[[bytes, str], Path]) -> Callable[[bytes], Any]:
    return lambda data: read_matrix(file(data, "matrix.csv"), IDS, ("0", "1"))


def parquet_positions(file: Callable[[bytes, str], Path]) -> Callable[[bytes], Any]:
    """With one reader for all files."""
    child = Child(parquet.__name__, seconds=20)
    return lambda data: read_positions(file(data, "trace.parquet"), IDS, child=child)


def parquet_seeds() -> tuple[bytes, ...]:
    table = pl.DataFrame({"time_s": [0, 10, 5], "device": ["0", "0", "b"], "x_m": [0.0, 1.5, 9.0], "y_m": [1, 2, 3]})
    buffer = io.BytesIO()
    table.write_parquet(buffer)
    return (buffer.getvalue(),)


def good_trace(found: Traced) -> bool:
    """As many values as times in each series, these ascending, all of them in range."""
    series = [found.times_s, *found.values.values()]
    numbers = np.array([value for columns in series for one in columns for value in one])
    return (
        len(found.times_s) in (3, 6)
        and all([*map(len, columns)] == [*map(len, found.times_s)] for columns in series)
        and all(0 <= a < b <= LATEST_S for times in found.times_s for a, b in itertools.pairwise(times))
        and bool((np.abs(numbers) <= FASTEST_BIT_S).all())
        and all(value >= 0 for name in ("bit_s", "steps_per_s") for one in found.values.get(name, []) for value in one)
    )


def good_matrix(found: Any) -> bool:
    return found.shape == (3, 2) and bool(((found >= 0) & (found <= FASTEST_BIT_S)).all())

"""Parquet files: polars' reader in a process of its own, as a damaged file can end it.

Only small tables of numbers, text, and true and false are read; cells come as the text that would stand in a CSV file.
"""

import io
import json
import os
from typing import Any

import numpy as np

from fedloom.gate.child import Arrays, Child, serve
from fedloom.gate.table_text import MOST_COLUMNS

WHAT = "Parquet"
MOST_ROWS = 1_000_001  # more are not looked at


def columns(data: bytes, where: str, child: Child | None = None) -> dict[str, list[str]]:
    """The cells of each column. child: a reader that runs already, for many files."""
    if child is None:
        with Child(__name__) as own:
            return columns(data, where, own)
    found: dict[str, list[str]] = json.loads(child.arrays(data, where, WHAT)["json"].tobytes())
    return found


def _parse(data: bytes) -> Arrays:
    import polars as pl

    schema = pl.read_parquet_schema(io.BytesIO(data))
    if len(schema) > MOST_COLUMNS:
        raise ValueError(f"{len(schema):,} columns; at most {MOST_COLUMNS:,} are read")
    for name, kind in schema.items():
        if not (kind.is_numeric() or kind in (pl.String, pl.Boolean, pl.Null)):
            raise ValueError(f"column {name[:60]}: expected numbers, text, or true and false, got {kind}")
    table = pl.read_parquet(io.BytesIO(data), n_rows=MOST_ROWS, use_statistics=False)
    cells = {name: [_text(value) for value in table[name].to_list()] for name in table.columns}
    return {"json": np.frombuffer(json.dumps(cells).encode(), np.uint8)}


def _text(value: Any) -> str:
    """A cell as it would stand in a CSV file."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    return str(value).strip()


if __name__ == "__main__":
    os.environ["POLARS_MAX_THREADS"] = "1"
    import polars  # noqa: F401  before the limits

    serve(_parse)

"""A fleet table as cells of text, whatever file it comes in: CSV (UTF-8), or Parquet (its name ends with .parquet).

A cell of a Parquet file is written as it would stand in a CSV file, so that both are checked by the same rules and refused with
the same words.
"""

import io
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedloom.fleet.placement import MOST_DEVICES
from fedloom.gate import Refused, files, shown, table_text
from fedloom.gate.table_text import MOST_COLUMNS
from fedloom.gate.words import one_line

WHAT = "a fleet, a table of devices"


@dataclass(frozen=True, kw_only=True)
class Cells:
    """header: names of columns, as `meaning` has them. rows: of every device. where: its place in the file, for messages;
    first: that of the names."""

    file: Path
    header: list[str]
    rows: list[list[str]]
    where: list[str]
    first: str

    def column(self, name: str) -> list[str]:
        """Of every device."""
        i = self.header.index(name)
        return [row[i] for row in self.rows]


def read_cells(file: Path, meaning: Mapping[str, str], kept: str) -> Cells:
    """meaning: of names in lower case; kept: those that begin with it stand for themselves."""
    try:
        found = _parquet(file) if file.suffix.lower() == ".parquet" else _csv(file)
    except FileNotFoundError:
        raise FileNotFoundError(f"there is no file {file}; give the path of the fleet") from None
    names = [meaning.get(n.lower(), n.lower() if n.lower().startswith(kept) else n) for n in found.header]
    names = [name or f"(column {i})" for i, name in enumerate(names, start=1)]  # spreadsheets leave empty ones
    twice = sorted(name for name, n in Counter(names).items() if n > 1)
    if twice:
        raise Refused(f"{file}, {found.first}: every column must be there once, got {listed(twice)} more than once")
    return Cells(file=file, header=names, rows=found.rows, where=found.where, first=found.first)


def _csv(file: Path) -> Cells:
    found = table_text.lines(file, WHAT)
    first = next(found, None)
    if first is None or first[0] != 1:
        raise Refused(
            f"{file} is empty or has no line of column names; expected x_m,y_m or latitude,longitude in its first line"
        )
    header = first[1]
    if len(header) == 1 and (";" in header[0] or "\t" in header[0]):
        raise Refused(f"{file}, line 1: columns must be separated by commas, got {shown(header[0])}")
    rows: list[list[str]] = []
    where: list[str] = []
    for line, row in found:
        if len(row) != len(header):
            raise Refused(f"{file}, line {line}: expected {len(header)} columns, as in the first line, got {len(row)}")
        if len(rows) == MOST_DEVICES:
            raise Refused(f"{file}, line {line}: more than {MOST_DEVICES:,} devices")
        rows.append(row)
        where.append(f"line {line}")
    if not rows:
        raise Refused(f"{file}: expected one line per device after the line of column names, got none")
    return Cells(file=file, header=header, rows=rows, where=where, first="line 1")


def _parquet(file: Path) -> Cells:
    import polars as pl  # takes long to import

    data = files.read_bytes(file, WHAT)
    try:
        schema = pl.read_parquet_schema(io.BytesIO(data))
        _check_schema(file, schema)
        table = pl.read_parquet(io.BytesIO(data), n_rows=MOST_DEVICES + 1, use_statistics=False)
        columns = [[_text(value) for value in table[name].to_list()] for name in table.columns]
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError, ValueError, MemoryError) as error:
        if isinstance(error, Refused):
            raise
        raise Refused(f"{file}: cannot be read as Parquet ({one_line(str(error), 200)}); the file is damaged") from None
    if table.height > MOST_DEVICES:
        raise Refused(f"{file}: more than {MOST_DEVICES:,} devices")
    if not table.height:
        raise Refused(f"{file}: expected one row per device, got none")
    where = [f"row {i}" for i in range(1, table.height + 1)]
    rows = [list(cells) for cells in zip(*columns)]
    return Cells(
        file=file, header=[name.strip() for name in table.columns], rows=rows, where=where, first="its columns"
    )


def _check_schema(file: Path, schema: Mapping[str, Any]) -> None:
    """Only columns of numbers, text, and yes or no are read."""
    import polars as pl

    if len(schema) > MOST_COLUMNS:
        raise Refused(f"{file}: {len(schema):,} columns; at most {MOST_COLUMNS:,} are read of {WHAT}")
    for name, kind in schema.items():
        if not (kind.is_numeric() or kind in (pl.String, pl.Boolean, pl.Null) or isinstance(kind, pl.Categorical)):
            raise Refused(f"{file}, column {one_line(name, 60)}: expected numbers, text, or true and false, got {kind}")


def _text(value: Any) -> str:
    """A cell as it would stand in a CSV file."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    return str(value).strip()


def listed(names: Sequence[str]) -> str:
    """Names for a message: the first few, on one line."""
    return one_line(", ".join(names[:30]) + (", ..." if len(names) > 30 else ""), 300)

"""A table of devices, or of what happened to them, as cells of text, whatever file it comes in: CSV (UTF-8), or Parquet (its name
ends with .parquet).

A cell of a Parquet file is written as it would stand in a CSV file, so that both are checked by the same rules and refused with
the same words.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedloom.fleet.placement import MOST_DEVICES
from fedloom.gate import Refused, files, parquet, shown, table_text
from fedloom.gate.child import Child
from fedloom.gate.words import one_line

Bools = NDArray[np.bool_]
YES_NO = {"yes": True, "true": True, "1": True, "y": True, "no": False, "false": False, "0": False, "n": False}


class Expected(NamedTuple):
    """What a file should be, for messages: what it is, what a line of it stands for, and the columns that it must have."""

    what: str
    line: str
    columns: str


FLEET = Expected("a fleet, a table of devices", "device", "x_m,y_m or latitude,longitude")


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

    def yes_no(self, name: str) -> Bools:
        """(K,) of every device; yes or no in any spelling."""
        texts = self.column(name)
        for text, where in zip(texts, self.where):
            if text.lower() not in YES_NO:
                raise Refused(f"{self.file}, {where}, column {name}: expected yes or no (or 1 or 0), got {shown(text)}")
        return np.array([YES_NO[text.lower()] for text in texts])


def read_cells(
    file: Path,
    meaning: Mapping[str, str],
    kept: str | None = None,
    child: Child | None = None,
    expected: Expected = FLEET,
) -> Cells:
    """meaning: of names in lower case; kept: those that begin with it stand for themselves. child: a reader of Parquet files
    that runs already."""
    try:
        found = _parquet(file, child, expected) if file.suffix.lower() == ".parquet" else _csv(file, expected)
    except FileNotFoundError:
        path = "the path of the fleet" if expected is FLEET else f"the path of {expected.what}"
        raise FileNotFoundError(f"there is no file {file}; give {path}") from None
    own = [n.lower() if kept is not None and n.lower().startswith(kept) else n for n in found.header]
    names = [meaning.get(n.lower(), mine) for n, mine in zip(found.header, own)]
    names = [name or f"(column {i})" for i, name in enumerate(names, start=1)]  # spreadsheets leave empty ones
    twice = sorted(name for name, n in Counter(names).items() if n > 1)
    if twice:
        raise Refused(f"{file}, {found.first}: every column must be there once, got {listed(twice)} more than once")
    return Cells(file=file, header=names, rows=found.rows, where=found.where, first=found.first)


def _csv(file: Path, expected: Expected) -> Cells:
    found = table_text.lines(file, expected.what)
    first = next(found, None)
    if first is None or first[0] != 1:
        raise Refused(f"{file} is empty or has no line of column names; expected {expected.columns} in its first line")
    header = first[1]
    if len(header) == 1 and (";" in header[0] or "\t" in header[0]):
        raise Refused(f"{file}, line 1: columns must be separated by commas, got {shown(header[0])}")
    rows: list[list[str]] = []
    where: list[str] = []
    for line, row in found:
        if len(row) != len(header):
            raise Refused(f"{file}, line {line}: expected {len(header)} columns, as in the first line, got {len(row)}")
        if len(rows) == MOST_DEVICES:
            raise Refused(f"{file}, line {line}: more than {MOST_DEVICES:,} {expected.line}s")
        rows.append(row)
        where.append(f"line {line}")
    if not rows:
        raise Refused(f"{file}: expected one line per {expected.line} after the line of column names, got none")
    return Cells(file=file, header=header, rows=rows, where=where, first="line 1")


def _parquet(file: Path, child: Child | None, expected: Expected) -> Cells:
    columns = parquet.columns(files.read_bytes(file, expected.what), str(file), child)
    rows = [list(cells) for cells in zip(*columns.values())]
    if len(rows) > MOST_DEVICES:
        raise Refused(f"{file}: more than {MOST_DEVICES:,} {expected.line}s")
    if not rows:
        raise Refused(f"{file}: expected one row per {expected.line}, got none")
    where = [f"row {i}" for i in range(1, len(rows) + 1)]
    return Cells(file=file, header=[name.strip() for name in columns], rows=rows, where=where, first="its columns")


def listed(names: Sequence[str]) -> str:
    """Names for a message: the first few, on one line."""
    return one_line(", ".join(names[:30]) + (", ..." if len(names) > 30 else ""), 300)

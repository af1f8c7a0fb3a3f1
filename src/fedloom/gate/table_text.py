"""Tables as text (CSV, UTF-8): lines of cells with their numbers, and numbers that are written as such."""

import csv
import io
import os
import re
from collections.abc import Iterator

from fedloom.gate import files
from fedloom.gate.words import Refused, one_line

MOST_COLUMNS = 4096
_NUMBER = re.compile(r"[-+]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][-+]?[0-9]+)?")


def lines(path: str | os.PathLike[str], what: str) -> Iterator[tuple[int, list[str]]]:
    """Line number, from 1, and cells without the spaces around them, of every line that has any; `what` for messages."""
    name = one_line(os.fspath(path))
    text = files.read_text(path, what)
    reader = csv.reader(io.StringIO(text, newline=""))
    try:
        for row in reader:
            if len(row) > MOST_COLUMNS:
                raise Refused(
                    f"{name}, line {reader.line_num}: {len(row):,} columns; at most {MOST_COLUMNS:,} are read of {what}"
                )
            cells = [cell.strip() for cell in row]
            if any(cells):
                yield reader.line_num, cells
    except csv.Error as error:
        raise Refused(f"{name}, line {reader.line_num}: expected {what} as CSV ({one_line(str(error))})") from None


def number(text: str) -> float:
    """A number as it is written everywhere (1, -0.5, 1e-4); NaN for anything else: 1_000, 0x1F, inf, nothing.

    >>> number("1e-4"), number("1_000"), number("")
    (0.0001, nan, nan)
    """
    return float(text) if _NUMBER.fullmatch(text) else float("nan")

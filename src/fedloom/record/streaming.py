"""Tables that are larger than memory, written some lines at a time."""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, Final

ROW_GROUP = 65_536  # lines
COMPRESSION: Final = "lz4"  # a table of a short run takes 1.5 ms, with zstd 2.4, which is a tenth smaller


def write_tables(path: Path, tables: Iterator[Mapping[str, Any]], empty: Sequence[str] = ()) -> None:
    """One Parquet file of tables with the same columns, of which there is at least one.

    empty: columns whose NaNs are written as missing. Few tables are in memory at once.
    """
    import polars
    from polars.io.plugins import register_io_source

    def frame(table: Mapping[str, Any]) -> polars.DataFrame:
        return polars.DataFrame([polars.Series(n, column, nan_to_null=n in empty) for n, column in table.items()])

    first, more = frame(next(tables)), next(tables, None)
    try:
        if more is None:
            first.write_parquet(path, compression=COMPRESSION, row_group_size=ROW_GROUP)
        else:
            rest = map(frame, chain([more], tables))
            source = register_io_source(lambda *_: chain([first], rest), schema=first.schema)
            source.sink_parquet(path, compression=COMPRESSION, row_group_size=ROW_GROUP)
    except polars.exceptions.PolarsError as error:
        number = re.search(r"\(os error (\d+)\)", str(error))  # a full disk, which is not the table's fault
        if number is None:
            raise
        raise OSError(int(number[1]), os.strerror(int(number[1])), str(path)) from None

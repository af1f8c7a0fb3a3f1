"""Rows cut into buckets of so many values, which share a scale; the last one may be shorter."""

import numpy as np

from fedloom.coding.interface import Row


def n_buckets(n_values: int, bucket: int) -> int:
    """How many there are."""
    return -(-n_values // bucket)


def in_buckets(row: Row, bucket: int) -> Row:
    """(buckets, values): a row (P,) with zeros behind its end."""
    width = min(bucket, len(row))
    n = n_buckets(len(row), width)
    if n * width == len(row):
        return row.reshape(n, width)
    filled = np.zeros(n * width, dtype=np.float32)
    filled[: len(row)] = row
    return filled.reshape(n, width)


def spread(row: Row, scale: Row, bucket: int) -> Row:
    """A row (P,) times the scale (buckets,) of the bucket each value is in; the row is used up."""
    width = min(bucket, len(row))
    whole = len(row) // width
    row[: whole * width].reshape(whole, width)[...] *= scale[:whole, None]
    if len(scale) > whole:
        row[whole * width :] *= scale[whole]
    return row

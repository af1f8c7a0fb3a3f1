"""Columns of models in order: what medians and trimmed means are made of.

m models of P values each, rows (m, P) in single precision, finite. The compiled kernels sort a vector's width of columns side
by side; without them, and for more rows than their networks are made for, numpy does it, to the same values.
"""

from types import ModuleType

import numpy as np
from numpy.typing import NDArray

from fedloom import _kernels

Rows = NDArray[np.float32]


def column_median(rows: Rows) -> Rows:
    """(P,) of (m, P): the middle value of every column, or half the sum of the two in the middle, as np.median gives it.

    >>> column_median(np.array([[1, 9], [2, 7], [9, 8]], dtype=np.float32)).tolist()
    [2.0, 8.0]
    """
    kernels = _kernels_for(rows)
    if kernels is None:
        return np.asarray(np.median(rows, axis=0) + np.float32(0))  # -0 and 0 are one number
    found: Rows = kernels.median(np.ascontiguousarray(rows), _kernels.n_threads())
    return found


def sorted_columns(rows: Rows) -> Rows:
    """(m, P) of (m, P): every column in ascending order."""
    kernels = _kernels_for(rows)
    if kernels is None:
        return np.asarray(np.sort(rows, axis=0) + np.float32(0))
    found: Rows = kernels.sorted_columns(np.ascontiguousarray(rows), _kernels.n_threads())
    return found


def _kernels_for(rows: Rows) -> ModuleType | None:
    if rows.ndim != 2 or not len(rows) or rows.dtype != np.float32:
        raise ValueError(f"rows must be at least one model, (m, P) in float32, got {rows.shape} in {rows.dtype}")
    kernels = _kernels.compiled()
    return None if kernels is None or len(rows) > kernels.MOST_ROWS else kernels

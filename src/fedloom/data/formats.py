"""The file formats of the published datasets, from bytes to arrays.

Every function gets the bytes and a name for messages; Refused says what was expected and what came. What comes out is finite and
in range: labels are those of the dataset, a file of other values is named with the first of them.
"""

import io
import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedloom.gate import Refused, arrays, finite, mat
from fedloom.gate.child import Child
from fedloom.gate.words import one_line

Array = NDArray[Any]
Bytes = NDArray[np.uint8]
Windows = tuple[NDArray[np.float32], NDArray[np.int64], NDArray[np.int64]]

_AGAIN = "the file is damaged or of another kind; get it again"
MOST_RECORDINGS = 1000  # of HAPT; the published data have 61
MOST_ID = 1_000_000_000  # of an experiment or a person


def idx(data: bytes, name: str, n_dims: int) -> Bytes:
    """An idx file of bytes: magic 0x00 0x00 0x08 n_dims, n_dims big-endian lengths, then the values."""
    magic = bytes([0, 0, 8, n_dims])
    if data[:4] != magic:
        raise Refused(
            f"{name}: expected an idx file of bytes in {n_dims} dimensions, which begins {magic.hex(' ')}, "
            f"got {data[:4].hex(' ') or 'an empty file'}; {_AGAIN}"
        )
    header = 4 + 4 * n_dims
    if len(data) < header:
        raise Refused(f"{name}: expected a header of {header} bytes, got {len(data)} bytes in all; {_AGAIN}")
    shape = tuple(np.frombuffer(data, ">u4", count=n_dims, offset=4).tolist())
    expected = header + math.prod(shape)
    if len(data) != expected:
        raise Refused(f"{name}: expected {expected} bytes for shape {shape}, got {len(data)}; {_AGAIN}")
    if 0 in shape:
        raise Refused(f"{name}: expected samples, got none: shape {shape}; {_AGAIN}")
    return np.frombuffer(data, np.uint8, offset=header).reshape(shape)


def idx_bytes(head: bytes, name: str) -> int:
    """Size of an idx file of bytes in 1 to 3 dimensions by its first 16 bytes."""
    n_dims = head[3]
    if head[:3] != bytes([0, 0, 8]) or not 1 <= n_dims <= 3:
        raise Refused(
            f"{name}: expected an idx file of bytes, which begins 00 00 08 and the number of dimensions, got "
            f"{head[:4].hex(' ')}; {_AGAIN}"
        )
    shape: list[int] = np.frombuffer(head, ">u4", count=n_dims, offset=4).tolist()
    return 4 + 4 * n_dims + math.prod(shape)


def cifar(data: bytes, name: str, n_label_bytes: int, n_classes: int) -> tuple[Bytes, Bytes]:
    """Rows of label bytes (CIFAR-10: one; CIFAR-100: coarse, fine) and 3 x 32 x 32 pixels.

    Returns images (n, 3, 32, 32) and the last label byte (n,).
    """
    row = n_label_bytes + 3072
    if len(data) == 0 or len(data) % row:
        raise Refused(
            f"{name}: expected whole rows of {row} bytes, got {len(data)} bytes, "
            f"{len(data) // row} rows and {len(data) % row} bytes; {_AGAIN}"
        )
    rows = np.frombuffer(data, np.uint8).reshape(-1, row)
    labels = rows[:, n_label_bytes - 1]
    finite.in_range(f"{name}: labels", labels, 0, n_classes - 1)
    return rows[:, n_label_bytes:].reshape(-1, 3, 32, 32), labels


def svhn(data: bytes, name: str, child: Child | None = None) -> tuple[Bytes, Bytes]:
    """A Matlab file with X (32, 32, 3, n) and y (n, 1) in 1..10, where 10 is the digit 0. child: a reader that runs already.

    Returns images (n, 3, 32, 32) and digits (n,) in 0..9.
    """
    x, y = mat.arrays(data, name, child)
    if x.ndim != 4 or x.shape[:3] != (32, 32, 3) or x.dtype != np.uint8:
        raise Refused(f"{name}: expected X of shape (32, 32, 3, n) uint8, got {x.shape} {x.dtype}; {_AGAIN}")
    if y.size != x.shape[3] or y.size == 0:
        raise Refused(f"{name}: expected {x.shape[3]} labels, one for each image, got {y.size}; {_AGAIN}")
    finite.in_range(f"{name}: labels y", y, 1, 10)
    if (y != np.floor(y)).any():
        raise Refused(f"{name}: expected whole labels y in 1..10, got {y[y != np.floor(y)][0]:g}; {_AGAIN}")
    return np.ascontiguousarray(x.transpose(3, 2, 0, 1)), (y.reshape(-1) % 10).astype(np.uint8)


def windows(data: bytes, name: str) -> Windows:
    """Ready-made HAPT windows: X (n, 128, 6), y (n,) 0..5, user (n,)."""
    x, y, user = arrays.npz(data, name, ("X", "y", "user"))
    if x.ndim != 3 or len(x) == 0 or x.shape[1:] != (128, 6) or y.shape != (len(x),) or user.shape != (len(x),):
        raise Refused(
            f"{name}: expected X (n, 128, 6), y (n,) and user (n,), got {x.shape}, {y.shape} and {user.shape}; {_AGAIN}"
        )
    label, person = finite.whole_numbers(f"{name}: y", y), finite.whole_numbers(f"{name}: user", user)
    finite.in_range(f"{name}: y", label, 0, 5)
    finite.in_range(f"{name}: user", person, 0, MOST_ID)
    return finite.as_float32(f"{name}: X", x), label, person


def hapt_signals(labels: bytes, name: str, signal: Callable[[list[str]], Mapping[str, tuple[str, bytes]]]) -> Windows:
    """Windows of the raw HAPT recordings: x (n, 128, 6) float32, label (n,) 0..5, user (n,).

    labels   labels.txt: rows of experiment, user, activity 1..12, first and last sample (counted from 1)
    signal   file names -> (name for messages, bytes) of acc_expEE_userUU.txt and gyro_expEE_userUU.txt, each
             three columns at 50 Hz; accelerations in g, angular speeds in rad/s

    Windows have 128 samples (2.56 s), half overlapping, and lie inside one labelled segment. Only the six
    basic activities (1..6: walking, upstairs, downstairs, sitting, standing, lying) are kept, not the
    transitions.
    """
    rows = _table(labels, name, 5)
    finite.in_range(f"{name}: columns", rows, 0, MOST_ID)
    if (rows != np.floor(rows)).any():
        line = int(np.argmax((rows != np.floor(rows)).any(axis=1))) + 1
        raise Refused(f"{name}: expected whole numbers, but row {line} has others; {_AGAIN}")
    rows = rows.astype(np.int64)
    finite.in_range(f"{name}: activities, the third column,", rows[:, 2], 1, 12)
    recordings = dict.fromkeys((int(e), int(u)) for e, u in rows[:, :2])
    if len(recordings) > MOST_RECORDINGS:
        raise Refused(f"{name}: {len(recordings):,} recordings; at most {MOST_RECORDINGS:,} are read")
    files = [f"{kind}_exp{e:02d}_user{u:02d}.txt" for e, u in recordings for kind in ("acc", "gyro")]
    read = signal(files)
    x: list[Array] = []
    y: list[int] = []
    user: list[int] = []
    for e, u in recordings:
        acc, gyro = (_table(data, where, 3) for where, data in (read[files.pop(0)], read[files.pop(0)]))
        if len(acc) != len(gyro):
            raise Refused(f"{name}: experiment {e} has {len(acc)} accelerations but {len(gyro)} angular speeds")
        values = finite.as_float32(
            f"{name}: signals of experiment {e}", np.concatenate([acc, gyro], axis=1)
        )  # (samples, 6)
        for activity, first, last in rows[(rows[:, 0] == e) & (rows[:, 1] == u), 2:].tolist():
            if not 1 <= first <= last <= len(values):
                raise Refused(
                    f"{name}: experiment {e} has samples 1..{len(values)}, but a segment runs from {first} to {last}"
                )
            for start in range(first - 1, last - 127, 64) if activity <= 6 else ():
                x.append(values[start : start + 128])
                y.append(activity - 1)
                user.append(u)
    if not x:
        raise Refused(f"{name}: no labelled segment of a basic activity is as long as a window of 128 samples")
    return np.stack(x), np.array(y, dtype=np.int64), np.array(user, dtype=np.int64)


def _table(data: bytes, name: str, n_columns: int) -> NDArray[np.float64]:
    """Rows of numbers with spaces between them, all of them finite."""
    if not data.strip():
        raise Refused(f"{name}: expected rows of {n_columns} numbers, got an empty file")
    try:
        table = np.loadtxt(io.BytesIO(data), ndmin=2, comments=None)
    except ValueError as error:
        raise Refused(f"{name}: expected rows of {n_columns} numbers ({one_line(str(error))}); {_AGAIN}") from None
    if table.shape[1] != n_columns:
        raise Refused(f"{name}: expected rows of {n_columns} numbers, got rows of {table.shape[1]}; {_AGAIN}")
    finite.finite(f"{name}: the table", table)
    return table

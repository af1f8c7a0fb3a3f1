"""The file formats of the published datasets, from bytes to arrays.

Every function gets the bytes and a name for messages; a ValueError says what was expected and what came.
"""

import io
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Bytes = NDArray[np.uint8]
Windows = tuple[NDArray[np.float32], NDArray[np.int64], NDArray[np.int64]]

_AGAIN = "the file is damaged or of another kind; get it again"


def idx(data: bytes, name: str, n_dims: int) -> Bytes:
    """An idx file of bytes: magic 0x00 0x00 0x08 n_dims, n_dims big-endian lengths, then the values."""
    magic = bytes([0, 0, 8, n_dims])
    if data[:4] != magic:
        raise ValueError(
            f"{name}: expected an idx file of bytes in {n_dims} dimensions, which begins {magic.hex(' ')}, "
            f"got {data[:4].hex(' ') or 'an empty file'}; {_AGAIN}"
        )
    header = 4 + 4 * n_dims
    if len(data) < header:
        raise ValueError(f"{name}: expected a header of {header} bytes, got {len(data)} bytes in all; {_AGAIN}")
    shape = tuple(np.frombuffer(data, ">u4", count=n_dims, offset=4).tolist())
    expected = header + int(np.prod(shape, dtype=object))
    if len(data) != expected:
        raise ValueError(f"{name}: expected {expected} bytes for shape {shape}, got {len(data)}; {_AGAIN}")
    return np.frombuffer(data, np.uint8, offset=header).reshape(shape)


def cifar(data: bytes, name: str, n_label_bytes: int) -> tuple[Bytes, Bytes]:
    """Rows of label bytes (CIFAR-10: one; CIFAR-100: coarse, fine) and 3 x 32 x 32 pixels.

    Returns images (n, 3, 32, 32) and the last label byte (n,).
    """
    row = n_label_bytes + 3072
    if len(data) == 0 or len(data) % row:
        raise ValueError(
            f"{name}: expected whole rows of {row} bytes, got {len(data)} bytes, "
            f"{len(data) // row} rows and {len(data) % row} bytes; {_AGAIN}"
        )
    rows = np.frombuffer(data, np.uint8).reshape(-1, row)
    return rows[:, n_label_bytes:].reshape(-1, 3, 32, 32), rows[:, n_label_bytes - 1]


def svhn(data: bytes, name: str) -> tuple[Bytes, Bytes]:
    """A Matlab file with X (32, 32, 3, n) and y (n, 1) in 1..10, where 10 is the digit 0.

    Returns images (n, 3, 32, 32) and digits (n,) in 0..9.
    """
    from scipy.io import loadmat

    try:
        arrays = loadmat(io.BytesIO(data), variable_names=("X", "y"))
    except Exception as error:  # a damaged file makes scipy raise almost anything
        raise ValueError(f"{name}: cannot be read as a Matlab file of {len(data)} bytes ({error}); {_AGAIN}") from error
    x, y = _keys(arrays, name, ("X", "y"))
    if x.ndim != 4 or x.shape[:3] != (32, 32, 3) or x.dtype != np.uint8:
        raise ValueError(f"{name}: expected X of shape (32, 32, 3, n) uint8, got {x.shape} {x.dtype}; {_AGAIN}")
    if y.size != x.shape[3]:
        raise ValueError(f"{name}: expected {x.shape[3]} labels, one for each image, got {y.size}; {_AGAIN}")
    if y.size == 0 or y.min() < 1 or y.max() > 10:
        raise ValueError(f"{name}: expected labels y in 1..10, got {np.unique(y).tolist()}; {_AGAIN}")
    return np.ascontiguousarray(x.transpose(3, 2, 0, 1)), (y.reshape(-1) % 10).astype(np.uint8)


def npz(data: bytes, name: str, keys: tuple[str, ...]) -> tuple[Array, ...]:
    """Arrays of an .npz file, without pickled objects."""
    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as arrays:
            return _keys(arrays, name, keys)
    except (OSError, EOFError, KeyError, ValueError) as error:
        raise ValueError(f"{name}: cannot be read as an .npz file of {len(data)} bytes ({error}); {_AGAIN}") from error
    except Exception as error:  # zipfile and zlib have errors of their own
        raise ValueError(f"{name}: the .npz file of {len(data)} bytes is damaged ({error}); {_AGAIN}") from error


def windows(data: bytes, name: str) -> Windows:
    """Ready-made HAPT windows: X (n, 128, 6) float32, y (n,) 0..5, user (n,)."""
    x, y, user = npz(data, name, ("X", "y", "user"))
    if x.ndim != 3 or x.shape[1:] != (128, 6) or y.shape != (len(x),) or user.shape != (len(x),):
        raise ValueError(
            f"{name}: expected X (n, 128, 6), y (n,) and user (n,), got {x.shape}, {y.shape} and {user.shape}; {_AGAIN}"
        )
    return x.astype(np.float32, copy=False), y.astype(np.int64), user.astype(np.int64)


def hapt_signals(labels: bytes, name: str, signal: Callable[[list[str]], Mapping[str, tuple[str, bytes]]]) -> Windows:
    """Windows of the raw HAPT recordings: x (n, 128, 6) float32, label (n,) 0..5, user (n,).

    labels   labels.txt: rows of experiment, user, activity 1..12, first and last sample (counted from 1)
    signal   file names -> (name for messages, bytes) of acc_expEE_userUU.txt and gyro_expEE_userUU.txt, each
             three columns at 50 Hz; accelerations in g, angular speeds in rad/s

    Windows have 128 samples (2.56 s), half overlapping, and lie inside one labelled segment. Only the six
    basic activities (1..6: walking, upstairs, downstairs, sitting, standing, lying) are kept, not the
    transitions.
    """
    rows = _table(labels, name, 5).astype(np.int64)
    recordings = dict.fromkeys((int(e), int(u)) for e, u in rows[:, :2])
    files = [f"{kind}_exp{e:02d}_user{u:02d}.txt" for e, u in recordings for kind in ("acc", "gyro")]
    read = signal(files)
    x: list[Array] = []
    y: list[int] = []
    user: list[int] = []
    for e, u in recordings:
        acc, gyro = (_table(data, where, 3) for where, data in (read[files.pop(0)], read[files.pop(0)]))
        if len(acc) != len(gyro):
            raise ValueError(f"{name}: experiment {e} has {len(acc)} accelerations but {len(gyro)} angular speeds")
        values = np.concatenate([acc, gyro], axis=1).astype(np.float32)  # (samples, 6)
        for activity, first, last in rows[(rows[:, 0] == e) & (rows[:, 1] == u), 2:].tolist():
            if not 1 <= first <= last <= len(values):
                raise ValueError(
                    f"{name}: experiment {e} has samples 1..{len(values)}, but a segment runs from {first} to {last}"
                )
            for start in range(first - 1, last - 127, 64) if activity <= 6 else ():
                x.append(values[start : start + 128])
                y.append(activity - 1)
                user.append(u)
    if not x:
        raise ValueError(f"{name}: no labelled segment of a basic activity is as long as a window of 128 samples")
    return np.stack(x), np.array(y, dtype=np.int64), np.array(user, dtype=np.int64)


def _table(data: bytes, name: str, n_columns: int) -> NDArray[np.float64]:
    if not data.strip():
        raise ValueError(f"{name}: expected rows of {n_columns} numbers, got an empty file")
    try:
        table = np.loadtxt(io.BytesIO(data), ndmin=2)
    except ValueError as error:
        raise ValueError(f"{name}: expected rows of {n_columns} numbers ({error}); {_AGAIN}") from error
    if table.shape[1] != n_columns:
        raise ValueError(f"{name}: expected rows of {n_columns} numbers, got rows of {table.shape[1]}; {_AGAIN}")
    return table


def _keys(arrays: Mapping[str, Any], name: str, keys: tuple[str, ...]) -> tuple[Array, ...]:
    there = [key for key in arrays if not key.startswith("__")]
    if lacking := [key for key in keys if key not in there]:
        raise ValueError(f"{name}: expected arrays {', '.join(keys)}, lacks {', '.join(lacking)}, has {there}")
    return tuple(np.asarray(arrays[key]) for key in keys)

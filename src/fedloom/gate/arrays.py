"""Arrays of .npy and .npz files: what the header declares is what is read, and nothing is unpickled.

The header says shape and type before any number comes; the size that follows from it must be the size that is there, and at
most MOST_BYTES. So a header that declares a terabyte costs nothing, and no more is unpacked than the arrays hold.
"""

import io
import math
import zipfile
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.lib import format as npy_format
from numpy.typing import NDArray

from fedloom.gate.files import AT_ONCE, MOST_BYTES
from fedloom.gate.words import Refused, one_line, shown

MOST_MEMBERS = 1000  # of an .npz file
_AGAIN = "the file is damaged or of another kind; get it again"


def npy(data: bytes, where: str) -> NDArray[Any]:
    """The array of an .npy file."""
    return _array(io.BytesIO(data), len(data), where)


def npz_names(data: bytes, where: str) -> list[str]:
    """Names of the arrays of an .npz file."""
    with _zip(data, where) as archive:
        return [name.removesuffix(".npy") for name in archive.namelist()]


def npz(data: bytes, where: str, names: Sequence[str]) -> tuple[NDArray[Any], ...]:
    """The arrays of an .npz file with these names, in this order."""
    with _zip(data, where) as archive:
        there = {name.removesuffix(".npy"): name for name in archive.namelist()}
        if lacking := [name for name in names if name not in there]:
            raise Refused(
                f"{where}: expected arrays {', '.join(names)}, lacks {', '.join(lacking)}, has {shown([*there])}"
            )
        return tuple(_member(archive, there[name], f"{where}, array {name}") for name in names)


def _zip(data: bytes, where: str) -> zipfile.ZipFile:
    try:
        archive = zipfile.ZipFile(io.BytesIO(data))
    except Exception as error:  # of a damaged directory zipfile makes errors of many kinds
        raise Refused(
            f"{where}: cannot be read as an .npz file of {len(data):,} bytes ({one_line(str(error))}); {_AGAIN}"
        ) from None
    if len(archive.infolist()) > MOST_MEMBERS:
        raise Refused(f"{where}: {len(archive.infolist()):,} arrays; at most {MOST_MEMBERS:,} are read; {_AGAIN}")
    return archive


def _member(archive: zipfile.ZipFile, name: str, where: str) -> NDArray[Any]:
    try:
        with archive.open(name) as stream:
            return _array(stream, archive.getinfo(name).file_size, where)
    except Refused:
        raise
    except Exception as error:  # zipfile, zlib, bz2 and lzma have errors of their own
        raise Refused(f"{where}: damaged ({one_line(str(error)) or type(error).__name__}); {_AGAIN}") from None


def _array(stream: Any, n_bytes: int, where: str) -> NDArray[Any]:
    """The array in a stream of `n_bytes`: header first, then exactly what it declares."""
    try:
        version = npy_format.read_magic(stream)
        read_header = {
            (1, 0): npy_format.read_array_header_1_0,
            (2, 0): npy_format.read_array_header_2_0,
        }[version]
        shape, in_columns, dtype = read_header(stream)
    except Exception as error:  # the header is a Python literal: a damaged one is wrong in as many ways
        raise Refused(
            f"{where}: no header of an array ({one_line(str(error)) or 'of no known version'}); {_AGAIN}"
        ) from None
    if dtype.hasobject:
        raise Refused(f"{where}: holds Python objects, which are never unpickled; store numbers")
    if dtype.names is not None or dtype.itemsize == 0:
        raise Refused(f"{where}: expected an array of numbers, got {shown(str(dtype))}; {_AGAIN}")
    expected = math.prod(shape) * dtype.itemsize
    there = n_bytes - stream.tell()
    if min(shape, default=0) < 0 or len(shape) > 32 or expected != there:
        raise Refused(f"{where}: expected {expected:,} bytes for {shown(shape)} {dtype}, got {there:,}; {_AGAIN}")
    if expected > MOST_BYTES:
        raise Refused(f"{where}: {expected:,} bytes for {shown(shape)} {dtype}; at most {MOST_BYTES:,} are read")
    parts: list[bytes] = []
    left = expected
    while left and (part := stream.read(min(left, AT_ONCE))):
        parts.append(part)
        left -= len(part)
    if left or stream.read(1):  # reading on to the end compares the checksum of a zip archive
        raise Refused(f"{where}: expected {expected:,} bytes for {shown(shape)} {dtype}, got others; {_AGAIN}")
    flat = np.frombuffer(b"".join(parts), dtype)
    return flat.reshape(shape, order="F" if in_columns else "C")

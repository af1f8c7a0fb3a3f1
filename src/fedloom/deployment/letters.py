"""What goes over the wire: a letter is a kind, some plain fields and named arrays of numbers; nothing in it can be run.

    FLM1 | length of the header, 4 bytes | header: JSON | the arrays, one after the other, little-endian

The header names every array with its type and shape, so that the length of a letter follows from its header; what does not fit to
the byte, is too long, is not finite or of a type that is not listed is refused with the reason.
"""

import json
import math
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedloom.gate import json_text
from fedloom.gate.words import Refused, shown

VERSION = 2
"""Of the protocol that this program speaks best."""
OLDEST = 2
"""The oldest that it still understands."""
MAGIC = b"FLM1"
MOST_HEADER = 4 << 20
MOST_ARRAYS = 16
MOST_DIMENSIONS = 4
TYPES = {name: np.dtype(name) for name in ("<f4", "<f8", "<i8", "|u1")}
_PREFIX = struct.Struct("<4sI")


class BadLetter(ValueError):
    """Bytes that are no letter, or one that is not let in."""


@dataclass(frozen=True, eq=False)
class Letter:
    """kind: what is wanted or answered. fields: plain JSON. arrays: by name."""

    kind: str
    fields: Mapping[str, Any] = field(default_factory=dict)
    arrays: Mapping[str, NDArray[Any]] = field(default_factory=dict)

    def word(self, name: str) -> str:
        """A field that must be a short text."""
        value = self.fields.get(name)
        if not isinstance(value, str) or len(value) > 200:
            raise BadLetter(f"a letter {self.kind!r} must have a short text as {name!r}, got {shown(value)}")
        return value

    def number(self, name: str, *, least: float, most: float) -> float:
        """A field that must be a number between two others."""
        value = self.fields.get(name)
        if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most:
            raise BadLetter(
                f"a letter {self.kind!r} must have a number from {least:g} to {most:g} as {name!r}, got {shown(value)}"
            )
        return value

    def words(self, name: str, most: int = 100_000) -> list[str]:
        """A field that must be a list of short texts."""
        value = self.fields.get(name, [])
        if (
            not isinstance(value, list)
            or len(value) > most
            or not all(isinstance(v, str) and len(v) < 200 for v in value)
        ):
            raise BadLetter(f"a letter {self.kind!r} must have a list of at most {most} short texts as {name!r}")
        return value


def encode(letter: Letter) -> bytes:
    """The bytes of a letter."""
    return b"".join(encoded(letter))


def encoded(letter: Letter) -> list[bytes | memoryview]:
    """The bytes of a letter in pieces; arrays are not copied."""
    arrays = {name: np.ascontiguousarray(a, a.dtype.newbyteorder("<")) for name, a in letter.arrays.items()}
    for name, array in arrays.items():
        if array.dtype.str not in TYPES:
            raise BadLetter(f"array {name!r} must be one of {', '.join(TYPES)}, got {array.dtype.str}")
    header = json.dumps(
        {
            "kind": letter.kind,
            "fields": dict(letter.fields),
            "arrays": [[name, a.dtype.str, list(a.shape)] for name, a in arrays.items()],
        },
        allow_nan=False,
        separators=(",", ":"),
    ).encode()
    return [_PREFIX.pack(MAGIC, len(header)), header, *(a.data for a in arrays.values())]


def decode(data: bytes | memoryview, most: int) -> Letter:
    """The letter that these bytes are, if they are at most `most`.

    >>> decode(encode(Letter("put", {"name": "m-1"}, {"row": np.zeros(2, np.float32)})), 1000).arrays["row"]
    array([0., 0.], dtype=float32)
    """
    if len(data) > most:
        raise BadLetter(f"a letter has {len(data):,} bytes, and at most {most:,} can be needed here")
    if len(data) < _PREFIX.size:
        raise BadLetter(f"{len(data)} bytes are no letter")
    magic, length = _PREFIX.unpack_from(data)
    if magic != MAGIC:
        raise BadLetter(f"a letter begins with {MAGIC!r}, this with {magic!r}")
    if length > MOST_HEADER or _PREFIX.size + length > len(data):
        raise BadLetter(f"a letter of {len(data)} bytes cannot have a header of {length}")
    kind, fields, specs = _header(bytes(data[_PREFIX.size : _PREFIX.size + length]))
    arrays: dict[str, NDArray[Any]] = {}
    at = _PREFIX.size + length
    for spec in specs:
        name, dtype, shape = _spec(spec)
        n_bytes = dtype.itemsize * math.prod(shape)
        if n_bytes > len(data) - at:
            raise BadLetter(f"array {name!r} of shape {shape} is longer than the letter")
        arrays[name] = np.frombuffer(data, dtype, math.prod(shape), at).reshape(shape)
        at += n_bytes
        if dtype.kind == "f" and not np.isfinite(arrays[name]).all():
            raise BadLetter(f"array {name!r} holds numbers that are not finite")
    if at != len(data):
        raise BadLetter(f"{len(data) - at} bytes follow the end of a letter")
    return Letter(kind, fields, arrays)


def _header(data: bytes) -> tuple[str, dict[str, Any], list[Any]]:
    try:
        found = json_text.read(data.decode("utf-8"), "the header of a letter")
    except (UnicodeDecodeError, Refused) as error:
        raise BadLetter(f"the header of a letter is not JSON: {error}") from None
    if not isinstance(found, dict) or set(found) != {"kind", "fields", "arrays"}:
        raise BadLetter("the header of a letter must have kind, fields and arrays")
    kind, fields, arrays = found["kind"], found["fields"], found["arrays"]
    if not (isinstance(kind, str) and len(kind) < 50 and isinstance(fields, dict) and isinstance(arrays, list)):
        raise BadLetter("kind must be a text, fields a mapping and arrays a list")
    if len(arrays) > MOST_ARRAYS:
        raise BadLetter(f"a letter has at most {MOST_ARRAYS} arrays, this one {len(arrays)}")
    return kind, fields, arrays


def _spec(spec: Any) -> tuple[str, np.dtype[Any], tuple[int, ...]]:
    if not (isinstance(spec, list) and len(spec) == 3 and isinstance(spec[0], str) and isinstance(spec[2], list)):
        raise BadLetter(f"an array is told by name, type and shape, got {shown(spec)}")
    name, dtype, shape = spec
    if dtype not in TYPES:
        raise BadLetter(f"array {shown(name)} must be one of {', '.join(TYPES)}, got {shown(dtype)}")
    whole = all(isinstance(n, int) and not isinstance(n, bool) and 0 <= n < 1 << 40 for n in shape)
    if len(shape) > MOST_DIMENSIONS or not whole:
        raise BadLetter(f"array {shown(name)} has no shape: {shown(shape)}")
    return name, np.dtype(dtype), tuple(shape)

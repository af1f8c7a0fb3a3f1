"""Files from outside: regular ones only, and never more than so many bytes, packed or unpacked.

A device, a pipe or a socket would be read for ever or not at all, so it is refused before it is opened; a path is otherwise the
user's own affair. What is packed is unpacked up to what its format can hold and not further.
"""

import gzip
import io
import os
import stat
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

from fedloom.gate.words import Refused, one_line, shown

MOST_BYTES = 1 << 30  # of any file of data, unpacked; the largest published one has 0.2 GB
MOST_TEXT_BYTES = 1 << 28  # of a table as text: a million devices have 0.1 GB
AT_ONCE = 1 << 20

_KINDS = {
    stat.S_IFDIR: "a directory",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
}


def opened(path: str | os.PathLike[str], what: str = "a file") -> BinaryIO:
    """A regular file, open for reading its bytes. `what` it should be, for the message. FileNotFoundError and PermissionError are
    for the caller, who knows more; anything else that stands in the way is Refused."""
    name = os.fspath(path)
    if "\0" in name:
        raise Refused(f"a path cannot hold a NUL character, got {shown(name)}; give the path of {what}")
    try:
        _must_be_regular(Path(name).stat().st_mode, name, what)
        descriptor = os.open(name, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except (FileNotFoundError, PermissionError, NotADirectoryError):
        raise
    except OSError as error:  # a name that is too long, a loop of links
        raise Refused(f"{one_line(name)} cannot be opened ({error.strerror}); give the path of {what}") from None
    except UnicodeEncodeError:
        raise Refused(f"{shown(name)} is no path; give the path of {what}") from None
    try:
        _must_be_regular(os.fstat(descriptor).st_mode, name, what)  # it may have been exchanged meanwhile
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def read_bytes(path: str | os.PathLike[str], what: str = "a file", most: int = MOST_BYTES) -> bytes:
    """All bytes of a regular file that has at most `most` of them."""
    with opened(path, what) as file:
        n_bytes = os.fstat(file.fileno()).st_size  # of some files of the system it is 0, and they have more
        data = file.read(min(n_bytes, most) + 1) if n_bytes <= most else b""
        while n_bytes <= most and len(data) <= most and (part := file.read(AT_ONCE)):
            data += part
        if max(n_bytes, len(data)) > most:
            raise Refused(
                f"{one_line(os.fspath(path))} has {max(n_bytes, len(data)):,} bytes; at most {most:,} are read of {what}"
            )
    return data


def read_text(path: str | os.PathLike[str], what: str = "a text file", most: int = MOST_TEXT_BYTES) -> str:
    """A text file (UTF-8, with or without a byte order mark) of at most `most` bytes; line ends as they are."""
    data = read_bytes(path, what, most)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise Refused(
            f"{one_line(os.fspath(path))}, line {line}: not a text file: byte {data[error.start]:#04x} is no UTF-8; "
            f"give the path of {what}"
        ) from None


def gunzip(data: bytes, where: str, most: Callable[[bytes], int] | int = MOST_BYTES, n_head: int = 16) -> bytes:
    """What a gzip file holds, if it is at most `most` bytes: a number, or a function of the first `n_head` bytes (a header that
    declares the size). Nothing beyond is unpacked."""
    return unpacked(gzip.GzipFile(fileobj=io.BytesIO(data)), where, most, n_head)


def unpacked(stream: Any, where: str, most: Callable[[bytes], int] | int = MOST_BYTES, n_head: int = 16) -> bytes:
    """All that a stream gives, in the same way: an open member of an archive, say."""
    parts: list[bytes] = []
    n, limit = 0, n_head if callable(most) else most
    try:
        while part := stream.read(min(limit + 1 - n, AT_ONCE)):
            parts.append(part)
            n += len(part)
            if callable(most) and n >= n_head:
                limit, most = min(most(b"".join(parts)[:n_head]), MOST_BYTES), 0
            if n > limit:
                raise Refused(
                    f"{where}: unpacks to more than {limit:,} bytes, all that it can hold by its format; it is damaged or made "
                    "to do harm; get the file again"
                )
    except (EOFError, OSError, zlib.error) as error:
        raise Refused(f"{where}: damaged or cut short ({one_line(str(error))}); get the file again") from None
    return b"".join(parts)


class Bounded:
    """A stream of which at most so many bytes can be read in all: an archive whose members are gone through one by one."""

    def __init__(self, stream: Any, where: str, most: int = MOST_BYTES) -> None:
        self.stream, self.where, self.most, self.n_read = stream, where, most, 0

    def read(self, n_bytes: int) -> bytes:
        data: bytes = self.stream.read(n_bytes)
        self.n_read += len(data)
        if self.n_read > self.most:
            raise Refused(f"{self.where}: unpacks to more than {self.most:,} bytes; get the file again")
        return data


def _must_be_regular(mode: int, name: str, what: str) -> None:
    if not stat.S_ISREG(mode):
        kind = _KINDS.get(stat.S_IFMT(mode), "no file")
        raise Refused(f"{one_line(name)} is {kind}; give the path of {what}")

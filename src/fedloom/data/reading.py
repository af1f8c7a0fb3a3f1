"""The bytes of files on disk and in archives.

Archives as published are read without unpacking: only members asked for by name are read, nothing is written. No more is
unpacked than was allowed for a file.
"""

import gzip
import tarfile
import zipfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from fedloom.data.looking import Found
from fedloom.gate import Refused
from fedloom.gate.files import MOST_BYTES, Bounded, gunzip, opened, read_bytes, unpacked
from fedloom.gate.words import one_line

Most = int | Callable[[bytes], int]  # bytes of a file unpacked, or what its first 16 bytes say


def read_files(hits: Mapping[str, Found], most: Mapping[str, Most] | None = None) -> dict[str, tuple[Found, bytes]]:
    """The bytes of each file, uncompressed, at most so many; an archive is gone through once for all its members."""
    limits = dict.fromkeys(hits, MOST_BYTES) if most is None else most
    read: dict[str, tuple[Found, bytes]] = {}
    for archive in {hit.path for hit in hits.values() if hit.member is not None}:
        of_member = {hit.member: limits[f] for f, hit in hits.items() if hit.path == archive and hit.member is not None}
        data = _read_archive(archive, of_member)
        read |= {f: (hit, data[hit.member]) for f, hit in hits.items() if hit.path == archive and hit.member}
    for file, hit in hits.items():
        if hit.member is None:
            try:
                raw = read_bytes(hit.path, f"{file} of a dataset")
            except FileNotFoundError:
                raise FileNotFoundError(f"{hit.path} is missing, though other files of its dataset are there") from None
            read[file] = (hit, gunzip(raw, str(hit.path), limits[file]) if raw[:2] == b"\x1f\x8b" else raw)
    return {file: read[file] for file in hits}


def _read_archive(archive: Path, most: Mapping[str, Most]) -> dict[str, bytes]:
    """Regular files of a tar or zip archive, by name; a folder in front of the name is accepted."""
    read = _from_zip if archive.suffix == ".zip" else _from_tar
    try:
        with opened(archive) as stream:
            got = read(stream, str(archive), most)
    except Refused:
        raise
    except Exception as error:  # of a damaged archive the libraries make errors of many kinds
        raise Refused(
            f"{archive}: damaged or cut short ({archive.stat().st_size} bytes; {one_line(str(error))}); get the file again"
        ) from None
    if lacking := sorted(set(most) - set(got)):
        raise Refused(f"{archive} has no {', '.join(lacking[:10])}; get the file again")
    return got


def _from_zip(stream: Any, where: str, most: Mapping[str, Most]) -> dict[str, bytes]:
    got: dict[str, bytes] = {}
    with zipfile.ZipFile(stream) as zipped:
        for info in zipped.infolist():
            if (member := _match(info.filename, most)) and not info.is_dir():
                with zipped.open(info) as packed:
                    got[member] = unpacked(packed, f"{where} ({member})", most[member])
    return got


def _from_tar(stream: Any, where: str, most: Mapping[str, Most]) -> dict[str, bytes]:
    packed = stream.read(2) == b"\x1f\x8b"
    stream.seek(0)
    bounded = Bounded(gzip.GzipFile(fileobj=stream) if packed else stream, where)
    got: dict[str, bytes] = {}
    with tarfile.open(fileobj=bounded, mode="r|") as tar:  # type: ignore[call-overload]  # only read() is called
        for entry in tar:
            if (member := _match(entry.name, most)) and entry.isreg():
                file = tar.extractfile(entry)
                got[member] = b"" if file is None else unpacked(file, f"{where} ({member})", most[member])
                if len(got[member]) != entry.size:
                    raise EOFError(f"{entry.name} should have {entry.size} bytes, has {len(got[member])}")
                if len(got) == len(most):
                    break
    return got


def _match(entry: str, wanted: Iterable[str]) -> str | None:
    return next((member for member in wanted if entry == member or entry.endswith(f"/{member}")), None)

"""The files of a dataset: read, compared with the published ones, and downloaded.

A file whose published hash or size is known must have it, and this is found out before anything of it is parsed. Files of
one's own in the same format (a subset, another split) are asked for as such, by the name of the dataset with ":own": mnist:own.
Either way no more is unpacked than the published size, the header of the file, or MOST_BYTES allow.
"""

import hashlib
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from fedloom.data import formats
from fedloom.data.looking import Found, by_hand, cache_directory, find, how_to_get
from fedloom.data.reading import Most, read_files
from fedloom.data.sources import OWN, RECOGNISED, SOURCES, Published, plain, published_files, source_of
from fedloom.gate import Refused
from fedloom.gate.files import MOST_BYTES, opened


@dataclass(frozen=True, kw_only=True)
class FileCheck:
    """A file that was found; published: whether its contents are the published ones, None if not known."""

    file: str
    found: Found
    n_bytes: int
    md5: str
    published: bool | None


def contents(name: str, directory: str | os.PathLike[str] | None = None) -> dict[str, tuple[Found, bytes]]:
    """Canonical file name -> where it was found and its bytes, uncompressed.

    Refused names a file that is damaged, that is not the published one though the name has no ":own", or that is the
    published file of another dataset: MNIST and Fashion-MNIST give their files the same names.
    """
    own, name = name.endswith(OWN), plain(name)
    known = published_files(name)
    hits = find(name, directory)
    if not own:
        for archive in {hit.path for hit in hits.values() if hit.member is not None}:
            _must_be_published_archive(name, archive)
    read = read_files(hits, {file: _most(file, known[file], own) for file in hits})
    for file, (found, data) in read.items():
        md5 = _md5(data)
        other = RECOGNISED.get(md5)
        if other is not None and other[0] != name:
            raise Refused(
                f"{found} is {other[1]} of {other[0]}, not of {name}; "
                f"keep each dataset in a subfolder with its name, here {name}/{file}"
            )
        if not own:
            _must_be_published(name, found, file, len(data), md5)
    return read


def check(name: str, directory: str | os.PathLike[str] | None = None) -> list[FileCheck]:
    """Find, read and hash a dataset's files; says of each whether it is the published one."""
    known = published_files(plain(name))
    checks = []
    for file, (found, data) in contents(plain(name) + OWN, directory).items():
        md5 = _md5(data)
        expected = known[file].md5
        published = None if expected is None else md5 == expected
        checks.append(FileCheck(file=file, found=found, n_bytes=len(data), md5=md5, published=published))
    return checks


def fetch(name: str, directory: str | os.PathLike[str] | None = None, *, progressbar: Any = None) -> Path:
    """Download a dataset to directory/name (by default in the user's cache); returns the folder.

    progressbar   an object with `total`, `update(n)`, `reset()` and `close()`, or None
    A file that is there already with the right hash is not downloaded again. OSError: no connection;
    ValueError: the file that came is not the published one (it is not kept).
    """
    import pooch

    name, source = plain(name), source_of(name)
    if not source.downloads:
        raise Refused(f"dataset {name} cannot be downloaded: {how_to_get(name)}")
    folder = (cache_directory() if directory is None else Path(directory).expanduser()) / name
    for download in source.downloads:
        downloader = None
        if progressbar is not None:
            downloader = pooch.HTTPDownloader(progressbar=progressbar)
        try:
            pooch.retrieve(
                download.url,
                known_hash=f"md5:{download.md5}",
                fname=download.file,
                path=folder,
                downloader=downloader,
            )
        except ValueError as error:
            raise Refused(
                f"dataset {name}: what came from {download.url} is not the published file "
                f"(expected md5 {download.md5}); try again, or {by_hand(name)}"
            ) from error
        except OSError as error:
            raise OSError(
                f"dataset {name}: could not download {download.url} to {folder} ({error}); "
                f"check the connection, or {by_hand(name)}"
            ) from error
    return folder


def _most(file: str, published: Published, own: bool) -> Most:
    """How many bytes a file can hold: as many as the published one, or as its header declares."""
    if not own and published.n_bytes is not None:
        return published.n_bytes
    if "-idx" in file:
        return lambda head: formats.idx_bytes(head, file)
    return MOST_BYTES


def _must_be_published(name: str, found: Found, file: str, n_bytes: int, md5: str) -> None:
    published = published_files(name)[file]
    if published.md5 not in (None, md5):
        _not_published(name, found, f"expected md5 {published.md5}, got {md5}")
    if published.n_bytes not in (None, n_bytes):
        _not_published(name, found, f"expected {published.n_bytes:,} bytes, got {n_bytes:,}")


def _must_be_published_archive(name: str, archive: Path) -> None:
    """Compared where the hashes of its files are not known."""
    published = {download.file: download.md5 for download in SOURCES[name].downloads}.get(archive.name)
    if published is None or all(file.md5 for file in published_files(name).values()):
        return
    with opened(archive) as stream:
        md5 = _md5_of(iter(lambda: stream.read(1 << 20), b""))
    if md5 != published:
        _not_published(name, archive, f"expected md5 {published}, got {md5}")


def _not_published(name: str, found: Found | Path, how: str) -> NoReturn:
    raise Refused(
        f"{found} is not the published file of {name} ({how}): it is damaged, or a variant. Get it again with "
        f"`fedloom data {name}`; to use a variant of your own, set the dataset to {name}{OWN} (--set task.dataset={name}{OWN})"
    )


def _md5(data: bytes) -> str:
    return _md5_of([data])


def _md5_of(parts: Iterable[bytes]) -> str:
    digest = hashlib.md5(usedforsecurity=False)
    for part in parts:
        digest.update(part)
    return digest.hexdigest()

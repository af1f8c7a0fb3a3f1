"""Where a dataset's files are, whether they are the published ones, and how to get them.

Places are tried in this order, and all files of a dataset must be in one of them:
  1. the directory given (`--from DIR`), and nowhere else;
  2. otherwise the folder in the environment variable FEDLOOM_DATA, then the user's cache, where `fetch` puts
     downloads, then folders where a system package installs the files.
In each, a subfolder with the dataset's name comes first, then the folder itself. Archives as published are
read without unpacking: only members asked for by name are read, nothing is written.

A file whose published hash or size is known must have it, and this is found out before anything of it is parsed. Files of
one's own in the same format (a subset, another split) are asked for as such, by the name of the dataset with ":own": mnist:own.
Either way no more is unpacked than the published size, the header of the file, or MOST_BYTES allow.
"""

import gzip
import hashlib
import os
import tarfile
import zipfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from fedloom.data import formats
from fedloom.gate import Refused, shown
from fedloom.gate.files import MOST_BYTES, Bounded, gunzip, opened, read_bytes, unpacked
from fedloom.gate.words import one_line

ENVIRONMENT = "FEDLOOM_DATA"
OWN = ":own"  # after the name of a dataset: its files need not be the published ones

Most = int | Callable[[bytes], int]  # bytes of a file unpacked, or what its first 16 bytes say


@dataclass(frozen=True, kw_only=True)
class Download:
    """One file at a dataset's public home; `md5` is of the file as downloaded."""

    url: str
    md5: str

    @property
    def file(self) -> str:
        return self.url.rsplit("/", 1)[1]


@dataclass(frozen=True, kw_only=True)
class Published:
    """What is known of a published file, uncompressed."""

    md5: str | None = None
    n_bytes: int | None = None


@dataclass(frozen=True, kw_only=True)
class Source:
    """Which files make a dataset. Several alternatives: any one is enough, the first found is taken.

    folders    subfolders to look in, besides the dataset's own name and the folder itself
    system     absolute folders where a system package puts the files
    archives   names of archives that hold the files of the last alternative
    downloads  where to get it; empty if there is no file whose hash is known
    home       the page to get it from by hand
    """

    alternatives: tuple[Mapping[str, Published], ...]
    folders: tuple[str, ...] = ()
    system: tuple[str, ...] = ()
    archives: tuple[str, ...] = ()
    downloads: tuple[Download, ...] = ()
    home: str


@dataclass(frozen=True, kw_only=True)
class Found:
    """A file on disk, or a member of an archive on disk."""

    path: Path
    member: str | None = None

    def __str__(self) -> str:
        return str(self.path) if self.member is None else f"{self.path} ({self.member})"

    def beside(self, name: str) -> "Found":
        """A file in the same folder (of the disk or of the archive)."""
        if self.member is None:
            return Found(path=self.path.with_name(name))
        return Found(path=self.path, member="/".join([*self.member.split("/")[:-1], name]))


@dataclass(frozen=True, kw_only=True)
class FileCheck:
    """A file that was found; published: whether its contents are the published ones, None if not known."""

    file: str
    found: Found
    n_bytes: int
    md5: str
    published: bool | None


def _idx(home: str, md5: Mapping[str, tuple[str, str, int]]) -> dict[str, Any]:
    """Four idx files; md5 gives for each the hash as downloaded, and hash and size of the contents."""
    return {
        "alternatives": ({f: Published(md5=m, n_bytes=n) for f, (_, m, n) in md5.items()},),
        "downloads": tuple(Download(url=f"{home}{f}.gz", md5=m) for f, (m, _, _) in md5.items()),
    }


SOURCES: dict[str, Source] = {
    "mnist": Source(
        **_idx(
            "https://ossci-datasets.s3.amazonaws.com/mnist/",
            {
                "train-images-idx3-ubyte": (
                    "f68b3c2dcbeaaa9fbdd348bbdeb94873",
                    "6bbc9ace898e44ae57da46a324031adb",
                    47_040_016,
                ),
                "train-labels-idx1-ubyte": (
                    "d53e105ee54ea40749a09fcbcd1e9432",
                    "a25bea736e30d166cdddb491f175f624",
                    60_008,
                ),
                "t10k-images-idx3-ubyte": (
                    "9fb629c4189551a2d022fa330f9573f3",
                    "2646ac647ad5339dbf082846283269ea",
                    7_840_016,
                ),
                "t10k-labels-idx1-ubyte": (
                    "ec29112dd5afa0611ce80d1b7f02629c",
                    "27ae3e4e09519cfbb04c329615203637",
                    10_008,
                ),
            },
        ),
        folders=("MNIST/raw",),
        home="http://yann.lecun.com/exdb/mnist/",
    ),
    "fashion-mnist": Source(
        **_idx(
            "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
            {
                "train-images-idx3-ubyte": (
                    "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
                    "f4a8712d7a061bf5bd6d2ca38dc4d50a",
                    47_040_016,
                ),
                "train-labels-idx1-ubyte": (
                    "25c81989df183df01b3e8a0aad5dffbe",
                    "9018921c3c673c538a1fc5bad174d6f9",
                    60_008,
                ),
                "t10k-images-idx3-ubyte": (
                    "bef4ecab320f06d8554ea6380940ec79",
                    "8181f5470baa50b63fa0f6fddb340f0a",
                    7_840_016,
                ),
                "t10k-labels-idx1-ubyte": (
                    "bb300cfdad3c16e7a12a480ee83cd310",
                    "15d484375f8d13e6eb1aabb0c3f46965",
                    10_008,
                ),
            },
        ),
        folders=("FashionMNIST/raw",),
        system=("/usr/share/datasets/fashion-mnist",),
        home="https://github.com/zalandoresearch/fashion-mnist",
    ),
    "cifar10": Source(
        alternatives=(
            {
                f"cifar-10-batches-bin/{file}": Published(md5=md5, n_bytes=30_730_000)
                for file, md5 in {
                    "data_batch_1.bin": "5dd7e06a14cb22eb9f671a540d1b7c25",
                    "data_batch_2.bin": "5ea93a67294ea407fff1d09f752e9692",
                    "data_batch_3.bin": "942cd6a4bcdd0dd3c604fbe906cb4421",
                    "data_batch_4.bin": "ae636b3ba5c66a11e91e8cb52e771fcb",
                    "data_batch_5.bin": "53f37980c15c3d472c316c40844f3f0d",
                    "test_batch.bin": "803d5f7f4d78ea53de84dbe85f74fb6d",
                }.items()
            },
        ),
        archives=("cifar-10-binary.tar.gz", "cifar-10-binary.tar"),
        downloads=(
            Download(
                url="https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",
                md5="c32a1d4ab5d03f1284b67883e8d87530",
            ),
        ),
        home="https://www.cs.toronto.edu/~kriz/cifar.html",
    ),
    "cifar100": Source(
        alternatives=(
            {
                "cifar-100-binary/train.bin": Published(n_bytes=50_000 * 3074),
                "cifar-100-binary/test.bin": Published(n_bytes=10_000 * 3074),
            },
        ),
        archives=("cifar-100-binary.tar.gz", "cifar-100-binary.tar"),
        downloads=(
            Download(
                url="https://www.cs.toronto.edu/~kriz/cifar-100-binary.tar.gz",
                md5="03b5dce01913d631647c71ecec9e9cb8",
            ),
        ),
        home="https://www.cs.toronto.edu/~kriz/cifar.html",
    ),
    "svhn": Source(
        alternatives=(
            {
                "train_32x32.mat": Published(md5="e26dedcc434d2e4c54c9b2d4a06d8373"),
                "test_32x32.mat": Published(md5="eb5a983be6a315427106f1b164d9cef3"),
            },
        ),
        downloads=(
            Download(
                url="http://ufldl.stanford.edu/housenumbers/train_32x32.mat",
                md5="e26dedcc434d2e4c54c9b2d4a06d8373",
            ),
            Download(
                url="http://ufldl.stanford.edu/housenumbers/test_32x32.mat",
                md5="eb5a983be6a315427106f1b164d9cef3",
            ),
        ),
        home="http://ufldl.stanford.edu/housenumbers/",
    ),
    "hapt": Source(
        alternatives=({"hapt_windows.npz": Published()}, {"RawData/labels.txt": Published()}),
        archives=(
            "HAPT Data Set.zip",
            "smartphone+based+recognition+of+human+activities+and+postural+transitions.zip",
        ),
        home="https://archive.ics.uci.edu/dataset/341",
    ),
}


def plain(name: str) -> str:
    """The name of a dataset without ":own".

    >>> plain("mnist:own"), plain("mnist")
    ('mnist', 'mnist')
    """
    return name.removesuffix(OWN)


def cache_directory() -> Path:
    """The user's cache, where `fetch` puts files."""
    import pooch

    return Path(pooch.os_cache("fedloom"))


def places(name: str, directory: str | os.PathLike[str] | None = None) -> list[Path]:
    """The folders a dataset's files may be in, in the order they are tried."""
    name, source = plain(name), _source(name)
    if directory is not None:
        roots = [Path(directory).expanduser()]
    else:
        set_by_user = os.environ.get(ENVIRONMENT)
        roots = [Path(set_by_user).expanduser()] if set_by_user else []
        roots.append(cache_directory())
    found = [root / sub for root in roots for sub in (name, *source.folders, ".")]
    return found if directory is not None else [*found, *map(Path, source.system)]


def find(name: str, directory: str | os.PathLike[str] | None = None) -> dict[str, Found]:
    """Canonical file name -> where it is, for all files of the first place that has them all.

    FileNotFoundError says which files were looked for, where, and how to get them.
    """
    name, source = plain(name), _source(name)
    looked = places(name, directory)
    partial: list[str] = []
    for folder in looked:
        for files in source.alternatives:
            hits = {file: hit for file in files if (hit := _in_folder(folder, file))}
            if len(hits) == len(files):
                return hits
            if hits:
                lacking = ", ".join(sorted(set(files) - set(hits)))
                partial.append(f"{folder} has {len(hits)} of {len(files)} files and lacks {lacking}")
        for archive in source.archives:
            if (folder / archive).is_file():
                return {file: Found(path=folder / archive, member=file) for file in source.alternatives[-1]}
    wanted = " or ".join(", ".join(files) for files in source.alternatives)
    also = f" (or {', '.join(source.archives)})" if source.archives else ""
    tried = "".join(f"\n  {folder}{'' if folder.is_dir() else ' (no such folder)'}" for folder in looked)
    incomplete = "".join(f"\n{line}" for line in partial)
    raise FileNotFoundError(f"dataset {name}: no {wanted}{also}; looked in{tried}{incomplete}\n{_how_to_get(name)}")


def contents(name: str, directory: str | os.PathLike[str] | None = None) -> dict[str, tuple[Found, bytes]]:
    """Canonical file name -> where it was found and its bytes, uncompressed.

    Refused names a file that is damaged, that is not the published one though the name has no ":own", or that is the
    published file of another dataset: MNIST and Fashion-MNIST give their files the same names.
    """
    own, name = name.endswith(OWN), plain(name)
    known = _known(name)
    hits = find(name, directory)
    if not own:
        for archive in {hit.path for hit in hits.values() if hit.member is not None}:
            _must_be_published_archive(name, archive)
    read = read_files(hits, {file: _most(file, known[file], own) for file in hits})
    for file, (found, data) in read.items():
        md5 = _md5(data)
        other = _KNOWN.get(md5)
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
    known = _known(plain(name))
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

    name, source = plain(name), _source(name)
    if not source.downloads:
        raise Refused(f"dataset {name} cannot be downloaded: {_how_to_get(name)}")
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
                f"(expected md5 {download.md5}); try again, or {_by_hand(name)}"
            ) from error
        except OSError as error:
            raise OSError(
                f"dataset {name}: could not download {download.url} to {folder} ({error}); "
                f"check the connection, or {_by_hand(name)}"
            ) from error
    return folder


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


def _known(name: str) -> dict[str, Published]:
    return {file: published for alternative in _source(name).alternatives for file, published in alternative.items()}


def _most(file: str, published: Published, own: bool) -> Most:
    """How many bytes a file can hold: as many as the published one, or as its header declares."""
    if not own and published.n_bytes is not None:
        return published.n_bytes
    if "-idx" in file:
        return lambda head: formats.idx_bytes(head, file)
    return MOST_BYTES


def _must_be_published(name: str, found: Found, file: str, n_bytes: int, md5: str) -> None:
    published = _known(name)[file]
    if published.md5 not in (None, md5):
        _not_published(name, found, f"expected md5 {published.md5}, got {md5}")
    if published.n_bytes not in (None, n_bytes):
        _not_published(name, found, f"expected {published.n_bytes:,} bytes, got {n_bytes:,}")


def _must_be_published_archive(name: str, archive: Path) -> None:
    """Compared where the hashes of its files are not known."""
    published = {download.file: download.md5 for download in SOURCES[name].downloads}.get(archive.name)
    if published is None or all(file.md5 for file in _known(name).values()):
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


def _in_folder(folder: Path, file: str) -> Found | None:
    """The file in the folder: under its canonical path or its bare name, plain or gzipped."""
    base = file.rsplit("/", 1)[-1]
    for name in dict.fromkeys((file, base, base.replace("-idx", ".idx"))):
        for path in (folder / name, folder / f"{name}.gz"):
            if path.is_file():
                return Found(path=path)
    return None


def _source(name: str) -> Source:
    if plain(name) not in SOURCES:
        raise Refused(f"dataset {shown(name)} has no files; those that have: {', '.join(SOURCES)}")
    return SOURCES[plain(name)]


def _how_to_get(name: str) -> str:
    if SOURCES[name].downloads:
        return f"Download it with `fedloom data {name}` (needs internet), or {_by_hand(name)}."
    return f"There is no automatic download, as no hash of it is known: {_by_hand(name)}."


def _by_hand(name: str) -> str:
    return (
        f"get it from {SOURCES[name].home} and say where it is with `--from DIR` "
        f"or by setting {ENVIRONMENT} to the folder"
    )


def _md5(data: bytes) -> str:
    return _md5_of([data])


def _md5_of(parts: Iterable[bytes]) -> str:
    digest = hashlib.md5(usedforsecurity=False)
    for part in parts:
        digest.update(part)
    return digest.hexdigest()


# Contents that can be recognised: md5 -> dataset, file.
_KNOWN = {
    published.md5: (name, file)
    for name, source in SOURCES.items()
    for files in source.alternatives
    for file, published in files.items()
    if published.md5 is not None
}

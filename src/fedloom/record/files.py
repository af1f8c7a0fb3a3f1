"""The files of a record: each written whole or not at all, and all listed with their digests in manifest.json.

    {"identity": whose files these are, "files": {"metrics.parquet": [{"bytes": 5120, "sha256": "..."}], ...}, "sha256": ...}

One list, and not a digest inside every file, because it is the same for JSON, Parquet, safetensors and HTML, depends on nothing
that a format or a library can carry, and leaves the files what they were: the same run writes the same bytes. The last
"sha256" is that of the manifest itself.

A file and its line in the list cannot be replaced in one step, so the list goes first: while a file is being written it
names both states, the old one (null: not there) and then the new one. Whenever the process is killed, what lies there is one of
them. Which one, says summary.json, put in its place after all others: where it is, the last (fedloom.record.verify).
Checkpoints are not listed: they must be believed alone, and carry identity and digest themselves (fedloom.record.checkpoints).
"""

import errno
import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

MANIFEST, REPORT = "manifest.json", "report.html"
CHUNK = 1 << 20  # bytes read at a time
NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
CANNOT = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EISDIR)

State = dict[str, Any] | None  # {"bytes": size, "sha256": digest}; None: not there
Content = bytes | Callable[[Path], object]
"""Of a file; or, if it may be larger than memory, what writes it to a path."""


class FolderError(ValueError):
    """The folder cannot be used for this run."""


class NotWritten(OSError):
    """A file could not be written, for want of room or by a fault of the disk; what was there before is whole."""


def write_whole(path: Path, content: Content) -> None:
    """Write beside, flush to disk, rename, flush the folder: a reader, or a kill, sees the old file or the new one."""
    write_together(path.parent, {path.name: content})


def write_together(folder: Path, files: Mapping[str, Content], *, flush: bool = True) -> None:
    """The same for several files, renamed one after the other when all of them are on disk.

    Flushing takes milliseconds: files that are made again if a power cut destroys them do without.
    """
    with _or_none(beside_of(folder / name) for name in files):
        for name, content in files.items():
            write_beside(folder / name, content, flush=flush)
        _put(folder, files, flush)


def _put(folder: Path, names: Iterable[str], flush: bool) -> None:
    """Put files that were written beside their places there, one after the other."""
    for name in names:
        with explaining(folder / name):
            beside_of(folder / name).replace(folder / name)
    if flush:
        with explaining(folder):
            _flush(folder)


@contextmanager
def _or_none(besides: Iterable[Path]) -> Iterator[None]:
    """If one of these files cannot be written, take all of them away."""
    try:
        yield
    except (FolderError, NotWritten):
        for beside in besides:
            with suppress(OSError):  # the first error is the one to tell
                beside.unlink(missing_ok=True)
        raise


def write_beside(path: Path, content: Content, *, flush: bool = False) -> Path:
    """Write the content of `path` to a file beside it; returns where."""
    beside = beside_of(path)
    with explaining(path, beside):
        for left in _left_by_others(path):
            left.unlink(missing_ok=True)
        if isinstance(content, bytes):
            beside.write_bytes(content)
        else:
            content(beside)
        if flush:
            _flush(beside)
    return beside


def beside_of(path: Path) -> Path:
    """Where a process writes what is to become `path`: no other one writes there."""
    return path.with_name(f"{path.name}.{os.getpid()}.tmp")


def _left_by_others(path: Path) -> list[Path]:
    """What processes that were killed have left beside `path`; where two machines share a folder, another's may be among it,
    which then is told that it could not write."""
    begins, ends = f"{path.name}.", ".tmp"
    found = [left for left in path.parent.iterdir() if left.name.startswith(begins) and left.name.endswith(ends)]
    pids = {left: left.name[len(begins) : -len(ends)] for left in found}
    return [left for left, pid in pids.items() if pid.isdecimal() and not _alive(int(pid))]


def _alive(pid: int) -> bool:
    if os.name != "posix":  # elsewhere asking would end it
        return True
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:  # somebody else's
        return True
    return True


@contextmanager
def explaining(path: Path, beside: Path | None = None) -> Iterator[None]:
    """Errors of the system while `path` is written become FolderError or NotWritten, and the file beside is taken away."""
    try:
        yield
    except NotWritten:
        raise
    except OSError as error:
        if beside is not None:
            with suppress(OSError):  # the first error is the one to tell
                beside.unlink(missing_ok=True)
        reason = error.strerror or str(error)
        if error.errno in CANNOT:
            raise FolderError(f"{path} cannot be written ({reason}); choose another --out") from error
        todo = f"make room in {path.parent}" if error.errno in NO_ROOM else "see to the disk"
        raise NotWritten(
            f"{path} could not be written ({reason}); {todo} and repeat the command, a run with --resume"
        ) from error


def refusal(error: Exception) -> str | None:
    """What the system said when a file could not be written; None if the error is about something else."""
    cause = error.__cause__ if isinstance(error, FolderError | NotWritten) else error
    return (cause.strerror or str(cause)) if isinstance(cause, OSError) else None


def read_json(path: Path) -> dict[str, Any]:
    """Content of a JSON file of a record, with an error that names it."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(content, dict):
            raise ValueError(f"it holds a {type(content).__name__}, not names and values")
        return content
    except FileNotFoundError:
        raise FolderError(f"{path.parent} is not the folder of a run: it has no {path.name}") from None
    except (ValueError, RecursionError) as error:
        raise FolderError(f"{path} is damaged: {error}") from None


def json_bytes(content: Any) -> bytes:
    return (json.dumps(content, indent=1) + "\n").encode()


def state_of(path: Path) -> State:
    """Size and digest of a file, None if there is none."""
    digest, n_bytes = hashlib.sha256(), 0  # the fastest here of what hashlib has and is not broken
    try:
        with path.open("rb") as file:
            while chunk := file.read(CHUNK):
                digest.update(chunk)
                n_bytes += len(chunk)
    except FileNotFoundError:
        return None
    return {"bytes": n_bytes, "sha256": digest.hexdigest()}


@dataclass(eq=False)
class Manifest:
    """The list of a folder's files. states: by name, those in which a file may be found, the newest last."""

    folder: Path
    identity: str
    states: dict[str, list[State]] = field(default_factory=dict)

    def write(self, files: Mapping[str, Content], *, flush: bool = True) -> None:
        """Write these files of the record, having announced them; FolderError or NotWritten if that cannot be."""
        names = (MANIFEST, *files)
        with _or_none(beside_of(self.folder / name) for name in names):
            new = {name: state_of(write_beside(self.folder / name, files[name], flush=flush)) for name in files}
            for name, state in new.items():
                before = self.states.get(name, [None])
                self.states[name] = [*(s for s in before if s != state), state]
            listed = {"identity": self.identity, "files": self.states}
            write_beside(self.folder / MANIFEST, json_bytes(_sealed(listed)), flush=flush)
            _put(self.folder, names, flush)
        self.states |= {name: [state] for name, state in new.items()}


def load_manifest(folder: Path) -> Manifest | None:
    """The manifest of a folder, None if there is none; FolderError if it is damaged."""
    path = folder / MANIFEST
    if not path.exists():
        return None
    content = read_json(path)
    if content != _sealed(content) or not isinstance(content.get("files"), dict):
        raise FolderError(f"{path} is damaged: its content does not have the digest that stands in it")
    return Manifest(folder=folder, identity=content["identity"], states=content["files"])


def write_page(path: Path, content: bytes) -> None:
    """Write a page; if it is the report in the folder of a run, list it in its manifest."""
    with explaining(path):
        path.parent.mkdir(parents=True, exist_ok=True)
    try:
        manifest = load_manifest(path.parent)
    except FolderError:  # a damaged list is not mended by one more line: `fedloom verify` tells
        manifest = None
    if manifest is None or path.name != REPORT:
        write_whole(path, content)
    else:
        manifest.write({REPORT: content})


def _sealed(content: dict[str, Any]) -> dict[str, Any]:
    """The content of a manifest with its own digest."""
    rest = {key: value for key, value in content.items() if key != "sha256"}
    return rest | {"sha256": hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()}


def _flush(path: Path) -> None:
    """See a file, or the names in a folder, to the disk."""
    if path.is_dir() and os.name != "posix":  # elsewhere folders cannot be opened
        return
    descriptor = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

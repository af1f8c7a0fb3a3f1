"""What a role keeps through a kill: named arrays, each written whole or not at all, with the identity of the run and a digest.

An array is on disk before anybody is told that it is here. All are in memory too: a role holds few. A store without a folder
keeps nothing through a kill.
"""

import hashlib
import itertools
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedloom.deployment import naming
from fedloom.deployment.letters import BadLetter, Letter, decode, encoded

SUFFIX = ".value"
_numbers = itertools.count()  # so that no two writers write beside the same place
MOST_BYTES = 1 << 33
Array = NDArray[Any]


class NotThisRun(ValueError):
    """The folder holds the state of another run."""


class Store:
    """Arrays by name, in a folder of their own, or in memory alone. identity: of the run that they belong to."""

    def __init__(self, folder: Path | None, identity: str) -> None:
        self.folder, self.identity = folder, identity
        self.damaged: list[str] = []
        """Files that were not whole; what they held is made or sent again."""
        self._arrays: dict[str, Array] = {}
        self._unsaved: set[str] = set()
        if folder is None:
            return
        folder.mkdir(parents=True, exist_ok=True)
        for path in sorted(folder.iterdir()):
            if path.suffix == SUFFIX and naming.is_value(path.stem):
                self._read(path)
            elif path.suffix == ".part":
                path.unlink(missing_ok=True)

    def _read(self, path: Path) -> None:
        try:
            letter = decode(path.read_bytes(), MOST_BYTES)
            array = letter.arrays["value"]
            whole = letter.fields["name"] == path.stem and letter.fields["sha256"] == _digest(array)
            whose = letter.fields["identity"]
        except (BadLetter, KeyError, OSError):
            whole, whose = False, self.identity
        if whole and whose != self.identity:
            raise NotThisRun(
                f"{path} belongs to the run {whose}, and this is {self.identity}; give every run folders of its own"
            )
        if whole:
            self._arrays[path.stem] = array
        else:
            self.damaged.append(path.name)
            path.unlink(missing_ok=True)

    def __contains__(self, name: str) -> bool:
        return name in self._arrays

    def __getitem__(self, name: str) -> Array:
        return self._arrays[name]

    @property
    def names(self) -> list[str]:
        return sorted(self._arrays)

    def hold(self, name: str, array: Array) -> None:
        """Have in memory what can be made again, if it is lost before `save`. What is there stays, as a name stands for one
        content."""
        if name not in self._arrays:
            kept = _kept(name, array)
            self._unsaved.add(name)
            self._arrays[name] = kept

    def save(self, name: str) -> None:
        """What is held is on disk when this returns; nothing is done for what is there already, or dropped."""
        kept = self._arrays.get(name)
        if kept is not None and name in self._unsaved:
            self._write(name, kept)
            self._unsaved.discard(name)

    def put(self, name: str, array: Array) -> None:
        """Keep an array: it is on disk when this returns, and not found here before."""
        if name in self._arrays:
            self.save(name)
            return
        kept = _kept(name, array)
        self._write(name, kept)
        self._arrays[name] = kept

    def _write(self, name: str, kept: Array) -> None:
        if self.folder is None:
            return
        fields = {"name": name, "identity": self.identity, "sha256": _digest(kept)}
        write_new(self.folder / f"{name}{SUFFIX}", encoded(Letter("value", fields, {"value": kept})))

    def drop(self, names: Iterable[str]) -> None:
        """Nobody needs these any more."""
        for name in names:
            self._unsaved.discard(name)
            if self._arrays.pop(name, None) is not None and self.folder is not None:
                (self.folder / f"{name}{SUFFIX}").unlink(missing_ok=True)


def _kept(name: str, array: Array) -> Array:
    """A copy that nobody changes."""
    if not naming.is_value(name):
        raise ValueError(f"{name!r} is no name of a value")
    kept = np.array(array)
    kept.flags.writeable = False
    return kept


def write_whole(path: Path, content: bytes) -> None:
    """Write beside, flush, rename, flush the folder: a kill leaves the old file or the new one."""
    beside = path.with_name(f"{path.name}.{os.getpid()}-{next(_numbers)}.part")
    with beside.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)
    flush_folder(path.parent)


def write_new(path: Path, content: Iterable[bytes | memoryview]) -> None:
    """Write a file that is not there yet, and whose content says itself whether it is whole. The name is changed before the
    content is flushed, so that both go to the disk together: if the power fails between, what is found there is not whole."""
    beside = path.with_name(f"{path.name}.{os.getpid()}-{next(_numbers)}.part")
    with beside.open("wb") as file:
        for part in content:
            file.write(part)
        file.flush()
        beside.replace(path)
        os.fsync(file.fileno())
    flush_folder(path.parent)


def flush_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _digest(array: Array) -> str:
    content = np.ascontiguousarray(array)
    found = hashlib.sha256(f"{content.dtype.str}{content.shape}".encode())
    found.update(content.data)
    return found.hexdigest()

"""What a role keeps through a kill: named arrays, each written whole or not at all, with the identity of the run and a digest.

An array is on disk before anybody is told that it is here. All are in memory too: a role holds few. A store without a folder
keeps nothing through a kill.

Files of arrays that nobody needs any more are written over by later ones: to flush what lies where something lay before takes a
fraction of what a new file does. A file is called by its array only when that is on disk, and the content counts, not the name:
what was flushed and not called so before the power failed is found all the same.
"""

import contextlib
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

SUFFIX, BESIDE = ".value", ".part"
MOST_SPARE = 8  # files that are kept to be written over
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
        self._spare: list[Path] = []
        if folder is None:
            return
        folder.mkdir(parents=True, exist_ok=True)
        for path in sorted(folder.iterdir()):
            if path.suffix == BESIDE or (path.suffix == SUFFIX and naming.is_value(path.stem)):
                self._read(path)
        for path in sorted(folder.glob(f"*{BESIDE}")):  # all others have the names of what they hold
            path.replace(folder / f"{decode(path.read_bytes(), MOST_BYTES).fields['name']}{SUFFIX}")

    def _read(self, path: Path) -> None:
        """Take in what a file holds, and put it aside if it is not called so; what is not whole is removed."""
        try:
            letter = decode(path.read_bytes(), MOST_BYTES)
            name, array, whose = str(letter.fields["name"]), letter.arrays["value"], letter.fields["identity"]
            whole = naming.is_value(name) and letter.fields["sha256"] == _digest(name, array)
        except (BadLetter, KeyError, OSError):
            whole = False
        if whole and whose != self.identity:
            raise NotThisRun(
                f"{path} belongs to the run {whose}, and this is {self.identity}; give every run folders of its own"
            )
        if not whole or name in self._arrays:
            path.unlink(missing_ok=True)
            self.damaged += [] if whole or path.suffix == BESIDE else [path.name]
            return
        self._arrays[name] = array
        if path.suffix == SUFFIX and path.stem != name:
            path.replace(beside(path))

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
        fields = {"name": name, "identity": self.identity, "sha256": _digest(name, kept)}
        content, path = encoded(Letter("value", fields, {"value": kept})), self.folder / f"{name}{SUFFIX}"
        try:
            write_over(self._spare.pop(), path, content)
        except (IndexError, FileNotFoundError):
            write_new(path, content)

    def drop(self, names: Iterable[str]) -> None:
        """Nobody needs these any more."""
        for name in names:
            self._unsaved.discard(name)
            if self._arrays.pop(name, None) is not None and self.folder is not None:
                self._spend(self.folder / f"{name}{SUFFIX}")

    def _spend(self, path: Path) -> None:
        """Its file is of no use any more, and says so; it may not be there, if it was never saved."""
        spare = beside(path)
        if len(self._spare) >= MOST_SPARE:
            path.unlink(missing_ok=True)
            return
        with contextlib.suppress(FileNotFoundError):
            path.replace(spare)
            with spare.open("r+b", buffering=0) as file:
                file.write(bytes(4))
            self._spare.append(spare)


def _kept(name: str, array: Array) -> Array:
    """A copy that nobody changes."""
    if not naming.is_value(name):
        raise ValueError(f"{name!r} is no name of a value")
    kept = np.array(array)
    kept.flags.writeable = False
    return kept


def beside(path: Path) -> Path:
    """Where something is written that is called `path` only when it is whole."""
    return path.with_name(f"{path.name}.{os.getpid()}-{next(_numbers)}{BESIDE}")


def write_new(path: Path, content: Iterable[bytes | memoryview]) -> None:
    """Write a file that is not there yet, and whose content says itself whether it is whole. The name is changed before the
    content is flushed, so that both go to the disk together: if the power fails between, what is found there is not whole."""
    new = beside(path)
    with new.open("wb") as file:
        file.writelines(content)
        file.flush()
        new.replace(path)
        os.fsync(file.fileno())
    flush_folder(path.parent)


def write_over(spare: Path, path: Path, content: Iterable[bytes | memoryview]) -> None:
    """The same in the place of a file that nobody needs. Its name is changed when the content is on disk; the name need not be:
    who reads goes by the content."""
    try:
        with spare.open("r+b") as file:
            file.writelines(content)
            file.truncate()
            os.fdatasync(file.fileno())
        spare.replace(path)
    except OSError:
        spare.unlink(missing_ok=True)
        raise


def flush_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _digest(name: str, array: Array) -> str:
    """Of an array with its name, so that a new name before what an older one stood for is not whole."""
    content = np.ascontiguousarray(array)
    found = hashlib.sha256(f"{name} {content.dtype.str}{content.shape}".encode())
    found.update(content.data)
    return found.hexdigest()

"""Where a dataset's files are.

Places are tried in this order, and all files of a dataset must be in one of them:
  1. the directory given (`--from DIR`), and nowhere else;
  2. otherwise the folder in the environment variable FEDLOOM_DATA, then the user's cache, where `fetch` puts
     downloads, then folders where a system package installs the files.
In each, a subfolder with the dataset's name comes first, then the folder itself.
"""

import os
from dataclasses import dataclass
from pathlib import Path

from fedloom.data.sources import SOURCES, plain, source_of

ENVIRONMENT = "FEDLOOM_DATA"


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


def cache_directory() -> Path:
    """The user's cache, where `fetch` puts files."""
    import pooch

    return Path(pooch.os_cache("fedloom"))


def places(name: str, directory: str | os.PathLike[str] | None = None) -> list[Path]:
    """The folders a dataset's files may be in, in the order they are tried."""
    name, source = plain(name), source_of(name)
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
    name, source = plain(name), source_of(name)
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
    raise FileNotFoundError(f"dataset {name}: no {wanted}{also}; looked in{tried}{incomplete}\n{how_to_get(name)}")


def _in_folder(folder: Path, file: str) -> Found | None:
    """The file in the folder: under its canonical path or its bare name, plain or gzipped."""
    base = file.rsplit("/", 1)[-1]
    for name in dict.fromkeys((file, base, base.replace("-idx", ".idx"))):
        for path in (folder / name, folder / f"{name}.gz"):
            if path.is_file():
                return Found(path=path)
    return None


def how_to_get(name: str) -> str:
    """A sentence: by the command, or by hand."""
    if SOURCES[name].downloads:
        return f"Download it with `fedloom data {name}` (needs internet), or {by_hand(name)}."
    return f"There is no automatic download, as no hash of it is known: {by_hand(name)}."


def by_hand(name: str) -> str:
    """What to do without a download."""
    return (
        f"get it from {SOURCES[name].home} and say where it is with `--from DIR` "
        f"or by setting {ENVIRONMENT} to the folder"
    )

"""Whether the files of a record are those that its run wrote: what does not fit, and what to do."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedloom.gate.words import one_line
from fedloom.record.checkpoints import Unbelievable, checkpoint_files, open_checkpoint
from fedloom.record.files import MANIFEST, REPORT, FolderError, Manifest, State, load_manifest, read_json, state_of
from fedloom.record.identity import identity_of
from fedloom.record.measured import MEASURED

RUN, SUMMARY = "run.json", "summary.json"
TABLES = ("metrics.parquet", "topology.parquet", "timeline.parquet", "costs.parquet")
LISTED = (RUN, *TABLES, "model.safetensors", SUMMARY, REPORT, MEASURED)
"""Files that stand in the manifest if they are there."""
AGAIN = "repeat the run with --resume, which makes it again from the checkpoint"
ANEW = "put the right file back, or delete the folder and run it again"
PUT_BACK = "put the right file back; where it is lost, the run with --resume writes it again if the rest is its own"


@dataclass(frozen=True, kw_only=True)
class Misfit:
    """A file of a record that is not what it should be."""

    file: str
    expected: str
    found: str
    todo: str

    def __str__(self) -> str:
        return f"{self.file}: expected {self.expected}, found {self.found}; {self.todo}"


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What was found in a run folder. files: how many were checked."""

    folder: Path
    identity: str | None
    finished: bool
    files: int
    misfits: tuple[Misfit, ...]

    @property
    def sound(self) -> bool:
        return not self.misfits

    def to_dict(self) -> dict[str, Any]:
        return {
            "folder": str(self.folder),
            "sound": self.sound,
            "finished": self.finished,
            "identity": self.identity,
            "files": self.files,
            "misfits": [vars(misfit) for misfit in self.misfits],
        }


def verify(folder: Path) -> Verdict:
    """Check every file of one run folder, also of a run that is unfinished or just being written."""
    misfits: list[Misfit] = []
    try:
        manifest = load_manifest(folder)
        if manifest is None:
            misfits.append(Misfit(file=MANIFEST, expected="the list of the files", found="none", todo=AGAIN))
    except FolderError as error:
        manifest = None
        misfits.append(Misfit(file=MANIFEST, expected="a whole list", found=_after_colon(error), todo=AGAIN))
    run, identity = _run_json(folder, manifest, misfits)
    listed = set() if manifest is None else set(manifest.states)
    names = [name for name in LISTED if name in listed or (folder / name).exists()]
    if manifest is not None:
        misfits += [m for name in names if (m := misfit_of(folder, name, manifest)) is not None]
    checkpoints = checkpoint_files(folder)
    if identity is not None:
        misfits += [m for path in checkpoints if (m := _checkpoint_misfit(path, identity, run)) is not None]
    return Verdict(
        folder=folder,
        identity=identity,
        finished=(folder / SUMMARY).exists(),
        files=len(names) + len(checkpoints),
        misfits=tuple(misfits),
    )


def misfit_of(folder: Path, name: str, manifest: Manifest) -> Misfit | None:
    """What is wrong with a file that stands, or should stand, in the manifest; None if it is as it should be.

    The summary is the last file of a run to be put in its place: where it is, the others are in the last state that is listed.
    Only the report is written later.
    """
    while True:
        states = manifest.states.get(name)
        finished = (folder / SUMMARY).exists()
        if name == SUMMARY and not finished:
            return None  # then the run counts as unfinished, and goes on
        if finished and states is not None and name != REPORT:
            states = states[-1:]  # the summary comes last: what was there before the others is no longer right
        came = state_of(folder / name)
        if states is not None and came in states:
            return None
        newer = load_manifest(folder)  # the run may be writing at this moment
        if newer is None or newer.states == manifest.states:
            return Misfit(file=name, expected=_shown(states), found=_found(states, came), todo=_todo(name))
        manifest = newer


def check_files(folder: Path, names: Iterable[str]) -> None:
    """FolderError if one of the files does not fit the folder's manifest; a folder without one cannot be checked."""
    manifest = load_manifest(folder)
    if manifest is None:
        return
    present = [name for name in names if name in manifest.states or (folder / name).exists()]
    wrong = [m for name in present if (m := misfit_of(folder, name, manifest)) is not None]
    if wrong:
        raise FolderError(f"{folder} does not hold what its run wrote: " + "; ".join(map(str, wrong)))


def find_records(paths: Iterable[Path]) -> list[Path]:
    """The run folders that these are or hold, at any depth; FolderError for a path without one."""
    found: dict[Path, None] = {}
    for path in paths:
        signs = (RUN, MANIFEST, SUMMARY, "checkpoint/state.safetensors", "checkpoint/before.safetensors")
        if not path.is_dir():
            raise FolderError(f"{path} {'is not a folder' if path.exists() else 'does not exist'}; give a run folder")
        here = {file.parents[sign.count("/")] for sign in signs for file in path.rglob(sign)}
        if not here:
            raise FolderError(f"{path} holds no run folder; give the folder of a run or one with such folders in it")
        found |= dict.fromkeys(sorted(here))
    return list(found)


def _run_json(
    folder: Path, manifest: Manifest | None, misfits: list[Misfit]
) -> tuple[dict[str, Any] | None, str | None]:
    """run.json and the identity that follows from it; if it cannot be read, the one that the manifest has."""
    try:
        run = read_json(folder / RUN)
        identity = identity_of(run)
    except (FolderError, KeyError) as error:
        if (folder / RUN).exists() or manifest is None:
            found = "none" if not (folder / RUN).exists() else _after_colon(error)
            misfits.append(Misfit(file=RUN, expected="the settings of the run", found=found, todo=PUT_BACK))
        return None, None if manifest is None else manifest.identity
    if run.get("identity") != identity:
        found = f"settings of {identity}, so they were changed"
        misfits.append(Misfit(file=RUN, expected=f"settings of the run {run.get('identity')}", found=found, todo=ANEW))
    if manifest is not None and manifest.identity != identity:
        found = f"that of the run {manifest.identity}"
        misfits.append(Misfit(file=MANIFEST, expected=f"the list of the run {identity}", found=found, todo=ANEW))
    return run, identity


def _checkpoint_misfit(path: Path, identity: str, run: dict[str, Any] | None) -> Misfit | None:
    name = f"checkpoint/{path.name}"
    try:
        state, _ = open_checkpoint(path, identity)
    except Unbelievable as error:
        todo = "delete it: the run with --resume goes on from the other checkpoint, or from the beginning"
        return Misfit(file=name, expected=error.expected, found=error.found, todo=todo)
    training = {} if run is None else run["scenario"]["training"]
    last = training.get("cloud_rounds") if training.get("total_steps") is None else None
    if last is not None and state["cloud_round"] > last:
        found = f"one after cloud round {state['cloud_round']}"
        return Misfit(file=name, expected=f"a checkpoint of a run of {last}", found=found, todo="delete it")
    return None


def _shown(states: list[State] | None) -> str:
    if states is None:
        return "no such file, as the run did not write it"
    return " or ".join("none" if s is None else f"{s['bytes']} bytes with sha256 {s['sha256'][:16]}" for s in states)


def _found(states: list[State] | None, came: State) -> str:
    if came is None:
        return "none"
    sizes = {s["bytes"] for s in states or [] if s is not None}
    change = (
        "" if not sizes or came["bytes"] in sizes else ", shorter" if came["bytes"] < min(sizes) else ", other size"
    )
    return f"{came['bytes']} bytes with sha256 {came['sha256'][:16]}{change}"


def _todo(name: str) -> str:
    return "make it again with fedloom report" if name == REPORT else PUT_BACK if name == RUN else AGAIN


def _after_colon(error: Exception) -> str:
    """What an error says behind the path."""
    return f"no {error}" if isinstance(error, KeyError) else one_line(str(error).split(": ", 1)[-1])

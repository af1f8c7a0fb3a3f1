"""The folder of a run: what it is made of, written so that a run killed at any moment loses at most a minute.

    manifest.json      the run's identity, and size and digest of the files below
    run.json           the whole scenario, method, seed, clients and cells, versions, machine
    metrics.parquet    one row per evaluation
    topology.parquet   who was where, one row per client and aggregator from the round of every change
    timeline.parquet   when clients fetched, computed, uploaded and were merged, one row for every client sent to work
    costs.parquet      the ledger by cloud round, aggregator, hop and direction
    model.safetensors  the final model, with the names of the module's parameters and buffers
    summary.json       final and best measures, ledger, wall seconds; its presence says that the run is finished
    checkpoint/        the models still in use and the measures so far, the last two times: after cloud rounds, and every
                       minute within a long one

Every file is written beside its place and then renamed, so that a reader never sees half a file.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedloom.gate import finite
from fedloom.record.checkpoints import REFUSED, choose_checkpoint, load_checkpoint, refusal, save_checkpoint
from fedloom.record.files import (
    MANIFEST,
    REPORT,
    FolderError,
    Manifest,
    NotWritten,
    explaining,
    json_bytes,
    load_manifest,
    read_json,
)
from fedloom.record.identity import HASHES, identity_of, settings_of
from fedloom.record.model import MODEL, model_bytes, model_facts
from fedloom.record.summary import circumstances, summarise
from fedloom.record.tables import Measures, metrics_bytes, tables_of
from fedloom.record.verify import RUN, SUMMARY, verify

if TYPE_CHECKING:  # reading records needs no torch
    from fedloom.simulator import Checkpoint, Simulation

__all__ = ["FolderError", "load_checkpoint", "read_json", "record", "summarise"]

OnRound = Callable[[int, Measures | None], None]
LOCK = ".lock"
EVERY_S = 60.0  # wall seconds between checkpoints inside a cloud round
UNWRITABLE = (NotWritten, FolderError)
CLOCK = ("time_s", "energy_j", "bytes")
SHARE = 0.005  # of the time, for writing after cloud rounds
USUAL_S = 0.01  # that the first write is expected to take: a run that is over within two seconds writes at its end only


def record(
    simulation: "Simulation",
    method: str,
    folder: Path,
    *,
    resume: bool = False,
    on_round: OnRound | None = None,
    checkpoint_every_s: float = EVERY_S,
) -> dict[str, Any]:
    """Run the simulation and leave its record in `folder`; returns the summary.

    on_round is called after every cloud round with the number of rounds done and what was measured, if anything. With
    `resume` an unfinished run of the same settings goes on where it was; a finished one is left as it is, unless files of it do
    not fit: then they are made again. checkpoint_every_s: wall seconds between checkpoints inside a long cloud round; 0 writes
    one after every batch of training.
    """
    settings = settings_of(simulation, method)
    identity = identity_of(settings)
    _look(folder, settings, identity)
    finished = _finished(folder, resume, simulation.warnings)
    if finished is not None:
        return finished
    with _alone_in(folder):
        about = settings | {"identity": identity, "model": model_facts(simulation)} | circumstances(simulation)
        return _record(simulation, about, folder, resume, on_round, checkpoint_every_s)


def _record(
    simulation: "Simulation",
    about: dict[str, Any],
    folder: Path,
    resume: bool,
    on_round: OnRound | None,
    checkpoint_every_s: float,
) -> dict[str, Any]:
    started = time.perf_counter()
    identity = about["identity"]
    checkpoint = _last_checkpoint(folder, identity, simulation.warnings) if resume else None
    writer = _Writer(folder, _begin(folder, about, checkpoint), checkpoint_every_s)
    simulation.on_wave = lambda: writer.within_round(simulation.checkpoint)
    simulation.call_s = min(simulation.call_s, checkpoint_every_s)
    rounds = simulation.rounds(checkpoint)
    with writer, closing(rounds):  # closed here, and not when it is deleted: polars may send Ctrl-C twice
        for measures in rounds:
            writer.after_round(simulation)
            if on_round is not None:
                on_round(simulation.cloud_rounds_done, measures)
    files = tables_of(simulation) | {MODEL: model_bytes(simulation, identity)}
    summary: dict[str, Any] = finite.as_json(
        summarise(simulation, time.perf_counter() - started, resumed=checkpoint is not None)
    )
    writer.manifest.write(files | {SUMMARY: json_bytes(summary)})  # the summary comes last: it says that all is there
    return summary


class _Writer:
    """Writes checkpoints and what was measured so far: after cloud rounds, but so rarely that it takes half a hundredth
    of the time (a kill loses a cloud round, or 200 times what writing takes), and every `every_s` wall seconds within them.

    As a context it sees to it at the end that the last checkpoint is there, whether the run is over or was stopped, except by
    the disk.
    """

    def __init__(self, folder: Path, manifest: Manifest, every_s: float) -> None:
        self.folder, self.manifest, self.every_s = folder, manifest, every_s
        self._left: Checkpoint | None = None
        self._written, self._took_s = time.perf_counter(), USUAL_S

    def after_round(self, simulation: "Simulation") -> None:
        """A cloud round is over, or (0) the first model was measured: there is nothing to go on from then. Models that wait are
        not computed for a checkpoint that is not due."""
        _believable(simulation.cloud_rounds_done, simulation.measures)
        if simulation.cloud_rounds_done == 0:
            return
        due = time.perf_counter() - self._written >= min(self.every_s, self._took_s / SHARE)
        if due or simulation.up_to_date:
            self._left = simulation.checkpoint()
        if due and self._left is not None:
            self._write(self._left)

    def within_round(self, take: "Callable[[], Checkpoint]") -> None:
        """A batch of training is over."""
        if time.perf_counter() - self._written >= self.every_s:
            self._write(take())

    def __enter__(self) -> "_Writer":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if self._left is None:
            return
        if error is None:  # all tables follow, and are flushed
            save_checkpoint(self.folder, self._left, self.manifest.identity, flush=False)
        elif isinstance(error, Exception | KeyboardInterrupt | SystemExit) and not isinstance(error, UNWRITABLE):
            with suppress(*UNWRITABLE):  # the first error is the one to tell
                self._write(self._left)

    def _write(self, checkpoint: "Checkpoint") -> None:
        metrics = metrics_bytes(checkpoint.measures)  # not counted: the first one loads what writes tables
        before = time.perf_counter()
        save_checkpoint(self.folder, checkpoint, self.manifest.identity)
        # not flushed: if the power fails, it is made again from the checkpoint
        self.manifest.write({"metrics.parquet": metrics}, flush=False)
        self._left, self._written = None, time.perf_counter()
        self._took_s = self._written - before


def _believable(cloud_round: int, measures: list[Measures]) -> None:
    """Refused, before anything is written, if time, energy or traffic is infinite or no number."""
    for last in measures[-1:]:
        clock = {name: last[name] for name in CLOCK if name in last}
        finite.results(f"the clock after cloud round {cloud_round}, by the rates and powers of the fleet", clock)


def _look(folder: Path, settings: dict[str, Any], identity: str) -> None:
    """Refuse a folder that holds something else than this run."""
    if folder.exists() and not folder.is_dir():
        raise FolderError(f"{folder} is a file; --out must be a folder")
    if not (folder / RUN).exists():
        strangers = [p.name for p in folder.iterdir()] if folder.is_dir() else []
        strangers = sorted(n for n in strangers if n not in (LOCK, MANIFEST) and not n.endswith(".tmp"))
        manifest = load_manifest(folder)
        if strangers and (manifest is None or manifest.identity != identity):
            raise FolderError(f"{folder} holds other files ({', '.join(strangers[:5])}); choose an empty or new folder")
        return
    there = read_json(folder / RUN)
    different = [key for key in settings if there.get(key) != settings[key]]
    if len(different) > 1:  # hashes differ with the seed or the scenario: no news
        different = [key for key in different if key not in HASHES] or different
    if different:
        shown = "; ".join(_difference(key, there.get(key), settings[key]) for key in different)
        raise FolderError(f"{folder} holds another run ({shown}); choose another --out or delete the folder")


def _difference(key: str, there: Any, here: Any) -> str:
    if isinstance(there, dict) and isinstance(here, dict):
        inner = [
            _difference(f"{key}.{k}", there.get(k), here.get(k))
            for k in sorted({*there, *here})
            if there.get(k) != here.get(k)
        ]
        return "; ".join(inner[:3])
    return f"{key} is {there} there and {here} here"


def _finished(folder: Path, resume: bool, notes: list[str]) -> dict[str, Any] | None:
    """The summary of a finished run whose files all fit; None if there is something to do."""
    finished = (folder / SUMMARY).exists()
    begun = any((folder / name).exists() for name in (RUN, SUMMARY, "checkpoint"))
    if not resume and begun:
        state = "this run, finished" if finished else "this run, unfinished"
        todo = "delete the folder to run it again" if finished else "go on with --resume or delete the folder"
        raise FolderError(f"{folder} already holds {state}; {todo}")
    if not finished:
        return None
    wrong = [misfit for misfit in verify(folder).misfits if misfit.file != REPORT]  # which is made of the others
    if not wrong:
        return read_json(folder / SUMMARY)
    shown = "; ".join(f"{m.file}: expected {m.expected}, found {m.found}" for m in wrong)
    notes.append(f"files of the record did not fit and were made again ({shown})")
    return None


def _last_checkpoint(folder: Path, identity: str, notes: list[str]) -> "Checkpoint | None":
    """The latest checkpoint that can be believed. One that cannot is put aside with a word; if there is no other, refused."""
    choice = choose_checkpoint(folder, identity)
    if not choice.refused:
        return choice.checkpoint
    if choice.checkpoint is None:
        raise FolderError(refusal(choice))
    for path, error in choice.refused.items():
        with explaining(path):
            path.replace(path.with_name(path.name + REFUSED))  # so that it does not take the place of a good one
        notes.append(
            f"{path} could not be used ({error}) and was put aside; the run went on from the other checkpoint, after cloud "
            f"round {choice.checkpoint.cloud_round}"
        )
    return choice.checkpoint


def _begin(folder: Path, about: dict[str, Any], checkpoint: "Checkpoint | None") -> Manifest:
    """Make the folder that of an unfinished run: run.json and what was measured so far, both in the manifest."""
    try:
        manifest = load_manifest(folder)
    except FolderError:
        manifest = None
    if manifest is None or manifest.identity != about["identity"]:
        manifest = Manifest(folder=folder, identity=about["identity"])
    with explaining(folder / SUMMARY):
        (folder / SUMMARY).unlink(missing_ok=True)
        for left in [*folder.glob("*.tmp"), *folder.glob("checkpoint/*.tmp")]:
            left.unlink()
    files = {RUN: json_bytes(about)}
    if checkpoint is not None:
        files["metrics.parquet"] = metrics_bytes(checkpoint.measures)
    manifest.write(files)
    return manifest


@contextmanager
def _alone_in(folder: Path) -> Iterator[None]:
    """Make the folder and hold its lock: two processes must not write one record. The system lets go if we are killed."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = (folder / LOCK).open("w")
    except OSError as error:
        raise FolderError(f"the folder {folder} cannot be written ({error.strerror}); choose another --out") from None
    with lock:
        try:
            import fcntl

            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except ImportError:  # not a Unix system: no lock
            pass
        except BlockingIOError:
            raise FolderError(f"another process is writing {folder}; wait for it or choose another --out") from None
        yield
    (folder / LOCK).unlink(missing_ok=True)

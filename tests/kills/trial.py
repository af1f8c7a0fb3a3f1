"""One command, hit once or more and repeated until it ends by itself; and whether everything is as if nothing had happened."""

import contextlib
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .commands import Case, left_by
from .zygote import forked, learnt

HANG_S = 180.0  # on a machine that has other things to do
ORPHAN_S = (
    5.0  # so long a process may outlive the command; the documents promise one second, of a machine that is not busy
)
MOST_HITS = 6
AGAIN = 0.6  # how often a repeated command is hit again
AIMED = 0.4  # how often a file that is being written is waited for
SIGNALS = {signal.SIGKILL: 0.8, signal.SIGTERM: 0.1, signal.SIGINT: 0.1}
ENDS = {signal.SIGKILL: {-9}, signal.SIGTERM: {143, -15}, signal.SIGINT: {130, -2}}  # -15 and -2: before Python listens
WRONG_WORDS = ("Traceback (most recent call last)", "Exception ignored", "Fatal Python error", "Segmentation fault")


@dataclass(frozen=True, kw_only=True)
class Shot:
    """A signal after so many seconds, or if aimed when after that a file is being written; to all processes or the first."""

    signal: signal.Signals
    after_s: float
    aimed: bool
    later_s: float
    to_all: bool

    def __str__(self) -> str:
        when = f"at the first write after {self.after_s:.3f} s" if self.aimed else f"after {self.after_s:.3f} s"
        return f"{self.signal.name}{' to all' if self.to_all else ''} {when}"


@dataclass(kw_only=True)
class Story:
    """What happened in a trial: signals that hit, repetitions, what was wrong."""

    case: Case
    hits: Counter[str] = field(default_factory=Counter)
    aimed: int = 0
    repeated: int = 0
    orphan_s: float = 0.0
    faults: list[str] = field(default_factory=list)
    told: list[str] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class Reference:
    """What an undisturbed command leaves, and how long it takes."""

    left: dict[str, Any]
    seconds: float


def warmed(case: Case, place: Path) -> None:
    """Have a child run the command, and import what it has imported: the next ones need not."""
    with _fresh(place) as (folder, said):
        case.prepare(folder)
        os.waitpid(forked(case.argv, folder, said, hurried=case.hurried, modules=place / "modules"), 0)
        learnt(place / "modules")


def undisturbed(case: Case, place: Path) -> Reference:
    """The command once, without a hit."""
    with _fresh(place) as (folder, said):
        case.prepare(folder)
        story = Story(case=case)
        begun = time.monotonic()
        code, _ = _attempt(case, folder, said, None, (), story)
        seconds = time.monotonic() - begun
        if code != 0 or story.faults:
            raise RuntimeError(f"{case.name} fails undisturbed, with code {code}: {story.faults}\n{said.read_text()}")
        if faults := _unsound(folder):
            raise RuntimeError(f"{case.name} leaves a record that is not sound: {faults}")
        return Reference(left=left_by(folder), seconds=seconds)


def trial(case: Case, reference: Reference, seed: int, place: Path) -> Story:
    """A seed draws how often, when and with what the command is hit."""
    rng = random.Random(f"{case.name} {seed}")
    story = Story(case=case)
    wanted = 1
    while wanted < MOST_HITS and rng.random() < AGAIN:
        wanted += 1
    with _fresh(place) as (folder, said):
        case.prepare(folder)
        for n in range(MOST_HITS + 2):
            shot = _drawn(rng, reference.seconds) if n < wanted else None
            code, hit = _attempt(case, folder, said, shot, case.again if n else (), story)
            story.repeated += n > 0
            if code == 0 or not hit or story.faults:
                break
        if not story.faults:
            story.faults += _differences(left_by(folder), reference.left) + _unsound(folder)
        if story.faults:
            story.told.append(said.read_text(errors="replace"))
    return story


def _drawn(rng: random.Random, seconds: float) -> Shot:
    sort = rng.choices(list(SIGNALS), list(SIGNALS.values()))[0]
    return Shot(
        signal=sort,
        after_s=rng.uniform(0, seconds),
        aimed=rng.random() < AIMED,
        later_s=rng.choice((0.0, rng.uniform(0, 0.004))),
        to_all=rng.random() < (1.0 if sort == signal.SIGINT else 0.2),  # Ctrl-C goes to all of a terminal
    )


@contextlib.contextmanager
def _fresh(place: Path) -> Iterator[tuple[Path, Path]]:
    """An empty folder, and the file for what the command says."""
    folder, said = place / "trial", place / "said.txt"
    shutil.rmtree(folder, ignore_errors=True)
    said.write_text("")
    folder.mkdir(parents=True)
    yield folder, said


def _attempt(
    case: Case, folder: Path, said: Path, shot: Shot | None, more: tuple[str, ...], story: Story
) -> tuple[int, bool]:
    """Start the command and let it end, by itself or by the shot. Returns its exit code and whether it was hit."""
    heard = said.stat().st_size
    argv = (*case.argv, *more)
    process = _Process(argv, folder, said, case)
    hit = False
    if shot is not None and process.wait_for(shot, folder):
        with contextlib.suppress(ProcessLookupError):
            (os.killpg if shot.to_all else os.kill)(process.pid, shot.signal)
            hit = True
    code = process.wait(HANG_S)
    orphans, orphan_s = _orphans(process.pid)
    story.orphan_s = max(story.orphan_s, orphan_s)
    now = said.read_bytes()[heard:].decode(errors="replace")
    what = f"`fedloom {' '.join(argv)}` {f'({shot}) ' if hit else ''}"
    if code is None:
        story.faults.append(f"{what}hung for {HANG_S:.0f} s")
        return 1, hit
    if orphans:
        story.faults.append(f"{what}left processes behind: {orphans}")
    if words := [words for words in WRONG_WORDS if words in now]:
        story.faults.append(f"{what}said {words}")
    hit = hit and code != 0  # one that was over before the signal came was not hit
    allowed = ENDS[shot.signal] if hit and shot is not None else {0}
    if code not in allowed:
        story.faults.append(f"{what}ended with {code}, not {' or '.join(map(str, sorted(allowed)))}")
    if hit and code in (130, 143) and "stopped" not in now:
        story.faults.append(f"{what}did not say that it was stopped")
    if hit and shot is not None:
        story.hits[shot.signal.name] += 1
        story.aimed += shot.aimed
    return code, hit


class _Process:
    """A command in a session of its own."""

    def __init__(self, argv: tuple[str, ...], folder: Path, said: Path, case: Case) -> None:
        self._popen: subprocess.Popen[bytes] | None = None
        self._code: int | None = None
        if case.forked:
            self.pid = forked(argv, folder, said, hurried=case.hurried)
        else:
            with said.open("ab") as words:
                self._popen = subprocess.Popen(
                    [sys.executable, "-m", "fedloom", *argv],
                    cwd=folder,
                    stdin=subprocess.DEVNULL,
                    stdout=words,
                    stderr=words,
                    start_new_session=True,
                )
            self.pid = self._popen.pid

    def ended(self) -> bool:
        if self._code is None:
            if self._popen is not None:
                self._code = self._popen.poll()
            else:
                pid, status = os.waitpid(self.pid, os.WNOHANG)
                self._code = os.waitstatus_to_exitcode(status) if pid else None
        return self._code is not None

    def wait_for(self, shot: Shot, folder: Path) -> bool:
        """Wait for the moment of the shot; False if the command is over before."""
        moment = time.monotonic() + shot.after_s
        while (left := moment - time.monotonic()) > 0:
            if self.ended():
                return False
            time.sleep(min(left, 0.02))
        while shot.aimed and not any(folder.rglob("*.tmp")):
            if self.ended():
                return False
            time.sleep(0.0003)  # a file takes longer than that to be written, and the command needs the processor
        time.sleep(shot.later_s if shot.aimed else 0)
        return not self.ended()

    def wait(self, seconds: float) -> int | None:
        """The exit code; None if it takes longer, and then it is killed with all it has started."""
        end = time.monotonic() + seconds
        while not self.ended():
            if time.monotonic() > end:
                os.killpg(self.pid, signal.SIGKILL)
                while not self.ended():
                    time.sleep(0.01)
                return None
            time.sleep(0.002)
        return self._code


def _orphans(session: int) -> tuple[list[str], float]:
    """Processes of a session whose first is gone and that do not end soon, and how long the last one took; they are killed."""
    begun = time.monotonic()
    while True:
        alive = _in_session(session)
        took = time.monotonic() - begun
        if not alive or took > ORPHAN_S:
            break
        time.sleep(0.005)
    for pid in alive:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return list(alive.values()), took


def _in_session(session: int) -> dict[int, str]:
    """Process ids and names; those that only wait to be collected do not count."""
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError, ValueError):
                name, _, rest = (entry / "stat").read_text().partition("(")[2].rpartition(")")
                state, _, _, of = rest.split()[:4]
                if int(of) == session and state != "Z":
                    found[int(entry.name)] = name
    return found


def _differences(left: dict[str, Any], wanted: dict[str, Any]) -> list[str]:
    found = [f"{name} is missing" for name in wanted if name not in left]
    found += [f"{name} is left" for name in left if name not in wanted]
    for name, value in wanted.items():
        if name in left and left[name] != value:
            short = f": {left[name]!r:.300} where {value!r:.300} was expected" if not isinstance(value, bytes) else ""
            found.append(f"{name} differs{short}")
    return found


def _unsound(folder: Path) -> list[str]:
    """What `fedloom verify` finds fault with in any record below the folder."""
    from fedloom.record.files import FolderError
    from fedloom.record.verify import find_records, verify

    try:
        verdicts = [verify(record) for record in find_records([folder])]
    except FolderError:  # there is none
        return []
    faults = [f"{v.folder.name}: {misfit}" for v in verdicts for misfit in v.misfits]
    return faults + [f"{v.folder.name} is unfinished" for v in verdicts if not v.finished]

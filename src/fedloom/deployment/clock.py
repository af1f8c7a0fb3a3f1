"""The clock of the wall for the driver: what happens next is whatever comes first, and it is written down before it counts.

After a restart the journal is gone through first, at its own times; then the wall goes on from the last of them.
"""

import heapq
import threading
import time
from collections import deque
from collections.abc import Callable

from fedloom.deployment.journal import Journal, Noted, Spent
from fedloom.simulator.clock import Happening


class Stopped(Exception):
    """The role is being ended."""


class WallClock:
    """now_s: seconds of the run at what happened last. changed: the lock of all that the driver shares with others. look_around:
    called about once a second while nothing happens; noticed: with what happens, also by the journal."""

    def __init__(
        self,
        journal: Journal,
        changed: threading.Condition,
        look_around: Callable[[], None],
        noticed: Callable[[float, Noted], None],
    ) -> None:
        self.now_s = 0.0
        self.replay = deque(journal.happened)
        self._journal, self._changed, self._look_around = journal, changed, look_around
        self._noticed = noticed
        self._foreseen: list[tuple[float, int, Happening]] = []
        self._n = 0
        self._here: deque[Happening] = deque()
        self._began_s = time.monotonic() - (self.replay[-1][0] if self.replay else 0.0)
        self._stopped = False
        self.cannot: Callable[[OSError], None] = lambda error: None
        """Told of what could not be written to disk."""
        self.live = False
        """The journal is gone through, and so is what followed from it."""

    def __repr__(self) -> str:
        here, foreseen = list(self._here), self._foreseen
        return f"WallClock({self.now_s:.3f} s, to_replay={len(self.replay)}, here={here}, foreseen={foreseen})"

    @property
    def wall_s(self) -> float:
        """Seconds of the run now."""
        return time.monotonic() - self._began_s

    def foresee(self, at_s: float, happening: Happening) -> None:
        with self._changed:
            heapq.heappush(self._foreseen, (at_s, self._n, happening))
            self._n += 1

    def foresees(self, happening: Happening) -> bool:
        """It is to happen already."""
        with self._changed:
            return any(same(what, happening) for _, _, what in self._foreseen)

    def spend(self, seconds: float) -> None:
        """What was predicted to take so long takes what it takes."""

    def since_s(self) -> float:
        """Seconds since what happened last, written down, so that after a restart they are the same."""
        with self._changed:
            if self.replay:
                at_s, spent = self.replay.popleft()
                if not isinstance(spent, Spent):
                    raise ValueError(
                        f"the journal tells of {spent} where a group was to begin: it is of another version"
                    )
                return at_s - self.now_s
            at_s = max(self.now_s, self.wall_s)
            self.insist(lambda: self._journal.happens(at_s, Spent()))
            return at_s - self.now_s

    def happened(self, happening: Happening) -> None:
        """It is here now."""
        with self._changed:
            self._here.append(happening)
            self._changed.notify_all()

    def stop(self) -> None:
        with self._changed:
            self._stopped = True
            self._changed.notify_all()

    def next(self) -> Happening:
        """What happens next; it is then."""
        with self._changed:
            if self.replay:
                self.now_s, happening = self.replay.popleft()
                if isinstance(happening, Spent):
                    raise ValueError("the journal does not fit what the method decides: it is of another version")
                self._forget(happening)
                self._noticed(self.now_s, happening)
                return happening
            if not self.live:
                self.live = True
                self._look_around()
            while True:
                if self._stopped:
                    raise Stopped
                now_s = max(self.now_s, self.wall_s)
                if self._here:
                    happening = self._here.popleft()
                elif self._foreseen and self._foreseen[0][0] <= now_s:
                    happening = heapq.heappop(self._foreseen)[2]
                else:
                    first_s = self._foreseen[0][0] - now_s if self._foreseen else 1.0
                    self._changed.wait(min(first_s, 1.0))
                    self._look_around()
                    continue
                self.now_s = now_s
                self._write(now_s, happening)
                self._noticed(now_s, happening)
                return happening

    def wait(self) -> None:
        """Until something changes."""
        with self._changed:
            if self._stopped:
                raise Stopped
            self._changed.wait(1.0)

    def insist(self, write: Callable[[], object]) -> None:
        """Do what writes to disk, again and again as long as there is no room."""
        while True:
            try:
                write()
                return
            except OSError as error:
                self.cannot(error)
                self.wait()

    def _write(self, at_s: float, happening: Happening) -> None:
        self.insist(lambda: self._journal.happens(at_s, happening))

    def _forget(self, happening: Happening) -> None:
        """It was foreseen before the restart, and has happened."""
        for i, (_, _, foreseen) in enumerate(self._foreseen):
            if same(foreseen, happening):
                del self._foreseen[i]
                heapq.heapify(self._foreseen)
                return


def same(one: Happening, other: Happening) -> bool:
    """Tuples of different kinds with the same numbers are equal, and not the same."""
    return type(one) is type(other) and one == other

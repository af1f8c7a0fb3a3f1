"""Virtual time: exact, and separate from wall time. What happens is ordered by (time, when it was foreseen)."""

import heapq
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from fedloom.simulator.timeline import Sent


class Opening(NamedTuple):
    """A group opens its next round."""

    group: int


class Waking(NamedTuple):
    """A group wanted to be told, in its edge round `edge_round`."""

    group: int
    edge_round: int


class Arrival(NamedTuple):
    """The flight led by a client is back, to be merged by itself."""

    lead: int


class Reporting(NamedTuple):
    """The report of a group reaches the cloud."""

    group: int


class Delivered(NamedTuple):
    """Updates are where they are to be merged, by client and ticket: for worlds in which that is not foreseen."""

    client: tuple[int, ...]
    ticket: tuple[int, ...]


class Left(NamedTuple):
    """Clients will not bring back what they are at work on. sick: the first steps of their updates, if they were not finite."""

    client: tuple[int, ...]
    sick: tuple[int, ...] = ()


class Lost(NamedTuple):
    """The edge server of a cell or the head on a device (kind: edge or head; host) has been silent for too long: nobody waits for
    it, nor for clients at work on what they cannot do without it."""

    kind: str
    host: int
    client: tuple[int, ...]


class Back(NamedTuple):
    """An edge server or head that was lost is there again."""

    kind: str
    host: int


class Fetched(NamedTuple):
    """The models of the cloud have reached a group, where that is not foreseen."""

    group: int


class Overdue(NamedTuple):
    """The deadline of clients that were sent to work is over, where it is not foreseen who is late: is_back (m,)."""

    sent: Sent
    is_back: NDArray[np.bool_]


class Failed(NamedTuple):
    """It is known that clients will not bring back jobs of theirs, by client and ticket: they are down, or a message was lost."""

    client: tuple[int, ...]
    ticket: tuple[int, ...]


class Check(NamedTuple):
    """A device that is a head may be down now, or up again."""

    host: int


class Returned(NamedTuple):
    """Somebody who was down may be there again."""


class Nothing(NamedTuple):
    """Nothing is foreseen any more: whoever is waited for will never come."""


class Coming(NamedTuple):
    """Nobody was anywhere: it is time to see who has come."""


Happening = (
    Opening
    | Waking
    | Arrival
    | Reporting
    | Delivered
    | Left
    | Lost
    | Back
    | Fetched
    | Overdue
    | Failed
    | Check
    | Returned
    | Nothing
    | Coming
)


class Timepiece(Protocol):
    """now_s, and what is foreseen."""

    @property
    def now_s(self) -> float: ...
    def foresee(self, at_s: float, happening: Happening) -> None: ...
    def next(self) -> Happening: ...
    def spend(self, seconds: float) -> None: ...


class Clock:
    """now_s, and what is foreseen."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self._foreseen: list[tuple[float, int, Happening]] = []
        self._n = 0

    def foresee(self, at_s: float, happening: Happening) -> None:
        heapq.heappush(self._foreseen, (at_s, self._n, happening))
        self._n += 1

    def spend(self, seconds: float) -> None:
        """So much later."""
        self.now_s += seconds

    @property
    def idle(self) -> bool:
        """Nothing is foreseen."""
        return not self._foreseen

    def pass_to(self, at_s: float) -> None:
        """It is so late, and nothing has happened that was foreseen."""
        self.now_s = at_s

    def next(self) -> Happening:
        """What happens next; it is then, or was while time was spent."""
        if not self._foreseen:
            return Nothing()
        at_s, _, happening = heapq.heappop(self._foreseen)
        self.now_s = max(self.now_s, at_s)
        return happening

"""Messages in the bands of a fleet, on a clock: what is ready joins its band, and goes on when it is done.

A band is of a cell and direction, of a head's cluster, of all devices, or of the server, whoever reports to whom: all that is
sent in it meets there. A message is sent over every link that its sender has at once, and is there when the last of them is
done; where it is relayed it goes on then. Nothing is foreseen that depends on what others may still send.
"""

import heapq
import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedloom.fleet.bands import Band, band
from fedloom.fleet.settings.air import AirSettings
from fedloom.simulator.clock import Happening, Nothing, Overdue, Waking
from fedloom.simulator.exchange import Exchange, Kept, Leg, Way

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Then = Callable[[float], None]
"""What is done at a time, which it is told."""


class AirClock:
    """now_s, what is foreseen, and what goes on in the air meanwhile, which nobody is told."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self._foreseen: list[tuple[float, int, float, Happening | Then]] = []
        self._n = 0
        self._due_s: dict[int, float] = {}

    def call(self, at_s: float, then: Then) -> None:
        """Something of the air."""
        self._push(at_s, at_s, then)

    def foresee(self, at_s: float, happening: Happening) -> None:
        if isinstance(happening, Overdue):  # it is noted then, and takes no time
            self._push(at_s, self.now_s, happening)
            return
        last_s = self._due_s.pop(happening.group, at_s) if isinstance(happening, Waking) else at_s
        self._push(max(at_s, last_s), at_s, happening)

    def give_until(self, group: int, at_s: float) -> None:
        """What arrives by then is in time for a group, which will ask to be told when it is: a little later, for rounding."""
        self._due_s[group] = at_s

    def spend(self, seconds: float) -> None:
        """So much later."""
        self.now_s += seconds

    def next(self) -> Happening:
        """What happens next that anybody is told; it is then."""
        while self._foreseen:
            _, _, at_s, what = heapq.heappop(self._foreseen)
            if callable(what):
                what(at_s)
            else:
                self.now_s = max(self.now_s, at_s)
                return what
        return Nothing()

    def run(self) -> None:
        """To the end; nothing is foreseen but what goes on in the air."""
        while self._foreseen:
            _, _, at_s, what = heapq.heappop(self._foreseen)
            assert callable(what)
            what(at_s)

    def _push(self, key_s: float, at_s: float, what: Happening | Then) -> None:
        heapq.heappush(self._foreseen, (key_s, self._n, at_s, what))
        self._n += 1


class _Place(NamedTuple):
    """A band, and how many messages have joined or left it: what was expected before is not any more."""

    band: Band[Then]
    changes: list[int]


class Air:
    """All bands of a fleet."""

    def __init__(self, settings: AirSettings) -> None:
        self.settings, self.clock = settings, AirClock()
        self._places: dict[tuple[str, int], _Place] = {}
        # by hop, direction and where; None: a band of its own
        self._of_link: dict[tuple[str, str, int], _Place | None] = {}

    def is_shared(self, way: Way) -> bool:
        """Whether any band is in which messages of the way are sent."""
        for leg in way.legs:
            assert leg.single is not None
            for where in np.unique(leg.single.air).tolist():
                if self.settings.of(leg.hop, way.direction, where)[2].sharing != "own":
                    return True
        return False

    def work(
        self,
        down: Way | None,
        up: Way,
        who: Sequence[int],
        compute_s: Sequence[float],
        at_s: float,
        back: Callable[[int, float], None],
        times: tuple[Sequence[float], Sequence[float]] | None = None,
    ) -> None:
        """Clients `who` (m,) fetch a model from at_s on (down: None, they need none), compute, and send: back(j, when) is called
        when that of the j-th is there; never if one of its links is down. times: how many times the whole of the message of each
        is on air, down and up, where packets are sent again."""
        times_down, times_up = times or (None, None)

        def fetched(j: int, when_s: float) -> None:
            again = None if times_up is None else times_up[j : j + 1]
            self.travel(up, who[j : j + 1], when_s + compute_s[j], lambda _, s: back(j, s), again)

        if down is not None:
            self.travel(down, who, at_s, fetched, times_down)
            return
        for j in range(len(who)):
            fetched(j, at_s)

    def travel(
        self,
        way: Way,
        who: Sequence[int],
        at_s: float,
        there: Callable[[int, float], None],
        times: Sequence[float] | None = None,
    ) -> None:
        """Messages of `who` (m,) are sent from at_s on: there(j, when) is called when the j-th is there."""
        legs = way.legs if way.direction == "up" else way.legs[::-1]
        if legs and legs[0].broadcast:
            self._broadcast(legs[0], way.direction, who, at_s, there)
            return
        for j, k in enumerate(who):
            self._go(legs, way.direction, k, partial(there, j), 1.0 if times is None else times[j], at_s)

    def travel_together(self, way: Way, who: Sequence[int], at_s: float, there: Then) -> None:
        """The same, and when all are there."""
        if not who:
            self.clock.call(at_s, there)
        then = _last_of(len(who), there)
        self.travel(way, who, at_s, lambda _, s: then(s))

    def _go(self, legs: Sequence[Leg], direction: str, k: int, there: Then, times: float, at_s: float) -> None:
        """A message of k over these legs, ready at at_s; where it has no link, as a head to itself, it need not be sent. times:
        so many times as long where it is on air."""
        if not legs:
            self.clock.call(at_s, there)
            return
        leg, then = legs[0], partial(self._go, legs[1:], direction, k, there, times)
        assert leg.single is not None
        links, longer = leg.single.of_sender[k], 1.0 if leg.hop == "edge_cloud" else times
        if not links:
            then(at_s)
        elif leg.once_in is not None:
            self._put(leg.hop, direction, int(leg.once_in[k]), float(leg.seconds[k]) * longer, at_s, then)
        else:
            last = _last_of(len(links), then) if len(links) > 1 else then
            for _, where, seconds in links:
                self._put(leg.hop, direction, where, seconds * longer, at_s, last)

    def _broadcast(
        self, leg: Leg, direction: str, who: Sequence[int], at_s: float, there: Callable[[int, float], None]
    ) -> None:
        """Each aggregator sends once for all of `who` that listen to it, so long that the slowest hears it."""
        assert leg.single is not None
        heard: dict[tuple[int, int], list[tuple[float, Then]]] = {}
        for j, k in enumerate(who):
            links = leg.single.of_sender[k]
            then = _last_of(len(links), partial(there, j))
            for aggregator, where, seconds in links:
                heard.setdefault((aggregator, where), []).append((seconds, then))
            if not links:
                self.clock.call(at_s, partial(there, j))
        for (_, where), listeners in heard.items():
            up = [(seconds, then) for seconds, then in listeners if math.isfinite(seconds)]
            if up:
                slowest_s = max(seconds for seconds, _ in up)
                self._put(leg.hop, direction, where, slowest_s, at_s, partial(_all, [then for _, then in up]))

    def _put(self, hop: str, direction: str, where: int, seconds: float, at_s: float, then: Then) -> None:
        """A message over one link, ready at at_s. A link that is down takes no air, and nothing comes of it."""
        if not math.isfinite(seconds):
            return
        if (hop, direction, where) not in self._of_link:
            self._of_link[hop, direction, where] = self._place(hop, direction, where)
        place = self._of_link[hop, direction, where]
        if place is None:
            self.clock.call(at_s + seconds, then)
        else:
            self.clock.call(at_s, partial(self._join, place, seconds, then))

    def _place(self, hop: str, direction: str, where: int) -> _Place | None:
        name, number, sharing = self.settings.of(hop, direction, where)
        if sharing.sharing == "own":
            return None
        if (name, number) not in self._places:
            self._places[name, number] = _Place(band(sharing), [0])
        return self._places[name, number]

    def _join(self, place: _Place, seconds: float, then: Then, at_s: float) -> None:
        place.band.join(at_s, seconds, then)
        self._expect(place)

    def _expect(self, place: _Place) -> None:
        place.changes[0] += 1
        next_s = place.band.next_s
        if next_s < math.inf:
            self.clock.call(next_s, partial(self._over, place, place.changes[0]))

    def _over(self, place: _Place, changes: int, at_s: float) -> None:
        if changes != place.changes[0]:  # others have joined meanwhile
            return
        found = place.band.done()
        self._expect(place)
        for then in found:
            then(at_s)


def back_s(settings: AirSettings, down: Way | None, up: Way, who: Ints, compute_s: Floats) -> Floats:
    """Seconds (m,) until clients `who` are back that are sent together and have the air for themselves, computing for
    compute_s (m,); infinite where a link is down."""
    air, found = Air(settings), np.full(len(who), np.inf)
    air.work(down, up, who.tolist(), compute_s.tolist(), 0.0, found.__setitem__)
    air.clock.run()
    return found


def together_s(settings: AirSettings, ways: Exchange, step_s: Floats) -> Callable[[Ints, Ints], Floats]:
    """What links take of clients (m,) that are sent together for steps (m,) of step_s (K,), and have the air for themselves: of
    the seconds until they are back those in which they do not compute."""
    kept: Kept[tuple[bytes, bytes], Floats] = Kept()

    def links_s(clients: Ints, steps: Ints) -> Floats:
        compute_s = steps * step_s[clients]

        def find() -> Floats:
            return back_s(settings, ways.client_down, ways.client_up, clients, compute_s) - compute_s

        return kept.get((clients.tobytes(), steps.tobytes()), len(clients), find)

    return links_s


def undisturbed(settings: AirSettings, ways: Exchange, group_of: Ints) -> frozenset[int]:
    """Groups whose clients, group_of (K,), meet nobody else in their bands, which have no slots: what back_s says of them, sent
    together, is what happens whenever they are sent."""
    users: dict[tuple[str, int], set[int]] = {}
    slotted: set[int] = set()
    for way, groups in (
        (ways.client_down, group_of),
        (ways.client_up, group_of),
        (ways.cloud_down, None),
        (ways.cloud_up, None),
    ):
        for leg in way.legs:
            assert leg.single is not None
            group = np.full(len(leg.single.air), -1) if groups is None else groups[leg.single.sender]
            for where, i in np.unique(np.stack([leg.single.air, group], axis=1), axis=0).tolist():
                name, number, sharing = settings.of(leg.hop, way.direction, where)
                if sharing.sharing != "own":
                    users.setdefault((name, number), set()).add(i)
                slotted |= {i} if sharing.sharing == "blocks" else set()
    met = {i for several in users.values() if len(several) > 1 for i in several}
    return frozenset(set(group_of.tolist()) - met - slotted)


def _last_of(n: int, then: Then) -> Then:
    """What is to be called n times, and calls `then` with the last."""
    missing = n

    def one(at_s: float) -> None:
        nonlocal missing
        missing -= 1
        if not missing:
            then(at_s)

    return one


def _all(several: Sequence[Then], at_s: float) -> None:
    for then in several:
        then(at_s)

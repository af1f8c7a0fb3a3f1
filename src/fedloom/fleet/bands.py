"""A band that messages share, as time goes on: who has how much of it, and when the next message is done.

A message needs `alone_s` seconds of the whole band, at the rate of its sender; with a part of the band it needs as many times
longer, at the same power for every hertz, so that its seconds on air (of the whole band) and its joules are what they are alone.

    TimeDivision    done = max(ready, free) + alone                 one after the other, in the order of joining
    EqualShares     d left / dt = -1 / n(t)                         n messages at once; exact, by events
    Blocks          in every slot, B parts of 1 / B of the band     in turn, or to whom least was given lately

All carry as much as the band can whenever there is something to send (Blocks: from the next slot on, in whole blocks), and never
more. Messages join in the order of time. What never ends (a link that is down) does not join.
"""

import heapq
import math
from collections import deque
from collections.abc import Iterable
from typing import Generic, Protocol, TypeVar

from fedloom.fleet.settings.air import Sharing

M = TypeVar("M")
WHOLE = 1e-9  # of a block or a slot: so little more than a whole number is one, by rounding


class Band(Protocol[M]):
    """next_s: when the next message is done if none joins before, or something must be decided; infinite if there is none.
    done: take the messages that are done at next_s, if any are. join: at_s, not before anything that was told."""

    @property
    def next_s(self) -> float: ...
    def join(self, at_s: float, alone_s: float, message: M) -> None: ...
    def done(self) -> list[M]: ...


def band(sharing: Sharing) -> "Band[M]":
    """A new band, empty."""
    match sharing.sharing:
        case "time":
            return TimeDivision()
        case "equal":
            return EqualShares()
        case "blocks" if sharing.scheduler == "round-robin":
            return RoundRobin(sharing.blocks, sharing.slot_s)
        case "blocks":
            return ProportionalFair(sharing.blocks, sharing.slot_s, sharing.window)
    raise ValueError(f"sharing must be time, equal or blocks for a band of several, got {sharing.sharing}")


def finish_s(sharing: Sharing, ready_s: Iterable[float], alone_s: Iterable[float]) -> list[float]:
    """When each of m messages is done (m,) that are ready at ready_s (m,) and take alone_s (m,) with the band to themselves.
    Ties go to the lower index.

    >>> finish_s(Sharing(sharing="time"), [4, 1, 6, 6.5], [1.5, 1.5, 1.5, 1.5])
    [5.5, 2.5, 7.5, 9.0]
    >>> finish_s(Sharing(sharing="equal"), [4, 1, 6, 6.5], [1.5, 1.5, 1.5, 1.5])
    [5.5, 2.5, 8.5, 9.0]
    """
    todo = deque(sorted((ready, j, alone) for j, (ready, alone) in enumerate(zip(ready_s, alone_s, strict=True))))
    finish = [math.inf] * len(todo)
    shared: Band[int] = band(sharing)
    while todo or shared.next_s < math.inf:
        if todo and todo[0][0] <= shared.next_s:
            ready, j, alone = todo.popleft()
            shared.join(ready, alone, j)
        else:
            now_s = shared.next_s
            for j in shared.done():
                finish[j] = now_s
    return finish


class TimeDivision(Generic[M]):
    """One after the other, each with the whole band."""

    def __init__(self) -> None:
        self._queue: deque[tuple[float, M]] = deque()
        self._free_s = -math.inf

    @property
    def next_s(self) -> float:
        return self._queue[0][0] if self._queue else math.inf

    def join(self, at_s: float, alone_s: float, message: M) -> None:
        self._free_s = max(self._free_s, at_s) + alone_s
        self._queue.append((self._free_s, message))

    def done(self) -> list[M]:
        return [self._queue.popleft()[1]]


class EqualShares(Generic[M]):
    """All at once. `_sent_s`: what each message would have been sent by now, in seconds of the whole band, had it been here
    since the band was last empty; a message is done when that has grown by what it takes alone."""

    def __init__(self) -> None:
        self._until: list[tuple[float, int, M]] = []  # a heap: what _sent_s will be then
        self._sent_s = self._at_s = 0.0
        self._n = 0

    @property
    def next_s(self) -> float:
        return self._at_s + (self._until[0][0] - self._sent_s) * len(self._until) if self._until else math.inf

    def join(self, at_s: float, alone_s: float, message: M) -> None:
        if self._until:
            self._sent_s = min(self._sent_s + (at_s - self._at_s) / len(self._until), self._until[0][0])
        else:
            self._sent_s = 0.0
        self._at_s = at_s
        heapq.heappush(self._until, (self._sent_s + alone_s, self._n, message))
        self._n += 1

    def done(self) -> list[M]:
        self._at_s = self.next_s
        self._sent_s = self._until[0][0]
        return [heapq.heappop(self._until)[2]]


class Slots:
    """Blocks are numbered from the start of time, B in a slot. Who joins in a slot gets blocks from the next one on; a message
    is done at the end of the slot of its last block."""

    def __init__(self, n_blocks: int, slot_s: float) -> None:
        self.n_blocks, self.slot_s = n_blocks, slot_s

    def needed(self, alone_s: float) -> int:
        """Blocks of a message."""
        return _whole(alone_s / self.slot_s * self.n_blocks)

    def from_slot(self, at_s: float) -> int:
        """The first slot that begins at at_s or later."""
        return _whole(at_s / self.slot_s)


class RoundRobin(Generic[M]):
    """Blocks in turn. As long as nobody joins, the j-th of n in turn, who needs b more, is done with the (b - 1) n + j-th block
    from now (j from 1): what happens between two events is counted, not dealt."""

    def __init__(self, n_blocks: int, slot_s: float) -> None:
        self._slots = Slots(n_blocks, slot_s)
        self._turn: list[tuple[int, M]] = []  # blocks that are missing, from who is next on
        self._dealt = 0  # blocks since the start of time
        self._done: deque[tuple[int, M]] = deque()  # by the slot at whose end it is
        self._soon: int | None = None  # what `_soonest` found, as long as the turn is the same

    @property
    def next_s(self) -> float:
        if self._done:
            return self._done[0][0] * self._slots.slot_s
        if not self._turn:
            return math.inf
        return -(-(self._dealt + self._soonest()) // self._slots.n_blocks) * self._slots.slot_s

    def join(self, at_s: float, alone_s: float, message: M) -> None:
        slot = self._slots.from_slot(at_s)
        self._deal(slot * self._slots.n_blocks)
        if alone_s > 0:
            self._turn.append((self._slots.needed(alone_s), message))
            self._soon = None
        else:
            self._done.append((slot, message))

    def done(self) -> list[M]:
        if not self._done:
            self._deal(self._dealt + self._soonest())
        slot = self._done[0][0]
        found = []
        while self._done and self._done[0][0] == slot:
            found.append(self._done.popleft()[1])
        return found

    def _soonest(self) -> int:
        """Blocks until the next message has its last."""
        if self._soon is None:
            n = len(self._turn)
            self._soon = min((missing - 1) * n + j for j, (missing, _) in enumerate(self._turn, 1))
        return self._soon

    def _deal(self, until: int) -> None:
        """Deal the blocks up to that number."""
        while self._turn and self._dealt < until:
            n, count = len(self._turn), min(self._soonest(), until - self._dealt)
            self._dealt, self._soon = self._dealt + count, None
            left = [(missing - (count - j + n) // n, m) for j, (missing, m) in enumerate(self._turn, 1)]
            over = -(-self._dealt // self._slots.n_blocks)
            self._done.extend((over, m) for missing, m in left if missing == 0)
            at = count % n
            self._turn = [one for one in (*left[at:], *left[:at]) if one[0] > 0]
        self._dealt = max(self._dealt, until)


class ProportionalFair(Generic[M]):
    """Each block to the message with the highest ratio of its rate to its average rate, over about `window` slots and with the
    blocks that it has got in this slot; ties to who joined first.

        average <- (1 - 1 / window) average + (1 / window) rate * blocks got / B        after every slot, from 0 on

    As a rate is the same while a message is sent, this is who has had the smallest part of the band: who comes new is first
    served until it has caught up.
    """

    def __init__(self, n_blocks: int, slot_s: float, window: float) -> None:
        self._slots = Slots(n_blocks, slot_s)
        self._keeps, self._adds = 1 - 1 / window, 1 / (window * n_blocks)
        self._here: dict[int, tuple[int, float, M]] = {}  # by number: blocks missing, average part of the band, message
        self._slot = self._n = 0  # that is dealt next; messages that have joined
        self._over: list[M] = []  # with the slot before

    @property
    def next_s(self) -> float:
        return (self._slot + (not self._over)) * self._slots.slot_s if self._over or self._here else math.inf

    def join(self, at_s: float, alone_s: float, message: M) -> None:
        slot = self._slots.from_slot(at_s)
        while self._here and self._slot < slot:
            self._deal()
        self._slot = max(self._slot, slot)
        if alone_s > 0:
            self._here[self._n] = (self._slots.needed(alone_s), 0.0, message)
            self._n += 1
        else:
            self._over.append(message)

    def done(self) -> list[M]:
        if not self._over:
            self._deal()
        found, self._over = self._over, []
        return found

    def _deal(self) -> None:
        """The blocks of a slot."""
        turn = [(self._keeps * part, n) for n, (_, part, _) in self._here.items()]
        heapq.heapify(turn)
        got, after = dict.fromkeys(self._here, 0), {n: part for part, n in turn}
        for _ in range(self._slots.n_blocks if turn else 0):
            part, n = turn[0]
            got[n] += 1
            after[n] = part + self._adds
            if got[n] < self._here[n][0]:
                heapq.heapreplace(turn, (after[n], n))
            else:
                heapq.heappop(turn)
                if not turn:
                    break
        self._slot += 1
        for n, count in got.items():
            missing, _, message = self._here.pop(n)
            if missing > count:
                self._here[n] = (missing - count, after[n], message)
            else:
                self._over.append(message)


def _whole(value: float) -> int:
    """Rounded up, but for what rounding has added."""
    return math.ceil(value - WHOLE - 1e-12 * abs(value))

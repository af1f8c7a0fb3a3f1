"""A network and machines that fail: messages are lost, doubled, delayed and reordered; processes stop and start again.

All chance comes from one generator, so that a seed replays exactly. Senders repeat what matters until it is acknowledged.
"""

import heapq
import random
from dataclasses import dataclass
from typing import Any, NamedTuple

Address = tuple[str, int]  # ("cloud", 0), ("edge", group), ("device", client)
CLOUD: Address = ("cloud", 0)
ROSTER: Address = ("roster", 0)  # who is where, which all know

RETRY_S, SLOWER, LONGEST_S = 2.0, 1.7, 12.0


@dataclass
class Process:
    """boot: of its state; it grows when that is lost. up_at_s: while it is down, when it will be up. blank: it has lost its state
    and has not been told how to go on."""

    boot: int = 0
    up: bool = True
    up_at_s: float = 0.0
    blank: bool = False


class Envelope(NamedTuple):
    """A message on its way; from_boot and to_boot: lives of the sender and of the receiver that is meant (-1: any)."""

    kind: str
    sender: Address
    from_boot: int
    to: Address
    to_boot: int
    body: Any


class Deliver(NamedTuple):
    envelope: Envelope


class Retry(NamedTuple):
    """A sender looks whether it has to send again."""

    key: tuple
    serial: int
    after_s: float


class Local(NamedTuple):
    """Something that a process does by itself, in this life."""

    owner: Address
    boot: int
    what: str
    body: Any = None


class Up(NamedTuple):
    """A process is up again."""

    who: Address
    boot: int


class Fault(NamedTuple):
    """A process fails, or clients move."""

    what: str


class Network:
    """Time, and what is under way. lost, doubled: probabilities; delay_s: the mean of an exponential law."""

    def __init__(self, chance: random.Random, lost: float, doubled: float, delay_s: float) -> None:
        self.chance, self.lost, self.doubled, self.delay_s = chance, lost, doubled, delay_s
        self.now_s = 0.0
        self.processes: dict[Address, Process] = {}
        self._queue: list[tuple[float, int, Any]] = []
        self._n = 0
        self._outbox: dict[tuple, tuple[int, Envelope]] = {}

    def at(self, at_s: float, event: Any) -> None:
        """Something happens at at_s."""
        self._n += 1
        heapq.heappush(self._queue, (max(at_s, self.now_s), self._n, event))

    def next(self) -> Any:
        """What happens next, or None."""
        if not self._queue:
            return None
        self.now_s, _, event = heapq.heappop(self._queue)
        return event

    def later(self, owner: Address, at_s: float, what: str, body: Any = None) -> None:
        """A process has something to do at at_s."""
        self.at(at_s, Local(owner, self.processes[owner].boot, what, body))

    def post(self, kind: str, sender: Address, to: Address, body: Any, to_boot: int = -1) -> None:
        """Send once; it may be lost, doubled, delayed."""
        self._throw(Envelope(kind, sender, self.processes[sender].boot, to, to_boot, body))

    def insist(self, key: tuple, kind: str, sender: Address, to: Address, body: Any, to_boot: int = -1) -> None:
        """Send until `settle(key)`."""
        envelope = Envelope(kind, sender, self.processes[sender].boot, to, to_boot, body)
        self._n += 1
        self._outbox[key] = (self._n, envelope)
        self.retry(Retry(key, self._n, RETRY_S))

    def settle(self, key: tuple) -> None:
        """It need not be sent any more."""
        self._outbox.pop(key, None)

    def insisting(self) -> list[tuple]:
        """The keys of all that is sent until it is settled."""
        return sorted(self._outbox)

    def insisted(self, key: tuple) -> Envelope | None:
        """What is sent under this key until it is settled."""
        return self._outbox[key][1] if key in self._outbox else None

    def redirect(self, key: tuple, to: Address) -> None:
        """From now on send it there."""
        serial, envelope = self._outbox[key]
        self._outbox[key] = (serial, envelope._replace(to=to))

    def retry(self, retry: Retry) -> None:
        """Send again what is not acknowledged, unless the sender is down; it then does so when it is up."""
        serial, envelope = self._outbox.get(retry.key, (-1, None))
        if serial != retry.serial:
            return
        sender = self.processes[envelope.sender]
        if sender.up:
            self._throw(envelope)
        self.at(self.now_s + retry.after_s, retry._replace(after_s=min(retry.after_s * SLOWER, LONGEST_S)))

    def forget(self, sender: Address) -> None:
        """A sender has lost what it wanted to send."""
        self._outbox = {key: (n, e) for key, (n, e) in self._outbox.items() if e.sender != sender}

    def _throw(self, envelope: Envelope) -> None:
        chance = self.chance
        for _ in range(2 if chance.random() < self.doubled else 1):
            if chance.random() >= self.lost:
                self.at(self.now_s + chance.expovariate(1 / self.delay_s), Deliver(envelope))

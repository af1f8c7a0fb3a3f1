"""Whom to wait for no longer: who has not been heard of for so long, if enough others are there.

Silence is that of a node, and not the cloud's own: if nobody at all was heard of for a while, the cloud was cut off, and all have
as long as before to be heard again.
"""

import contextlib
import math
import time
import weakref
from collections import Counter
from collections.abc import Iterator

from fedloom.deployment import naming
from fedloom.deployment.book import updates
from fedloom.deployment.orders import Outbox
from fedloom.methods import Waiting
from fedloom.simulator.book import Dispatch

CUT_OFF_S = 5.0  # every node asks for orders every two seconds
AGAIN_S = 1.0


class Silence:
    """waiting: how long nodes are waited for, and how many must be left. cut_off_s: if nobody was heard of for so long, the cloud
    was cut off; infinite where nodes only speak when they are done."""

    def __init__(self, waiting: Waiting) -> None:
        self.waiting, self.cut_off_s = waiting, CUT_OFF_S
        self.heard: dict[str, float] = {}
        self._waiting: Counter[str] = Counter()  # questions of a node that are not answered yet
        self._began = self._last = time.monotonic()
        self._watched: list[weakref.ref[Dispatch]] = []
        self._given_up: dict[int, float] = {}  # clients, and when

    def hear(self, node: str) -> None:
        if node == naming.CLOUD:
            return
        now = time.monotonic()
        if now - self._last > self.cut_off_s:
            self._began = now
        self.heard[node] = self._last = now

    @contextlib.contextmanager
    def attended(self, node: str) -> Iterator[None]:
        """A node waits for an answer: it is there."""
        self._waiting[node] += 1
        try:
            yield
        finally:
            self._waiting[node] -= 1
            self.hear(node)

    def silent_s(self, node: str) -> float:
        """Seconds since a node was heard of; since the start, or since the cloud was cut off, if it was not after that."""
        if self._waiting[node]:
            return 0.0
        return time.monotonic() - max(self.heard.get(node, self._began), self._began)

    def is_silent(self, node: str) -> bool:
        """It is not waited for any more."""
        patience_s = self.waiting.patience_s
        return patience_s is not None and self.silent_s(node) > patience_s

    def is_heard(self, node: str) -> bool:
        """It was heard of, and not too long ago."""
        return node in self.heard and not self.is_silent(node)

    def watch(self, dispatch: Dispatch) -> None:
        """These are sent to work together."""
        self._watched.append(weakref.ref(dispatch))

    def given_up(self, outbox: Outbox) -> list[list[int]]:
        """Clients that are not waited for any more, by those they were sent with. If none of these is left, that needs a quorum
        of nobody, and somebody elsewhere; and as they may be sent again at once, it is said of a client once in a while."""
        if self.waiting.patience_s is None:
            return []
        found, now = [], time.monotonic()
        there = any(self.is_heard(node) for node in self.heard if naming.client_of(node) is not None)
        self._watched = [ref for ref in self._watched if ref() is not None]
        for ref in self._watched:
            dispatch = ref()
            if dispatch is None:
                continue
            clients = [
                client
                for client, name in zip(dispatch.client.tolist(), updates(dispatch))
                if outbox.has(naming.device(client), f"train-{name}") and self.is_silent(naming.device(client))
            ]
            left, least = len(dispatch.client) - len(clients), math.ceil(self.waiting.quorum * len(dispatch.client))
            again = any(now - self._given_up.get(client, -math.inf) < AGAIN_S for client in clients)
            if clients and left >= least and (left or there) and not again:
                self._given_up |= dict.fromkeys(clients, now)
                found.append(clients)
        return found

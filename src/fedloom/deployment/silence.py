"""Whom to wait for no longer: devices that have not been heard of for so long, if enough others of their round are there."""

import math
import time
import weakref

from fedloom import _check
from fedloom.deployment import naming
from fedloom.deployment.book import updates
from fedloom.deployment.orders import Outbox
from fedloom.simulator.book import Dispatch


class Silence:
    """patience_s: after so many seconds without a word a device is not waited for; None: it always is. quorum: share of those
    sent together who must be left (at least one)."""

    def __init__(self, patience_s: float | None, quorum: float) -> None:
        if patience_s is not None:
            _check.positive("patience_s", patience_s)
        if not 0 <= quorum <= 1:
            raise ValueError(f"quorum must be between 0 and 1, got {quorum:g}")
        self.patience_s, self.quorum = patience_s, quorum
        self.heard: dict[str, float] = {}
        self._began = time.monotonic()
        self._watched: list[weakref.ref[Dispatch]] = []

    def hear(self, node: str) -> None:
        self.heard[node] = time.monotonic()

    def silent_s(self, node: str) -> float:
        """Seconds since a node was heard of; since the start, if it never was."""
        return time.monotonic() - self.heard.get(node, self._began)

    def watch(self, dispatch: Dispatch) -> None:
        """These are sent to work together."""
        self._watched.append(weakref.ref(dispatch))

    def given_up(self, outbox: Outbox) -> list[list[int]]:
        """Clients that are not waited for any more, by those they were sent with."""
        if self.patience_s is None:
            return []
        found = []
        self._watched = [ref for ref in self._watched if ref() is not None]
        for ref in self._watched:
            dispatch = ref()
            if dispatch is None:
                continue
            clients = [
                client
                for client, name in zip(dispatch.client.tolist(), updates(dispatch))
                if outbox.has(naming.device(client), f"train-{name}")
                and self.silent_s(naming.device(client)) > self.patience_s
            ]
            left = len(dispatch.client) - len(clients)
            if clients and left >= max(1, math.ceil(self.quorum * len(dispatch.client))):
                found.append(clients)
        return found

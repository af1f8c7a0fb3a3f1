"""Messages to Flower nodes that are not answered yet, and what each is about."""

import time
from collections.abc import Iterable
from dataclasses import dataclass, field

from flwr.app import DEFAULT_TTL, Message, RecordDict
from flwr.serverapp import Grid

from fedloom.deployment.orders import Order
from fedloom.flower.arrays import Row


@dataclass(frozen=True, eq=False)
class Letter:
    """To a node. order: what the device is to do; None: it is asked who it is. device: None if that is not known. start: the row
    that it begins with, if it does with one."""

    node: int
    kind: str
    content: RecordDict
    device: int | None = None
    order: Order | None = None
    start: Row | None = None
    posted_s: float = field(default_factory=time.monotonic)


class Letterbox:
    """timeout_s: how long an answer is waited for. The SuperLink keeps messages longer: whoever is late may still be needed."""

    def __init__(self, grid: Grid, timeout_s: float) -> None:
        self._grid, self._timeout_s = grid, timeout_s
        self._open: dict[str, Letter] = {}

    def nodes(self) -> set[int]:
        """Nodes that the SuperLink says are there."""
        return set(self._grid.get_node_ids())

    def post(self, letters: Iterable[Letter], round_number: int) -> list[Letter]:
        """Send them; returns those that the SuperLink does not take."""
        written = list(letters)
        if not written:
            return []
        messages = [
            Message(
                letter.content,
                message_type=letter.kind,
                dst_node_id=letter.node,
                group_id=str(round_number),
                ttl=max(DEFAULT_TTL, 2 * self._timeout_s),
            )
            for letter in written
        ]
        ids = list(self._grid.push_messages(messages)) or [""] * len(written)
        self._open |= {name: letter for name, letter in zip(ids, written) if name}
        return [letter for name, letter in zip(ids, written) if not name]

    def replies(self) -> list[tuple[Letter, Message]]:
        """What has come back since the last time."""
        found = list(self._grid.pull_messages(list(self._open))) if self._open else []
        pairs = [(self._open.pop(m.metadata.reply_to_message_id, None), m) for m in found]
        return [(letter, message) for letter, message in pairs if letter is not None]

    def open_to(self, device: int) -> list[Letter]:
        """What a device has not answered."""
        return [letter for letter in self._open.values() if letter.device == device]

    def overdue(self) -> list[Letter]:
        """What should have been answered."""
        return [one for one in self._open.values() if time.monotonic() - one.posted_s > self._timeout_s]

    def tear_up(self, device: int) -> None:
        """Nobody will answer what was sent to the node that a device had."""
        self._open = {name: letter for name, letter in self._open.items() if letter.device != device}

"""What a node keeps and hands out: values by name, in its store; whoever wants one that is not there yet waits for it.

A device sends its updates (`put`), and everybody asks for models (`fetch`). An update is kept before it is acknowledged; what is
no row of this federation's model, or comes from somebody else than its owner, is refused.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedloom.deployment import naming
from fedloom.deployment.coded import Bytes, Wire
from fedloom.deployment.letters import BadLetter, Letter
from fedloom.deployment.logs import Log
from fedloom.deployment.naming import Identity
from fedloom.deployment.short import Short
from fedloom.deployment.store import Store
from fedloom.deployment.transport import Refusal

Row = NDArray[np.float32]
MOST_HELD = 64  # updates of one device at a station; more are not waited for
MOST_MERGED = 10_000
MOST_WRITTEN = 4  # messages that are kept to be sent again
MOST_KEY = 2**64 - 1
WAIT_S = 20.0  # an answer may be held back so long for something to come
LOOK_S = 0.5  # what is waited for is looked for so often, also if nobody says that it has come


class Keeping:
    """name: whose. wire: how models are written. find: a row by its name, where it is not in the store. merged: the last updates
    that were merged here: they do not come again."""

    def __init__(self, name: str, store: Store, log: Log, wire: Wire, find: Callable[[str], Row | None]) -> None:
        self.name, self.store, self.log, self.wire, self._find = name, store, log, wire, find
        self._writing = asyncio.Lock()
        self._written: dict[str, Bytes] = {}  # the last messages that models were sent down in
        self._waiting: set[asyncio.Future[None]] = set()  # those who wait for something to come
        self._short = Short()
        self.merged: deque[str] = deque(maxlen=MOST_MERGED)

    async def handle(self, who: Identity, letter: Letter) -> Letter:
        """Answers to `fetch` and `put`; who: as its certificate says."""
        match letter.kind:
            case "fetch":
                return await self._fetched(letter)
            case "put":
                return await self._taken(who, letter)
        raise Refusal(f"{self.name} does not know letters of the kind {letter.kind[:50]!r}")

    async def _fetched(self, letter: Letter) -> Letter:
        name = _value(letter)
        if not name.startswith("m-"):
            raise Refusal(f"only models are handed out, and {name} is what a device has trained")
        wait_s = letter.number("wait_s", least=0, most=WAIT_S)
        began_s = time.monotonic()
        row = await self._soon(name, wait_s)
        arrays: dict[str, NDArray[Any]] = {} if row is None else {"row": row}
        if row is not None and "key" in letter.fields:
            arrays = {"message": await self._message(name, row, letter)}
        return Letter("row", {"there": row is not None, "held_s": time.monotonic() - began_s}, arrays)

    async def _message(self, name: str, row: Row, letter: Letter) -> Bytes:
        """What is sent down of a model, by the key that the letter tells: the same for all who ask with it."""
        if not self.wire.coding.codes_down:
            raise Refusal("models go down as they are here; a letter needs no key")
        key = letter.number("key", least=0, most=MOST_KEY)
        wanted = f"{name}/{key}"
        async with self._writing:
            if wanted not in self._written:
                if len(self._written) >= MOST_WRITTEN:
                    self._written.pop(next(iter(self._written)))
                self._written[wanted] = await asyncio.to_thread(self.wire.sent_down, row, int(key))
            return self._written[wanted]

    async def _taken(self, who: Identity, letter: Letter) -> Letter:
        name = _value(letter)
        row = letter.arrays.get("message" if name[0] == "c" else "row")
        if name[0] not in "usc":
            raise Refusal(f"{self.name} takes updates, and {name} is none")
        if who.role != "device" or naming.client_of(who.name) != naming.owner(name):
            raise Refusal(f"{name} is to be sent by device-{naming.owner(name)} and nobody else")
        if name[0] == "c":
            await asyncio.to_thread(self.wire.taken_up, name, row)
        else:
            self.check_row(name, row)
        assert row is not None
        if name not in self.store:
            if name in self.merged:
                self.log("refused", who=str(who), why=f"{name} is of an old round")
                return Letter("taken", {"wanted": False})
            prefix = f"{name[0]}-{naming.owner(name)}-"
            if sum(held.startswith(prefix) for held in self.store.names) >= MOST_HELD:
                raise Refusal(f"{MOST_HELD} updates of {who.name} are here already and not merged; it sends too many")
            await self.keep(name, row)
        return Letter("taken", {"wanted": True})

    def check_row(self, name: str, row: NDArray[Any] | None) -> None:
        """Refuse what is no row of this federation's model."""
        if row is None or row.dtype != np.float32 or row.shape != (self.wire.n_params,):
            came = "nothing" if row is None else f"{row.dtype} of shape {row.shape}"
            raise Refusal(f"{name} must be {self.wire.n_params} numbers of float32, got {came}")

    async def keep(self, name: str, array: NDArray[Any]) -> None:
        """Keep a value and tell those who wait for it."""
        await self._short.do("write", partial(self.store.put, name, array))
        self.stir()

    def hold(self, name: str, array: NDArray[Any]) -> None:
        """Have a value that can be made again: nobody need wait until it is on disk."""
        self.store.hold(name, array)
        self.stir()

    async def saved(self, *names: str) -> None:
        """Until these are on disk; others are answered meanwhile if that takes long."""
        for name in names:
            await self._short.do("save", partial(self.store.save, name))

    def stir(self) -> None:
        """Something may be there now that somebody waits for."""
        waiting, self._waiting = self._waiting, set()
        for one in waiting:
            if not one.done():
                one.set_result(None)

    def have_merged(self, names: Iterable[str]) -> None:
        """These updates are in a model."""
        self.merged.extend(name for name in names if name[0] in "usc")

    def here(self, name: str) -> Row | None:
        """A value, if it is here."""
        return self.store[name] if name in self.store else self._find(name)

    async def need(self, name: str) -> Row:
        """A value, as soon as it is here."""
        while (row := await self._soon(name, WAIT_S)) is None:
            self.log("waiting", value=name)
        return row

    async def _soon(self, name: str, wait_s: float) -> Row | None:
        """A value, if it is here within so many seconds."""
        loop = asyncio.get_running_loop()
        end_s = loop.time() + wait_s
        while (row := self.here(name)) is None and (left_s := end_s - loop.time()) > 0:
            stirred = loop.create_future()
            self._waiting.add(stirred)
            try:
                await asyncio.wait([stirred], timeout=min(left_s, LOOK_S))
            finally:
                self._waiting.discard(stirred)
        return row


def _value(letter: Letter) -> str:
    name = letter.word("name")
    if not naming.is_value(name):
        raise BadLetter(f"{name[:50]!r} is no name of a value")
    return name

"""A node that carries out orders: a device trains, a station merges, a device that heads a cluster does both.

It asks the cloud for orders, carries them out, and says so until it is heard. Orders may come twice and at any time: what they
make is named, what is there is not made again, and what is not there yet is waited for. All that a node keeps is in its store.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedloom.deployment import naming
from fedloom.deployment.letters import OLDEST, VERSION, BadLetter, Letter
from fedloom.deployment.logs import Log
from fedloom.deployment.naming import CLOUD, Identity
from fedloom.deployment.orders import Order
from fedloom.deployment.recipes import Recipe, leaves, merged, mixed
from fedloom.deployment.store import Store
from fedloom.deployment.transport import Desk, Link, Refusal, RefusedBy, until_reached
from fedloom.deployment.worker import Worker
from fedloom.methods import Method

Row = NDArray[np.float32]
MOST_HELD = 64  # updates of one device at a station; more are not waited for
MOST_MERGED = 10_000
WAIT_S = 20.0  # an answer may be held back so long for something to come
CALL_S = 60.0
POLL_S = 2.0  # after so long an order that was lost is given again
ANSWER_S = 15.0  # who asks for orders and has no answer for so long asks over another connection
AGAIN_S = 1.0
LOOK_S = 0.5  # what is waited for is looked for so often, also if nobody says that it has come


class Node:
    """name: its own. worker: who trains here, if it is a device. find: a row by its name, where it is not in the store."""

    def __init__(
        self,
        name: str,
        method: Method,
        store: Store,
        link: Link,
        log: Log,
        n_params: int,
        *,
        worker: Worker | None = None,
        find: Callable[[str], Row | None] = lambda name: None,
    ) -> None:
        self.name, self.method, self.store, self.link, self.log = name, method, store, link, log
        self.n_params, self.worker, self._find = n_params, worker, find
        self.at_work: dict[str, str] = {}
        """Orders that are being carried out, and at what they are."""
        self.local: Desk = self
        self.revoked: frozenset[str] = frozenset()
        """Fingerprints of certificates that the cloud has told of."""
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._took_s: dict[str, list[float]] = {}  # by order: seconds to fetch, train and send
        self._changed = asyncio.Condition()
        self.merged: deque[str] = deque(maxlen=MOST_MERGED)
        """The last updates that were merged here: they do not come again."""

    def gauges(self) -> dict[str, float]:
        """What is worth watching."""
        return {"values_held": len(self.store.names), "orders_at_work": len(self.at_work)}

    # What others ask for

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
        row = await self._soon(name, wait_s)
        return Letter("row", {"there": row is not None}, {} if row is None else {"row": row})

    async def _taken(self, who: Identity, letter: Letter) -> Letter:
        name = _value(letter)
        row = letter.arrays.get("row")
        if name[0] not in "us":
            raise Refusal(f"{self.name} takes updates, and {name} is none")
        if who.role != "device" or naming.client_of(who.name) != naming.owner(name):
            raise Refusal(f"{name} is to be sent by device-{naming.owner(name)} and nobody else")
        self.check_row(name, row)
        assert row is not None
        client = naming.owner(name)
        assert client is not None
        if name not in self.store:
            if name in self.merged:
                self.log("refused", who=str(who), why=f"{name} is of an old round")
                return Letter("taken", {"wanted": False})
            prefix = f"{name[0]}-{client}-"
            if sum(held.startswith(prefix) for held in self.store.names) >= MOST_HELD:
                raise Refusal(f"{MOST_HELD} updates of {who.name} are here already and not merged; it sends too many")
            await self.keep(name, row)
        return Letter("taken", {"wanted": True})

    def check_row(self, name: str, row: NDArray[Any] | None) -> None:
        """Refuse what is no row of this federation's model."""
        if row is None or row.dtype != np.float32 or row.shape != (self.n_params,):
            came = "nothing" if row is None else f"{row.dtype} of shape {row.shape}"
            raise Refusal(f"{name} must be {self.n_params} numbers of float32, got {came}")

    # Keeping and waiting

    async def keep(self, name: str, array: NDArray[Any]) -> None:
        """Keep a value and tell those who wait for it."""
        await asyncio.to_thread(self.store.put, name, array)
        await self.stir()

    async def stir(self) -> None:
        """Something may be there now that somebody waits for."""
        async with self._changed:
            self._changed.notify_all()

    def _here(self, name: str) -> Row | None:
        return self.store[name] if name in self.store else self._find(name)

    async def _soon(self, name: str, wait_s: float) -> Row | None:
        """A value, if it is here within so many seconds."""
        loop = asyncio.get_running_loop()
        end_s = loop.time() + wait_s
        while (row := self._here(name)) is None and (left_s := end_s - loop.time()) > 0:
            try:
                async with asyncio.timeout(min(left_s, LOOK_S)), self._changed:
                    if self._here(name) is None:
                        await self._changed.wait()
            except TimeoutError:
                pass
        return row

    async def _need(self, name: str) -> Row:
        while (row := await self._soon(name, WAIT_S)) is None:
            self.log("waiting", value=name)
        return row

    # Asking for orders and carrying them out

    async def run(self) -> None:
        """Until the cloud says that it is over."""
        await self._hello()
        try:
            while True:
                held = [] if self.name == CLOUD else self.store.names
                does = sorted(set(self.at_work.values()))
                fields = {"known": list(self._tasks), "held": held, "does": does, "wait_s": POLL_S}
                reply = await until_reached(self, CLOUD, Letter("poll", fields), ANSWER_S)
                self.store.drop(reply.words("drop"))
                self.revoked = frozenset(reply.words("revoked"))
                for order_id in reply.words("withdrawn"):
                    self._stop(order_id)
                for order in reply.fields["orders"]:
                    if order["id"] not in self._tasks:
                        self._tasks[order["id"]] = asyncio.create_task(self._carry_out(order))
                if reply.fields["over"]:
                    self.log("over")
                    return
        finally:
            for task in list(self._tasks.values()):
                task.cancel()
            await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    def _stop(self, order_id: str) -> None:
        """An order is not wanted any more: somebody that it needs is not waited for."""
        task = self._tasks.get(order_id)
        if task is not None and order_id in self.at_work:
            del self._tasks[order_id]
            task.cancel()
            self.log("withdrawn", order=order_id)

    async def call(self, to: str, letter: Letter, timeout_s: float) -> Letter:
        """To another node, or to this one."""
        if to == self.name:
            return await self.local.handle(naming.identity_of(self.name), letter)
        return await self.link.call(to, letter, timeout_s)

    async def close(self) -> None:
        await self.link.close()

    async def _hello(self) -> None:
        """Agree on a version of the protocol."""
        letter = Letter("hello", {"newest": VERSION, "oldest": OLDEST, "run": self.store.identity})
        await until_reached(self, CLOUD, letter, CALL_S)
        self.log("joined", version=VERSION)

    async def _carry_out(self, order: Order) -> None:
        failed: str | None = None
        self.at_work[order["id"]] = order["do"]
        try:
            while True:
                try:
                    await self._do(order)
                    break
                except OSError as error:  # a full disk, say: nothing is acknowledged, and it is tried again
                    self.log("cannot", order=order["id"], why=str(error))
                    await asyncio.sleep(AGAIN_S)
        except (ValueError, RefusedBy, KeyError) as error:
            failed = f"{type(error).__name__}: {error}"
            self.log("failed", order=order["id"], why=failed)
            await asyncio.sleep(AGAIN_S)  # it is perhaps given again
        finally:
            self.at_work.pop(order["id"], None)
        try:
            took_s = self._took_s.pop(order["id"], [])
            fields = {"order": order["id"], "took_s": took_s} | ({} if failed is None else {"failed": failed[:500]})
            await until_reached(self, CLOUD, Letter("done", fields), CALL_S)
        finally:
            self._tasks.pop(order["id"], None)

    async def _do(self, order: Order) -> None:
        match order["do"]:
            case "train":
                began_s = time.monotonic()
                trained_s = await self._train(order)
                fetched_s = time.monotonic() - began_s - trained_s
                began_s = time.monotonic()
                self.at_work[order["id"]] = "send"
                for station in order["to"]:
                    names = [order["name"], *([naming.begun(order["name"])] if order["begun"] else [])]
                    for name in names:
                        await self._put(station, name, await self._need(name))
                self._took_s[order["id"]] = [fetched_s, trained_s, time.monotonic() - began_s]
            case "deliver":
                for station in order["to"]:
                    await self._put(station, order["name"], await self._need(order["name"]))
            case "feature":
                await self._feature(order)
            case "merge":
                await self._merge(order)
            case "hold":
                await self.keep(order["name"], await self._get(order["from"], order["name"]))
            case "report":
                await self._put(CLOUD, order["name"], await self._need(order["name"]))
            case other:
                raise ValueError(f"{self.name} cannot {other!r}; its version is too old for this cloud")

    async def _train(self, order: Mapping[str, Any]) -> float:
        """Seconds that training itself took; none if the update is there already."""
        name = order["name"]
        needed = [name, naming.begun(name)] if order["begun"] else [name]
        if all(n in self.store for n in needed):
            return 0.0
        self.at_work[order["id"]] = "fetch"
        start = await self._made(order["start"])
        began_s = time.monotonic()
        self.at_work[order["id"]] = "train"
        row = await asyncio.to_thread(
            self._working.train,
            start,
            n_steps=order["n_steps"],
            first_step=naming.first_step(name),
            lr_step=order["lr_step"],
        )
        took_s = time.monotonic() - began_s
        if order["begun"]:
            await self.keep(naming.begun(name), start)
        await self.keep(name, row)
        return took_s

    async def _feature(self, order: Mapping[str, Any]) -> None:
        layers = order["layers"]
        start = None if order["start"] is None else await self._made(order["start"])
        result = None
        if order["kind"] == "update":
            await self._train({**order, "name": order["update"], "begun": False})
            result = self.store[order["update"]]
        asked = tuple(layers) if isinstance(layers, list) else layers
        value = await asyncio.to_thread(self._working.feature, order["kind"], asked, start, result)
        await self._put(CLOUD, order["name"], value)

    async def _merge(self, order: Mapping[str, Any]) -> None:
        if order["name"] in self.store:
            return
        rows: dict[str, Row] = {}
        updates = [*order.get("updates", []), *(name for wave in order.get("waves", []) for name, _ in wave)]
        for name in updates:
            rows[name] = await self._need(name)
            if "arrivals" in order:
                rows[naming.begun(name)] = await self._need(naming.begun(name))
        recipes = [recipe for recipe, _ in order.get("models", [])] + ([order["old"]] if "old" in order else [])
        for recipe in recipes:
            rows |= await self._leaves(recipe)
        await self.keep(order["name"], await asyncio.to_thread(merged, order, rows, self.method))
        self.merged.extend(name for name in rows if name[0] in "us")

    async def _made(self, recipe: Recipe) -> Row:
        return mixed(recipe, await self._leaves(recipe), self.method)

    async def _leaves(self, recipe: Recipe) -> dict[str, Row]:
        found: dict[str, Row] = {}
        for name, at in leaves(recipe):
            if name not in found:
                found[name] = await (self._need(name) if at == self.name else self._get(at, name))
        return found

    async def _get(self, node: str, name: str) -> Row:
        """A model from another node, as soon as that has it."""
        if (here := self._here(name)) is not None:
            return here
        while True:
            reply = await until_reached(self, node, Letter("fetch", {"name": name, "wait_s": WAIT_S / 2}), CALL_S)
            if reply.fields.get("there"):
                row = reply.arrays.get("row")
                try:
                    self.check_row(name, row)
                except Refusal as error:
                    raise ValueError(f"{node} has sent what is no model: {error}") from None
                assert row is not None
                return row

    async def _put(self, node: str, name: str, row: NDArray[Any]) -> None:
        if node == self.name and name in self.store:
            return
        await until_reached(self, node, Letter("put", {"name": name}, {"row": row}), CALL_S)

    @property
    def _working(self) -> Worker:
        if self.worker is None:
            raise ValueError(f"{self.name} has no data to train on")
        return self.worker


def _value(letter: Letter) -> str:
    name = letter.word("name")
    if not naming.is_value(name):
        raise BadLetter(f"{name[:50]!r} is no name of a value")
    return name

"""A node that carries out orders: a device trains, a station merges, a device that heads a cluster does both.

It asks the cloud for orders, carries them out (doing.py), and says so until it is heard: with its next question, or at once if it
waits for the answer to one. Orders may come twice and at any time. All that a node keeps and hands out is in its store
(keeping.py).
"""

import asyncio
import contextlib
import secrets
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedloom.deployment import naming
from fedloom.deployment.coded import Wire
from fedloom.deployment.doing import CALL_S, Doing
from fedloom.deployment.keeping import Keeping, Row
from fedloom.deployment.letters import OLDEST, VERSION, Letter
from fedloom.deployment.logs import Log
from fedloom.deployment.naming import CLOUD, Identity
from fedloom.deployment.orders import Order
from fedloom.deployment.store import Store
from fedloom.deployment.took import NOTHING, Traffic
from fedloom.deployment.transport import Desk, Link, Unreachable, until_reached
from fedloom.deployment.worker import Worker
from fedloom.methods import Method

POLL_S = 2.0  # after so long an order that was lost is given again
ANSWER_S = 15.0  # who asks for orders and has no answer for so long asks over another connection
SHORT_S = 0.05  # work that is done so soon is told with the next question; one that lasts longer is asked beside
AGAIN_S = 1.0
TOLD_S = 3.0  # who cannot be reached for so long is told of
TOLD_AGAIN_S = 60.0


class Node:
    """name: its own. worker: who trains here, if it is a device; meter: joules used so far. find: a row by its name, where it is
    not in the store. local: who answers what it asks itself. revoked: fingerprints of certificates that the cloud has told of.
    traffic: counts bytes. trainable (P,): what of a model is coded."""

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
        traffic: Traffic | None = None,
        meter: Callable[[], float] | None = None,
        trainable: NDArray[np.bool_] | None = None,
    ) -> None:
        self.name, self.store, self.link, self.log = name, store, link, log
        self.keeping = Keeping(name, store, log, Wire(method.coding, n_params, trainable), find)
        self.doing = Doing(method, self.keeping, self, worker, meter)
        self.traffic = Traffic() if traffic is None else traffic
        self.local: Desk = self
        self.revoked: frozenset[str] = frozenset()
        self._tasks: dict[str, asyncio.Task[None]] = {}  # by order: until the cloud knows that it is carried out
        self._done: dict[str, dict[str, Any]] = {}  # by order: what is to be told of it with the next question
        self._any_done, self._asks = asyncio.Event(), False
        self._life = secrets.token_hex(8)
        self._tell_at_s: dict[str, float] = {}  # who cannot be reached, and when that is told

    def gauges(self) -> dict[str, float]:
        """What is worth watching."""
        return {"values_held": len(self.store.names), "orders_at_work": len(self.doing.at_work)}

    async def handle(self, who: Identity, letter: Letter) -> Letter:
        """Answers others; who: as its certificate says."""
        return await self.keeping.handle(who, letter)

    async def run(self) -> None:
        """Ask for orders and carry them out until the cloud says that it is over."""
        await self._hello()
        try:
            while True:
                reply = await self._asked()
                self.revoked = frozenset(reply.words("revoked"))
                for order_id in reply.words("withdrawn"):
                    self._stop(order_id)
                for order in reply.fields["orders"]:
                    if order["id"] not in self._tasks:
                        self._tasks[order["id"]] = asyncio.create_task(self._carry_out(order))
                await asyncio.sleep(0)  # what is new is begun first
                self.store.drop(reply.words("drop"))
                if reply.fields["over"]:
                    self.log("over")
                    return
                if reply.fields["orders"]:
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(SHORT_S):
                            await self._any_done.wait()
        finally:
            for task in list(self._tasks.values()):
                task.cancel()
            await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    async def _asked(self) -> Letter:
        """The answer to a question for orders, which tells what is carried out: that is then known to the cloud."""
        told = list(self._done)
        fields = {
            "known": [order_id for order_id in self._tasks if order_id not in self._done],
            "done": [self._done[order_id] for order_id in told],
            "held": [] if self.name == CLOUD else self.store.names,
            "does": sorted(set(self.doing.at_work.values())),
            "wait_s": POLL_S,
            "life": self._life,
        }
        self._any_done.clear()
        self._asks = True
        reply = await until_reached(self, CLOUD, Letter("poll", fields), ANSWER_S)
        self._asks = False
        for order_id in told:
            del self._done[order_id], self._tasks[order_id]
        return reply

    async def call(self, to: str, letter: Letter, timeout_s: float) -> Letter:
        """To another node, or to this one, which like the others answers later if it cannot write now."""
        if to != self.name:
            return await self._reached(to, letter, timeout_s)
        try:
            return await self.local.handle(naming.identity_of(self.name), letter)
        except OSError as error:
            self.log("cannot", who=self.name, why=str(error))
            raise Unreachable(f"{to} cannot now: {error}") from None

    async def close(self) -> None:
        await self.link.close()

    async def _reached(self, to: str, letter: Letter, timeout_s: float) -> Letter:
        """Call another node; the log says if it cannot be reached for a while."""
        try:
            reply = await self.link.call(to, letter, timeout_s)
        except Unreachable as error:
            now_s = time.monotonic()
            if now_s >= self._tell_at_s.setdefault(to, now_s + TOLD_S):
                self._tell_at_s[to] = now_s + TOLD_AGAIN_S
                self.log("unreachable", who=to, why=str(error))
            raise
        self._tell_at_s.pop(to, None)
        return reply

    async def _hello(self) -> None:
        """Agree on a version of the protocol."""
        letter = Letter("hello", {"newest": VERSION, "oldest": OLDEST, "run": self.store.identity})
        await until_reached(self, CLOUD, letter, CALL_S)
        self.log("joined", version=VERSION)

    def _stop(self, order_id: str) -> None:
        """An order is not wanted any more: somebody that it needs is not waited for."""
        task = self._tasks.get(order_id)
        if task is not None and order_id in self.doing.at_work:
            del self._tasks[order_id]
            task.cancel()
            self.log("withdrawn", order=order_id)

    async def _carry_out(self, order: Order) -> None:
        failed: str | None = None
        at_work = self.doing.at_work
        at_work[order["id"]] = order["do"]
        try:
            while True:
                try:
                    await self.doing.do(order)
                    break
                except OSError as error:  # a full disk, say: nothing is acknowledged, and it is tried again
                    self.log("cannot", order=order["id"], why=str(error))
                    await asyncio.sleep(AGAIN_S)
        except Exception as error:  # own code may raise anything
            failed = f"{type(error).__name__}: {error}"
            self.log("failed", order=order["id"], why=failed)
            await asyncio.sleep(AGAIN_S)  # it is perhaps given again
        finally:
            at_work.pop(order["id"], None)
        took = self.doing.took.pop(order["id"], NOTHING)._replace(carried=self.traffic.take())
        fields = {"order": order["id"], **took.fields()} | ({} if failed is None else {"failed": failed[:500]})
        if not self._asks:
            self._done[order["id"]] = fields
            self._any_done.set()
            return
        try:
            await until_reached(self, CLOUD, Letter("done", fields), CALL_S)
        finally:
            self._tasks.pop(order["id"], None)

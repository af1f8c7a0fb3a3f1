"""The cloud: conducts the federation, answers its nodes, and is a station itself where clients report to it directly."""

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from typing import Any

from fedloom.deployment import naming
from fedloom.deployment.clock import Stopped
from fedloom.deployment.conductor import Conductor
from fedloom.deployment.keeping import WAIT_S
from fedloom.deployment.letters import OLDEST, VERSION, BadLetter, Letter
from fedloom.deployment.naming import CLOUD, Identity
from fedloom.deployment.node import Node
from fedloom.deployment.short import Short
from fedloom.deployment.took import took_of
from fedloom.deployment.transport import Refusal
from fedloom.simulator.simulation import Simulation

MOST_FAILED = 3  # times as many jobs as there are devices may fail one after the other
MOST_LIVES = 8  # processes of a node that are remembered
LINGER_S = 2.0  # after the end, so that nodes hear of it


class CloudDesk:
    """Answers nodes. conductor: whose orders are given out; station: the cloud as a station. roster: who takes part."""

    def __init__(
        self,
        conductor: Conductor,
        station: Node,
        roster: Collection[str],
        revoked: Callable[[], Collection[str]] = frozenset,
    ) -> None:
        self.conductor, self.station, self.roster = conductor, station, frozenset(roster)
        self.over, self.revoked = False, revoked
        self.error: RuntimeError | None = None
        """Why the federation cannot go on."""
        self._failed: Counter[str] = Counter()  # by device: jobs that failed since one has trained
        self._lives: dict[str, list[str]] = {}  # by node: of the processes that asked for its orders, the last one last
        self._twice: set[str] = set()
        self._news: dict[str, asyncio.Event] = {}
        self._loop = asyncio.get_running_loop()
        self._told_over: set[str] = set()
        self._short, self._flushing = Short(), asyncio.Lock()  # the journal is flushed for all who wait for it together
        self._does: dict[str, list[str]] = {}  # by node: what it said last that it does
        conductor.outbox.told = self._tell
        station.local = self
        conductor.clock.cannot = lambda error: station.log("cannot", why=str(error))

    def _tell(self, nodes: Collection[str]) -> None:
        """There is news for some nodes; called from any thread."""
        self._loop.call_soon_threadsafe(self._wake, nodes)

    def _wake(self, nodes: Collection[str]) -> None:
        for node in nodes:
            self._news_of(node).set()

    def _news_of(self, node: str) -> asyncio.Event:
        return self._news.setdefault(node, asyncio.Event())

    def end(self) -> None:
        """All is done: whoever asks is told."""
        self.over = True
        for event in self._news.values():
            event.set()

    async def said_goodbye(self, within_s: float) -> None:
        """Until all have heard that it is over, or so many seconds have passed."""
        end_s = time.monotonic() + within_s
        while self._told_over < self.roster and time.monotonic() < end_s:
            await asyncio.sleep(0.02)

    async def handle(self, who: Identity, letter: Letter) -> Letter:
        if who.name != CLOUD and who.name not in self.roster:
            raise Refusal(f"{who} is not in the roster of this federation; add it with `fedloom deploy add`")
        if letter.kind != "status":  # whoever has the bundle of a node may ask, and is not the node
            self.conductor.silence.hear(who.name)
        match letter.kind:
            case "hello":
                return self._hello(who, letter)
            case "poll":
                return await self._orders(who, letter)
            case "done":
                self._noted([letter], who)
                return Letter("noted")
            case "status":
                return Letter("status", self.status())
            case "put" if letter.word("name")[:1] in ("m", "f", "a"):
                return await self._arrived(who, letter)
        return await self.station.handle(who, letter)

    def _noted(self, letters: Sequence[Letter], who: Identity) -> None:
        """A node has carried out some orders, or could not."""
        found = [(letter.word("order"), letter.fields.get("failed"), took_of(letter)) for letter in letters]
        for order_id, why, took in found:
            failed = None if why is None else str(why)[:500]
            if failed is not None:
                self.station.log("failed", who=str(who), order=order_id, why=failed)
            self._count(who.name, order_id, failed)
            self.conductor.done(who.name, order_id, failed, took)
        if found:
            self.station.keeping.stir()

    def _count(self, node: str, order_id: str, failed: str | None) -> None:
        """A device has trained, or could not; if none can, the federation ends, as no round would change anything."""
        order = self.conductor.outbox.get(node, order_id)
        if order is None or order["do"] != "train":
            return
        if failed is None:
            self._failed.clear()
            return
        self._failed[node] += 1
        waiting = self.conductor.waiting().items()
        at_work = any(o["do"] == "train" for who, orders in waiting if who not in self._failed for o in orders)
        n_devices = sum(naming.client_of(who) is not None for who in self.roster)
        if self._failed.total() >= MOST_FAILED * n_devices and not at_work:
            self.error = RuntimeError(f"no device can train; the last one, {node}, says: {failed}")
            self.conductor.clock.stop()

    def _see(self, node: str, life: str) -> None:
        """Which process asks for a node's orders: one that was there before another came shows that both have its bundle."""
        lives = self._lives.setdefault(node, [])
        if life in lives[:-1] and node not in self._twice:
            self._twice.add(node)
            self.station.log("twice", who=node, why="two processes have its bundle; give each machine one of its own")
        self._lives[node] = [*(one for one in lives if one != life), life][-MOST_LIVES:]

    def _hello(self, who: Identity, letter: Letter) -> Letter:
        newest = int(letter.number("newest", least=0, most=1e6))
        oldest = int(letter.number("oldest", least=0, most=1e6))
        if newest < OLDEST or oldest > VERSION:
            raise Refusal(
                f"{who.name} speaks versions {oldest} to {newest} of the protocol, this cloud {OLDEST} to {VERSION}; "
                f"install the same version of fedloom on both"
            )
        if letter.word("run") != self.conductor.store.identity:
            raise Refusal(
                f"{who.name} has a bundle of the run {letter.word('run')}, this is {self.conductor.store.identity}"
            )
        return Letter("welcome", {"version": min(newest, VERSION)})

    async def _orders(self, who: Identity, letter: Letter) -> Letter:
        known, held = set(letter.words("known")), letter.words("held")
        wait_s = letter.number("wait_s", least=0, most=WAIT_S)
        done = _letters(letter, "done")
        self._does[who.name] = letter.words("does", most=100)
        self._see(who.name, letter.word("life"))
        self._noted(done, who)
        news = self._news_of(who.name)
        end_s = self._loop.time() + wait_s
        with self.conductor.silence.attended(who.name):
            while True:
                news.clear()
                orders = self.conductor.orders(who.name, known)
                left_s = end_s - self._loop.time()
                if orders or self.over or left_s <= 0:
                    break
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(left_s):
                        await news.wait()
        if self.over and not orders:
            self._told_over.add(who.name)
        drop, withdrawn = self.conductor.dead(held), self.conductor.withdrawn(who.name, known)
        if orders or drop or withdrawn:  # they follow from what is in the journal
            async with self._flushing:
                if self.conductor.journal.unflushed:
                    await self._short.do("flush", self.conductor.journal.flush)
        fields = {
            "orders": orders,
            "withdrawn": withdrawn,
            "drop": drop,
            "over": self.over and not orders,
            "revoked": sorted(self.revoked()),
        }
        return Letter("orders", fields)

    async def _arrived(self, who: Identity, letter: Letter) -> Letter:
        """A report or a feature, from whoever was asked for it."""
        name = letter.word("name")
        if not naming.is_value(name):
            raise Refusal(f"{name[:50]!r} is no name of a value")
        wanted = {"m": "report", "f": "feature", "a": "sketch"}[name[0]]
        order = self.conductor.outbox.get(who.name, f"{wanted}-{name}")
        if order is None:
            if name in self.conductor.store:
                return Letter("taken", {"wanted": False})
            raise Refusal(f"{who.name} was not asked for {name}")
        value = letter.arrays.get("row")
        if "code" in order:
            value = await asyncio.to_thread(self.conductor.opened, order, letter.arrays.get("message"))
        elif name.startswith("m-"):
            self.station.keeping.check_row(name, value)
        if wanted == "sketch" and (value is None or value.shape != (len(order["of"]), order["numbers"])):
            raise Refusal(f"{name} must be {order['numbers']} numbers of each of {len(order['of'])} models")
        if value is None or value.ndim == 0:
            raise Refusal(f"{name} must come with its numbers")
        await asyncio.to_thread(self.conductor.arrived, name, value)
        self.station.keeping.stir()
        return Letter("taken", {"wanted": True})

    def gauges(self) -> dict[str, float]:
        """What is worth watching."""
        waiting = self.conductor.waiting()
        return self.station.gauges() | {
            "run_seconds": self.conductor.clock.now_s,
            "orders_waiting": sum(map(len, waiting.values())),
            "longest_silence_seconds": max((self.conductor.silence.silent_s(n) for n in self.roster), default=0.0),
        }

    def status(self) -> dict[str, Any]:
        """Who is there, and what is waited for. Of every node: seconds without a word, kinds of orders that it has not carried
        out yet, what it said it does, whether an update of it has missed its round, whether nobody waits for it, and whether two
        processes have its bundle."""
        conductor = self.conductor
        waiting = conductor.waiting()
        nodes = {
            node: {
                "silent_s": round(conductor.silence.silent_s(node), 1),
                "orders": sorted({order["do"] for order in waiting.get(node, [])}),
                "does": self._does.get(node, []),
                "late": any(order["name"] in conductor.ordering.late for order in waiting.get(node, [])),
                "lost": node in conductor.losses.lost,
                "twice": node in self._twice,
            }
            for node in sorted(self.roster)
        }
        return {"seconds": round(conductor.clock.now_s, 3), "over": self.over, "nodes": nodes}


def _letters(letter: Letter, name: str) -> list[Letter]:
    """A field that must be a list of what could be letters of their own."""
    found = letter.fields.get(name, [])
    if not isinstance(found, list) or not all(isinstance(fields, dict) for fields in found):
        raise BadLetter(f"a letter {letter.kind!r} must have a list of mappings as {name!r}")
    return [Letter(name, fields) for fields in found]


async def conduct(desk: CloudDesk, simulation: Simulation, carry_out: Callable[[Simulation], object]) -> bool:
    """Run the federation to its end in a thread of its own, and the cloud's station beside it; whether it came to its end."""
    station = asyncio.create_task(desk.station.run())
    try:
        ended = await asyncio.to_thread(_to_the_end, simulation, carry_out)
        if desk.error is not None:
            raise desk.error
        if ended:
            desk.end()
            await desk.said_goodbye(LINGER_S)
        return ended
    finally:
        desk.conductor.clock.stop()
        station.cancel()
        await asyncio.gather(station, return_exceptions=True)


def _to_the_end(simulation: Simulation, carry_out: Callable[[Simulation], object]) -> bool:
    try:
        carry_out(simulation)
    except Stopped:
        return False
    return True

"""How orders are carried out (fedloom.deployment.orders): what they make is named, what is there is not made again, and what is
not there yet is waited for."""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

from numpy.typing import NDArray

from fedloom.deployment import naming
from fedloom.deployment.keeping import WAIT_S, Keeping, Row
from fedloom.deployment.letters import Letter
from fedloom.deployment.naming import CLOUD
from fedloom.deployment.orders import Order
from fedloom.deployment.recipes import Recipe, leaves, merged, mixed
from fedloom.deployment.took import NOTHING, Took
from fedloom.deployment.transport import Link, Refusal, until_reached
from fedloom.deployment.worker import Worker
from fedloom.methods import Method

CALL_S = 60.0


class Failed(Exception):
    """What is computed on this node, perhaps by own code, has raised something."""


T = TypeVar("T")
Got = tuple[float, int]
"""Seconds that a model took to come, and its bytes."""


class Doing:
    """link: calls others, and this node itself. worker: who trains here, if anybody does; meter: joules used so far. at_work: by
    order, what it is at; took: by order, what was measured."""

    def __init__(
        self,
        method: Method,
        keeping: Keeping,
        link: Link,
        worker: Worker | None,
        meter: Callable[[], float] | None,
    ) -> None:
        self._method, self._keeping, self._link, self._worker = method, keeping, link, worker
        self._meter = meter
        self._name, self._store = keeping.name, keeping.store
        self.at_work: dict[str, str] = {}
        self.took: dict[str, Took] = {}

    async def do(self, order: Order) -> None:
        """Until it is done; ValueError if that cannot be."""
        match order["do"]:
            case "train":
                await self._train_and_send(order)
            case "deliver":
                for station in order["to"]:
                    await self._put(station, order["name"], await self._keeping.need(order["name"]))
            case "feature":
                await self._feature(order)
            case "merge":
                await self._merge(order)
                await self._keeping.saved(order["name"])
            case "hold":
                await self._hold(order)
            case "report":
                row = await self._keeping.need(order["name"])
                began_s = time.monotonic()
                await self._put(CLOUD, order["name"], row)
                self.took[order["id"]] = Took(send_s=time.monotonic() - began_s, sent=row.nbytes)
            case other:
                raise ValueError(f"{self._name} cannot {other!r}; its version is too old for this cloud")

    async def _train_and_send(self, order: Order) -> None:
        took = await self._train(order)
        began_s = time.monotonic()
        self.at_work[order["id"]] = "send"
        names = [order["name"], *([naming.begun(order["name"])] if order["begun"] else [])]
        await asyncio.gather(self._keeping.saved(*names), *(self._put_all(station, names) for station in order["to"]))
        others = [station for station in order["to"] if station != self._name]
        n_bytes = len(others) * sum(self._store[name].nbytes for name in names)
        if took.train_s is not None:
            self.took[order["id"]] = took._replace(send_s=time.monotonic() - began_s, sent=n_bytes)

    async def _train(self, order: Mapping[str, Any]) -> Took:
        """What fetching and training took; nothing if the update is there already. It is held, and not on disk yet: it could be
        trained again."""
        name = order["name"]
        needed = [name, naming.begun(name)] if order["begun"] else [name]
        if all(n in self._store for n in needed):
            return NOTHING
        got: list[Got] = []
        self.at_work[order["id"]] = "fetch"
        again = (self._get(at, other, got) for other, at in order.get("also", []))
        start, *_ = await asyncio.gather(self._made(order["start"], got), *again)
        began_s, before_j = time.monotonic(), self._joules()
        self.at_work[order["id"]] = "train"
        steps = {"n_steps": order["n_steps"], "first_step": naming.first_step(name), "lr_step": order["lr_step"]}
        row = await asyncio.to_thread(_own, partial(self._working.train, start, **steps))
        await asyncio.sleep(order.get("lasts_s", 0.0) - (time.monotonic() - began_s))
        if order["begun"]:
            await self._keeping.hold(naming.begun(name), start)
        await self._keeping.hold(name, row)
        after_j = self._joules()
        joules = None if before_j is None or after_j is None else max(0.0, after_j - before_j)
        took = Took(train_s=time.monotonic() - began_s, joules=joules)
        return took._replace(fetch_s=max((s for s, _ in got), default=0.0), fetched=sum(n for _, n in got))

    async def _hold(self, order: Mapping[str, Any]) -> None:
        got: list[Got] = []
        await self._keeping.keep(order["name"], await self._get(order["from"], order["name"], got))
        if got and order["from"] == CLOUD:
            self.took[order["id"]] = Took(fetch_s=got[0][0], fetched=got[0][1])

    async def _feature(self, order: Mapping[str, Any]) -> None:
        layers = order["layers"]
        start = None if order["start"] is None else await self._made(order["start"], [])
        result = None
        if order["kind"] == "update":
            await self._train({**order, "name": order["update"], "begun": False})
            await self._keeping.saved(order["update"])
            result = self._store[order["update"]]
        asked = tuple(layers) if isinstance(layers, list) else layers
        value = await asyncio.to_thread(_own, partial(self._working.feature, order["kind"], asked, start, result))
        await self._put(CLOUD, order["name"], value)

    async def _merge(self, order: Mapping[str, Any]) -> None:
        if order["name"] in self._store:
            return
        rows: dict[str, Row] = {}
        updates = [*order.get("updates", []), *(name for wave in order.get("waves", []) for name, _ in wave)]
        for name in updates:
            rows[name] = await self._keeping.need(name)
            if "arrivals" in order:
                rows[naming.begun(name)] = await self._keeping.need(naming.begun(name))
        recipes = [recipe for recipe, _ in order.get("models", [])] + ([order["old"]] if "old" in order else [])
        for recipe in recipes:
            rows |= await self._leaves(recipe, [])
        await self._keeping.hold(order["name"], await asyncio.to_thread(merged, order, rows, self._method))
        self._keeping.have_merged(rows)

    async def _made(self, recipe: Recipe, got: list[Got]) -> Row:
        return mixed(recipe, await self._leaves(recipe, got), self._method)

    async def _leaves(self, recipe: Recipe, got: list[Got]) -> dict[str, Row]:
        places = dict(reversed([*leaves(recipe)]))  # the first place of each
        need = self._keeping.need
        rows = [need(name) if at == self._name else self._get(at, name, got) for name, at in places.items()]
        return dict(zip(places, await asyncio.gather(*rows)))

    async def _get(self, node: str, name: str, got: list[Got]) -> Row:
        """A model from another node, as soon as that has it; the seconds it took, less those that it was waited for there."""
        if (here := self._keeping.here(name)) is not None:
            return here
        while True:
            letter, began_s = Letter("fetch", {"name": name, "wait_s": WAIT_S / 2}), time.monotonic()
            reply = await until_reached(self._link, node, letter, CALL_S)
            if reply.fields.get("there"):
                held_s = reply.number("held_s", least=0, most=CALL_S)
                took_s = max(0.0, time.monotonic() - began_s - held_s)
                row = reply.arrays.get("row")
                try:
                    self._keeping.check_row(name, row)
                except Refusal as error:
                    raise ValueError(f"{node} has sent what is no model: {error}") from None
                assert row is not None
                got.append((took_s, row.nbytes))
                return row

    async def _put_all(self, node: str, names: Sequence[str]) -> None:
        for name in names:
            await self._put(node, name, await self._keeping.need(name))

    async def _put(self, node: str, name: str, row: NDArray[Any]) -> None:
        if node == self._name and name in self._store:
            return
        await until_reached(self._link, node, Letter("put", {"name": name}, {"row": row}), CALL_S)

    def _joules(self) -> float | None:
        return None if self._meter is None else _own(self._meter)

    @property
    def _working(self) -> Worker:
        if self._worker is None:
            raise ValueError(f"{self._name} has no data to train on")
        return self._worker


def _own(compute: Callable[[], T]) -> T:
    """What a computation gives; Failed for whatever it raises, so that a file that it misses is not taken for a disk that is
    full."""
    try:
        return compute()
    except Exception as error:
        raise Failed(f"{type(error).__name__}: {error}") from error

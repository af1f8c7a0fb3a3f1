"""How orders are carried out (fedloom.deployment.orders): what they make is named, what is there is not made again, and what is
not there yet is waited for."""

import asyncio
import time
from collections.abc import Mapping
from typing import Any

from numpy.typing import NDArray

from fedloom.deployment import naming
from fedloom.deployment.keeping import WAIT_S, Keeping, Row
from fedloom.deployment.letters import Letter
from fedloom.deployment.naming import CLOUD
from fedloom.deployment.orders import Order
from fedloom.deployment.recipes import Recipe, leaves, merged, mixed
from fedloom.deployment.transport import Link, Refusal, until_reached
from fedloom.deployment.worker import Worker
from fedloom.methods import Method

CALL_S = 60.0


class Doing:
    """link: calls others, and this node itself. worker: who trains here, if anybody does. at_work: by order, what it is at;
    took_s: by order, seconds to fetch, train and send."""

    def __init__(self, method: Method, keeping: Keeping, link: Link, worker: Worker | None) -> None:
        self._method, self._keeping, self._link, self._worker = method, keeping, link, worker
        self._name, self._store = keeping.name, keeping.store
        self.at_work: dict[str, str] = {}
        self.took_s: dict[str, list[float]] = {}

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
            case "hold":
                await self._keeping.keep(order["name"], await self._get(order["from"], order["name"]))
            case "report":
                await self._put(CLOUD, order["name"], await self._keeping.need(order["name"]))
            case other:
                raise ValueError(f"{self._name} cannot {other!r}; its version is too old for this cloud")

    async def _train_and_send(self, order: Order) -> None:
        began_s = time.monotonic()
        trained_s = await self._train(order)
        fetched_s = time.monotonic() - began_s - trained_s
        began_s = time.monotonic()
        self.at_work[order["id"]] = "send"
        for station in order["to"]:
            for name in [order["name"], *([naming.begun(order["name"])] if order["begun"] else [])]:
                await self._put(station, name, await self._keeping.need(name))
        self.took_s[order["id"]] = [fetched_s, trained_s, time.monotonic() - began_s]

    async def _train(self, order: Mapping[str, Any]) -> float:
        """Seconds that training itself took; none if the update is there already."""
        name = order["name"]
        needed = [name, naming.begun(name)] if order["begun"] else [name]
        if all(n in self._store for n in needed):
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
            await self._keeping.keep(naming.begun(name), start)
        await self._keeping.keep(name, row)
        return took_s

    async def _feature(self, order: Mapping[str, Any]) -> None:
        layers = order["layers"]
        start = None if order["start"] is None else await self._made(order["start"])
        result = None
        if order["kind"] == "update":
            await self._train({**order, "name": order["update"], "begun": False})
            result = self._store[order["update"]]
        asked = tuple(layers) if isinstance(layers, list) else layers
        value = await asyncio.to_thread(self._working.feature, order["kind"], asked, start, result)
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
            rows |= await self._leaves(recipe)
        await self._keeping.keep(order["name"], await asyncio.to_thread(merged, order, rows, self._method))
        self._keeping.have_merged(rows)

    async def _made(self, recipe: Recipe) -> Row:
        return mixed(recipe, await self._leaves(recipe), self._method)

    async def _leaves(self, recipe: Recipe) -> dict[str, Row]:
        found: dict[str, Row] = {}
        for name, at in leaves(recipe):
            if name not in found:
                found[name] = await (self._keeping.need(name) if at == self._name else self._get(at, name))
        return found

    async def _get(self, node: str, name: str) -> Row:
        """A model from another node, as soon as that has it."""
        if (here := self._keeping.here(name)) is not None:
            return here
        while True:
            letter = Letter("fetch", {"name": name, "wait_s": WAIT_S / 2})
            reply = await until_reached(self._link, node, letter, CALL_S)
            if reply.fields.get("there"):
                row = reply.arrays.get("row")
                try:
                    self._keeping.check_row(name, row)
                except Refusal as error:
                    raise ValueError(f"{node} has sent what is no model: {error}") from None
                assert row is not None
                return row

    async def _put(self, node: str, name: str, row: NDArray[Any]) -> None:
        if node == self._name and name in self._store:
            return
        await until_reached(self._link, node, Letter("put", {"name": name}, {"row": row}), CALL_S)

    @property
    def _working(self) -> Worker:
        if self._worker is None:
            raise ValueError(f"{self._name} has no data to train on")
        return self._worker

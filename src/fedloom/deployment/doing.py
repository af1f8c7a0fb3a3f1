"""How orders are carried out (fedloom.deployment.orders): what they make is named, what is there is not made again, and what is
not there yet is waited for."""

import asyncio
import itertools
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from fedloom.deployment import naming
from fedloom.deployment.hostile import alter
from fedloom.deployment.keeping import WAIT_S, Keeping, Row
from fedloom.deployment.letters import Letter
from fedloom.deployment.naming import CLOUD
from fedloom.deployment.orders import Order
from fedloom.deployment.recipes import Leaf, Recipe, judged, leaves, merged, mixed, needed, stepped
from fedloom.deployment.secret import secret_of
from fedloom.deployment.short import Short
from fedloom.deployment.took import NOTHING, Took
from fedloom.deployment.transport import Link, Refusal, until_reached
from fedloom.deployment.worker import Worker
from fedloom.gate import Refused
from fedloom.methods import Method
from fedloom.mixing import ByRows
from fedloom.mixing.audit import sketched
from fedloom.mixing.private_mean import PrivateMean

CALL_S = 60.0
AFTER_S = 0.001  # who waits for a model is answered before that is written to disk


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
        self._short = Short()

    async def do(self, order: Order) -> None:
        """Until it is done; ValueError if that cannot be."""
        match order["do"]:
            case "train":
                await self._train_and_send(order)
            case "deliver":
                for station, name in itertools.product(order["to"], order["names"]):
                    await self._put(station, name, await self._keeping.need(name))
            case "feature":
                await self._feature(order)
            case "merge":
                await self._merge(order)
                await asyncio.sleep(AFTER_S)
                await self._keeping.saved(*_merged_by(order))
            case "sketch":
                rows = await self._made(order["of"], [])
                said = [sketched(row, order["key"], order["numbers"]).astype(np.float32) for row in rows]
                await self._put(CLOUD, order["name"], np.stack(said))
            case "alter":
                if order["name"] not in self._store:
                    row, before = await self._made([order["of"], order["before"]], [])
                    self._keeping.hold(order["name"], await asyncio.to_thread(_own, partial(alter, order, row, before)))
                await self._keeping.saved(order["name"])
            case "hold":
                await self._hold(order)
            case "report":
                value = await self._report(order)
                began_s = time.monotonic()
                await self._put(CLOUD, order["name"], value)
                self.took[order["id"]] = Took(send_s=time.monotonic() - began_s, sent=value.nbytes)
            case other:
                raise ValueError(f"{self._name} cannot {other!r}; its version is too old for this cloud")

    async def _train_and_send(self, order: Order) -> None:
        took = await self._train(order)
        began_s = time.monotonic()
        self.at_work[order["id"]] = "send"
        update = naming.message(order["name"]) if "code" in order else order["name"]
        names = [update, *([naming.begun(order["name"])] if order["begun"] else [])]
        sent = [self._put_all(station, names) for station in order["to"]]
        await asyncio.gather(*sent, self._keeping.saved(*lasting(order, self._name)))
        others = [station for station in order["to"] if station != self._name]
        n_bytes = len(others) * sum(self._store[name].nbytes for name in names)
        if took.train_s is not None:
            self.took[order["id"]] = took._replace(send_s=time.monotonic() - began_s, sent=n_bytes)

    async def _train(self, order: Mapping[str, Any]) -> Took:
        """What fetching and training took; nothing if the update is there already. It is held, and not on disk yet: it could be
        trained again."""
        name = order["name"]
        if all(n in self._store for n in _made_by(order)):
            return NOTHING
        got: list[Got] = []
        self.at_work[order["id"]] = "fetch"
        recipes = [order["start"], *([order["code"]["ref"]] if "code" in order else [])]
        made = self._made(recipes, got, keep=order.get("keep", False))
        if "also" in order:
            also = (self._get(at, other, got, key) for other, at, key in order["also"])
            (start, *reference), _ = await asyncio.gather(made, asyncio.gather(*also))
        else:
            start, *reference = await made
        began_s, before_j = time.monotonic(), self._joules()
        self.at_work[order["id"]] = "train"
        steps = {"n_steps": order["n_steps"], "first_step": naming.first_step(name), "lr_step": order["lr_step"]}
        train = partial(self._working.train, start, self._states(order), altered=order.get("altered", False), **steps)
        row, own = await self._short.do("train", partial(_own, train))
        if "lasts_s" in order:
            await asyncio.sleep(order["lasts_s"] - (time.monotonic() - began_s))
        if order["begun"]:
            self._keeping.hold(naming.begun(name), start)
        self._keeping.hold(name, row)
        if own is not None:
            self._keeping.hold(order["own"]["to"], own)
        if reference:
            message = await self._coded(row, reference[0], order["code"])
            self._keeping.hold(naming.message(name), message)
        after_j = self._joules()
        joules = None if before_j is None or after_j is None else max(0.0, after_j - before_j)
        took = Took(train_s=time.monotonic() - began_s, joules=joules)
        return took._replace(fetch_s=max((s for s, _ in got), default=0.0), fetched=sum(n for _, n in got))

    def _states(self, order: Mapping[str, Any]) -> Row | None:
        """The own states with which a job begins; None if there were none before."""
        name = order["own"]["from"] if "own" in order else None
        if name is not None and name not in self._store:
            raise ValueError(f"{self._name} has lost {name}, the states that it kept after its last job")
        return None if name is None else self._store[name]

    async def _hold(self, order: Mapping[str, Any]) -> None:
        got: list[Got] = []
        row = self._keeping.here(order["name"])
        if row is None:
            row = await self._get(order["from"], order.get("of", order["name"]), got, order.get("key"))
        await self._keeping.keep(order["name"], row)
        if got and order["from"] == CLOUD:
            self.took[order["id"]] = Took(fetch_s=got[0][0], fetched=got[0][1])

    async def _feature(self, order: Mapping[str, Any]) -> None:
        layers = order["layers"]
        start = None if order["start"] is None else (await self._made([order["start"]], []))[0]
        result = None
        if order["kind"] == "update":
            training = {**order, "name": order["update"]}
            await self._train(training)
            await self._keeping.saved(*_made_by(training))
            result = self._store[order["update"]]
        asked = tuple(layers) if isinstance(layers, list) else layers
        value = await asyncio.to_thread(_own, partial(self._working.feature, order["kind"], asked, start, result))
        await self._put(CLOUD, order["name"], value)

    async def _merge(self, order: Mapping[str, Any]) -> None:
        if all(name in self._store for name in _merged_by(order)):
            return
        rows = await self._rows(needed(order), [])
        wire, rule = self._keeping.wire, self._method.merge_edge
        if isinstance(rule, ByRows) and isinstance(rule.rule, PrivateMean) and not rule.rule.seeded:
            seed, *number = order["arrivals"]["occasion"]
            hidden = [seed ^ secret_of(self._store.folder), *number]
            order = {**order, "arrivals": {**order["arrivals"], "occasion": hidden}}
        scores = await self._judged(order, rows)
        model = await self._short.do("merge", partial(merged, order, rows, self._method, wire, scores))
        if "step" in order:
            model = await self._stepped(order, rows, model)
        self._keeping.hold(order["name"], model)
        self._keeping.have_merged(rows)

    async def _stepped(self, order: Mapping[str, Any], rows: Mapping[str, NDArray[Any]], model: Row) -> Row:
        """The model after a server optimiser's step; the moments after it are held."""
        names = order["step"]["from"]
        for name in names or ():
            if name not in self._store:
                raise ValueError(f"{self._name} has lost {name}, a moment of its server optimiser")
        before = None if names is None else [self._store[name] for name in names]
        step = partial(stepped, order, rows, model, self._method, self._keeping.wire, before)
        new, *after = await self._short.do("merge", step)
        for name, row in zip(order["step"]["to"], after):
            self._keeping.hold(name, row)
        return new

    async def _judged(self, order: Mapping[str, Any], rows: Mapping[str, NDArray[Any]]) -> Row | None:
        """What is thought of clients after a merge, if it remembers; it is held."""
        if "scores" not in order:
            return None
        name = order["scores"]["from"]
        if name is not None and name not in self._store:
            raise ValueError(f"{self._name} has lost {name}, what it remembers of clients")
        before = np.ones(order["scores"]["n"], dtype=np.float32) if name is None else self._store[name]
        wire = self._keeping.wire
        after = await self._short.do("merge", partial(judged, order, rows, self._method, wire, before))
        self._keeping.hold(order["scores"]["to"], after)
        return after

    async def _report(self, order: Mapping[str, Any]) -> NDArray[Any]:
        """What is sent to the cloud: a model, or the message of it; what is left over of that is on disk then."""
        if "code" not in order:
            return await self._keeping.need(order["name"])
        code = order["code"]
        row, reference = await self._made([code["of"], code["ref"]], [])
        message = await self._coded(row, reference, code)
        await self._keeping.saved(*([] if code["keep"] is None else [code["keep"]]))
        return message

    async def _coded(self, row: Row, reference: Row, code: Mapping[str, Any]) -> NDArray[Any]:
        """The message for a model; what is left over of it is held."""
        if code["add"] is not None and code["add"] not in self._store:
            raise ValueError(f"{self._name} has lost {code['add']}, what was left over of its last message")
        added = None if code["add"] is None else self._store[code["add"]]
        wire, key = self._keeping.wire, code["key"]
        if wire.coding.private is not None and not wire.coding.private.seeded:
            key ^= secret_of(self._store.folder)
        message, left = await asyncio.to_thread(_own, partial(wire.sent_up, row, reference, added, key))
        if code["keep"] is not None:
            self._keeping.hold(code["keep"], left)
        return message

    async def _made(self, recipes: Sequence[Recipe], got: list[Got], *, keep: bool = False) -> list[Row]:
        """The rows of some recipes; what several need is fetched once. keep: what it is made of is kept, to bear witness."""
        rows = await self._rows((leaf for recipe in recipes for leaf in leaves(recipe)), got)
        for name in rows if keep else ():
            if name not in self._store:
                await self._keeping.keep(name, rows[name])
        return [mixed(recipe, rows, self._method, self._keeping.wire) for recipe in recipes]

    async def _rows(self, wanted: Iterable[Leaf], got: list[Got]) -> dict[str, NDArray[Any]]:
        """By id, what is here or at others."""
        places = {leaf.id: leaf for leaf in reversed([*wanted])}  # the first place of each
        rows: dict[str, NDArray[Any]] = {name: self._store[name] for name in places if name in self._store}
        others = [leaf for leaf in places.values() if leaf.id not in rows]
        return rows | dict(zip([leaf.id for leaf in others], await _together(*(self._row(o, got) for o in others))))

    async def _row(self, leaf: Leaf, got: list[Got]) -> NDArray[Any]:
        if leaf.at not in (None, self._name):
            return await self._get(str(leaf.at), leaf.name, got, leaf.key)
        row = await self._keeping.need(leaf.name)
        return row if leaf.key is None else await self._as_sent(row, leaf.key)

    async def _as_sent(self, row: Row, key: int) -> Row:
        """What others get of a model that is here."""
        return await asyncio.to_thread(self._keeping.wire.as_sent_down, row, key)

    async def _get(self, node: str, name: str, got: list[Got], key: int | None = None) -> Row:
        """A model from another node, as soon as that has it; the seconds it took, less those that it was waited for there. With a
        key it comes coded."""
        if (here := self._keeping.here(name)) is not None:
            return here if key is None else await self._as_sent(here, key)
        fields = {"name": name, "wait_s": WAIT_S / 2} | ({} if key is None else {"key": key})
        while True:
            began_s = time.monotonic()
            reply = await until_reached(self._link, node, Letter("fetch", fields), CALL_S)
            if reply.fields.get("there"):
                held_s = reply.number("held_s", least=0, most=CALL_S)
                took_s = max(0.0, time.monotonic() - began_s - held_s)
                value = reply.arrays.get("row" if key is None else "message")
                try:
                    row = await self._opened(name, value, key)
                except (Refusal, Refused) as error:
                    raise ValueError(f"{node} has sent what is no model: {error}") from None
                assert value is not None
                got.append((took_s, value.nbytes))
                return row

    async def _opened(self, name: str, value: NDArray[Any] | None, key: int | None) -> Row:
        """The model that came."""
        if key is not None and value is not None:
            return await asyncio.to_thread(self._keeping.wire.got_down, value, key)
        self._keeping.check_row(name, value)
        assert value is not None
        return value

    async def _put_all(self, node: str, names: Sequence[str]) -> None:
        for name in names:
            await self._put(node, name, await self._keeping.need(name))

    async def _put(self, node: str, name: str, row: NDArray[Any]) -> None:
        if node == self._name and name in self._store:
            return
        what = "message" if row.dtype == np.uint8 else "row"
        await until_reached(self._link, node, Letter("put", {"name": name}, {what: row}), CALL_S)

    def _joules(self) -> float | None:
        return None if self._meter is None else _own(self._meter)

    @property
    def _working(self) -> Worker:
        if self._worker is None:
            raise ValueError(f"{self._name} has no data to train on")
        return self._worker


def _merged_by(order: Mapping[str, Any]) -> list[str]:
    """Names of what a merge makes."""
    scores = [order["scores"]["to"]] if "scores" in order else []
    return [order["name"], *scores, *(order["step"]["to"] if "step" in order else [])]


def _made_by(order: Mapping[str, Any]) -> list[str]:
    """What a device makes when it trains."""
    name = order["name"]
    begun = [naming.begun(name)] if order["begun"] else []
    begun += [order["own"]["to"]] if "own" in order else []
    if "code" not in order:
        return [name, *begun]
    kept = order["code"]["keep"]
    return [name, *begun, naming.message(name), *([] if kept is None else [kept])]


def lasting(order: Mapping[str, Any], node: str) -> list[str]:
    """What of it must be on disk before the cloud is told, as a kill afterwards must not lose it. An update that its stations
    have on theirs need not be, if nobody will ask for it here; until then it can be made again. A head is its own station."""
    made = _made_by(order)
    return made if order["lasting"] or node in order["to"] else [name for name in made if name[0] not in "usc"]


async def _together(*things: Awaitable[T]) -> list[T]:
    """What all of them give, done side by side; a single one needs no task of its own."""
    return [await things[0]] if len(things) == 1 else await asyncio.gather(*things)


def _own(compute: Callable[[], T]) -> T:
    """What a computation gives; Failed for whatever it raises, so that a file that it misses is not taken for a disk that is
    full."""
    try:
        return compute()
    except Exception as error:
        raise Failed(f"{type(error).__name__}: {error}") from error

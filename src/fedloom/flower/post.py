"""Carries what the conductor orders to Flower nodes and what they answer back, in a thread of its own.

Orders to stations are carried out here (`Stations`). A device gets a message for every order; messages may stay unanswered, nodes
may go and come back under other ids: a node that was not seen before is asked which device it is, and gets what that device has
not done yet. Nothing but this thread talks to the grid.
"""

import json
import logging
import threading
import time
from collections.abc import Mapping, Sequence

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.app.typing import ConfigRecordValues
from flwr.serverapp import Grid

from fedloom.deployment import naming
from fedloom.deployment.conductor import Conductor
from fedloom.deployment.orders import Order
from fedloom.flower import introductions
from fedloom.flower.arrays import BadArrays, Row, layers_of
from fedloom.flower.introductions import Introduction
from fedloom.flower.letterbox import Letter, Letterbox
from fedloom.flower.stations import HERE, Stations
from fedloom.flower.task import Task

PULL_S = 0.2  # between two looks for answers, if there is nothing to send
NODES_S = 2.0  # between two looks for new nodes
UNREACHED = (3, 4, 5)  # error codes: the message or its answer is lost, or the node is gone
KEPT = 16  # models ready to be sent
Metrics = list[tuple[float, dict[str, float]]]
log = logging.getLogger("flwr")


class Failed(RuntimeError):
    """The federation cannot go on."""


class Post:
    """n_devices: of the fleet. timeout_s: how long an answer is waited for."""

    def __init__(self, grid: Grid, n_devices: int, timeout_s: float, config: Mapping[str, ConfigRecordValues]) -> None:
        self._box = Letterbox(grid, timeout_s)
        self._n_devices, self._timeout_s, self._config = n_devices, timeout_s, dict(config)
        self.round_number = 0
        self.error: Exception | None = None
        self._node: dict[int, int] = {}  # of each device
        self._asked: set[int] = set()  # nodes that were asked who they are
        self._next_look_s = 0.0
        self._under_way: set[str] = set()  # orders that devices have been sent
        self._failed: dict[int, str] = {}  # devices whose last answer was none, and why
        self._ready: dict[str, tuple[Row, ArrayRecord]] = {}
        self._metrics: Metrics = []
        self._news, self._stop = threading.Event(), threading.Event()
        self._thread: threading.Thread | None = None

    # Before the run

    def introduce(self) -> list[Introduction]:
        """Wait until every device is there; what each says of itself, by device."""
        found: dict[int, Introduction] = {}
        end_s = time.monotonic() + self._timeout_s
        while len(found) < self._n_devices:
            self._look_for_nodes()
            for letter, reply in self._box.replies():
                one = introductions.read(reply, self._n_devices)
                if one.device in found:
                    raise ValueError(
                        f"nodes {self._node[one.device]} and {letter.node} both say that they are device {one.device}; give "
                        "every SuperNode a partition-id of its own in --node-config"
                    )
                found[one.device], self._node[one.device] = one, letter.node
            if time.monotonic() > end_s:
                missing = sorted(set(range(self._n_devices)) - set(found))
                raise ValueError(
                    f"devices {missing} of {self._n_devices} have not come within {self._timeout_s:g} s; start their SuperNodes, "
                    "or set fleet.n_devices of the scenario to as many as there are"
                )
            time.sleep(PULL_S)
        return [found[k] for k in range(self._n_devices)]

    # The thread

    def start(self, conductor: Conductor, task: Task) -> None:
        self._conductor, self._task, self._stations = conductor, task, Stations(conductor)
        conductor.outbox.told = lambda nodes: self._news.set()
        self._thread = threading.Thread(target=self._run, name="fedloom-post", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._news.set()
        if self._thread is not None:
            self._thread.join()

    def metrics(self) -> Metrics:
        """What devices told with the updates that came since the last time, with their weights."""
        found, self._metrics = self._metrics, []
        return found

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                self._news.clear()
                self._look_for_nodes()
                self._carry_out()
                for letter, reply in self._box.replies():
                    self._answered(letter, reply)
                for letter in self._box.overdue():
                    if letter.order is not None and letter.order["do"] == "feature":
                        self._fail(letter, f"it has not answered for {self._timeout_s:g} s")
                self._news.wait(PULL_S)
        except Exception as error:  # it is raised where the driver is
            self.error = error
            self._conductor.clock.stop()

    def _look_for_nodes(self) -> None:
        if time.monotonic() < self._next_look_s:
            return
        self._next_look_s = time.monotonic() + NODES_S
        new = sorted(self._box.nodes() - self._asked)
        letters = [Letter(node, introductions.ASK, RecordDict({})) for node in new]
        refused = self._box.post(letters, self.round_number)
        self._asked |= set(new) - {letter.node for letter in refused}

    def _carry_out(self) -> None:
        """All orders that can be carried out now; one at a station may let others follow."""
        again = True
        while again:
            again = False
            for node, orders in self._conductor.waiting().items():
                for order in orders:
                    if order["do"] in HERE:
                        again |= self._stations.carry_out(node, order)
        letters = []
        waiting = self._conductor.waiting()
        self._under_way &= {order["id"] for orders in waiting.values() for order in orders}
        for node, orders in waiting.items():
            for order in orders:
                if order["id"] not in self._under_way and order["do"] not in HERE:
                    letters += self._letter(node, order)
        self._send(letters)

    def _send(self, letters: Sequence[Letter]) -> None:
        for letter in letters:
            assert letter.device is not None and letter.order is not None
            if not self._box.open_to(letter.device):  # who owes answers is silent since then
                self._conductor.silence.hear(naming.device(letter.device))
            self._under_way.add(letter.order["id"])
        for letter in self._box.post(letters, self.round_number):
            self._fail(letter, "the SuperLink does not take messages for its node")

    def _letter(self, node: str, order: Order) -> list[Letter]:
        """The message for an order; none if what it needs is not here yet."""
        client = naming.client_of(node)
        assert client is not None
        if order["do"] == "feature" and order["kind"] == "labels":
            self._conductor.arrived(order["name"], self._task.label_counts[client].astype(np.float64))
            self._conductor.done(node, order["id"])
            return []
        content, row = RecordDict({}), None
        if order["start"] is not None:
            start = self._start(order)
            if start is None:
                return []
            row, content["arrays"] = start
        trains = order["do"] == "train" or order["kind"] == "update"
        content["config"] = ConfigRecord(self._training(order) if trains else _question(order))
        return [Letter(self._node[client], "train" if trains else "query.feature", content, client, order, row)]

    def _training(self, order: Order) -> dict[str, ConfigRecordValues]:
        return {
            **self._config,
            "server-round": self.round_number,
            "local-steps": order["n_steps"],
            "first-step": naming.first_step(_update(order)),
            "lr-step": order["lr_step"],
            "lr": self._task.lr(order["lr_step"]),
        }

    def _start(self, order: Order) -> tuple[Row, ArrayRecord] | None:
        """The model that an order begins with: the same for all who begin with the same."""
        key = json.dumps(order["start"])
        if key not in self._ready:
            row = self._stations.made(order["start"])
            if row is None:
                return None
            if len(self._ready) >= KEPT:
                self._ready.clear()
            self._ready[key] = row, self._task.layout.arrays(row)
        return self._ready[key]

    # Answers

    def _answered(self, letter: Letter, reply: Message) -> None:
        if letter.order is None or letter.device is None:
            self._introduced(letter, reply)
            return
        if not (reply.has_error() and reply.error.code in UNREACHED):
            self._conductor.silence.hear(naming.device(letter.device))
        if letter.order["id"] not in self._under_way:
            return  # it was not waited for any more
        if reply.has_error():
            self._fail(letter, reply.error.reason or "it does not say why")
            return
        try:
            self._take(letter.device, letter.order, letter.start, reply)
        except BadArrays as error:
            self._fail(letter, str(error))

    def _take(self, client: int, order: Order, start: Row | None, reply: Message) -> None:
        """What was asked for is here."""
        node, store, records = naming.device(client), self._conductor.store, reply.content.array_records
        if len(records) != 1:
            raise BadArrays(f"an answer must hold one ArrayRecord, got {len(records)}")
        (arrays,) = records.values()
        if order["do"] == "train" or order["kind"] == "update":
            row, name = self._task.layout.row(arrays), _update(order)
            assert start is not None
            if order["do"] == "feature":
                columns = self._task.columns(layers_of(order["layers"]))
                self._conductor.arrived(order["name"], row[columns] - start[columns])
            if order.get("begun", True):
                store.put(naming.begun(name), start)
            store.put(name, row)
            self._note(reply.content.metric_records)
        else:
            self._conductor.arrived(order["name"], _feature(arrays))
        self._failed.pop(client, None)
        self._conductor.done(node, order["id"])

    def _note(self, records: Mapping[str, MetricRecord]) -> None:
        told = {k: v for record in records.values() for k, v in record.items() if isinstance(v, int | float)}
        weight = float(told.pop("num-examples", 1.0))
        self._metrics.append((weight, {key: float(value) for key, value in told.items()}))

    def _introduced(self, letter: Letter, reply: Message) -> None:
        """A node that came later: it takes the place of the one that its device had."""
        try:
            device = introductions.read(reply, self._n_devices).device
        except ValueError as error:
            log.warning("FedLoom: %s", error)
            return
        log.info("FedLoom: device %d is now node %d", device, letter.node)
        self._node[device] = letter.node
        self._under_way -= {old.order["id"] for old in self._box.open_to(device) if old.order is not None}
        self._box.tear_up(device)

    def _fail(self, letter: Letter, why: str) -> None:
        """A device cannot do what it was asked: without its update the round goes on, without its feature nothing does."""
        assert letter.device is not None and letter.order is not None
        if letter.order["do"] == "feature":
            kind = letter.order["kind"]
            raise Failed(f"device {letter.device} does not tell its {kind}, by which the method groups devices: {why}")
        log.warning("FedLoom: device %d is left out: %s", letter.device, why)
        self._failed[letter.device] = why
        if len(self._failed) == self._n_devices:
            raise Failed(f"no device could train; the last one, device {letter.device}, says: {why}")
        self._conductor.done(naming.device(letter.device), letter.order["id"], failed=why)


def _update(order: Order) -> str:
    """The name of what is trained."""
    return str(order["update"] if order["do"] == "feature" else order["name"])


def _question(order: Order) -> dict[str, ConfigRecordValues]:
    layers = order["layers"]
    return {"kind": order["kind"]} | ({} if layers is None else {"layers": layers})


def _feature(arrays: ArrayRecord) -> Row:
    if len(arrays) != 1:
        raise BadArrays(f"a feature is one array, got {len(arrays)}")
    (array,) = arrays.values()
    value: Row = array.numpy()
    if not (np.issubdtype(value.dtype, np.floating) and value.ndim and np.isfinite(value).all()):
        raise BadArrays(f"a feature must be finite numbers, got {value.dtype} of shape {value.shape}")
    return value

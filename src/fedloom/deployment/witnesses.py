"""Audits of stations (fedloom.mixing.audit) among real processes: what devices say of them, and merges that the cloud does again.

Devices keep what they sent and were shown until it is checked. Asked by a key that nobody could know before, they send random
sums of it. If these do not fit, they send their updates, for which their certificates vouch, and the cloud makes of them what the
station should have made: from the model that it had handed down, merge by merge, by the station's own orders.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fedloom.deployment import naming
from fedloom.deployment.book import settled
from fedloom.deployment.hostile import true_of
from fedloom.deployment.orders import Order
from fedloom.deployment.recipes import Recipe, merged, needed
from fedloom.simulator.altering import Altered
from fedloom.simulator.auditing import Sketched
from fedloom.simulator.book import Model

if TYPE_CHECKING:
    from fedloom.deployment.conductor import Conductor

Row = NDArray[np.float32]


class Witnesses:
    """Who is silent for too long is not waited for: what it would have said is 0, and what it sent cannot be shown."""

    def __init__(self, conductor: "Conductor") -> None:
        self._conductor = conductor

    def ask(self, sketches: Sequence[Model]) -> None:
        """Fill in what devices say of models; of one that several have, what differs from what the first says, if anything."""
        if not sketches:
            return
        conductor, asked = self._conductor, defaultdict[int, list[Model]](list)
        for sketch in sketches:
            for client in _rule(sketch).clients:
                asked[client].append(sketch)
        version = _rule(sketches[0]).version
        names = {client: naming.word(version, client) for client in asked}
        with conductor.lock:
            conductor.names.n_audits = version
            for client, some in asked.items():
                self._ask(client, names[client], some)
        self._wait(lambda client: names[client] in conductor.store, list(asked))
        said: dict[Model, list[Row]] = defaultdict(list)
        for client, some in asked.items():
            is_here = names[client] in conductor.store
            nothing = np.zeros((len(some), _rule(sketches[0]).numbers), dtype=np.float32)
            for sketch, row in zip(some, conductor.store[names[client]] if is_here else nothing):
                said[sketch].append(row)
        for sketch, rows in said.items():
            sketch.row = next((row for row in rows if not np.array_equal(row, rows[0])), rows[0])
            settled(sketch)

    def done_again(self, model: Model) -> Row | None:
        """The row of a model that a station should have made; None if a device that has to show its update is silent."""
        conductor, order = self._conductor, self._conductor.ordering.merges.get(model)
        if order is None:  # the cloud's own
            return conductor.names.row(model)
        rows: dict[str, NDArray[Any]] = {}
        leaves = list(needed(order))
        for leaf in leaves:
            if naming.is_model(leaf.name):
                before = conductor.names.model(leaf.name)
                row = None if before is None else self.done_again(before)
                if row is None:
                    return None
                rows[leaf.id] = row
        updates = [leaf.name for leaf in leaves if not naming.is_model(leaf.name)]
        self._fetch(updates)
        if any(name not in conductor.store for name in updates):
            return None
        rows |= {name: conductor.store[name] for name in updates}
        return merged(order, rows, conductor.method, conductor.wire)

    def _ask(self, client: int, name: str, sketches: Sequence[Model]) -> None:
        conductor, rule = self._conductor, _rule(sketches[0])
        if name in conductor.store:
            return
        node = naming.device(client)
        of = [self._value(sketch.models[0][0], node) for sketch in sketches]
        order: Order = {"id": f"sketch-{name}", "do": "sketch", "name": name}
        conductor.outbox.add(node, {**order, "of": of, "key": rule.key, "numbers": rule.numbers})

    def _value(self, model: Model, node: str) -> Recipe:
        """What a device has of a model: its update, what it was shown, or what it made of several."""
        update = true_of(model) if isinstance(model.rule, Altered) and model.rule.update[0] == "client" else model
        if update.jobs and not update.models:
            ((dispatch, at, _),) = update.jobs
            return {"n": naming.update(int(dispatch.client[at[0]]), int(dispatch.first_step[at[0]])), "at": node}
        name = self._conductor.names.known(model)
        if name is not None:
            return {"n": name, "at": node}
        return {"mix": [[self._value(part, node), weight] for part, weight in model.models]}

    def _fetch(self, updates: Sequence[str]) -> None:
        """Devices send updates of theirs to the cloud."""
        conductor = self._conductor
        missing = {name: int(naming.owner(name) or 0) for name in updates if name not in conductor.store}
        with conductor.lock:
            for name, client in missing.items():
                order = {"id": f"deliver-{name}-{naming.CLOUD}", "do": "deliver", "names": [name], "to": [naming.CLOUD]}
                conductor.outbox.add(naming.device(client), order)
        owed: dict[int, list[str]] = defaultdict(list)
        for name, client in missing.items():
            owed[client].append(name)
        self._wait(lambda client: all(name in conductor.store for name in owed[client]), list(owed))

    def _wait(self, is_here: Callable[[int], bool], clients: Sequence[int]) -> None:
        """Until all that these clients owe is here, or they are silent."""
        conductor = self._conductor
        while not all(is_here(k) or conductor.silence.is_silent(naming.device(k)) for k in clients):
            conductor.clock.wait()


def _rule(sketch: Model) -> Sketched:
    assert isinstance(sketch.rule, Sketched)
    return sketch.rule

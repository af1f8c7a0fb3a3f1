"""Features of clients, collected over the wire: each device computes its own and sends it to the cloud, which waits for all.

For a device that is silent for too long, or cannot compute its feature, the feature of the first who answered is taken, if enough
have; it takes no part from the next grouping on until it is heard again.
"""

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from fedloom.deployment import naming
from fedloom.deployment.ordering import states_of
from fedloom.deployment.orders import Order
from fedloom.simulator.book import Dispatch, Model
from fedloom.simulator.clock import Lost
from fedloom.simulator.features import NO_MODEL, Layers

if TYPE_CHECKING:
    from fedloom.deployment.conductor import Conductor

Ints = NDArray[np.int64]
TIMES = 3  # that a device may fail to compute a feature


class Sizes(Protocol):
    """How large features are and what work they take, for clients with these parts of the data; see `Features`."""

    @property
    def parts(self) -> Sequence[Ints]: ...
    def size(self, kind: str, layers: Layers) -> float: ...
    def work(self, kind: str, local_steps: Ints, pass_steps: Ints) -> NDArray[np.floating]: ...


class Collecting:
    """Stands in for fedloom.simulator.features.Features."""

    def __init__(self, conductor: "Conductor", local: Sizes) -> None:
        self._conductor, self._local = conductor, local
        self._n = 0

    def size(self, kind: str, layers: Layers) -> float:
        self._n += 1  # asked once for every collection, after a restart too
        self._conductor.names.n_collections = self._n
        return self._local.size(kind, layers)

    def work(self, kind: str, local_steps: Ints, pass_steps: Ints) -> NDArray[np.floating]:
        return self._local.work(kind, local_steps, pass_steps)

    def values(self, kind: str, layers: Layers, start: Model, results: Mapping[int, Model]) -> NDArray[np.floating]:
        """(K, d), or (K, d, columns) with zeros where a client has fewer, as the simulator has them."""
        conductor, n_clients = self._conductor, len(self._local.parts)
        asked = sorted(results) if kind == "update" else list(range(n_clients))
        with conductor.lock:
            recipe = None if kind in NO_MODEL else {"n": conductor.names.of(start), "at": naming.CLOUD}
            conductor.ordering.features_from = None if recipe is None else recipe["n"]
            for client in asked:
                self._ask(client, kind, layers, recipe, start, results)
        names = {client: naming.feature(self._n, client) for client in asked}
        while any(name not in conductor.store for name in names.values()):
            conductor.clock.wait()
            conductor.clock.insist(lambda: self._give_up(names))
        found = {client: conductor.store[name] for client, name in names.items()}
        with conductor.lock:
            for client in asked if kind == "update" else ():
                self._trained(*_job(results[client]))
        shape = tuple(max(sizes) for sizes in zip(*(array.shape for array in found.values())))
        out = np.zeros((n_clients, *shape), dtype=next(iter(found.values())).dtype)
        for client, array in found.items():
            out[client][tuple(slice(n) for n in array.shape)] = array
        return out

    def _give_up(self, names: Mapping[int, str]) -> None:
        """Take another's feature, by client, for those who are not waited for, if they are all that are missing."""
        conductor = self._conductor
        missing = [client for client, name in names.items() if name not in conductor.store]
        there = [name for name in names.values() if name in conductor.store]
        silent = all(self._is_hopeless(client, names[client]) for client in missing)
        if not silent or len(there) < max(1, math.ceil(conductor.silence.waiting.quorum * len(names))):
            return
        with conductor.lock:
            for client in missing:
                conductor.outbox.take(naming.device(client), f"feature-{names[client]}")
                conductor.store.put(names[client], conductor.store[there[0]])
                conductor.clock.happened(Lost("head", client, ()))

    def _is_hopeless(self, client: int, name: str) -> bool:
        """Nobody waits for a feature any more: its device is silent, or could not compute it several times."""
        silence = self._conductor.silence
        failed = self._conductor.n_failed[f"feature-{name}"] >= TIMES and silence.waiting.patience_s is not None
        return failed or silence.is_silent(naming.device(client))

    def known(self, results: Mapping[int, Model]) -> None:
        """The life before had them trained: the devices have them."""
        for result in results.values():
            dispatch, j = _job(result)
            self._conductor.names.note(dispatch)
            states_of(self._conductor.names, dispatch, j)
            self._trained(dispatch, j)

    def _trained(self, dispatch: Dispatch, j: int) -> None:
        """A device has trained for a feature, and what it keeps for itself is on its disk."""
        self._conductor.names.done(naming.own(naming.update(int(dispatch.client[j]), int(dispatch.first_step[j]))))

    def _ask(
        self,
        client: int,
        kind: str,
        layers: Layers,
        recipe: dict[str, str] | None,
        start: Model,
        results: Mapping[int, Model],
    ) -> None:
        name = naming.feature(self._n, client)
        states: Order = {}
        if kind == "update":
            dispatch, j = _job(results[client])
            self._conductor.ordering.waves.note(dispatch, j)
            states = states_of(self._conductor.names, dispatch, j)
        if name in self._conductor.store:
            return
        order: Order = {
            "id": f"feature-{name}",
            "do": "feature",
            "name": name,
            "kind": kind,
            "layers": list(layers) if isinstance(layers, tuple) else layers,
            "start": recipe,
        }
        if kind == "update":
            self._conductor.names.note(dispatch)
            order |= {
                "update": naming.update(client, int(dispatch.first_step[j])),
                "n_steps": int(dispatch.n_steps[j]),
                "lr_step": start.steps,
                "begun": self._conductor.ordering.tells_start,
                **states,
            }
        self._conductor.outbox.add(naming.device(client), order)


def _job(trained: Model) -> tuple[Dispatch, int]:
    """What gave a client's model, and at which place."""
    ((dispatch, at, _),) = trained.jobs
    return dispatch, int(at[0])

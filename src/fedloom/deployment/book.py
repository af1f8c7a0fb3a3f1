"""The cloud's side of names: which model of the book is called what, where it is, and which rows are here.

A model that a station has merged is settled as soon as the station says so; what it was made of is then forgotten, and what
nobody refers to any more is gone from the book and may be dropped by whoever holds it.
"""

import weakref
from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from fedloom.deployment import naming
from fedloom.deployment.store import Store
from fedloom.simulator.book import Dispatch, Model, settle
from fedloom.simulator.sending import Rounded
from fedloom.training.engine import Jobs, Mix, Rows, Scores

Row = NDArray[np.float32]


class NotHere(LookupError):
    """A model that only others can compute."""


class Names:
    """at: by name, the nodes that have a model or are told to make or fetch it."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.at: dict[str, set[str]] = {}
        self._name: weakref.WeakKeyDictionary[Model, str] = weakref.WeakKeyDictionary()
        self._model: weakref.WeakValueDictionary[str, Model] = weakref.WeakValueDictionary()
        self._dispatch: weakref.WeakValueDictionary[str, Dispatch] = weakref.WeakValueDictionary()
        self._n = 0
        self.n_collections = self.n_audits = 0
        self._features_from = 0
        self._merges: set[str] = set()  # names of models that stations make
        self._kept: weakref.WeakSet[Model] = weakref.WeakSet()
        self._coded_of: weakref.WeakKeyDictionary[Model, tuple[Model, int]] = weakref.WeakKeyDictionary()

    def known(self, model: Model) -> str | None:
        """The name of a model that has one."""
        return self._name.get(model)

    def give(self, model: Model, node: str, *, merge: bool = False) -> str:
        """A new name for a model that a node makes (by a merge, if it is a station); names follow from the order of events, so
        that a restart gives the same."""
        name = naming.model(self._n)
        self._n += 1
        if merge:
            self._merges.add(name)
        self._call(model, name, node)
        return name

    def keep(self, model: Model, node: str, name: str | None = None) -> str:
        """Name what a node keeps for itself and shows nobody: what is left over of a message."""
        self._kept.add(model)
        if name is None:
            return self.give(model, node)
        self._call(model, name, node)
        return name

    def is_kept(self, model: Model) -> bool:
        """Whether a node keeps it for itself."""
        return model in self._kept

    def coded_of(self, name: str) -> tuple[Model, int] | None:
        """The model that a named one is what arrives of, and the key of the message; None if it is not coded."""
        model = self._model.get(name)
        return None if model is None else self._coded_of.get(model)

    def _call(self, model: Model, name: str, node: str) -> None:
        self._name[model], self._model[name], self.at[name] = name, model, {node}
        self._see(model)

    def _see(self, model: Model) -> None:
        """Remember what a model arrives of, which its rule tells until it is settled."""
        if isinstance(model.rule, Rounded):
            self._coded_of[model] = model.models[0][0], model.rule.key

    def of(self, model: Model) -> str:
        """The name of a model, which the cloud makes if nobody else does."""
        return self._name.get(model) or self.give(model, naming.CLOUD)

    def model(self, name: str) -> Model | None:
        """The model of a name, if anybody refers to it still."""
        return self._model.get(name)

    def note(self, dispatch: Dispatch) -> None:
        """Jobs are sent out: their updates are named by them."""
        for name in updates(dispatch):
            self._dispatch[name] = dispatch

    def alive(self, name: str) -> bool:
        """Whether anybody may still need a value."""
        if name[0] in "usc":
            return f"u{name[1:]}" in self._dispatch
        if name[0] == "a":
            return int(name.split("-")[1]) >= self.n_audits
        if name[0] == "f":
            return int(name.split("-")[1]) >= self._features_from
        return name in self._model

    def forget_dead(self) -> None:
        """Places of models that are gone, and features that were collected until now."""
        self._features_from = self.n_collections + 1
        self._merges &= set(self._model)
        for name in [name for name in self.at if name not in self._model]:
            del self.at[name]

    def lose(self, node: str) -> None:
        """A node is lost, and whatever it has with it."""
        for places in self.at.values():
            places.discard(node)

    def source(self, name: str) -> str | None:
        """Who has a model, or is told to make it; the cloud, if it can. None: whoever had it is lost."""
        places = self.at[name]
        if naming.CLOUD in places or name in self.store:
            return naming.CLOUD
        return min(places, default=None)

    def done(self, name: str) -> None:
        """A node has made a model: what it was made of is not needed for it any more."""
        model = self._model.get(name)
        if model is not None:
            settled(model)

    def row(self, model: Model) -> Row:
        """The row of a model that is here or can be computed here; NotHere if not. What has a name is kept on disk."""
        name = self._name.get(model)
        self._see(model)
        if model.row is None and name is not None and name in self.store:
            model.row = self.store[name]
            settled(model)
        if model.row is None:
            if model.settled or model.jobs or name in self._merges:
                raise NotHere(name or "an update")
            for part, _ in model.models:
                self.row(part)
            settle(model, NoTraining())
            settled(model)
        assert model.row is not None
        if name is not None:
            self.store.put(name, model.row)
        return model.row

    def load(self) -> None:
        """Give models that are settled the rows that are kept of them."""
        for name, model in list(self._model.items()):
            if model.settled and model.row is None and name in self.store:
                model.row = self.store[name]

    def missing(self, model: Model) -> list[str]:
        """Names of models that must come here before a model's row can be known."""
        name = self._name.get(model)
        if model.row is not None or (name is not None and name in self.store):
            return []
        if name is not None and (name in self._merges or model.settled):
            return [name]
        return [found for part, _ in model.models for found in self.missing(part)]


def settled(model: Model) -> None:
    """Its recipe is of no use any more."""
    model.forget()


def of_cloud(model: Model, known: Callable[[Model], str | None]) -> bool:
    """Whether a model is made of models with names only, and not of updates."""
    if known(model) is not None or model.settled:
        return True
    return not model.jobs and all(of_cloud(part, known) for part, _ in model.models)


def updates(dispatch: Dispatch) -> Iterator[str]:
    """The names of what its jobs give."""
    for client, first in zip(dispatch.client.tolist(), dispatch.first_step.tolist()):
        yield naming.update(client, first)


class NoTraining:
    """For models that are sums of others: what would train here is a mistake."""

    def train_average(self, starts: Rows, jobs: Jobs, mix: Mix) -> NDArray[np.float64]:
        raise AssertionError("the cloud does not train")

    def train(self, starts: Rows, jobs: Jobs) -> Rows:
        raise AssertionError("the cloud does not train")

    def gradient(self, rows: Rows, jobs: object) -> Rows:
        raise AssertionError("the cloud does not train")

    def evaluate(self, rows: Rows, split: str = "test") -> Scores:
        raise AssertionError("the cloud does not train")

    def outputs(self, rows: Rows, split: str = "test") -> NDArray[np.float32]:
        raise AssertionError("the cloud does not train")

    def close(self) -> None:
        pass

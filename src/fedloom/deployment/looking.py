"""Looking at models at the cloud: those it has, or can make of what was reported; nothing is trained here."""

import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from fedloom.deployment.book import of_cloud, settled
from fedloom.simulator.auditing import Sketched
from fedloom.simulator.book import Model
from fedloom.simulator.result import Checkpoint

if TYPE_CHECKING:
    from fedloom.deployment.conductor import Conductor


class Looking:
    """Stands in for fedloom.simulator.computing.Computing. Rows are kept in the store by name, and not in checkpoints."""

    def __init__(self, conductor: "Conductor") -> None:
        self._conductor = conductor
        self.on_wave: Callable[[], None] | None = None
        self.on_look: Callable[[], None] | None = None
        self.up_to_date = True
        self.wall_s = self.call_s = 0.0  # nothing is trained here
        self.batches: list[int] = []
        self.resume: Checkpoint | None = None
        self._dead: set[str] = set()  # rows that nobody needed the last time

    def compute(self, models: list[Model]) -> None:
        """Rows of what can be known here; they are on disk then."""
        before = time.perf_counter()
        self.restore()  # what is looked at now, the life before had not
        conductor = self._conductor
        others = [model for model in models if not isinstance(model.rule, Sketched)]
        conductor.witnesses.ask([model for model in models if isinstance(model.rule, Sketched)])
        with conductor.lock:
            for model in others:
                if self._name(model):
                    conductor.clock.insist(partial(conductor.names.row, model))
            conductor.ordering.waves.looked()
            self._sweep()
        self.wall_s += time.perf_counter() - before

    def wait(self, models: list[Model]) -> None:
        """As `compute`: what can be known here is."""
        self.compute(models)

    def flush(self) -> None:
        """Nothing waits."""

    def mark(self, models: list[Model]) -> None:
        """The life before had looked at these, and kept them."""
        conductor = self._conductor
        with conductor.lock:
            for model in models:
                if isinstance(model.rule, Sketched) or self._name(model):
                    settled(model)
            conductor.ordering.waves.looked()

    def restore(self) -> None:
        """Go on from a checkpoint: models that the life before had looked at have their rows again."""
        if self.resume is not None:
            self.resume = None
            with self._conductor.lock:
                self._conductor.names.load()

    def state(self) -> dict[str, Any]:
        """For a checkpoint, which must not be ahead of the journal."""
        self._conductor.journal.flush()
        return {"models": np.zeros((0, self._conductor.n_params), dtype=np.float32), "waves": 0, "sums": {}}

    def _name(self, model: Model) -> bool:
        """Names a model if the cloud makes it; whether that is so."""
        names = self._conductor.names
        if names.is_kept(model) or not of_cloud(model, names.known) or self._is_elsewhere(model):
            return False
        names.of(model)
        return True

    def _is_elsewhere(self, model: Model) -> bool:
        """A station makes it, and was not asked for it: a hostile one keeps what it may send again."""
        names = self._conductor.names
        return names.missing(model) == [names.known(model)]

    def _sweep(self) -> None:
        """Drop what nobody has needed since the last time: the checkpoint of then does not need it either."""
        conductor = self._conductor
        if not conductor.clock.live:
            return
        dead = {name for name in conductor.store.names if not conductor.names.alive(name)}
        conductor.store.drop(dead & self._dead)
        conductor.names.forget_dead()
        self._dead = dead

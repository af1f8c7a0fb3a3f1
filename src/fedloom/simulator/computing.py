"""Computing the models that are looked at, batch by batch, from the beginning or from a checkpoint."""

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedloom.simulator.book import CALL_S, Model, Settlement, settle_all
from fedloom.simulator.result import Checkpoint
from fedloom.simulator.walking import settled_below
from fedloom.training.chain import takes_chains
from fedloom.training.engine import Engine


class Computing:
    """engine: None in a dry run. on_wave: called after every call of the engine; a checkpoint may be taken there. on_look: called
    when one of several looks that are computed together is over, but for the last. call_s: wall seconds after which such a call
    begins no further wave of training. wall_s: seconds spent; batches: jobs of every wave."""

    def __init__(self, engine: Engine | None, live_models: Callable[[], list[Model]]) -> None:
        self.engine, self._live_models = engine, live_models
        self.on_wave: Callable[[], None] | None = None
        self.on_look: Callable[[], None] | None = None
        self.wall_s, self.call_s = 0.0, CALL_S
        self.batches: list[int] = []
        self.resume: Checkpoint | None = None  # until its models are back
        self._under_way: Settlement | None = None
        self._waiting: Settlement | None = None  # what is looked at later
        self._look_s = np.inf  # wall seconds that a look took the last time

    @property
    def up_to_date(self) -> bool:
        """Nothing waits."""
        return self._waiting is None

    def wait(self, models: list[Model]) -> None:
        """Nobody looks at these models now: they are computed with the next ones, unless that would take longer than a call of
        the engine may, or too much memory."""
        if self._waiting is None or not self._waiting.add(models):
            self.flush()
            self._waiting = Settlement(models)
        most, n_looks = self.call_s, len(self._waiting.looks)
        assert self.engine is not None  # a dry run marks models at once
        if not takes_chains(self.engine) or self._waiting.n_models > self.engine.chain_limits().models // 4:
            most = 0.0
        if (n_looks + 1) * self._look_s > most:
            self._finish(self.on_wave if n_looks == 1 else None)

    def flush(self) -> None:
        """Compute what waits."""
        if self._waiting is not None:
            self._finish(None)

    def compute(self, models: list[Model]) -> None:
        """Train what these models depend on."""
        if self._waiting is None or not self._waiting.add(models):
            self.flush()
            self._waiting = Settlement(models)
        self._finish(self.on_wave if len(self._waiting.looks) == 1 else None)

    def _finish(self, called: Callable[[], None] | None) -> None:
        """called: after every call of the engine."""
        before = time.perf_counter()
        outside_s = 0.0

        def on_wave() -> None:
            nonlocal outside_s
            if called is not None:
                left = time.perf_counter()
                called()
                outside_s += time.perf_counter() - left

        assert self._waiting is not None
        self._under_way, self._waiting = self._waiting, None
        if self.resume is not None:  # the checkpoint was taken in the middle of this
            self._under_way.skip(self.resume.waves, self.resume.sums)
            self.restore()
        self._under_way.finish(self.engine, self.batches, on_wave, self.call_s, self.on_look)
        took_s = time.perf_counter() - before - outside_s
        self._look_s = took_s / len(self._under_way.looks)
        self._under_way = None
        self.wall_s += took_s

    def mark(self, models: list[Model]) -> None:
        """The run that is gone on with had computed these."""
        settle_all(models, None)

    def restore(self) -> None:
        """Give the models of the clock that was run again the rows that were saved."""
        saved, live = self.resume, self.in_use()
        assert saved is not None
        if len(saved.models) + len(saved.own) != len(live):
            raise ValueError(
                f"the checkpoint holds {len(saved.models) + len(saved.own)} models and states, this run needs {len(live)}: it "
                f"belongs to another run or version; delete it to start again"
            )
        kept = set(saved.own_at)
        rows, own = iter(saved.models), (row[:width] for row, width in zip(saved.own, saved.own_width))
        for i, model in enumerate(live):
            model.row = next(own if i in kept else rows)
        self.resume = None

    def in_use(self) -> list[Model]:
        """The computed models that the rest of the run, or the training under way, may refer to, in a fixed order."""
        looks = [] if self._under_way is None else self._under_way.looks
        under_way = [model for look in looks for model in look]
        return settled_below([*self._live_models(), *under_way])

    def state(self) -> dict[str, Any]:
        """For a checkpoint: rows of the models in use, and how far the training under way is."""
        under_way = self._under_way
        rows = [m.row for m in self.in_use() if m.row is not None]
        width = len(rows[0])  # the cloud's model comes first
        own = [i for i, row in enumerate(rows) if len(row) != width]
        return {
            "models": np.stack([row for row in rows if len(row) == width]),
            "own": _padded([rows[i] for i in own]),
            "own_at": own,
            "own_width": [len(rows[i]) for i in own],
            "waves": 0 if under_way is None else under_way.waves,
            "sums": {} if under_way is None else under_way.waiting,
        }


def _padded(rows: list[NDArray[np.float32]]) -> NDArray[np.float32]:
    """(m, S): rows of any length, with zeros behind the shorter ones."""
    out = np.zeros((len(rows), max(map(len, rows), default=0)), dtype=np.float32)
    for row, values in zip(out, rows):
        row[: len(values)] = values
    return out

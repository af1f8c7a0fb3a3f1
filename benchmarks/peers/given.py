"""What every loop is given, and how it says how long it took. Needs nothing but numpy: it is loaded in all environments.

A folder holds `samples.npz` (x (K, n, ...) float32, y (K, n) int64), `start.npz` (the first model by the names of torch),
`model.pt` (the same as a torch module) and `settings.json`. A loop calls `Watch.lap` after every round; what it prints are lines
of JSON: seconds from the start of its process to the end of the first round, then seconds of all others and versions.
"""

import json
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

BEGAN = "PEERS_BEGAN"  # the instant at which the process was started, by the clock that all processes share


@dataclass(frozen=True)
class Given:
    """One case. n_rounds are run; the model after round `checked_round` is what is compared."""

    folder: Path
    model: str
    shape: tuple[int, ...]
    n_outputs: int
    n_clients: int
    n_steps: int
    batch_size: int
    lr: float
    seed: int
    n_rounds: int
    checked_round: int
    result: str

    @classmethod
    def read(cls, folder: str) -> "Given":
        settings = json.loads((Path(folder) / "settings.json").read_text())
        return cls(folder=Path(folder), **(settings | {"shape": tuple(settings["shape"])}))

    def samples(self) -> tuple[np.ndarray, np.ndarray]:
        """x (K, n, ...) float32 and y (K, n) int64."""
        with np.load(self.folder / "samples.npz") as found:
            return found["x"], found["y"]

    def start(self) -> dict[str, np.ndarray]:
        """Values of the first model, by the names of torch."""
        with np.load(self.folder / "start.npz") as found:
            return dict(found)

    def module(self) -> Any:
        """The first model as a torch module."""
        import torch

        return torch.load(self.folder / "model.pt", weights_only=False)


class Watch:
    """Counts rounds and their seconds; writing down the model is not part of them."""

    def __init__(self, given: Given, packages: tuple[str, ...]) -> None:
        self.given, self.packages = given, packages
        self.n_rounds, self.seconds, self.since = 0, 0.0, 0.0

    def lap(self, values: Callable[[], Mapping[str, Any]]) -> None:
        """A round is over; `values` gives the model by the names of torch."""
        now = time.monotonic()
        if self.n_rounds == 0:
            _say({"at": "first round", "seconds": now - float(os.environ[BEGAN])})
        else:
            self.seconds += now - self.since
        self.n_rounds += 1
        if self.n_rounds == self.given.checked_round:
            np.savez(self.given.folder / self.given.result, **{k: np.asarray(v) for k, v in values().items()})
        if self.n_rounds == self.given.n_rounds:
            versions = {name: metadata.version(name) for name in self.packages}
            _say({"at": "end", "rounds": self.n_rounds - 1, "seconds": self.seconds, "versions": versions})
        self.since = time.monotonic()


def _say(line: dict[str, Any]) -> None:
    print("\n" + json.dumps(line), flush=True)

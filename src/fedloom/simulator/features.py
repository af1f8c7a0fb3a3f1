"""What clients reveal so that a server can group them, and what it takes to collect it.

    update       the model's change by the local work of an edge round, from the cloud's model     (P values, or of some layers)
    gradient     of the client's mean loss at the cloud's model, over all its data                 (P values, or of some layers)
    prediction   mean output of the cloud's model on the client's data                             (one value an output)
    labels       samples of each class                                                             (one value a class)

A client fetches the cloud's model if it needs it, computes, and sends the values, of the size that values of a model have,
all the way to the cloud.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from torch import nn

from fedloom.simulator.book import Model, settle_all
from fedloom.training import rows
from fedloom.training.engine import Engine

Floats = NDArray[np.floating]
Ints = NDArray[np.int64]
Layers = tuple[str, ...] | int | None

INFERENCE = 1 / 3  # of the work of a training step: forward without backward


@dataclass(frozen=True, kw_only=True, eq=False)
class Features:
    """How features of K clients are computed: with the model's layout, their data, and the engine (None in a dry run)."""

    model: nn.Module
    engine: Engine | None
    parts: Sequence[Ints]
    label_counts: Ints
    n_outputs: int
    batch_size: int

    def size(self, kind: str, layers: Layers) -> float:
        """What a client sends, in models."""
        if kind in ("update", "gradient"):
            n = rows.n_values(self.model) if layers is None else len(self._columns(layers))
        else:
            n = self.n_outputs if kind == "prediction" else int(self.label_counts.shape[1])
        return n / rows.n_values(self.model)

    def work(self, kind: str, local_steps: Ints, pass_steps: Ints) -> Floats:
        """Steps' worth of computing (K,); local_steps (K,) of an edge round, pass_steps (K,) of a pass over the data."""
        if kind == "update":
            return local_steps.astype(np.float64)
        share = {"gradient": 1.0, "prediction": INFERENCE, "labels": 0.0}[kind]
        return share * pass_steps

    def values(self, kind: str, layers: Layers, start: Model, results: Mapping[int, Model]) -> Floats:
        """(K, d). start: the settled model at the cloud; results: the models after local work, by client, for "update".

        Without an engine there are no values: all zero, a single column.
        """
        n_clients = len(self.parts)
        if kind == "labels":
            return self.label_counts.astype(np.float64)
        if self.engine is None:
            return np.zeros((n_clients, 1))
        assert start.row is not None
        if kind == "prediction":
            return self._predictions(self.engine.outputs(start.row[None], "train")[0])
        columns = self._columns(layers)
        if kind == "gradient":
            return self.engine.gradient(start.row[None], [(0, k) for k in range(n_clients)])[:, columns]
        settle_all(results.values(), self.engine)
        found = np.zeros((n_clients, len(columns)), dtype=np.float32)
        for k, result in results.items():
            assert result.row is not None
            found[k] = result.row[columns] - start.row[columns]
        return found

    def _columns(self, layers: Layers) -> Ints:
        """Positions of the chosen layers' values in a row; all that are trained if none are chosen. No buffers."""
        if layers is None:
            return np.flatnonzero(rows.trainable_mask(self.model))
        names = rows.smallest_convolutions(self.model, layers) if isinstance(layers, int) else layers
        return rows.columns(self.model, names)

    def _predictions(self, outputs: Floats) -> Floats:
        """Mean output of each client over its whole batches, divided by all its samples as published (LTC, section 3.8)."""
        whole = [part[: len(part) // self.batch_size * self.batch_size] for part in self.parts]
        return np.stack([outputs[w].sum(axis=0) / len(part) for w, part in zip(whole, self.parts)])

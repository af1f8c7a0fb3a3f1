"""What clients reveal so that a server can group them, and what it takes to collect it.

    update       the model's change by the local work of an edge round, from the cloud's model     (P values, or of some layers)
    gradient     of the client's mean loss at the cloud's model, over all its data                 (P values, or of some layers)
    prediction   mean output of the cloud's model on the client's data                             (one value an output)
    labels       samples of each class                                                             (one value a class)
    signature    the first directions, so many, of the client's inputs (singular vectors)          (d values a direction)
    class-signature   the same of the inputs of each of its classes, side by side                  (d values a direction)

A client fetches the cloud's model if it needs it, computes, and sends the values, of the size that values of a model have,
all the way to the cloud.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fedloom.grouping import signatures
from fedloom.simulator.book import Model, settle_all
from fedloom.training import rows
from fedloom.training.engine import Engine

if TYPE_CHECKING:
    from fedloom.training.rows import AnyModel

Floats = NDArray[np.floating]
Ints = NDArray[np.int64]
Layers = tuple[str, ...] | int | None

MOST_BYTES = 8e9  # of features that are held at a time
NO_MODEL = ("labels", "signature", "class-signature")  # what clients know without a model
INFERENCE = 1 / 3  # of the work of a training step: forward without backward


@dataclass(frozen=True, kw_only=True, eq=False)
class Features:
    """How features of K clients are computed: with the model's layout, their data, and the engine (None in a dry run).

    inputs: the training inputs (n, ...) as they are, not standardised; labels (n,), or None if there are no classes.
    """

    model: "AnyModel"
    engine: Engine | None
    parts: Sequence[Ints]
    label_counts: Ints
    n_outputs: int
    batch_size: int
    inputs: Callable[[], NDArray[np.float32]]
    labels: Ints | None

    def size(self, kind: str, layers: Layers) -> float:
        """What a client sends, in models; refused if all of it would not fit into a common machine's memory."""
        if kind in ("update", "gradient"):
            n = rows.n_values(self.model) if layers is None else len(self.columns(layers))
        elif kind in ("signature", "class-signature"):
            most = int((self.label_counts > 0).sum(axis=1).max()) if kind == "class-signature" else 1
            n = int(np.prod(self.inputs().shape[1:])) * _rank(layers) * most
        else:
            n = self.n_outputs if kind == "prediction" else int(self.label_counts.shape[1])
        self._check_bytes(kind, (8 if kind in NO_MODEL else 4) * n * len(self.parts))
        return n / rows.n_values(self.model)

    def work(self, kind: str, local_steps: Ints, pass_steps: Ints) -> Floats:
        """Steps' worth of computing (K,); local_steps (K,) of an edge round, pass_steps (K,) of a pass over the data."""
        if kind == "update":
            return local_steps.astype(np.float64)
        share = {"gradient": 1.0, "prediction": INFERENCE}.get(kind, 0.0)
        return share * pass_steps

    def values(self, kind: str, layers: Layers, start: Model, results: Mapping[int, Model]) -> Floats:
        """(K, d), for signatures (K, d, columns) with zeros where a client has fewer. start: the settled model at the cloud;
        results: the models after local work, by client, for "update".

        Without an engine there are no values of models: all zero, a single column.
        """
        n_clients = len(self.parts)
        if kind == "labels":
            return self.label_counts.astype(np.float64)
        if kind in NO_MODEL:
            return self._signatures(_rank(layers), kind == "class-signature")
        if self.engine is None:
            return np.zeros((n_clients, 1))
        assert start.row is not None
        if kind == "prediction":
            return self._predictions(self.engine.outputs(start.row[None], "train")[0])
        columns = self.columns(layers)
        if kind == "gradient":
            return self.engine.gradient(start.row[None], [(0, k) for k in range(n_clients)])[:, columns]
        settle_all(results.values(), self.engine)
        found = np.zeros((n_clients, len(columns)), dtype=np.float32)
        for k, result in results.items():
            assert result.row is not None
            found[k] = result.row[columns] - start.row[columns]
        return found

    def known(self, results: Mapping[int, Model]) -> None:
        """The run that is gone on with had computed these."""
        settle_all(results.values(), None)

    def _check_bytes(self, kind: str, n_bytes: int) -> None:
        if n_bytes > MOST_BYTES:
            raise ValueError(
                f"the {kind}s of {len(self.parts):,} clients would take {n_bytes / 1e9:.0f} GB, and at most "
                f"{MOST_BYTES / 1e9:.0f} GB are collected; use fewer clients, a smaller model, fewer of its layers, or a method "
                "that groups by cells, such as hierfedavg or hhfl"
            )

    def _signatures(self, rank: int, per_class: bool) -> Floats:
        x = self.inputs()
        if per_class and self.labels is None:
            raise ValueError("signatures of classes need data with classes; use the signature of all a client's data")
        labels = [self.labels[part] for part in self.parts] if per_class and self.labels is not None else None
        found = signatures([x[part] for part in self.parts], rank, labels)
        columns = max(u.shape[1] for u in found)
        return np.stack([np.pad(u, ((0, 0), (0, columns - u.shape[1]))) for u in found])

    def columns(self, layers: Layers) -> Ints:
        """Positions of the chosen layers' values in a row; all that are trained if none are chosen. No buffers."""
        if layers is None:
            return np.flatnonzero(rows.trainable_mask(self.model))
        names = rows.smallest_convolutions(self.model, layers) if isinstance(layers, int) else layers
        return rows.columns(self.model, names)

    def _predictions(self, outputs: Floats) -> Floats:
        """Mean output of each client over its whole batches, divided by all its samples as published (LTC, section 5.4.4)."""
        whole = [part[: len(part) // self.batch_size * self.batch_size] for part in self.parts]
        return np.stack([outputs[w].sum(axis=0) / len(part) for w, part in zip(whole, self.parts)])


def _rank(layers: Layers) -> int:
    if not isinstance(layers, int):
        raise ValueError(f"a signature has a number of directions, got {layers!r}")
    return layers

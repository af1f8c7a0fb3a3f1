"""A row of numbers as Flower's arrays, and back: by the names, shapes and types of a model's tensors."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from flwr.app import Array, ArrayRecord
from numpy.typing import NDArray

from fedloom.simulator.features import Layers
from fedloom.training import rows

Row = NDArray[np.float32]


class BadArrays(ValueError):
    """What came is no model of this federation."""


@dataclass(frozen=True)
class Tensor:
    """One tensor of a model; dtype as numpy calls it."""

    name: str
    shape: tuple[int, ...]
    dtype: str = "float32"

    @property
    def n_values(self) -> int:
        return int(np.prod(self.shape, dtype=object))


@dataclass(frozen=True)
class Layout:
    """The tensors of a row in their order."""

    tensors: tuple[Tensor, ...]

    @property
    def n_values(self) -> int:
        return sum(tensor.n_values for tensor in self.tensors)

    def columns(self, names: tuple[str, ...]) -> NDArray[np.int64]:
        """Positions in a row of the tensors with these names."""
        ends = np.cumsum([tensor.n_values for tensor in self.tensors])
        found = {t.name: np.arange(end - t.n_values, end) for t, end in zip(self.tensors, ends.tolist())}
        missing = sorted(set(names) - set(found))
        if missing:
            raise ValueError(f"the model has no tensors {', '.join(missing)}; it has {', '.join(found)}")
        return np.concatenate([found[name] for name in names])

    def arrays(self, row: Row) -> ArrayRecord:
        """The row as tensors; whole numbers are rounded."""
        found, start = {}, 0
        for tensor in self.tensors:
            values = row[start : start + tensor.n_values].reshape(tensor.shape)
            whole = np.issubdtype(np.dtype(tensor.dtype), np.integer)
            found[tensor.name] = Array(np.asarray(np.rint(values) if whole else values, dtype=tensor.dtype))
            start += tensor.n_values
        return ArrayRecord(found)

    def row(self, arrays: Mapping[str, Array]) -> Row:
        """The tensors as a row (P,); BadArrays if they are not those of the model, or not finite."""
        wanted = {tensor.name for tensor in self.tensors}
        if set(arrays) != wanted:
            raise BadArrays(
                f"the arrays must be {', '.join(sorted(wanted))}, got {', '.join(sorted(arrays)) or 'none'}"
            )
        parts = []
        for tensor in self.tensors:
            values = arrays[tensor.name].numpy()
            if values.shape != tensor.shape or not np.issubdtype(values.dtype, np.number):
                raise BadArrays(
                    f"{tensor.name} must be numbers of shape {tensor.shape}, got {values.dtype} of {values.shape}"
                )
            with np.errstate(over="ignore"):  # what is too large is not finite then
                parts.append(values.astype(np.float32).reshape(-1))
        row = np.concatenate(parts)
        if not np.isfinite(row).all():
            raise BadArrays("the arrays hold numbers that are not finite")
        return row


def layout_of_model(model: "rows.AnyModel") -> Layout:
    """Of a network of a scenario, or a torch module."""
    return Layout(tuple(Tensor(part.name, part.shape) for part in rows.layout(model)))


def layout_of_arrays(arrays: Mapping[str, Array]) -> Layout:
    """Of a model of the user's own, given by its first values."""
    if not arrays:
        raise ValueError(
            "initial_arrays holds no arrays; give those of the model, such as ArrayRecord(net.state_dict())"
        )
    found = []
    for name, array in arrays.items():
        if not np.issubdtype(np.dtype(array.dtype), np.number) or np.issubdtype(
            np.dtype(array.dtype), np.complexfloating
        ):
            raise ValueError(f"{name} of initial_arrays must hold real numbers, got {array.dtype}")
        found.append(Tensor(name, tuple(array.shape), str(array.dtype)))
    return Layout(tuple(found))


def layers_of(asked: object) -> Layers:
    """As they stand in an order."""
    return tuple(asked) if isinstance(asked, list) else asked if isinstance(asked, int) else None

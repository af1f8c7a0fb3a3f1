"""Client rules with state: what clients keep from one job to the next, what travels beside the model, and what they do with it.

A rule declares its states. A client's own are kept by the client, all in one row of `kept` values, and never sent. Shared ones
are further values of the model's row, `width` in all: they go down and up with the model, are coded, counted and merged as it
is, at every level of a hierarchy, and are not trained:

    [ model, P values | shared states ]      [ own states of a client ]

A job begins with such a row and its client's own states, and gives both anew: a pure function, as training is
(fedloom.training.engine), so that results do not depend on who trains it. Rules work on flat vectors of torch; this file does not
need it.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from fedloom import _check

if TYPE_CHECKING:
    from torch import Tensor

    Change = Callable[[Tensor, Tensor], Tensor]

Row = NDArray[np.float32]
BEGINS = ("zeros", "model")


@dataclass(frozen=True)
class State:
    """Something that a client rule remembers."""

    name: str
    """By which the rule finds it in its job."""
    _: KW_ONLY
    size: int | None = None
    """Of so many values; by default as many as the model."""
    begins: str = "zeros"
    """At zero, or as the "model": of a client, the one that it is sent first; shared, the federation's first."""
    shared: bool = False
    """It travels beside the model, and is merged as the model is. Else it is a client's own, and stays there."""
    by_share: bool = False
    """Shared: it moves towards what clients sent by their share of all samples of the aggregator, as those who were not asked
    have changed nothing."""
    measured: bool = False
    """A client's own: it is a model, and its accuracy is measured."""

    def __post_init__(self) -> None:
        if not self.name.isidentifier():
            raise ValueError(
                f"the name of a state must be a word of letters, digits and underscores, got {self.name!r}"
            )
        _check.one_of(f"begins of state {self.name}", self.begins, BEGINS)
        if self.size is not None:
            _check.whole(f"size of state {self.name}", self.size)
            if self.begins == "model" or self.measured:
                raise ValueError(f"state {self.name} is to be a model, and has a size of its own; leave size out")
        if self.by_share and not self.shared:
            raise ValueError(f"state {self.name} is a client's own, and by_share is for shared ones")
        if self.measured and self.shared:
            raise ValueError(f"state {self.name} is shared, and measured is for what clients keep")


class Job(Protocol):
    """What a rule is told of a job. Vectors of P values: start, with which it began; model, as trained so far; trained, 1 where
    the model is trained and 0 where it has buffers. state: its states by name, as they were before the job. n_steps, lr_sum:
    local steps, and the sum of their learning rates."""

    @property
    def start(self) -> "Tensor": ...
    @property
    def model(self) -> "Tensor": ...
    @property
    def trained(self) -> "Tensor": ...
    @property
    def state(self) -> "Mapping[str, Tensor]": ...
    @property
    def n_steps(self) -> int: ...
    @property
    def lr_sum(self) -> float: ...
    def train(self, start: "Tensor", gradient: "Change | None" = None) -> "Tensor":
        """Another model (P,), trained from `start` on the same mini-batches at the same learning rates. gradient: what is made of
        each gradient (P,) at a model (P,)."""
        ...


@runtime_checkable
class ClientRule(Protocol):
    """states: what it declares. trainings: models that a client trains in a job, by which its work and time are counted."""

    @property
    def states(self) -> tuple[State, ...]: ...
    @property
    def trainings(self) -> int: ...
    def gradient(self, gradient: "Tensor", job: Job) -> "Tensor":
        """What is made of every gradient (P,), at `job.model`."""
        ...

    def after(self, job: Job) -> "Mapping[str, Tensor]":
        """The states that have changed, by name, when `job.model` is trained."""
        ...


@dataclass(frozen=True)
class Layout:
    """Where the states of a rule are, for models of n_values values."""

    n_values: int
    states: tuple[State, ...]

    def __post_init__(self) -> None:
        names = [state.name for state in self.states]
        if len(set(names)) < len(names):
            raise ValueError(f"states of a client rule need names of their own, got {', '.join(names)}")

    @cached_property
    def width(self) -> int:
        """Values of a model with its shared states."""
        return self.n_values + sum(self.size(state) for state in self.states if state.shared)

    @cached_property
    def kept(self) -> int:
        """Values of a client's own states."""
        return sum(self.size(state) for state in self.states if not state.shared)

    def size(self, state: State) -> int:
        return self.n_values if state.size is None else state.size

    def places(self, shared: bool) -> Iterator[tuple[State, slice]]:
        """The shared states, or a client's own, and where they are: in a model's row, or in the client's."""
        at = self.n_values if shared else 0
        for state in self.states:
            if state.shared == shared:
                yield state, slice(at, at + self.size(state))
                at += self.size(state)

    def widened(self, row: Row) -> Row:
        """The federation's first model (P,) with shared states as they begin."""
        return np.concatenate([row, *(self._first(state, row) for state, _ in self.places(shared=True))])

    def first_own(self, row: Row) -> Row:
        """A client's own states as they begin, from the model (width,) that it was sent."""
        nothing = np.zeros(0, dtype=np.float32)
        return np.concatenate([nothing, *(self._first(s, row[: self.n_values]) for s, _ in self.places(shared=False))])

    def by_share(self, share: float) -> "Slowed | None":
        """The recipe of an aggregator's new row, of its old and its merged one, if clients with this share of its samples were
        merged; None if that is the merged one."""
        moved = tuple((place.start, place.stop) for state, place in self.places(shared=True) if state.by_share)
        return Slowed(share, moved) if moved and share < 1 else None

    def mask(self, trained: NDArray[np.bool_], of_shared: bool) -> NDArray[np.bool_]:
        """(width,) of trained (P,), with one answer for all shared values."""
        return np.concatenate([trained, np.full(self.width - self.n_values, of_shared)])

    def _first(self, state: State, row: Row) -> Row:
        return row if state.begins == "model" else np.zeros(self.size(state), dtype=np.float32)


@dataclass(frozen=True)
class Slowed:
    """The rule of a row that has moved from an old to a merged one, but by a share only in some places, each from .. to."""

    share: float
    places: tuple[tuple[int, int], ...]

    def __call__(self, rows: list[Row]) -> NDArray[np.floating]:
        old, merged = rows[0].astype(np.float64), rows[1].astype(np.float64)
        for a, b in self.places:
            merged[a:b] = old[a:b] + self.share * (merged[a:b] - old[a:b])
        return merged


def layout_of(rule: ClientRule | None, n_values: int) -> Layout | None:
    """Where the states of a rule are; None without one."""
    return None if rule is None else Layout(n_values, tuple(rule.states))

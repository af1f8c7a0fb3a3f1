"""What an engine does: train many clients from given rows, average on the way, evaluate rows.

A job is a pure function of (start row, client, number of steps, rule, seed, step counter). Jobs are handed over in
batches; an engine may run them in any order and on any number of workers, and must return the same bits.
"""

import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from fedloom import _check

if TYPE_CHECKING:
    from fedloom.training.rows import AnyModel

Rows = NDArray[np.float32]
Ints = NDArray[np.int64]

LOSSES = ("cross-entropy", "tokens", "multi-label", "mse")
Loss = str | Callable[..., Any]


@dataclass(frozen=True, kw_only=True, eq=False)
class Task:
    """Data, model and loss of a federation of K clients. model: the record of a named network, or any torch module.

    x_train (n, ...) float32 inputs, int32 tokens, or records of several inputs by name; y_train (n,) int64 labels, (n, L) of
    tokens, or (n, m) float32 targets; parts: for each client the positions of its samples in x_train. loss: one of LOSSES, or a
    function (fedloom.training.losses). A client's batches have `batch_size` samples; an incomplete last batch of a pass
    is kept unless `drop_last`.
    """

    model: "AnyModel"
    x_train: NDArray[Any]
    y_train: NDArray[np.int64] | NDArray[np.float32]
    x_test: NDArray[Any]
    y_test: NDArray[np.int64] | NDArray[np.float32]
    parts: tuple[Ints, ...]
    loss: Loss = "cross-entropy"
    batch_size: int = 20
    drop_last: bool = False

    def __post_init__(self) -> None:
        if not callable(self.loss):
            _check.one_of("loss", self.loss, LOSSES)
        _check.whole("batch_size", self.batch_size)
        for split in ("train", "test"):
            x, y = getattr(self, f"x_{split}"), getattr(self, f"y_{split}")
            if len(x) != len(y) or not len(x):
                raise ValueError(f"{split} inputs and targets must be equally many and not none: {len(x)}, {len(y)}")
            for part in [x] if x.dtype.names is None else [x[name] for name in x.dtype.names]:
                if not np.isfinite(part).all():
                    raise ValueError(
                        f"{split} inputs must be finite; sample {int(np.argwhere(~np.isfinite(part))[0][0])} is not"
                    )
            if self.loss in ("mse", "multi-label") and (y.ndim != 2 or not np.isfinite(y).all()):
                raise ValueError(f"{split} targets must be finite and of shape (samples, outputs), got {y.shape}")
        for k, part in enumerate(self.parts):
            if len(part) and not (part.min() >= 0 and part.max() < len(self.x_train)):
                raise ValueError(f"client {k} has samples outside 0..{len(self.x_train) - 1}")
        empty = [k for k, part in enumerate(self.parts) if len(part) == 0]
        if empty:
            raise ValueError(f"clients {empty} have no samples; use fewer clients or another partition")

    @property
    def n_clients(self) -> int:
        return len(self.parts)

    @property
    def n_samples(self) -> Ints:
        """Samples of each client, (K,)."""
        return np.array([len(part) for part in self.parts], dtype=np.int64)


@dataclass(frozen=True, kw_only=True, eq=False)
class Jobs:
    """J training jobs, one array each.

    start: row of the start models; first_step: the client's step counter, which picks its mini-batches; lr_step: the
    model's step count, which picks the learning rate. (client, first_step) names a job: no two jobs of one batch share it.
    """

    start: Ints
    client: Ints
    n_steps: Ints
    first_step: Ints
    lr_step: Ints

    def __len__(self) -> int:
        return len(self.client)

    def check(self, n_starts: int, n_clients: int) -> None:
        """Refuse jobs that do not fit: a wrong number here would train something else."""
        for name, limit in (("start", n_starts), ("client", n_clients), ("n_steps", None), ("first_step", None)):
            values = getattr(self, name)
            if len(values) != len(self):
                raise ValueError(f"{name} must have one entry for each of {len(self)} jobs, got {len(values)}")
            bad = values[(values < 0) | (values >= (np.iinfo(np.int64).max if limit is None else limit))]
            if len(bad):
                wanted = "at least 0" if limit is None else f"in 0..{limit - 1}"
                raise ValueError(f"{name} of a job must be {wanted}, got {int(bad[0])}")

    def pick(self, which: Ints) -> "Jobs":
        """Some of them."""
        return Jobs(
            start=self.start[which],
            client=self.client[which],
            n_steps=self.n_steps[which],
            first_step=self.first_step[which],
            lr_step=self.lr_step[which],
        )

    def canonical_order(self) -> Ints:
        """The order in which results are added up, whatever order the jobs came in: by client, then counter."""
        return np.lexsort((self.first_step, self.client))


@dataclass(frozen=True, kw_only=True, eq=False)
class Mix:
    """Sparse weights of M averages over J jobs: average `target[e]` gets `weight[e]` times the result of `job[e]`."""

    n_targets: int
    target: Ints
    job: Ints
    weight: NDArray[np.float64]

    def check(self, n_jobs: int) -> None:
        """Refuse weights of jobs or averages that do not exist."""
        for name, values, limit in (("job", self.job, n_jobs), ("target", self.target, self.n_targets)):
            bad = values[(values < 0) | (values >= limit)]
            if len(bad):
                raise ValueError(f"{name} of a weight must be in 0..{limit - 1}, got {int(bad[0])}")


@dataclass(frozen=True, kw_only=True, eq=False)
class Scores:
    """Evaluation of M rows on n samples: mean loss (M,), and for classification what was right, (M, n): bool, or where a
    sample has several tokens or labels their share.

    For regression `correct` is empty, and `rmse` and `mae` (M,) are over all outputs in target units.
    """

    loss: NDArray[np.float64]
    correct: NDArray[np.bool_] | NDArray[np.float64]
    rmse: NDArray[np.float64]
    mae: NDArray[np.float64]

    @property
    def accuracy(self) -> NDArray[np.float64]:
        """(M,) share of samples that were right."""
        return np.asarray(self.correct.mean(axis=1))


@dataclass(frozen=True, kw_only=True, eq=False)
class WithState:
    """What jobs of a client rule with state gave (fedloom.training.state): weighted sums (M, width) of rows with their shared
    states, and the own states (J, kept) of the jobs' clients."""

    sums: NDArray[np.float64]
    own: Rows


@runtime_checkable
class KeepsState(Protocol):
    """An engine of a client rule with state. Rows that it evaluates may have shared states behind the model."""

    def train_with_state(self, starts: Rows, jobs: Jobs, mix: Mix, own: Rows) -> WithState:
        """As `train_average`, of rows (n, width), with the own states (J, kept) with which the jobs begin."""
        ...


class Engine(Protocol):
    """The seam between the simulator and whatever trains."""

    def train_average(self, starts: Rows, jobs: Jobs, mix: Mix) -> NDArray[np.float64]:
        """Weighted sums of trained rows, (M, P), added in canonical order; K rows never exist at once."""
        ...

    def train(self, starts: Rows, jobs: Jobs) -> Rows:
        """All trained rows, (J, P), in the order of the jobs."""
        ...

    def gradient(self, rows: Rows, jobs: Sequence[tuple[int, int]]) -> Rows:
        """Gradients (J, P) of clients' mean losses over all their samples: jobs are (row, client). Evaluation mode:
        BatchNorm uses its running statistics and dropout is off; zero where the row holds buffers."""
        ...

    def evaluate(self, rows: Rows, split: str = "test") -> Scores:
        """Loss and correctness of each of M rows on the whole split."""
        ...

    def outputs(self, rows: Rows, split: str = "test") -> NDArray[np.float32]:
        """Outputs (logits or predictions) of M rows on the whole split, (M, n, outputs)."""
        ...

    def close(self) -> None:
        """Stop the workers; an engine that was closed starts them again when used."""
        ...


class Unsupported(ValueError):
    """An engine cannot train this; the message says what stands in the way."""


class NotFinite(ValueError):
    """Training ran into NaN or infinity; `clients` are those whose model did."""

    def __init__(self, clients: list[int], lr: float) -> None:
        self.clients = clients
        super().__init__(
            f"the models of clients {clients[:10]}{' ...' if len(clients) > 10 else ''} are no longer finite after "
            f"local training (learning rate {lr:g}); lower training.lr or scale the inputs"
        )


def n_cores() -> int:
    """Processors that this process may use."""
    return len(os.sched_getaffinity(0)) if sys.platform.startswith("linux") else os.cpu_count() or 1

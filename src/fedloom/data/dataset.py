"""A dataset in memory: samples, labels, and how raw values become a model's inputs.

Images stay uint8, a quarter of the memory of float32; `Dataset.inputs` makes float32 of what is needed. Axis
0 is the sample and axis 1 the channel (image plane, sensor axis) or, for plain vectors, the feature:

    image (n, C, H, W)      signal (n, C, L)      vector (n, F)      tokens (n, L)

Tokens are whole numbers that name something (characters, words), and stay whole numbers. Several inputs of one sample are the
fields of a record, one array with a structured type: `np.dtype([("image", "f4", (1, 28, 28)), ("words", "i4", (16,))])`; a
model is called with them by name.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedloom import _check
from fedloom.data.partition import largest_remainder
from fedloom.gate import finite

MOST_LABELS = 1_000_000
SMALLEST_SCALE = 1e-30  # an input of float32 divided by it must be one
LARGEST = finite.LARGEST_FLOAT32

Split = Literal["train", "test"]
Array = NDArray[Any]
Error = Callable[[Array, Array], float]


@dataclass(frozen=True, kw_only=True, eq=False)
class Dataset:
    """Training and test samples of one task; checked when built, and not to be changed afterwards.

    name        for messages and records
    x_train     (n, *shape) uint8, or float32 (any other number type is converted to float32); int32 if they are tokens;
                or records of several inputs, whose numbers stay what they are
    y_train     (n,) int64 labels 0..n_classes-1; of sequences (n, L) int64, a label for each token, -1 for none; of samples with
                several labels (n, n_classes) bool, which become float32; for regression (n, m) float32 targets
    x_test      (n', *shape), same type as x_train
    y_test      (n',), (n', L), (n', n_classes) or (n', m)
    n_classes   number of classes; 0 means regression
    n_tokens    inputs are tokens 0..n_tokens-1; 0: they are numbers
    scale       an input is raw value / scale: 255 for bytes, so that pixels lie in [0, 1]
    user        (n,) int64 the person or device each training sample comes from; None: not known
    user_test   (n',) the same for test samples, or None
    label_train (n,) int64 labels 0, 1, ... by which data without classes is shared out; None: it cannot be
    errors      further measures of a model, by name: functions of predictions (n', m) and targets
    published   what tells these samples from all others, set by `load` where every file has its published hash; else empty.
                A copy with other samples (`dataclasses.replace`) has none.

    >>> x, y = np.array([[0.0], [2.0]]), np.array([0, 1])
    >>> tiny = Dataset(name="tiny", x_train=x, y_train=y, x_test=x[:1] + 1, y_test=y[:1], n_classes=2)
    >>> tiny.inputs("test", standardise=True)
    array([[0.]], dtype=float32)
    """

    name: str
    x_train: Array
    y_train: Array
    x_test: Array
    y_test: Array
    n_classes: int
    n_tokens: int = 0
    scale: float = 1.0
    user: NDArray[np.int64] | None = None
    user_test: NDArray[np.int64] | None = None
    label_train: NDArray[np.int64] | None = None
    errors: Mapping[str, Error] = field(default_factory=dict)
    published: str = field(default="", init=False, repr=False)

    def __post_init__(self) -> None:
        _check.whole("n_classes", self.n_classes, least=0)
        if self.n_classes > MOST_LABELS:
            raise ValueError(f"n_classes of {self.name} must be at most {MOST_LABELS:,}, got {self.n_classes:,}")
        if not SMALLEST_SCALE <= self.scale <= 1 / SMALLEST_SCALE:
            raise ValueError(
                f"scale must be above 0, in {SMALLEST_SCALE:g}..{1 / SMALLEST_SCALE:g}, got {self.scale:g}"
            )
        for split in ("train", "test"):
            x = _samples(f"x_{split} of {self.name}", getattr(self, f"x_{split}"), self.scale, self.n_tokens)
            y = _targets(f"y_{split} of {self.name}", getattr(self, f"y_{split}"), self.n_classes, len(x))
            # the one place where fields are set: the caller's types become the documented ones
            object.__setattr__(self, f"x_{split}", x)
            object.__setattr__(self, f"y_{split}", y)
        if self.x_train.shape[1:] != self.x_test.shape[1:] or self.x_train.dtype != self.x_test.dtype:
            raise ValueError(
                f"x_train and x_test of {self.name} must have samples of one shape and type, "
                f"got {self.x_train.shape[1:]} {self.x_train.dtype} "
                f"and {self.x_test.shape[1:]} {self.x_test.dtype}"
            )
        if self.y_train.shape[1:] != self.y_test.shape[1:]:
            raise ValueError(
                f"y_train and y_test of {self.name} must have targets of one length, "
                f"got shapes {self.y_train.shape} and {self.y_test.shape}"
            )
        for name, n in (("user", self.n_train), ("user_test", self.n_test), ("label_train", self.n_train)):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, _users(f"{name} of {self.name}", getattr(self, name), n))
        if self.y_train.dtype != self.y_test.dtype:
            raise ValueError(
                f"y_train and y_test of {self.name} must be of one kind, got {self.y_train.dtype} and {self.y_test.dtype}"
            )
        if self.label_train is not None and self.one_class:
            raise ValueError(
                f"label_train of {self.name} is for data without classes, but n_classes is {self.n_classes}"
            )
        if self.label_train is not None:
            finite.in_range(f"label_train of {self.name}", self.label_train, 0, MOST_LABELS)

    @property
    def n_train(self) -> int:
        return len(self.x_train)

    @property
    def n_test(self) -> int:
        return len(self.x_test)

    @property
    def loss(self) -> str:
        """What models of these targets minimise, by name (fedloom.training.losses)."""
        if not self.n_classes:
            return "mse"
        if self.y_train.ndim == 1:
            return "cross-entropy"
        return "tokens" if self.y_train.dtype == np.int64 else "multi-label"

    @property
    def one_class(self) -> bool:
        """Whether a sample has one class."""
        return self.loss == "cross-entropy"

    @property
    def n_outputs(self) -> int:
        """Values that a model predicts of a sample, or of each token."""
        return self.n_classes or int(self.y_train.shape[1])

    @property
    def labels(self) -> NDArray[np.int64] | None:
        """(n,) by what training samples can be shared out: classes, or `label_train` where a sample has not just one."""
        return self.y_train if self.one_class else self.label_train

    @property
    def n_labels(self) -> int:
        """Number of classes or, without any, one more than the largest of `label_train`; 0 if there is neither."""
        if self.one_class:
            return self.n_classes
        return 0 if self.label_train is None else int(self.label_train.max()) + 1

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one sample, channel first."""
        return tuple(self.x_train.shape[1:])

    @cached_property
    def mean(self) -> NDArray[np.float64]:
        """(C,) mean of the training inputs of each channel, in the unit of `inputs`."""
        return self._moments[0]

    @cached_property
    def std(self) -> NDArray[np.float64]:
        """(C,) standard deviation of the training inputs of each channel; 1 where it would be 0."""
        return self._moments[1]

    @cached_property
    def _moments(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        # Two passes over pieces of about 30 MB: accurate, and never a second copy of the whole set.
        axes = (0, *range(2, self.x_train.ndim))
        piece = max(1, 4_000_000 // max(1, int(np.prod(self.shape))))
        starts = range(0, self.n_train, piece)
        per_channel = self.x_train[:, :1].size
        pieces = (self.x_train[i : i + piece].sum(axis=axes, dtype=np.float64) for i in starts)
        mean = sum(pieces, np.zeros(self.shape[0])) / per_channel
        against = mean.reshape(-1, *[1] * (self.x_train.ndim - 2))
        squares = (np.square(self.x_train[i : i + piece] - against).sum(axis=axes) for i in starts)
        std = np.sqrt(sum(squares, np.zeros(self.shape[0])) / per_channel) / self.scale
        mean = mean / self.scale
        return mean, np.where(std > 1e-9 * np.abs(mean), std, 1.0)  # less is the rounding of the mean

    def inputs(
        self, split: Split = "train", index: NDArray[np.integer] | None = None, *, standardise: bool = False
    ) -> Array:
        """Model inputs (n, *shape) float32 of a split, or of its samples `index`: raw / scale. Tokens, and several inputs by
        name, are what they are.

        standardise   also (input - mean) / std for each channel, with the moments of the whole training
                      split
        The result is always a fresh array.
        """
        _check.one_of("split", split, ("train", "test"))
        raw = self.x_train if split == "train" else self.x_test
        if self.n_tokens or raw.dtype.names is not None:
            if standardise:
                raise ValueError(f"inputs of {self.name} are tokens or records, which cannot be standardised")
            return raw.copy() if index is None else raw[index]
        out: NDArray[np.float32] = (raw if index is None else raw[index]).astype(np.float32)
        out /= np.float32(self.scale)
        if standardise:
            per_channel = (1, -1, *[1] * (out.ndim - 2))
            out -= self.mean.astype(np.float32).reshape(per_channel)
            out /= self.std.astype(np.float32).reshape(per_channel)
        return out

    def known_as(self, published: str) -> "Dataset":
        """Itself, which tells these samples from all others; they cannot be changed in place any more."""
        for samples in (self.x_train, self.x_test):
            samples.setflags(write=False)
        object.__setattr__(self, "published", published)
        return self

    def limited(self, limit: int) -> "Dataset":
        """At most `limit` samples of each split, in the proportions of the whole.

        Users, if there are any, keep their shares by largest remainder, and so do the classes (or labels) of each
        user; what is kept are the first samples in the original order, so a limit always gives the same ones.
        """
        _check.whole("limit", limit)
        train = _first(limit, self.n_train, _levels(self.user, self.labels))
        test = _first(limit, self.n_test, _levels(self.user_test, self.y_test if self.one_class else None))
        return replace(
            self,
            x_train=self.x_train[train],
            y_train=self.y_train[train],
            user=None if self.user is None else self.user[train],
            label_train=None if self.label_train is None else self.label_train[train],
            x_test=self.x_test[test],
            y_test=self.y_test[test],
            user_test=None if self.user_test is None else self.user_test[test],
        )


def _samples(name: str, value: ArrayLike, scale: float, n_tokens: int) -> Array:
    x = np.asarray(value)
    if x.dtype.names is not None:
        return _records(name, x)
    if x.ndim < 2 or len(x) == 0 or 0 in x.shape:
        raise ValueError(f"{name} must have shape (samples, features) or (samples, channels, ...), got {x.shape}")
    if n_tokens:
        tokens = finite.whole_numbers(name, x)
        finite.in_range(name, tokens, 0, n_tokens - 1)
        return tokens.astype(np.int32)
    if x.dtype == np.uint8:
        return x
    out = finite.as_float32(name, x)
    finite.in_range(f"{name} / scale", out, -LARGEST * min(scale, 1), LARGEST * min(scale, 1))
    return out


def _records(name: str, x: Array) -> Array:
    """Several inputs of each sample: numbers that torch has, and finite."""
    if x.ndim != 1 or len(x) == 0:
        raise ValueError(f"{name}, records of several inputs, must have shape (samples,), got {x.shape}")
    for field_ in x.dtype.names or ():
        part = x[field_]
        if part.dtype not in (np.float32, np.int32, np.int64, np.uint8):
            raise ValueError(f"{name}[{field_!r}] must be float32, int32, int64 or uint8, got {part.dtype}")
        finite.finite(f"{name}[{field_!r}]", part)
    return x


def _targets(name: str, value: ArrayLike, n_classes: int, n: int) -> Array:
    y = np.asarray(value)
    if n_classes == 0:
        if y.ndim != 2 or len(y) != n:
            raise ValueError(f"{name} must have shape ({n}, targets) as n_classes is 0 (regression), got {y.shape}")
        return finite.as_float32(name, y)
    if y.ndim == 2 and len(y) == n and y.dtype == np.bool_:
        if y.shape[1] != n_classes:
            raise ValueError(f"{name} must have shape ({n}, {n_classes}), a truth value for each class, got {y.shape}")
        return y.astype(np.float32)
    if (
        y.ndim == 2 and len(y) == n and y.dtype == np.float32 and np.isin(y, (0, 1)).all()
    ):  # made of truth values before
        return y
    if y.ndim == 2 and len(y) == n:
        label = finite.whole_numbers(name, y)
        finite.in_range(name, label, -1, n_classes - 1)
        none = np.flatnonzero((label < 0).all(axis=1))
        if len(none):
            raise ValueError(
                f"{name} must have a label for at least one token of each sample; sample {none[0]} has none"
            )
        return label
    if y.shape != (n,):
        raise ValueError(f"{name} must have one label for each of the {n} samples, got shape {y.shape}")
    label = finite.whole_numbers(name, y)
    finite.in_range(name, label, 0, n_classes - 1)
    return label


def _users(name: str, value: ArrayLike, n: int) -> NDArray[np.int64]:
    user = np.asarray(value)
    if user.shape != (n,) or not np.issubdtype(user.dtype, np.integer):
        raise ValueError(f"{name} must be {n} whole numbers, one for each sample, got {user.dtype} {user.shape}")
    return user.astype(np.int64, copy=False)


def _levels(user: NDArray[np.int64] | None, labels: NDArray[np.int64] | None) -> list[NDArray[np.int64]]:
    """By what a limit is shared out: first the users, then the labels of each."""
    return [level for level in (user, labels) if level is not None]


def _first(limit: int, n: int, levels: list[NDArray[np.int64]]) -> NDArray[np.int64]:
    """Sorted indices of at most `limit` of n samples: the first of each group, in proportion by level."""
    if limit >= n or not levels:
        return np.arange(min(limit, n))
    groups, size = np.unique(levels[0], return_counts=True)
    chosen = []
    for group, keep in zip(groups, largest_remainder(size, limit)):
        index = np.flatnonzero(levels[0] == group)
        chosen.append(index[_first(int(keep), len(index), [level[index] for level in levels[1:]])])
    return np.sort(np.concatenate(chosen))

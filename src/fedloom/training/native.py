"""The native engine: compiled kernels that train one client from start to finish per thread, hot in its cache.

A network is taken if it is one of those with names, or an nn.Sequential (nested ones are fine), of the layers below; anything
else is refused with a reason, and the torch engine trains it. For a network that is only described no torch is loaded. The
kernels are built three times, for AVX-512, AVX2 and any processor; which one is used is decided when this module is first
used. FEDLOOM_NATIVE=baseline|avx2|avx512|off overrides it.
"""

import importlib
import os
from collections.abc import Sequence
from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fedloom import _check
from fedloom.training import rows as model_rows
from fedloom.training.chain import Chain, Limits, Trained
from fedloom.training.engine import Jobs, Mix, NotFinite, Rows, Scores, Task, Unsupported, n_cores
from fedloom.training.layers import (
    AvgPool2d,
    BatchNorm1d,
    BatchNorm2d,
    Block,
    Conv2d,
    Dropout,
    Flatten,
    GroupNorm,
    Leaf,
    Linear,
    MaxPool2d,
    Network,
    Other,
    Plain,
    ReLU,
)
from fedloom.training.native_chain import numbered
from fedloom.training.native_rule import called, numbers_of
from fedloom.training.rule import LocalRule
from fedloom.training.sums import Tree, block_size, summation_order

if TYPE_CHECKING:
    from fedloom.training.rows import AnyModel

BUILDS = ("avx512", "avx2", "baseline")
EVAL_BATCH = 50
CHAIN_VALUES = 16_000_000  # of all models that are made on the way in a chain
JOBS_IN_CALL = 256  # for each thread: many, as threads wait at the end of a call, but its sums all exist at once
CONV, LINEAR, RELU, MAX_POOL, AVG_POOL, BATCH_NORM, GROUP_NORM, DROPOUT, FLATTEN = range(9)


def load_build() -> ModuleType:
    """The kernels for this processor; raises Unsupported if there are none or they are switched off."""
    wanted = os.environ.get("FEDLOOM_NATIVE", "")
    if wanted == "off":
        raise Unsupported("it is switched off by FEDLOOM_NATIVE=off")
    if wanted:
        _check.one_of("FEDLOOM_NATIVE", wanted, (*BUILDS, "off"))
    try:
        baseline = _import("baseline")
    except ImportError:
        raise Unsupported("it was not built when FedLoom was installed (no C++17 compiler was found)") from None
    best: str = baseline.best_instructions()
    if wanted and BUILDS.index(wanted) < BUILDS.index(best):
        raise Unsupported(f"FEDLOOM_NATIVE={wanted} asks for more than this processor can do ({best})")
    chosen = wanted or best
    return baseline if chosen == "baseline" else _import(chosen)


def _why_small(build: str) -> str:
    """In words, why the slowest build is used, if it is."""
    if build != "baseline":
        return ""
    chosen = os.environ.get("FEDLOOM_NATIVE") == build
    return " (as FEDLOOM_NATIVE says)" if chosen else " (this processor has no AVX2, with which it is faster)"


def _import(build: str) -> ModuleType:
    return importlib.import_module(f"fedloom._compiled_{build}")


def describe(model: "AnyModel", shape: Sequence[int]) -> list[list[float]]:
    """The model as the kernels see it: 19 numbers a layer. `shape` is that of one input.

    Columns: kind; input channels, height, width (dense: features, 0, 0); the same of the output; kernel height and width,
    padding, groups; eps, momentum, p; where weight, bias, running mean and variance stand in the model's row (-1: nowhere).
    """
    leaves = _leaves(model)
    offsets, at = {}, 0
    for part in model_rows.layout(model):
        offsets[part.name] = at
        at += part.n_values
    here = (int(np.prod(shape)), 0, 0) if len(shape) == 1 else tuple(shape)
    layers: list[list[float]] = []
    if leaves and isinstance(leaves[0].layer, Flatten):  # samples come as plain rows anyway
        here, leaves = (int(np.prod(shape)), 0, 0), leaves[1:]
    if len(here) != 3:
        raise Unsupported(f"inputs of shape {tuple(shape)} are neither vectors nor images")
    for leaf in leaves:
        numbers, here = _layer(leaf.layer, here, leaf.dropout)
        fields = ("weight", "bias", "running_mean", "running_var")
        layers.append([*numbers, *(offsets.get(f"{leaf.name}{field}", -1) for field in fields)])
    if here[1]:
        raise Unsupported("its output is an image, not a vector")
    if not any(layer[15] >= 0 for layer in layers):
        raise Unsupported("it has nothing to train")
    return layers


def _leaves(model: "AnyModel") -> list[Leaf]:
    """The layers of a network as they are applied; of a module if they can be read from it."""
    if not isinstance(model, Network):
        from fedloom.training.reading import leaves_of

        return leaves_of(model)
    for layer in model.layers:
        if isinstance(layer, Block):
            raise Unsupported(f"it has no layer {type(layer).__name__}")
    found: list[Leaf] = []
    n_dropouts = 0
    for name, leaf in model.leaves():
        n_dropouts += isinstance(leaf, Dropout)
        found.append(Leaf(f"{name}.", leaf, n_dropouts if isinstance(leaf, Dropout) else 0))
    return found


def _layer(layer: Plain, here: tuple[int, ...], dropout: int) -> tuple[list[float], tuple[int, int, int]]:
    """The first 15 numbers of a layer and the shape it gives."""
    c, h, w = here
    out = (c, h, w)
    kernel, options = [0, 0, 0, 0, 0], [0.0, 0.0, 0.0]
    name = layer.name if isinstance(layer, Other) else type(layer).__name__
    if isinstance(layer, Conv2d) and h:
        if layer.stride != 1:
            raise Unsupported("a Conv2d has a stride, dilation, groups or a padding mode")
        (kh, kw), (ph, pw) = layer.kernel, layer.padding
        if layer.inputs != c:
            raise Unsupported(f"a Conv2d expects {layer.inputs} channels and gets {c}")
        out = (layer.outputs, h + 2 * ph - kh + 1, w + 2 * pw - kw + 1)
        kernel = [kh, kw, ph, pw, 0]
        number = CONV
    elif isinstance(layer, Linear) and not h:
        if layer.inputs != c:
            raise Unsupported(f"a Linear expects {layer.inputs} features and gets {c}")
        out, number = (layer.outputs, 0, 0), LINEAR
    elif isinstance(layer, ReLU):
        number = RELU
    elif isinstance(layer, MaxPool2d | AvgPool2d) and h:
        if layer not in (MaxPool2d(2, 2), AvgPool2d(2)):
            raise Unsupported(f"{name} is not a plain 2x2 pooling")
        out, number = (c, h // 2, w // 2), MAX_POOL if isinstance(layer, MaxPool2d) else AVG_POOL
    elif (isinstance(layer, BatchNorm2d) and h) or (isinstance(layer, BatchNorm1d) and not h):
        if layer.channels != c:
            raise Unsupported("a BatchNorm has no momentum, no running statistics or another number of features")
        options = [layer.eps, layer.momentum, 0.0]
        number = BATCH_NORM
    elif isinstance(layer, GroupNorm) and h:
        if layer.channels != c:
            raise Unsupported(f"a GroupNorm expects {layer.channels} channels and gets {c}")
        kernel, options, number = [0, 0, 0, 0, layer.groups], [layer.eps, 0.0, 0.0], GROUP_NORM
    elif isinstance(layer, Dropout):
        if layer.p >= 1:
            raise Unsupported("a Dropout drops everything")
        kernel, options, number = [0, 0, 0, 0, dropout], [0.0, 0.0, layer.p], DROPOUT
    elif isinstance(layer, Flatten) and h:
        out, number = (c * h * w, 0, 0), FLATTEN
    else:
        raise Unsupported(f"{name} on {'images' if h else 'vectors'} is not among its layers")
    if min(out) < 0 or (h and number != FLATTEN and min(out) < 1):
        raise Unsupported(f"{name} leaves nothing of images of {h}x{w}")
    return [number, c, h, w, *out, *kernel, *options], (out[0], out[1], out[2])


def _refuse_unknown(task: Task) -> None:
    """Raise Unsupported if the task asks for what the kernels do not have."""
    if callable(task.loss):
        raise Unsupported(f"it has no loss of your own ({called(task.loss)}), only cross-entropy and mse")
    if task.loss not in ("cross-entropy", "mse"):
        raise Unsupported(f"it has no loss {task.loss}, only cross-entropy and mse")
    if task.x_train.dtype.names is not None:
        raise Unsupported(f"it takes one input, not several by name ({', '.join(task.x_train.dtype.names)})")
    if task.x_train.dtype != np.float32:
        raise Unsupported(f"it takes inputs that are float32 numbers, not tokens ({task.x_train.dtype})")


class NativeEngine:
    """Trains and evaluates with the compiled kernels; see fedloom.training.engine for the contract.

    Memory per thread: the values of one client's batch in every layer (about three times as much around a convolution), five
    copies of the model at most, and four result rows; all but the rows is kept for the next call. Nothing is allocated while
    a client trains, except when its batch size changes.
    """

    def __init__(self, task: Task, rule: LocalRule, seed: int, n_workers: int | None = None) -> None:
        build = load_build()
        _refuse_unknown(task)
        numbers = numbers_of(rule)
        layers = describe(task.model, task.x_train.shape[1:])
        self.task, self.rule = task, rule
        self.n_params = model_rows.n_values(task.model)
        if n_workers is not None:
            _check.whole("n_workers", n_workers)
        self.n_workers = n_workers or n_cores()
        self.build = build.__name__.rsplit("_", 1)[1]
        self.why_build = _why_small(self.build)
        samples = np.concatenate([np.asarray(part, dtype=np.int64) for part in task.parts])
        first = np.cumsum([0, *(len(part) for part in task.parts)], dtype=np.int64)
        self._core = build.Engine(
            layers,
            self.n_params,
            _flat(task.x_train),
            np.ascontiguousarray(task.y_train),
            task.loss == "cross-entropy",
            samples,
            first,
            min(task.batch_size, max(len(part) for part in task.parts)),  # a batch is at most all that a client has
            task.drop_last,
            seed,
            numbers,
        )
        self._test = (_flat(task.x_test), np.ascontiguousarray(task.y_test))
        self._train = (_flat(task.x_train), np.ascontiguousarray(task.y_train))

    def train_average(self, starts: Rows, jobs: Jobs, mix: Mix) -> NDArray[np.float64]:
        starts = self._checked(starts, jobs)
        mix.check(len(jobs))
        size = block_size(self.n_params)
        order = summation_order(jobs, mix, size)
        columns, rates = self._prepare(jobs, order)
        rank = np.empty(len(order), dtype=np.int64)
        rank[order] = np.arange(len(order))
        by_job = np.argsort(rank[mix.job], kind="stable")
        place = rank[mix.job][by_job]
        target, weight = mix.target[by_job].astype(np.int64), mix.weight[by_job].astype(np.float64)
        if len(jobs) <= size:  # a single block: its sums are the result
            first = np.searchsorted(place, np.arange(len(jobs) + 1)).astype(np.int64)
            sums, bad = self._core.train_average(
                starts, columns, rates, first, target, weight, mix.n_targets, self.n_workers
            )
            self._check_finite(bad)
            return np.asarray(sums)
        tree = Tree()
        bad = []
        piece = -(-JOBS_IN_CALL * self.n_workers // size) * size  # whole blocks
        for low in range(0, len(jobs), piece):
            high = min(low + piece, len(jobs))
            a, b = np.searchsorted(place, [low, high])
            first = np.searchsorted(place[a:b], np.arange(low, high + 1)).astype(np.int64)
            parts, part_of = np.unique(place[a:b] // size * mix.n_targets + target[a:b], return_inverse=True)
            sums, diverged = self._core.train_average(
                starts, columns[low:high], rates, first, part_of, weight[a:b], len(parts), self.n_workers
            )
            bad += diverged
            block, of_target = np.divmod(parts, max(1, mix.n_targets))
            for i in range(low // size, -(-high // size)):
                found = np.flatnonzero(block == i).tolist()
                tree.push({int(of_target[f]): sums[f] for f in found})
        self._check_finite(bad)
        return tree.total(mix.n_targets, self.n_params)

    def chain_limits(self) -> Limits:
        return Limits(jobs=JOBS_IN_CALL * self.n_workers, models=max(1, CHAIN_VALUES // self.n_params))

    def train_chain(self, chain: Chain, seconds: float) -> Trained:
        """As many waves as begin within so many seconds, at least one; see fedloom.training.chain."""
        rows = self._rows(chain.rows)
        chain.jobs.check(chain.n_models + len(rows), self.task.n_clients)
        chain.mix.check(len(chain.jobs))
        plan = numbered(chain, block_size(self.n_params))
        columns, rates = self._prepare(chain.jobs, plan.order)
        made, left, values, n_waves, bad = self._core.train_chain(
            rows,
            np.array(list(chain.sums.values()), dtype=np.float64).reshape(-1, self.n_params),
            columns,
            rates,
            plan.job_first,
            plan.entry_first,
            plan.entry_sum,
            plan.entry_weight,
            plan.add_first,
            plan.adds,
            np.searchsorted(chain.ready, np.arange(chain.n_waves + 1)),
            np.array([plan.sum_of.get(m, -1) for m in range(chain.n_models)], dtype=np.int64),
            np.searchsorted(chain.part_model, np.arange(chain.n_models + 1)),
            chain.part_slot,
            chain.part_weight,
            plan.n_sums,
            seconds,
            self.n_workers,
        )
        self._check_finite(bad)
        target_of = {number: target for target, number in plan.sum_of.items()}
        n_made = int(np.searchsorted(chain.ready, n_waves))
        sums = {target_of[number]: total for number, total in zip(left, np.asarray(values))}
        return Trained(n_waves=n_waves, rows=np.asarray(made)[:n_made], sums=sums)

    def train(self, starts: Rows, jobs: Jobs) -> Rows:
        starts = self._checked(starts, jobs)
        order = jobs.canonical_order()
        columns, rates = self._prepare(jobs, order)
        rows, bad = self._core.train(starts, columns, rates, self.n_workers)
        self._check_finite(bad)
        out: Rows = np.empty_like(np.asarray(rows))
        out[order] = rows
        return out

    def gradient(self, rows: Rows, jobs: Sequence[tuple[int, int]]) -> Rows:
        pairs = np.asarray(jobs, dtype=np.int64).reshape(-1, 2)
        start, client = np.ascontiguousarray(pairs[:, 0]), np.ascontiguousarray(pairs[:, 1])
        return np.asarray(self._core.gradient(self._rows(rows), start, client, EVAL_BATCH, self.n_workers))

    def evaluate(self, rows: Rows, split: str = "test") -> Scores:
        _check.one_of("split", split, ("train", "test"))
        x, y = self._test if split == "test" else self._train
        sums, correct, _ = self._core.evaluate(self._rows(rows), x, y, EVAL_BATCH, False, self.n_workers)
        mean = np.asarray(sums) / len(x)
        return Scores(loss=mean[:, 0], correct=np.asarray(correct), rmse=np.sqrt(mean[:, 1]), mae=mean[:, 2])

    def outputs(self, rows: Rows, split: str = "test") -> NDArray[np.float32]:
        """Outputs (logits or predictions) of M rows on the whole split, (M, n, outputs)."""
        _check.one_of("split", split, ("train", "test"))
        x, y = self._test if split == "test" else self._train
        return np.asarray(self._core.evaluate(self._rows(rows), x, y, EVAL_BATCH, True, self.n_workers)[2])

    def close(self) -> None:
        """End the threads, which wait for the next call; it starts them again."""
        self._core.close()

    def _rows(self, rows: Rows) -> Rows:
        rows = np.ascontiguousarray(rows, dtype=np.float32)
        if rows.ndim != 2 or rows.shape[1] != self.n_params:
            raise ValueError(f"rows must have shape (any, {self.n_params}) for this model, got {rows.shape}")
        return rows

    def _checked(self, starts: Rows, jobs: Jobs) -> Rows:
        starts = self._rows(starts)
        jobs.check(len(starts), self.task.n_clients)
        return starts

    def _prepare(self, jobs: Jobs, order: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Jobs in this order as the kernels want them, and the learning rates they point at."""
        lr_step, which_lr = _different(jobs.lr_step[order])
        n_steps, which_n = _different(jobs.n_steps[order])
        kinds, kind = _different(which_lr * len(n_steps) + which_n)
        at, how_many = np.divmod(kinds, max(1, len(n_steps)))
        rates = [self.rule.rates(int(a), int(n)) for a, n in zip(lr_step[at], n_steps[how_many])]
        first = np.cumsum([0, *map(len, rates)], dtype=np.int64)[:-1][kind]
        columns = np.empty((len(order), 5), dtype=np.int64)
        for column, values in enumerate((jobs.start, jobs.client, jobs.n_steps, jobs.first_step)):
            columns[:, column] = values[order]
        columns[:, 4] = first
        return columns, np.concatenate([*rates, np.zeros(0)])

    def _check_finite(self, bad: list[int]) -> None:
        if bad:
            raise NotFinite(sorted(set(bad)), self.rule.lr)


def _different(values: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The different values, and which of them each (m,) is. Mostly there is but one."""
    if len(values) and (values == values[0]).all():
        return values[:1], np.zeros(len(values), dtype=np.int64)
    return np.unique(values, return_inverse=True)


def _flat(x: NDArray[np.float32]) -> NDArray[np.float32]:
    return np.ascontiguousarray(x.reshape(len(x), -1), dtype=np.float32)

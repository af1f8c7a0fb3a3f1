"""The torch engine: any `nn.Module`, one plain loop per client, spread over worker processes.

Each worker owns a copy of the model whose tensors are views of one vector, so that loading a start row and returning a
result are single copies. Start rows and results travel through shared memory; a ring of result slots bounds the memory
whatever the number of clients. Workers use one thread each, so results do not depend on how many there are. They are
forked (the data is shared, not copied); where the system cannot fork safely (macOS, Windows) jobs run in this process.
"""

import copy
import itertools
import math
import mmap
import multiprocessing
import os
import signal
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from fedloom import _check
from fedloom.training import rows as model_rows
from fedloom.training.batches import batches
from fedloom.training.dropout import dropout_key, use_counters
from fedloom.training.engine import Ints, Jobs, Mix, NotFinite, Rows, Scores, Task, n_cores
from fedloom.training.models import as_module
from fedloom.training.orphans import end_with
from fedloom.training.ring import CHUNK, RING
from fedloom.training.rule import LocalRule
from fedloom.training.sums import Tree, block_size, summation_order

EVAL_BATCH = 500  # samples per forward pass in evaluation: fixed, because it decides the order of the sums


class TorchEngine:
    """Trains and evaluates with torch; see fedloom.training.engine for the contract."""

    def __init__(self, task: Task, rule: LocalRule, seed: int, n_workers: int | None = None) -> None:
        self.task, self.rule, self.seed = task, rule, seed
        self.n_params = model_rows.n_values(task.model)
        if n_workers is not None:
            _check.whole("n_workers", n_workers)
        can_fork = sys.platform.startswith("linux")
        self.n_workers = (n_workers or n_cores()) if can_fork else 1
        self._trainer: _Trainer | None = None
        self._pool: _Pool | None = None

    def train_average(self, starts: Rows, jobs: Jobs, mix: Mix) -> NDArray[np.float64]:
        starts = self._checked(starts, jobs)
        mix.check(len(jobs))
        entries: list[list[tuple[int, float]]] = [[] for _ in range(len(jobs))]
        for job, target, weight in zip(mix.job.tolist(), mix.target.tolist(), mix.weight.tolist()):
            entries[job].append((target, weight))
        size = block_size(self.n_params)
        tree = Tree()
        block: dict[int, torch.Tensor] = {}
        n_added = 0

        def add(job: int, row: torch.Tensor) -> None:
            nonlocal block, n_added
            for target, weight in entries[job]:
                if target not in block:
                    block[target] = torch.zeros(self.n_params, dtype=torch.float64)
                block[target].add_(row, alpha=weight)
            n_added += 1
            if n_added % size == 0 or n_added == len(jobs):
                tree.push({target: sums.numpy() for target, sums in block.items()})
                block = {}

        self._run(starts, jobs, summation_order(jobs, mix, size), add)
        return tree.total(mix.n_targets, self.n_params)

    def train(self, starts: Rows, jobs: Jobs) -> Rows:
        starts = self._checked(starts, jobs)
        out = torch.empty((len(jobs), self.n_params), dtype=torch.float32)
        self._run(starts, jobs, jobs.canonical_order(), lambda job, row: out[job].copy_(row))
        return out.numpy()

    def evaluate(self, rows: Rows, split: str = "test") -> Scores:
        _check.one_of("split", split, ("train", "test"))
        rows = _as_rows(rows, self.n_params)
        n = len(self.task.x_test if split == "test" else self.task.x_train)
        pieces = [
            (m, low, min(low + 2 * EVAL_BATCH, n)) for m in range(len(rows)) for low in range(0, n, 2 * EVAL_BATCH)
        ]
        sums = np.zeros((len(rows), 3))
        classify = self.task.loss == "cross-entropy"
        correct = np.zeros((len(rows), n if classify else 0), dtype=np.bool_)

        def collect(piece: int, result: tuple[NDArray[np.float64], NDArray[np.bool_]]) -> None:
            m, low, high = pieces[piece]
            sums[m] += result[0]
            if classify:
                correct[m, low:high] = result[1]

        if self.n_workers == 1 or len(pieces) == 1:
            with _one_thread():
                for i, (m, low, high) in enumerate(pieces):
                    collect(i, self._local().evaluate(torch.from_numpy(rows[m]), split, low, high))
        else:
            pool = self._workers(len(rows))
            pool.starts[: len(rows)] = torch.from_numpy(rows)
            pool.map([("evaluate", m, split, low, high) for m, low, high in pieces], collect)
        mean = sums / n
        return Scores(loss=mean[:, 0], correct=correct, rmse=np.sqrt(mean[:, 1]), mae=mean[:, 2])

    def outputs(self, rows: Rows, split: str = "test") -> NDArray[np.float32]:
        _check.one_of("split", split, ("train", "test"))
        with _one_thread():
            found = [self._local().outputs(torch.from_numpy(row), split) for row in _as_rows(rows, self.n_params)]
        return np.stack(found)

    def gradient(self, rows: Rows, jobs: Sequence[tuple[int, int]]) -> Rows:
        rows = _as_rows(rows, self.n_params)
        out = np.zeros((len(jobs), self.n_params), dtype=np.float32)
        with _one_thread():
            for j, (start, client) in enumerate(jobs):
                out[j] = self._local().gradient(torch.from_numpy(rows[start]), client)
        return out

    def close(self) -> None:
        if self._pool is not None:
            self._pool.close()
            self._pool = None

    def _run(self, starts: Rows, jobs: Jobs, order: Ints, consume: Callable[[int, torch.Tensor], Any]) -> None:
        """Train all jobs and hand each result to `consume` in this order."""
        columns = np.stack([jobs.start, jobs.client, jobs.n_steps, jobs.first_step, jobs.lr_step], axis=1)[order]
        diverged: list[int] = []
        if self.n_workers == 1 or len(jobs) == 1:
            with _one_thread(), torch.random.fork_rng(devices=[]):
                for job, column in zip(order, columns.tolist()):
                    if not self._local().train(torch.from_numpy(starts[column[0]]), *column[1:]):
                        diverged.append(column[1])
                    consume(job, self._local().row)
        else:
            cuts = _cuts(len(jobs), self.n_workers)
            chunks = [columns[i:j].tolist() for i, j in itertools.pairwise(cuts)]
            pool = self._workers(len(starts))
            pool.starts[: len(starts)] = torch.from_numpy(starts)
            ring = RING * self.n_workers

            def collect(chunk: int, bad: list[int]) -> None:
                diverged.extend(bad)
                for i in range(len(chunks[chunk])):
                    consume(order[cuts[chunk] + i], pool.slot_rows[(chunk % ring) * CHUNK + i])

            with _one_thread():  # this process's threads would only take the cores from the workers
                pool.map([("train", (c % ring) * CHUNK, chunk) for c, chunk in enumerate(chunks)], collect, ring)
        if diverged:
            self.close()
            raise NotFinite(sorted(set(diverged)), self.rule.lr)

    def _checked(self, starts: Rows, jobs: Jobs) -> Rows:
        starts = _as_rows(starts, self.n_params)
        jobs.check(len(starts), self.task.n_clients)
        return starts

    def _local(self) -> "_Trainer":
        if self._trainer is None:
            self._trainer = _Trainer(self.task, self.rule, self.seed)
        return self._trainer

    def _workers(self, n_starts: int) -> "_Pool":
        """The running pool; forked anew when there are more start rows than it has room for."""
        if self._pool is None or self._pool.closed or len(self._pool.starts) < n_starts:
            self.close()
            n_slots = RING * self.n_workers * CHUNK
            self._pool = _Pool(self._local(), self.n_workers, max(n_starts, 16), n_slots, self.n_params)
        return self._pool


class _Trainer:
    """One model bound to one vector, and the loops over mini-batches."""

    def __init__(self, task: Task, rule: LocalRule, seed: int) -> None:
        self.task, self.rule, self.seed = task, rule, seed
        self.model = copy.deepcopy(as_module(task.model))  # engines may share a task
        self.dropouts = use_counters(self.model)
        self.row = model_rows.bind(self.model)
        self.params: list[torch.Tensor] = [p for p in self.model.parameters() if p.requires_grad]
        self.x = {"train": torch.from_numpy(task.x_train), "test": torch.from_numpy(task.x_test)}
        self.y = {"train": torch.from_numpy(task.y_train), "test": torch.from_numpy(task.y_test)}
        self.parts = task.parts

    def train(self, start: torch.Tensor, client: int, n_steps: int, first_step: int, lr_step: int) -> bool:
        """Leave the trained model in `self.row`; say whether it is finite."""
        task, rule, params = self.task, self.rule, self.params
        model, x, y, part = self.model, self.x["train"], self.y["train"], self.parts[client]
        key = ((self.seed * 1_000_003 + client) * 1_000_003 + first_step) % 2**63
        torch.default_generator.manual_seed(key)  # for modules that draw; torch.manual_seed takes longer than a step
        self.row.copy_(start)
        model.train()
        loss_of = nn.functional.cross_entropy if task.loss == "cross-entropy" else nn.functional.mse_loss
        anchor = [p.detach().clone() for p in params] if rule.proximal else []
        velocity: list[torch.Tensor] = []
        plan = batches(self.seed, client, len(part), task.batch_size, first_step, n_steps, task.drop_last)
        for j, (lr, positions) in enumerate(zip(rule.rates(lr_step, n_steps).tolist(), plan)):
            for layer in self.dropouts:
                layer.key = dropout_key(self.seed, client, first_step + j)
            index = torch.from_numpy(part[positions])
            loss = loss_of(model(x.index_select(0, index)), y.index_select(0, index))
            # gradients are not to be written: parameters may share one
            step: Sequence[torch.Tensor] = torch.autograd.grad(loss, params, allow_unused=True, materialize_grads=True)
            with torch.no_grad():
                if rule.proximal:
                    step = torch._foreach_add(list(step), torch._foreach_sub(params, anchor), alpha=rule.proximal)
                if rule.clip_norm is not None:
                    norm = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(list(step))))
                    step = torch._foreach_mul(list(step), (rule.clip_norm / (norm + 1e-6)).clamp(max=1.0))
                if rule.weight_decay:
                    step = torch._foreach_add(list(step), params, alpha=rule.weight_decay)
                if rule.momentum:
                    if velocity:
                        torch._foreach_mul_(velocity, rule.momentum)
                        torch._foreach_add_(velocity, list(step))
                    else:
                        velocity = [g.clone() for g in step]
                    step = velocity
                torch._foreach_add_(params, list(step), alpha=-lr)
        return math.isfinite(self.row.sum().item())

    def gradient(self, row: torch.Tensor, client: int) -> NDArray[np.float32]:
        """Gradient (P,) of the client's mean loss over all its samples, in evaluation mode; zero at buffers."""
        self.row.copy_(row)
        self.model.eval()
        part = self.parts[client]
        loss_of = nn.functional.cross_entropy if self.task.loss == "cross-entropy" else nn.functional.mse_loss
        total = [torch.zeros_like(p) for p in self.params]
        for low in range(0, len(part), EVAL_BATCH):
            index = torch.from_numpy(part[low : low + EVAL_BATCH])
            loss = loss_of(self.model(self.x["train"][index]), self.y["train"][index]) * (len(index) / len(part))
            grads = torch.autograd.grad(loss, self.params, allow_unused=True, materialize_grads=True)
            torch._foreach_add_(total, list(grads))
        by_name = {id(p): g for p, g in zip(self.params, total)}
        parts = [by_name.get(id(t), torch.zeros_like(t)).reshape(-1) for _, t in model_rows.tensors(self.model)]
        return torch.cat(parts).detach().numpy()

    def outputs(self, row: torch.Tensor, split: str) -> NDArray[np.float32]:
        """Outputs (n, outputs) on the whole split."""
        self.row.copy_(row)
        self.model.eval()
        with torch.inference_mode():
            x = self.x[split]
            return torch.cat([self.model(x[a : a + EVAL_BATCH]) for a in range(0, len(x), EVAL_BATCH)]).numpy()

    def evaluate(
        self, row: torch.Tensor, split: str, low: int, high: int
    ) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """Sums over samples low..high-1 of (loss, mean squared error, mean absolute error), and what was right."""
        self.row.copy_(row)
        self.model.eval()
        sums = np.zeros(3)
        right = np.zeros(high - low, dtype=np.bool_)
        with torch.inference_mode():
            for a in range(low, high, EVAL_BATCH):
                b = min(a + EVAL_BATCH, high)
                output, target = self.model(self.x[split][a:b]), self.y[split][a:b]
                if self.task.loss == "cross-entropy":
                    sums[0] += nn.functional.cross_entropy(output, target, reduction="sum").item()
                    right[a - low : b - low] = (output.argmax(1) == target).numpy()
                else:
                    error = (output - target).double()
                    squared, absolute = error.square().mean(1).sum().item(), error.abs().mean(1).sum().item()
                    sums += [squared, squared, absolute]
        return sums, right


class _Pool:
    """Forked workers, each with a pipe; start rows and result slots in memory that all of them share."""

    def __init__(self, trainer: _Trainer, n_workers: int, n_starts: int, n_slots: int, n_params: int) -> None:
        self.starts = _shared_rows(n_starts, n_params)
        self.slots = _shared_rows(n_slots, n_params)
        self.slot_rows = list(self.slots)
        self.pipes: list[Connection] = []
        self.processes: list[BaseProcess] = []
        self.closed = False
        context = multiprocessing.get_context("fork")
        for _ in range(n_workers):
            ours, theirs = context.Pipe()
            # A worker must not hold the driver's ends, or it would not notice that the driver is gone.
            args = (theirs, [*self.pipes, ours], trainer, self.starts, self.slots, os.getpid())
            process = context.Process(target=_work, args=args, daemon=True)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)  # workers run no code that needs other threads
                process.start()
            theirs.close()
            self.pipes.append(ours)
            self.processes.append(process)

    def map(self, messages: list[Any], collect: Callable[[int, Any], None], ring: int | None = None) -> None:
        """Send the messages to whoever is free; collect the answers in order, at most `ring` ahead."""
        ring = ring or len(messages)
        waiting: dict[int, Any] = {}
        in_flight: dict[Connection, list[int]] = {pipe: [] for pipe in self.pipes}
        sent = collected = 0
        try:
            while collected < len(messages):
                for depth in (1, 2):  # one message each first, then one more so that nobody waits for us
                    for pipe, numbers in in_flight.items():
                        if len(numbers) < depth and sent < len(messages) and sent < collected + ring:
                            try:
                                pipe.send(messages[sent])
                            except (BrokenPipeError, ConnectionResetError):
                                raise self._lost(pipe) from None
                            numbers.append(sent)
                            sent += 1
                for ready in wait([p for p, numbers in in_flight.items() if numbers]):
                    assert isinstance(ready, Connection)
                    failure, answer = self._receive(ready)
                    if failure:
                        raise RuntimeError(f"a training worker failed:\n{failure}")
                    waiting[in_flight[ready].pop(0)] = answer
                while collected in waiting:
                    collect(collected, waiting.pop(collected))
                    collected += 1
        except BaseException:
            self.close()
            raise

    def _receive(self, pipe: Connection) -> tuple[str, Any]:
        try:
            return pipe.recv()  # type: ignore[no-any-return]
        except (EOFError, ConnectionResetError):
            raise self._lost(pipe) from None

    def _lost(self, pipe: Connection) -> RuntimeError:
        process = self.processes[self.pipes.index(pipe)]
        process.join(timeout=5)
        return RuntimeError(
            f"a training worker ended unexpectedly (exit code {process.exitcode}); "
            f"-9 usually means that the machine ran out of memory: use fewer workers or a smaller batch"
        )

    def close(self) -> None:
        self.closed = True
        for pipe in self.pipes:
            pipe.close()
        for process in self.processes:
            process.terminate()
        for process in self.processes:
            process.join(timeout=10)


def _work(
    pipe: Connection,
    drivers_ends: list[Connection],
    trainer: _Trainer,
    starts: torch.Tensor,
    slots: torch.Tensor,
    parent: int,
) -> None:
    """A worker's life: take a message, train or evaluate, answer; end when the driver does."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the driver's to handle
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    end_with(parent)
    for end in drivers_ends:
        end.close()
    torch.set_num_threads(1)
    while True:
        try:
            message = pipe.recv()
        except (EOFError, ConnectionResetError):
            return
        try:
            if message[0] == "train":
                _, slot, jobs = message
                diverged = []
                for i, (start, client, *steps) in enumerate(jobs):
                    if not trainer.train(starts[start], client, *steps):
                        diverged.append(client)
                    slots[slot + i].copy_(trainer.row)
                answer: tuple[str, Any] = ("", diverged)
            else:
                _, m, split, low, high = message
                answer = ("", trainer.evaluate(starts[m], split, low, high))
        except Exception:
            answer = (traceback.format_exc(), None)
        try:
            pipe.send(answer)
        except (BrokenPipeError, ConnectionResetError):
            return


def _cuts(n_jobs: int, n_workers: int) -> list[int]:
    """Where to cut the list of jobs into messages: large ones first, single jobs at the end, so that all finish together."""
    cuts = [0]
    while cuts[-1] < n_jobs:
        cuts.append(cuts[-1] + max(1, min(CHUNK, (n_jobs - cuts[-1]) // (4 * n_workers))))
    return cuts


def _shared_rows(n: int, n_params: int) -> torch.Tensor:
    """(n, P) float32 in anonymous memory that forked processes share; freed with the last of them."""
    memory = mmap.mmap(-1, max(1, 4 * n * n_params))
    return torch.frombuffer(memory, dtype=torch.float32, count=n * n_params).view(n, n_params)


def _as_rows(rows: Rows, n_params: int) -> Rows:
    rows = np.ascontiguousarray(rows, dtype=np.float32)
    if rows.ndim != 2 or rows.shape[1] != n_params:
        raise ValueError(f"rows must have shape (any, {n_params}) for this model, got {rows.shape}")
    return rows


@contextmanager
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)

"""The torch engine: any `nn.Module`, one plain loop per client, spread over worker processes.

Each worker owns a copy of the model (`torch_trainer`). They are forked (the data is shared, not copied; `torch_pool`); where the
system cannot fork safely (macOS, Windows) jobs run in this process.
"""

import itertools
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from fedloom import _check
from fedloom.training import rows as model_rows
from fedloom.training.engine import Ints, Jobs, Mix, NotFinite, Rows, Scores, Task, n_cores
from fedloom.training.rule import LocalRule
from fedloom.training.sums import Tree, block_size, summation_order
from fedloom.training.torch_pool import CHUNK, RING, Pool, message_cuts
from fedloom.training.torch_trainer import EVAL_BATCH, Trainer


class TorchEngine:
    """Trains and evaluates with torch; see fedloom.training.engine for the contract."""

    def __init__(self, task: Task, rule: LocalRule, seed: int, n_workers: int | None = None) -> None:
        self.task, self.rule, self.seed = task, rule, seed
        self.n_params = model_rows.n_values(task.model)
        if n_workers is not None:
            _check.whole("n_workers", n_workers)
        can_fork = sys.platform.startswith("linux")
        self.n_workers = (n_workers or n_cores()) if can_fork else 1
        self._trainer: Trainer | None = None
        self._pool: Pool | None = None

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
            cuts = message_cuts(len(jobs), self.n_workers)
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

    def _local(self) -> Trainer:
        if self._trainer is None:
            self._trainer = Trainer(self.task, self.rule, self.seed)
        return self._trainer

    def _workers(self, n_starts: int) -> Pool:
        """The running pool; forked anew when there are more start rows than it has room for."""
        if self._pool is None or self._pool.closed or len(self._pool.starts) < n_starts:
            self.close()
            n_slots = RING * self.n_workers * CHUNK
            self._pool = Pool(self._local(), self.n_workers, max(n_starts, 16), n_slots, self.n_params)
        return self._pool


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

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
from fedloom.training.ring import RING, chunk_size
from fedloom.training.rule import LocalRule
from fedloom.training.sums import block_size, summation_order
from fedloom.training.torch_pool import Pool, message_cuts
from fedloom.training.torch_sums import Entries, RangeSums
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
        order = summation_order(jobs, mix, size)
        if self._alone(jobs):
            sums, out = RangeSums(0, self.n_params, size, len(jobs)), np.empty((mix.n_targets, self.n_params))
            self._run(starts, jobs, order, lambda job, row: sums.add([(row, entries[job])]))
            sums.write(torch.from_numpy(out))
            return out
        pool = self._workers(len(starts), mix.n_targets)
        pool.each(("begin_sums", size, len(jobs)))
        self._share_out(pool, starts, jobs, order, lambda job, slot: (slot, entries[job]))
        pool.each(("end_sums", mix.n_targets))
        return pool.sums[: mix.n_targets].numpy().copy()

    def train(self, starts: Rows, jobs: Jobs) -> Rows:
        starts = self._checked(starts, jobs)
        out = torch.empty((len(jobs), self.n_params), dtype=torch.float32)
        order = jobs.canonical_order()
        if self._alone(jobs):
            self._run(starts, jobs, order, lambda job, row: out[job].copy_(row))
            return out.numpy()
        pool = self._workers(len(starts))

        def take(job: int, slot: int) -> None:
            out[job].copy_(pool.slots[slot])

        self._share_out(pool, starts, jobs, order, take)
        return out.numpy()

    def evaluate(self, rows: Rows, split: str = "test") -> Scores:
        _check.one_of("split", split, ("train", "test"))
        rows = _as_rows(rows, self.n_params)
        n = len(self.task.x_test if split == "test" else self.task.x_train)
        pieces = [
            (m, low, min(low + 2 * EVAL_BATCH, n)) for m in range(len(rows)) for low in range(0, n, 2 * EVAL_BATCH)
        ]
        sums = np.zeros((len(rows), 3))
        right: list[dict[int, NDArray[Any]]] = [{} for _ in rows]

        def collect(piece: int, result: tuple[NDArray[np.float64], NDArray[Any]]) -> None:
            m, low, _ = pieces[piece]
            sums[m] += result[0]
            right[m][low] = result[1]

        if self.n_workers == 1 or len(pieces) == 1:
            with one_torch_thread():
                for i, (m, low, high) in enumerate(pieces):
                    collect(i, self._local().evaluate(torch.from_numpy(rows[m]), split, low, high))
        else:
            pool = self._workers(len(rows))
            pool.starts[: len(rows)] = torch.from_numpy(rows)
            pool.map([("evaluate", m, split, low, high) for m, low, high in pieces], collect)
        mean = sums / n
        correct = np.array([np.concatenate([by_low[low] for low in sorted(by_low)]) for by_low in right])
        return Scores(loss=mean[:, 0], correct=correct, rmse=np.sqrt(mean[:, 1]), mae=mean[:, 2])

    def outputs(self, rows: Rows, split: str = "test") -> NDArray[np.float32]:
        _check.one_of("split", split, ("train", "test"))
        with one_torch_thread():
            found = [self._local().outputs(torch.from_numpy(row), split) for row in _as_rows(rows, self.n_params)]
        return np.stack(found)

    def gradient(self, rows: Rows, jobs: Sequence[tuple[int, int]]) -> Rows:
        rows = _as_rows(rows, self.n_params)
        out = np.zeros((len(jobs), self.n_params), dtype=np.float32)
        with one_torch_thread():
            for j, (start, client) in enumerate(jobs):
                out[j] = self._local().gradient(torch.from_numpy(rows[start]), client)
        return out

    def close(self) -> None:
        if self._pool is not None:
            self._pool.close()
            self._pool = None

    def _alone(self, jobs: Jobs) -> bool:
        """Whether this process trains itself."""
        return self.n_workers == 1 or len(jobs) == 1

    def _run(self, starts: Rows, jobs: Jobs, order: Ints, consume: Callable[[int, torch.Tensor], Any]) -> None:
        """Train all jobs here and hand each result to `consume` in this order."""
        diverged: list[int] = []
        with one_torch_thread(), torch.random.fork_rng(devices=[]):
            for job, column in zip(order.tolist(), _columns(jobs, order)):
                if not self._local().train(torch.from_numpy(starts[column[0]]), *column[1:]):
                    diverged.append(column[1])
                consume(job, self._local().row)
        self._refuse(diverged)

    def _share_out(
        self, pool: Pool, starts: Rows, jobs: Jobs, order: Ints, use: Callable[[int, int], tuple[int, Entries] | None]
    ) -> None:
        """Let workers train all jobs. use(job, slot), asked in this order, says what every worker is to add up; if nothing, the
        slot may be used again when it returns."""
        chunk = chunk_size(self.n_params)
        cuts, columns = message_cuts(len(jobs), self.n_workers, chunk), _columns(jobs, order)
        chunks = [columns[i:j] for i, j in itertools.pairwise(cuts)]
        pool.starts[: len(starts)] = torch.from_numpy(starts)
        ring, diverged = RING * self.n_workers, list[int]()

        def collect(number: int, bad: list[int]) -> list[tuple[int, Entries]] | None:
            diverged.extend(bad)
            first, slot = cuts[number], (number % ring) * chunk
            found = [use(int(order[first + i]), slot + i) for i in range(len(chunks[number]))]
            return [one for one in found if one is not None] or None

        with one_torch_thread():  # this process's threads would only take the cores from the workers
            pool.map([("train", (c % ring) * chunk, part) for c, part in enumerate(chunks)], collect, ring)
        self._refuse(diverged)

    def _refuse(self, diverged: list[int]) -> None:
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

    def _workers(self, n_starts: int, n_sums: int = 0) -> Pool:
        """The running pool; forked anew when there are more start rows or sums than it has room for."""
        pool = self._pool
        if pool is None or pool.closed or len(pool.starts) < n_starts or len(pool.sums) < n_sums:
            self.close()
            room = {"n_starts": max(n_starts, 16), "n_sums": max(n_sums, 16)}
            self._pool = pool = Pool(self._local(), self.n_workers, self.n_params, **room)
        return pool


def _columns(jobs: Jobs, order: Ints) -> list[list[int]]:
    """Start, client, steps, first step and step of the learning rate of each job, in this order."""
    columns = (jobs.start, jobs.client, jobs.n_steps, jobs.first_step, jobs.lr_step)
    return [list(job) for job in zip(*(column[order].tolist() for column in columns))]


def _as_rows(rows: Rows, n_params: int) -> Rows:
    rows = np.ascontiguousarray(rows, dtype=np.float32)
    if rows.ndim != 2 or rows.shape[1] != n_params:
        raise ValueError(f"rows must have shape (any, {n_params}) for this model, got {rows.shape}")
    return rows


@contextmanager
def one_torch_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)

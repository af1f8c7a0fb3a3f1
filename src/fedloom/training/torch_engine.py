"""The torch engine: any `nn.Module`, one loop per client, spread over worker processes, or many clients at once on a device.

Each worker owns a copy of the model (`torch_trainer`). They are forked (the data is shared, not copied; `torch_pool`); where the
system cannot fork safely (macOS, Windows) jobs run in this process. So do those on a device other than processors, and those of
many clients at once (`torch_together`).
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
from fedloom.training.devices import find_device, kept_generators, single_precision
from fedloom.training.engine import Ints, Jobs, Mix, NotFinite, Rows, Scores, Task, Unsupported, WithState, n_cores
from fedloom.training.ring import chunk_size, ring_size
from fedloom.training.rule import LocalRule
from fedloom.training.state import layout_of
from fedloom.training.sums import block_size, summation_order
from fedloom.training.torch_pool import Pool, message_cuts
from fedloom.training.torch_states import train_with_state
from fedloom.training.torch_sums import Entries, RangeSums
from fedloom.training.torch_together import Together, cuts, usual_number
from fedloom.training.torch_trainer import EVAL_BATCH, Trainer


class TorchEngine:
    """Trains and evaluates with torch; see fedloom.training.engine for the contract.

    device: auto, cpu, cuda or mps (`devices`). together: clients that train at once; by default one on cpu, and on other devices
    what fits the model's size. `at_once` is what came of it, and `why_not` says why it is 1 though more were wanted.
    """

    def __init__(
        self,
        task: Task,
        rule: LocalRule,
        seed: int,
        n_workers: int | None = None,
        *,
        device: str = "cpu",
        together: int | None = None,
    ) -> None:
        _check.wholes(n_workers=n_workers, together=together)
        self.task, self.rule, self.seed, self.device = task, rule, seed, find_device(device)
        self.n_params = model_rows.n_values(task.model)
        self._layout = layout_of(rule.client, self.n_params)
        self._trainer: Trainer | None = None
        self._pool: Pool | None = None
        self._together: Together | None = None
        self.at_once, self.why_not = self._many(together)
        can_fork = sys.platform.startswith("linux") and self.device == "cpu" and self.at_once == 1
        self.n_workers = (n_workers or n_cores()) if can_fork else 1

    @property
    def name(self) -> str:
        """What it is, and how it goes about it. Up to the comma or, if it begins with torch-, as a whole it decides the bits."""
        if self.device == "cpu" and self.at_once == 1:
            return f"torch, {self.n_workers} processes"
        how = f"{self.at_once} clients at once" if self.at_once > 1 else "one client after the other"
        return f"torch-{self.device}, {how}"

    def train_average(self, starts: Rows, jobs: Jobs, mix: Mix) -> NDArray[np.float64]:
        return self._average(self._checked(starts, jobs, self.n_params), jobs, mix, None)

    def train_with_state(self, starts: Rows, jobs: Jobs, mix: Mix, own: Rows) -> WithState:
        layout = self._layout
        assert layout is not None
        starts = self._checked(starts, jobs, layout.width, with_state=True)
        own = _as_rows(own, layout.kept)
        if len(own) != len(jobs):
            raise ValueError(f"own states must be those of {len(jobs)} jobs, got {len(own)}")
        after = np.empty((len(jobs), layout.kept), dtype=np.float32)
        return WithState(sums=self._average(starts, jobs, mix, (own, after)), own=after)

    def _average(self, starts: Rows, jobs: Jobs, mix: Mix, states: tuple[Rows, Rows] | None) -> NDArray[np.float64]:
        """Weighted sums of rows as wide as the starts. states: own states (J, kept) before, and, to be written, after the
        jobs."""
        mix.check(len(jobs))
        width = starts.shape[1]
        entries: list[list[tuple[int, float]]] = [[] for _ in range(len(jobs))]
        for job, target, weight in zip(mix.job.tolist(), mix.target.tolist(), mix.weight.tolist()):
            entries[job].append((target, weight))
        size = block_size(self.n_params)
        order = summation_order(jobs, mix, size)
        if self._alone(jobs):
            sums, out = RangeSums(0, width, size, len(jobs)), np.empty((mix.n_targets, width))
            self._run(starts, jobs, order, lambda job, row: sums.add([(row.cpu(), entries[job])]), states)
            sums.write(torch.from_numpy(out))
            return out
        pool = self._workers(len(starts), mix.n_targets, len(jobs) if states is not None else 0)
        pool.each(("begin_sums", size, len(jobs)))

        def take(job: int, slot: int) -> tuple[int, Entries]:
            if states is not None:
                states[1][job] = pool.slots[slot, width:].numpy()
            return slot, entries[job]

        if states is not None:
            pool.own[: len(jobs)] = torch.from_numpy(states[0][order])
        self._share_out(pool, starts, jobs, order, take)
        pool.each(("end_sums", mix.n_targets))
        return pool.take_sums(mix.n_targets)

    def train(self, starts: Rows, jobs: Jobs) -> Rows:
        starts = self._checked(starts, jobs, self.n_params)
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
        rows = self._models(rows)
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
            with self._settled():
                for i, (m, low, high) in enumerate(pieces):
                    collect(i, self._local().evaluate(torch.from_numpy(rows[m]), split, low, high))
        else:
            pool = self._workers(len(rows))
            pool.starts[: len(rows), : self.n_params] = torch.from_numpy(rows)
            pool.map([("evaluate", m, split, low, high) for m, low, high in pieces], collect)
        mean = sums / n
        correct = np.array([np.concatenate([by_low[low] for low in sorted(by_low)]) for by_low in right])
        return Scores(loss=mean[:, 0], correct=correct, rmse=np.sqrt(mean[:, 1]), mae=mean[:, 2])

    def outputs(self, rows: Rows, split: str = "test") -> NDArray[np.float32]:
        _check.one_of("split", split, ("train", "test"))
        with self._settled():
            found = [self._local().outputs(torch.from_numpy(row), split) for row in self._models(rows)]
        return np.stack(found)

    def gradient(self, rows: Rows, jobs: Sequence[tuple[int, int]]) -> Rows:
        rows = self._models(rows)
        out = np.zeros((len(jobs), self.n_params), dtype=np.float32)
        with self._settled(cudnn=False):
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

    def _run(
        self,
        starts: Rows,
        jobs: Jobs,
        order: Ints,
        consume: Callable[[int, torch.Tensor], Any],
        states: tuple[Rows, Rows] | None = None,
    ) -> None:
        """Train all jobs here and hand each result to `consume` in this order."""
        diverged: list[int] = []
        with self._settled(), kept_generators(self.device):
            if self._together is not None:
                self._run_together(self._together, starts, jobs, order, consume)
                return
            for job, column in zip(order.tolist(), _columns(jobs, order)):
                start, row = torch.from_numpy(starts[column[0]]), self._local().row
                if states is None:
                    finite = self._local().train(start, *column[1:])
                else:
                    assert self._layout is not None
                    start, own = start.to(self.device), torch.from_numpy(states[0][job]).to(self.device)
                    finite, after = train_with_state(self._local(), self._layout, start, own, column[1:])
                    row = torch.cat([row, after[: len(start) - len(row)]])
                    states[1][job] = after[len(start) - self.n_params :].cpu().numpy()
                if not finite:
                    diverged.append(column[1])
                consume(job, row)
        self._refuse(diverged)

    def _run_together(
        self, many: Together, starts: Rows, jobs: Jobs, order: Ints, consume: Callable[[int, torch.Tensor], Any]
    ) -> None:
        """The same, many jobs at once."""
        columns, diverged = _columns(jobs, order), list[int]()
        where = cuts(self.rule, [column[4] for column in columns], self.at_once)
        for low, high in itertools.pairwise(where):
            mine = columns[low:high]
            first = torch.from_numpy(starts[[column[0] for column in mine]]).to(self.device)
            trained = many.train(first, [column[1:] for column in mine])
            finite = trained.sum(dim=1).isfinite().tolist()
            diverged += [column[1] for column, good in zip(mine, finite) if not good]
            for job, row in zip(order[low:high].tolist(), trained.cpu()):
                consume(job, row)
        self._refuse(diverged)

    def _share_out(
        self, pool: Pool, starts: Rows, jobs: Jobs, order: Ints, use: Callable[[int, int], tuple[int, Entries] | None]
    ) -> None:
        """Let workers train all jobs. use(job, slot), asked in this order, says what every worker is to add up; if nothing, the
        slot may be used again when it returns."""
        chunk = chunk_size(self.n_params)
        cuts, columns = message_cuts(len(jobs), self.n_workers, chunk), _columns(jobs, order)
        chunks = [columns[i:j] for i, j in itertools.pairwise(cuts)]
        pool.starts[: len(starts), : starts.shape[1]] = torch.from_numpy(starts)
        ring, diverged = ring_size(self.n_params) * self.n_workers, list[int]()

        def collect(number: int, bad: list[int]) -> list[tuple[int, Entries]] | None:
            diverged.extend(bad)
            first, slot = cuts[number], (number % ring) * chunk
            found = [use(int(order[first + i]), slot + i) for i in range(len(chunks[number]))]
            return [one for one in found if one is not None] or None

        with one_torch_thread():  # this process's threads would only take the cores from the workers
            messages = [("train", (c % ring) * chunk, part, cuts[c]) for c, part in enumerate(chunks)]
            pool.map(messages, collect, ring)
        self._refuse(diverged)

    def _refuse(self, diverged: list[int]) -> None:
        if diverged:
            self.close()
            raise NotFinite(sorted(set(diverged)), self.rule.lr)

    def _checked(self, starts: Rows, jobs: Jobs, width: int, with_state: bool = False) -> Rows:
        starts = _as_rows(starts, width)
        jobs.check(len(starts), self.task.n_clients)
        if self._layout is not None and not with_state:
            raise ValueError("jobs of a client rule with state are trained with train_with_state")
        return starts

    def _models(self, rows: Rows) -> Rows:
        """Models without the states that they share."""
        if self._layout is not None and rows.shape[1:] == (self._layout.width,):
            rows = rows[:, : self.n_params]
        return _as_rows(rows, self.n_params)

    def _local(self) -> Trainer:
        if self._trainer is None:
            self._trainer = Trainer(self.task, self.rule, self.seed, self.device)
        return self._trainer

    def _many(self, wanted: int | None) -> tuple[int, str]:
        """How many clients train at once; and why not more than one, if they cannot."""
        if wanted is None:
            wanted = 1 if self.device == "cpu" else usual_number(self.n_params)
        if wanted == 1:
            return 1, ""
        try:
            with self._settled(), kept_generators(self.device):
                self._together = Together(self._local())
        except Unsupported as error:
            return 1, f"not {wanted} clients at once: {error}"
        return wanted, ""

    @contextmanager
    def _settled(self, cudnn: bool = True) -> Iterator[None]:
        """With one thread and full precision, so that results do not depend on what else there is."""
        with one_torch_thread(), single_precision(self.device, cudnn):
            yield

    def _workers(self, n_starts: int, n_sums: int = 0, n_own: int = 0) -> Pool:
        """The running pool; forked anew when there are more start rows, sums or own states than it has room for."""
        pool, n = self._pool, (n_starts, n_sums, n_own)
        if pool is None or pool.closed or any(has < wanted for has, wanted in zip(pool.room, n)):
            self.close()
            self._pool = pool = Pool(
                self._local(), self.n_workers, self._layout, max(n_starts, 16), max(n_sums, 16), n_own
            )
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

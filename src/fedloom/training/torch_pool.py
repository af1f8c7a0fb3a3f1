"""Forked workers that train and evaluate for the torch engine.

Start rows and results travel through memory that all of them share; a ring of result slots bounds it whatever the number of
clients. Workers add the results up as well, each its own range of columns, so that the driver's process only waits. They use one
thread each, so results do not depend on how many there are.
"""

import mmap
import multiprocessing
import os
import signal
import traceback
import warnings
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from fedloom.training.heap import keep_memory
from fedloom.training.orphans import end_with
from fedloom.training.ring import CHUNK, chunk_size, messages_ahead, ring_size
from fedloom.training.state import Layout
from fedloom.training.torch_states import train_with_state
from fedloom.training.torch_sums import Entries, RangeSums, ranges
from fedloom.training.torch_trainer import Trainer

Call = tuple[Any, ...]  # the name of a worker's method, and its arguments
LARGE_SUMS = 1 << 24  # bytes: clearing as many pages again takes some milliseconds
PIECE_OF_SUMS = 1 << 24  # bytes, whole pages


class Pool:
    """Forked workers, each with a pipe; start rows, result slots and sums in memory that all of them share."""

    def __init__(
        self, trainer: Trainer, n_workers: int, layout: Layout | None, n_starts: int, n_sums: int, n_own: int
    ) -> None:
        """layout: of a client rule with state, if there is one: rows of results then have own states behind them. Room for so
        many start rows, sums and own states of clients."""
        n_params = len(trainer.row)
        width, kept = (n_params, 0) if layout is None else (layout.width, layout.kept)
        self.room = n_starts, n_sums, n_own
        self.starts, _ = _shared(n_starts, width, torch.float32)
        self.own, _ = _shared(n_own, kept, torch.float32)
        self.slots, _ = _shared(ring_size(n_params) * n_workers * chunk_size(n_params), width + kept, torch.float32)
        self.sums, self._pages_of_sums = _shared(n_sums, width, torch.float64)
        self.ranges = ranges(width, n_workers)
        self.pipes: list[Connection] = []
        self.processes: list[BaseProcess] = []
        self.closed = False
        self._ahead = messages_ahead(n_params)
        context = multiprocessing.get_context("fork")
        for i, own in enumerate(self.ranges):
            ours, theirs = context.Pipe()
            # A worker must not hold the driver's ends, or it would not notice that the driver is gone.
            worker = _Worker(trainer, layout, self, own, scratch=i)
            args = (theirs, [*self.pipes, ours], worker, os.getpid())
            process = context.Process(target=_work, args=args, daemon=True)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)  # workers run no code that needs other threads
                process.start()
            theirs.close()
            self.pipes.append(ours)
            self.processes.append(process)

    def map(
        self, messages: Sequence[Call], collect: Callable[[int, Any], list[Any] | None], ring: int | None = None
    ) -> None:
        """Send the messages to whoever is free; collect the answers in order, at most `ring` ahead.

        What `collect` returns, if it is something, every worker adds (`_Worker.add`) before its next message, in the order of
        the messages and as much as there is in one go. Only when all have done so, their message counts as collected.
        """
        ring, n = ring or len(messages), len(messages)
        answers: dict[int, Any] = {}
        chores: list[tuple[int, list[Any]]] = []  # with the number of the message that they are of
        awaited: dict[Connection, list[_Awaited]] = {pipe: [] for pipe in self.pipes}
        given, done = dict.fromkeys(self.pipes, 0), dict.fromkeys(self.pipes, 0)  # chores
        sent = collected = 0
        try:
            while collected < n or min(done.values()) < len(chores):
                first_open = min(done.values())
                behind = chores[first_open][0] if first_open < len(chores) else collected
                for depth in range(1, self._ahead + 1):  # one message each first
                    for pipe, waited in awaited.items():
                        more = sum(item.message for item in waited) < depth and sent < min(n, behind + ring)
                        todo = chores[given[pipe] :] if more or not waited else []
                        tasks: list[list[Call]] = []
                        if todo:
                            tasks.append([("add", [one for _, found in todo for one in found])])
                            given[pipe] = len(chores)
                            waited.append(_Awaited(False, len(chores)))
                        if more:
                            tasks.append([messages[sent]])
                            waited.append(_Awaited(True, sent))
                            sent += 1
                        if tasks:
                            self._send(pipe, tasks)
                for ready in wait([pipe for pipe, waited in awaited.items() if waited]):
                    assert isinstance(ready, Connection)
                    failure, answer = self._receive(ready)
                    if failure:
                        raise RuntimeError(f"a training worker failed:\n{failure}")
                    item = awaited[ready].pop(0)
                    if item.message:
                        answers[item.number] = answer
                    else:
                        done[ready] = item.number
                while collected in answers:
                    found = collect(collected, answers.pop(collected))
                    chores += [] if found is None else [(collected, found)]
                    collected += 1
        except BaseException:
            self.close()
            raise

    def each(self, call: Call) -> None:
        """All workers do this, and have done it when this returns."""
        try:
            for pipe in self.pipes:
                self._send(pipe, [[call]])
            for pipe in self.pipes:
                failure, _ = self._receive(pipe)
                if failure:
                    raise RuntimeError(f"a training worker failed:\n{failure}")
        except BaseException:
            self.close()
            raise

    def take_sums(self, n_sums: int) -> NDArray[np.float64]:
        """A copy of the first so many. If they are large, their pages go back to the system, a piece after the other: the next
        training has the memory."""
        found = np.empty((n_sums, self.sums.shape[1]))
        give_back = getattr(mmap, "MADV_REMOVE", None)
        if give_back is None or len(self._pages_of_sums) < LARGE_SUMS:
            found[:] = self.sums[:n_sums].numpy()
            return found
        size, stride = self.sums.itemsize, self.sums.stride(0)
        for i, values in enumerate(self.sums[:n_sums].numpy()):
            for first in range(0, stride, PIECE_OF_SUMS // size):
                after = min(first + PIECE_OF_SUMS // size, stride)
                found[i, first:after] = values[first:after]
                self._pages_of_sums.madvise(give_back, (i * stride + first) * size, (after - first) * size)
        return found

    def _send(self, pipe: Connection, tasks: list[list[Call]]) -> None:
        try:
            pipe.send(tasks)
        except (BrokenPipeError, ConnectionResetError):
            raise self._lost(pipe) from None

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


class _Awaited(NamedTuple):
    """An answer that is to come: to a message, by its number, or that so many chores are done."""

    message: bool
    number: int


class _Worker:
    """What a worker does with its model and the shared memory. It trains in the slots themselves, so that no row is copied.
    columns: those that it adds up; scratch: the slot in which it evaluates."""

    def __init__(
        self, trainer: Trainer, layout: Layout | None, memory: Pool, columns: tuple[int, int], scratch: int
    ) -> None:
        self._trainer, self._layout, self._columns = trainer, layout, columns
        self._n_params = len(trainer.row)
        self._starts, self._own, self._slots, self._sums = memory.starts, memory.own, memory.slots, memory.sums
        self._scratch = scratch
        self._adding: RangeSums | None = None

    def train(self, slot: int, jobs: list[list[int]], first: int) -> list[int]:
        """Jobs into slots from `slot` on, with own states from the `first` on; the clients whose models are not finite."""
        diverged = []
        for i, (start, *job) in enumerate(jobs):
            self._place(slot + i)
            if self._layout is None:
                finite = self._trainer.train(self._starts[start], *job)
            else:
                own = self._own[first + i]
                finite, after = train_with_state(self._trainer, self._layout, self._starts[start], own, job)
                self._slots[slot + i, self._n_params :] = after
            if not finite:
                diverged.append(job[0])
        return diverged

    def begin_sums(self, size: int, n_jobs: int) -> None:
        """So many rows will be added up."""
        self._adding = RangeSums(*self._columns, size, n_jobs)

    def add(self, found: list[tuple[int, Entries]]) -> None:
        """Its columns of the rows in some slots."""
        assert self._adding is not None
        self._adding.add([(self._slots[slot], entries) for slot, entries in found])

    def end_sums(self, n_sums: int) -> None:
        """Show what came out."""
        assert self._adding is not None
        self._adding.write(self._sums[:n_sums])
        self._adding = None

    def evaluate(self, m: int, split: str, low: int, high: int) -> Any:
        self._place(self._scratch)  # nothing is being trained meanwhile
        return self._trainer.evaluate(self._starts[m, : self._n_params], split, low, high)

    def _place(self, slot: int) -> None:
        self._trainer.place(self._slots[slot, : self._n_params])


def _work(pipe: Connection, drivers_ends: list[Connection], worker: _Worker, parent: int) -> None:
    """A worker's life: take tasks, each some calls of its methods, and answer each; end when the driver does."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the driver's to handle
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    end_with(parent)
    for end in drivers_ends:
        end.close()
    torch.set_num_threads(1)
    keep_memory()
    while True:
        try:
            tasks: list[list[Call]] = pipe.recv()
        except (EOFError, ConnectionResetError):
            return
        for calls in tasks:
            try:
                value = None
                for name, *arguments in calls:
                    value = getattr(worker, name)(*arguments)
                answer: tuple[str, Any] = ("", value)
            except Exception:
                answer = (traceback.format_exc(), None)
            try:
                pipe.send(answer)
            except (BrokenPipeError, ConnectionResetError):
                return


def message_cuts(n_jobs: int, n_workers: int, chunk: int = CHUNK) -> list[int]:
    """Where to cut the list of jobs into messages: large ones first, single jobs at the end, so that all finish together."""
    cuts = [0]
    while cuts[-1] < n_jobs:
        cuts.append(cuts[-1] + max(1, min(chunk, (n_jobs - cuts[-1]) // (4 * n_workers))))
    return cuts


def _shared(n: int, n_params: int, dtype: torch.dtype) -> tuple[torch.Tensor, mmap.mmap]:
    """(n, P) in anonymous memory that forked processes share, taken when it is first written; freed with the last of them. Rows
    begin with a page: how values are aligned may decide how products are rounded. And that memory."""
    per_page = mmap.PAGESIZE // dtype.itemsize
    stride = max(1, -(-n_params // per_page)) * per_page
    n = max(1, n)
    memory = mmap.mmap(-1, dtype.itemsize * n * stride)
    return torch.frombuffer(memory, dtype=dtype, count=n * stride).view(n, stride)[:, :n_params], memory

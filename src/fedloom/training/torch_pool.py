"""Forked workers that train and evaluate for the torch engine.

Start rows and results travel through memory that all of them share; a ring of result slots bounds it whatever the number of
clients. Workers use one thread each, so results do not depend on how many there are.
"""

import mmap
import multiprocessing
import os
import signal
import traceback
import warnings
from collections.abc import Callable
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any

import torch

from fedloom.training.orphans import end_with
from fedloom.training.torch_trainer import Trainer

CHUNK = 4  # most jobs in one message to a worker
RING = 3  # messages whose results may be waiting, per worker


class Pool:
    """Forked workers, each with a pipe; start rows and result slots in memory that all of them share."""

    def __init__(self, trainer: Trainer, n_workers: int, n_starts: int, n_slots: int, n_params: int) -> None:
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
    trainer: Trainer,
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


def message_cuts(n_jobs: int, n_workers: int) -> list[int]:
    """Where to cut the list of jobs into messages: large ones first, single jobs at the end, so that all finish together."""
    cuts = [0]
    while cuts[-1] < n_jobs:
        cuts.append(cuts[-1] + max(1, min(CHUNK, (n_jobs - cuts[-1]) // (4 * n_workers))))
    return cuts


def _shared_rows(n: int, n_params: int) -> torch.Tensor:
    """(n, P) float32 in anonymous memory that forked processes share; freed with the last of them."""
    memory = mmap.mmap(-1, max(1, 4 * n * n_params))
    return torch.frombuffer(memory, dtype=torch.float32, count=n * n_params).view(n, n_params)

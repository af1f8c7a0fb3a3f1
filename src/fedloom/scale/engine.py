"""An engine whose clients train on a Ray cluster; for the contract see fedloom.training.engine.

The clock and the models stay with the driver. The data goes to every machine once, when the actors start; they share it
there, and any of them can train any client. For every batch of jobs the driver puts the start models into the object store
once, and cuts the jobs into spans of 2^h blocks, h by the number of actors. A span's answer is its node of the tree of sums
(fedloom.training.sums), one row for each average that it touches; rows of single clients are never sent. The driver adds the
spans along the rest of the same tree. So the result has the bits of the local engine, for any number of actors and whatever
order the answers come in, as long as all machines compute alike (`ready` sees to that). Evaluation is the driver's.
"""

import os
import platform
import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedloom._versions import version_of
from fedloom.scale.cluster import connect, n_cpus
from fedloom.scale.pool import Pool
from fedloom.training import rows
from fedloom.training.choose import make_engine
from fedloom.training.engine import Engine, Jobs, KeepsState, Mix, NotFinite, Rows, Scores, Task, WithState
from fedloom.training.native import NativeEngine
from fedloom.training.rule import LocalRule
from fedloom.training.state import layout_of
from fedloom.training.sums import Tree, block_size, by_average

SPANS = 4  # for each actor, if there are so many blocks: who is quick gets more
PACKAGES = ("fedloom", "torch", "numpy")


class Trainer:
    """An actor: one engine with one thread, over the data of all clients, which the actors of a machine share."""

    def __init__(self, shipment: dict[str, Any]) -> None:
        self._shipment = shipment
        self._engine: Engine | None = None

    def ready(self) -> str | None:
        """Make the engine; a text if this machine would not give the driver's results."""
        wanted = self._shipment["circumstances"]
        here = _circumstances()
        different = [f"{name} is {here[name]} and not {wanted[name]}" for name in wanted if here[name] != wanted[name]]
        if different:
            return f"machine {platform.node()} is not like the driver's: {', '.join(different)}; install the same there"
        if self._shipment["build"] is not None:
            os.environ["FEDLOOM_NATIVE"] = self._shipment["build"]
        warnings.filterwarnings("ignore", "The given NumPy array is not writable")  # nobody writes to the data
        task = _unpack(self._shipment)
        kind = "torch" if self._shipment["build"] is None else "native"
        try:
            self._engine = make_engine(task, self._shipment["rule"], self._shipment["seed"], 1, kind)[0]
        except ValueError as error:
            return (
                f"machine {platform.node()} cannot train like the driver: {error}; set FEDLOOM_NATIVE on the driver to what "
                f"all machines can do (avx2 or baseline)"
            )
        return None

    def average(self, starts: Rows, jobs: Jobs, mix: Mix) -> tuple[NDArray[np.float64], list[int]]:
        """Sums (M, P), and the clients whose models are no longer finite."""
        assert self._engine is not None
        try:
            return self._engine.train_average(starts, jobs, mix), []
        except NotFinite as error:
            return np.zeros((0, 0)), error.clients

    def average_with_state(self, starts: Rows, jobs: Jobs, mix: Mix, own: Rows) -> tuple[WithState, list[int]]:
        """Sums (M, width) and own states (J, kept), and the clients whose models are no longer finite."""
        assert isinstance(self._engine, KeepsState)
        try:
            return self._engine.train_with_state(starts, jobs, mix, own), []
        except NotFinite as error:
            return WithState(sums=np.zeros((0, 0)), own=np.zeros((0, 0), dtype=np.float32)), error.clients

    def train(self, starts: Rows, jobs: Jobs) -> tuple[Rows, list[int]]:
        """Rows (J, P), and the clients whose models are no longer finite."""
        assert self._engine is not None
        try:
            return self._engine.train(starts, jobs), []
        except NotFinite as error:
            return np.zeros((0, 0), dtype=np.float32), error.clients

    def gradient(self, rows: Rows, jobs: list[tuple[int, int]]) -> Rows:
        """(J, P)."""
        assert self._engine is not None
        return self._engine.gradient(rows, jobs)


class RayEngine:
    """Trains on the actors of a cluster; evaluates with `local`, the driver's own engine.

    bytes_down, bytes_up: models that went out to the machines, and sums or rows that came back, so far. Not counted: the data,
    which goes out once, and some 64 bytes a job. n_lost: actors that died and were replaced.
    """

    def __init__(self, ray: Any, local: Engine, task: Task, rule: LocalRule, seed: int, n_actors: int) -> None:
        self._ray, self._local, self._rule = ray, local, rule
        self.n_params, self.n_clients, self.n_actors = rows.n_values(task.model), task.n_clients, n_actors
        self._layout = layout_of(rule.client, self.n_params)
        self.bytes_down = self.bytes_up = self.n_lost = 0
        self._shipment = _pack(task) | {
            "rule": rule,
            "seed": seed,
            "build": local.build if isinstance(local, NativeEngine) else None,
            "circumstances": _circumstances(),
        }
        self._pool: Pool | None = None

    def train_average(self, starts: Rows, jobs: Jobs, mix: Mix) -> NDArray[np.float64]:
        starts = self._checked(starts, jobs, self.n_params)
        mix.check(len(jobs))
        spans = cut(jobs, mix, block_size(self.n_params), self.n_actors)
        sums, diverged = _InOrder(), list[int]()

        def collect(span: int, answer: tuple[NDArray[np.float64], list[int]]) -> None:
            self.bytes_up += answer[0].nbytes
            diverged.extend(answer[1])
            sums.add(span, dict(zip(spans[span].targets.tolist(), answer[0])))

        ref = self._send(starts)
        self._map([("average", (ref, span.jobs, span.mix)) for span in spans], collect)
        self._check_finite(diverged)
        return sums.tree.total(mix.n_targets, self.n_params)

    def train_with_state(self, starts: Rows, jobs: Jobs, mix: Mix, own: Rows) -> WithState:
        assert self._layout is not None
        starts = self._checked(starts, jobs, self._layout.width)
        mix.check(len(jobs))
        spans = cut(jobs, mix, block_size(self.n_params), self.n_actors)
        sums, diverged, after = _InOrder(), list[int](), np.empty_like(own)

        def collect(span: int, answer: tuple[WithState, list[int]]) -> None:
            found = answer[0]
            self.bytes_up += found.sums.nbytes + found.own.nbytes
            diverged.extend(answer[1])
            if not answer[1]:
                after[spans[span].which] = found.own
            sums.add(span, dict(zip(spans[span].targets.tolist(), found.sums)))

        ref = self._send(starts)
        calls = [("average_with_state", (ref, span.jobs, span.mix, own[span.which])) for span in spans]
        self.bytes_down += own.nbytes
        self._map(calls, collect)
        self._check_finite(diverged)
        return WithState(sums=sums.tree.total(mix.n_targets, self._layout.width), own=after)

    def train(self, starts: Rows, jobs: Jobs) -> Rows:
        starts = self._checked(starts, jobs, self.n_params)
        out: Rows = np.empty((len(jobs), self.n_params), dtype=np.float32)
        pieces = self._pieces(len(jobs))
        diverged: list[int] = []

        def collect(piece: int, answer: tuple[Rows, list[int]]) -> None:
            self.bytes_up += answer[0].nbytes
            diverged.extend(answer[1])
            if not answer[1]:
                out[pieces[piece]] = answer[0]

        ref = self._send(starts)
        self._map([("train", (ref, _take(jobs, piece))) for piece in pieces], collect)
        self._check_finite(diverged)
        return out

    def gradient(self, rows: Rows, jobs: Sequence[tuple[int, int]]) -> Rows:
        out: Rows = np.empty((len(jobs), self.n_params), dtype=np.float32)
        pieces = self._pieces(len(jobs))

        def collect(piece: int, answer: Rows) -> None:
            self.bytes_up += answer.nbytes
            out[pieces[piece]] = answer

        ref = self._send(np.ascontiguousarray(rows, dtype=np.float32))
        self._map([("gradient", (ref, [jobs[i] for i in piece])) for piece in pieces], collect)
        return out

    def evaluate(self, rows: Rows, split: str = "test") -> Scores:
        return self._local.evaluate(rows, split)

    def outputs(self, rows: Rows, split: str = "test") -> NDArray[np.float32]:
        return self._local.outputs(rows, split)

    def close(self) -> None:
        self._local.close()
        if self._pool is not None:
            self._pool.close()
            self._pool = None

    def _checked(self, starts: Rows, jobs: Jobs, width: int) -> Rows:
        starts = np.ascontiguousarray(starts, dtype=np.float32)
        if starts.ndim != 2 or starts.shape[1] != width:
            raise ValueError(f"rows must have shape (any, {width}) for this model, got {starts.shape}")
        jobs.check(len(starts), self.n_clients)
        return starts

    def _pieces(self, n: int) -> list[NDArray[np.int64]]:
        """0..n-1 in pieces for the actors; where they are cut does not matter."""
        return [p for p in np.array_split(np.arange(n), SPANS * self.n_actors) if len(p)]

    def _send(self, models: Rows) -> Any:
        """Put models into the object store, from where every machine fetches them once."""
        n_machines = sum(node["Alive"] for node in self._ray.nodes())
        self.bytes_down += models.nbytes * n_machines
        return self._ray.put(models)

    def _map(self, calls: list[tuple[str, tuple[Any, ...]]], collect: Callable[[int, Any], None]) -> None:
        if self._pool is None:
            remote = self._ray.remote(num_cpus=1, max_restarts=0, scheduling_strategy="SPREAD")(Trainer)
            shipment = self._ray.put(self._shipment)
            self._pool = Pool(self._ray, lambda: remote.remote(shipment), self.n_actors)
        lost_before = self._pool.n_lost
        try:
            self._pool.map(calls, collect)
        except BaseException:
            self._pool.close()
            self._pool = None
            raise
        self.n_lost += self._pool.n_lost - lost_before

    def _check_finite(self, diverged: list[int]) -> None:
        if diverged:
            raise NotFinite(sorted(set(diverged)), self._rule.lr)


def on_ray(
    address: str, n_actors: int | None = None, engine: str = "auto"
) -> Callable[[Task, LocalRule, int], tuple[Engine, str]]:
    """For fedloom.Simulation(engine=on_ray("auto")): makes an engine on the cluster at `address`, and its name.

    n_actors: by default one for each CPU of the cluster. engine: auto, native or torch, as on one machine.
    """
    ray = connect(address)
    n = n_actors or n_cpus(ray)

    def make(task: Task, rule: LocalRule, seed: int) -> tuple[Engine, str]:
        local, name = make_engine(task, rule, seed, None, engine)
        return RayEngine(ray, local, task, rule, seed, n), f"{name.split(',')[0]} on {n} Ray actors"

    return make


class _InOrder:
    """Sums of spans, added along the tree whatever came first."""

    def __init__(self) -> None:
        self.tree = Tree()
        self._early: dict[int, dict[int, NDArray[np.float64]]] = {}
        self._n_pushed = 0

    def add(self, span: int, sums: dict[int, NDArray[np.float64]]) -> None:
        self._early[span] = sums
        while self._n_pushed in self._early:
            self.tree.push(self._early.pop(self._n_pushed))
            self._n_pushed += 1


class Span(NamedTuple):
    """Jobs that an actor trains together: which of all they are, their weights with averages numbered anew, and the averages'
    numbers."""

    jobs: Jobs
    mix: Mix
    targets: NDArray[np.int64]
    which: NDArray[np.int64]


def cut(jobs: Jobs, mix: Mix, size: int, n_actors: int) -> list[Span]:
    """Spans of 2^h blocks of `size` jobs.

    h is as large as leaves SPANS spans for every actor. An average's new number rises with its old one, so that the actor
    finds the same blocks.
    """
    n_blocks = -(-len(jobs) // size)
    span = size
    while n_blocks * size // (2 * span) >= SPANS * n_actors:
        span *= 2
    order = by_average(jobs, mix)
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order))
    entries = np.argsort(rank[mix.job], kind="stable")
    place = rank[mix.job][entries]
    spans = []
    for low in range(0, len(jobs), span):
        a, b = np.searchsorted(place, [low, low + span])
        targets, target = np.unique(mix.target[entries[a:b]], return_inverse=True)
        mine = Mix(n_targets=len(targets), target=target, job=place[a:b] - low, weight=mix.weight[entries[a:b]])
        which = order[low : low + span]
        spans.append(Span(_take(jobs, which), mine, targets, which))
    return spans


def _take(jobs: Jobs, which: NDArray[np.int64]) -> Jobs:
    return Jobs(
        start=jobs.start[which],
        client=jobs.client[which],
        n_steps=jobs.n_steps[which],
        first_step=jobs.first_step[which],
        lr_step=jobs.lr_step[which],
    )


def _pack(task: Task) -> dict[str, Any]:
    """What an actor needs of a task: few large arrays, which the processes of a machine share without copies."""
    return {
        "model": task.model,
        "x": np.ascontiguousarray(task.x_train),
        "y": np.ascontiguousarray(task.y_train),
        "samples": np.concatenate(task.parts),
        "n_samples": task.n_samples,
        "loss": task.loss,
        "batch_size": task.batch_size,
        "drop_last": task.drop_last,
    }


def _unpack(shipment: dict[str, Any]) -> Task:
    x, y = shipment["x"], shipment["y"]
    return Task(
        model=shipment["model"],
        x_train=x,
        y_train=y,
        x_test=x[:1],  # actors do not evaluate
        y_test=y[:1],
        parts=tuple(np.split(shipment["samples"], np.cumsum(shipment["n_samples"])[:-1])),
        loss=shipment["loss"],
        batch_size=shipment["batch_size"],
        drop_last=shipment["drop_last"],
    )


def _circumstances() -> dict[str, str]:
    """What must be alike on all machines, or results would depend on where a client trains."""
    return {"processor": platform.machine()} | {name: version_of(name) for name in PACKAGES}

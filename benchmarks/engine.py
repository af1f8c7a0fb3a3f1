"""How fast the engines train, against bare loops and against what the machine can multiply.

    python benchmarks/engine.py [--repeats 5] [--only NAME] [--json]

For every case the same local training of all clients, in samples per second, by
  native   NativeEngine.train_average, 2 threads
  torch    TorchEngine.train_average, 2 processes
  bare     two forked processes with one thread each; per client nn.Module and torch.optim.SGD, clients dealt out in advance,
           batches by fedloom.training.batches on the way: what a simulator costs at least if it is written by hand
  function the same processes without an optimizer object: the model bound to one vector, torch.autograd.grad and an in-place
           update. function/torch is what the torch engine costs over the bare arithmetic; target: torch at 0.95 of it or more.
All are warm before they are timed, are timed in turns, and their results are compared first: after one step native and torch
within 1e-4 of the update (median over clients), at the end all within 5e-2: a nearly tied pooling may decide either way.
Ratios are medians over turns of the ratio within a turn; seconds are medians. auto: which engine FedLoom would choose, and
its speed over that of the better one. peak: multiply-adds per second of the native engine over those of torch.mm in float32
with 2 threads; counted are convolutions and dense layers, forward and backward, without the gradient of the first layer's
input, as if done directly: the native engine needs fewer in most convolutions (Winograd), so its share may be above 1. Peaks that
differ between cases mean that the machine was busy: run it again.
"""

import argparse
import json
import mmap
import multiprocessing
import os
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

from conditions import conditions
from fedloom.training import models, rows
from fedloom.training.batches import batches
from fedloom.training.choose import make_engine
from fedloom.training.engine import Jobs, Mix, Task
from fedloom.training.native import NativeEngine, Unsupported
from fedloom.training.rule import LocalRule
from fedloom.training.torch_engine import TorchEngine

N_WORKERS, SEED, TARGET = 2, 1, 0.95
RULE = LocalRule(lr=0.01)


@dataclass(frozen=True)
class Case:
    """One model and how much of it is trained."""

    model: str
    shape: tuple[int, ...]
    n_outputs: int
    batch_size: int
    n_clients: int
    n_steps: int
    hidden: tuple[int, ...] | None = None

    @property
    def n_samples(self) -> int:
        return self.batch_size * self.n_clients * self.n_steps


CASES = {
    "softmax": Case("softmax", (1, 28, 28), 10, 20, 57, 25),
    "lenet5-20": Case("lenet5", (3, 32, 32), 10, 16, 20, 10),
    "lenet5-100": Case("lenet5", (3, 32, 32), 10, 16, 100, 10),
    "cnn-10-30": Case("cnn", (1, 28, 28), 10, 10, 30, 10),
    "cnn-10-200": Case("cnn", (1, 28, 28), 10, 10, 200, 10),
    "cnn-32-30": Case("cnn", (1, 28, 28), 10, 32, 30, 10),
    "cnn-32-200": Case("cnn", (1, 28, 28), 10, 32, 200, 10),
    "vgg": Case("vgg", (3, 32, 32), 10, 20, 8, 2),
    "mlp-2048": Case("mlp", (48,), 6, 32, 24, 5, hidden=(2048, 2048, 2048)),
}


class Bare:
    """A bare loop in two processes; `run` takes a start row and returns the weighted sum of the trained rows."""

    def __init__(
        self, work: Callable[..., None], task: Task, n_steps: int, weights: np.ndarray, seed: int = SEED
    ) -> None:
        n_values = rows.n_values(task.model)
        self.start = _shared(torch.float32, n_values)
        self.sums = [_shared(torch.float64, n_values) for _ in range(N_WORKERS)]
        self.pipes, self.processes = [], []
        context = multiprocessing.get_context("fork")
        for worker in range(N_WORKERS):
            ours, theirs = context.Pipe()
            args = (
                work,
                theirs,
                task,
                range(worker, task.n_clients, N_WORKERS),
                n_steps,
                weights,
                seed,
                self.start,
                self.sums[worker],
            )
            self.processes.append(context.Process(target=_serve, args=args, daemon=True))
            self.processes[-1].start()
            self.pipes.append(ours)

    def run(self, start: np.ndarray, first_step: int = 0) -> np.ndarray:
        """first_step: the clients' step counter, which picks their batches."""
        self.start.copy_(torch.from_numpy(start))
        for pipe in self.pipes:
            pipe.send_bytes(first_step.to_bytes(8, "little"))
        for pipe in self.pipes:
            pipe.recv_bytes()
        return sum(self.sums).numpy()

    def close(self) -> None:
        for process in self.processes:
            process.kill()
            process.join()


def _serve(work, pipe, task, clients, n_steps, weights, seed, start, total) -> None:
    torch.set_num_threads(1)
    model = task.model
    row = rows.bind(model)
    x, y = torch.from_numpy(task.x_train), torch.from_numpy(task.y_train)
    model.train()
    while True:
        first_step = int.from_bytes(pipe.recv_bytes(), "little")
        total.zero_()
        for k in clients:
            row.copy_(start)
            part = task.parts[k]
            plan = batches(seed, k, len(part), task.batch_size, first_step, n_steps)
            work(model, ((x, y, torch.from_numpy(part[b])) for b in plan))
            total.add_(row, alpha=float(weights[k]))
        pipe.send_bytes(b"done")


def with_optimizer(model, steps, lr: float = RULE.lr) -> None:
    """The loop of a tutorial."""
    optimizer = torch.optim.SGD(model.parameters(), lr=lr)
    for x, y, index in steps:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x[index]), y[index]).backward()
        optimizer.step()


def functional(model, steps) -> None:
    """The least that torch needs for the same."""
    params = list(model.parameters())
    for x, y, index in steps:
        loss = nn.functional.cross_entropy(model(x.index_select(0, index)), y.index_select(0, index))
        gradient = torch.autograd.grad(loss, params)
        with torch.no_grad():
            torch._foreach_add_(params, gradient, alpha=-RULE.lr)


def _shared(dtype: torch.dtype, n: int) -> torch.Tensor:
    return torch.frombuffer(mmap.mmap(-1, n * dtype.itemsize), dtype=dtype, count=n)


def multiply_adds(model: nn.Module, shape: tuple[int, ...]) -> int:
    """Per sample: forward, gradient of the weights, and gradient of the inputs except for the first such layer."""
    counts: list[int] = []

    def count(layer, _, output) -> None:
        per_output = layer.weight[0].numel()
        counts.append(output[0].numel() * per_output)

    hooks = [m.register_forward_hook(count) for m in model.modules() if isinstance(m, nn.Conv2d | nn.Linear)]
    with torch.no_grad():
        model(torch.zeros(1, *shape))
    for hook in hooks:
        hook.remove()
    return 3 * sum(counts) - counts[0]


def gemm_peak() -> float:
    """Multiply-adds per second of square float32 products, 2 threads: the best of several."""
    before = torch.get_num_threads()
    torch.set_num_threads(N_WORKERS)
    n = 512
    a, b = torch.randn(n, n), torch.randn(n, n)
    out = torch.empty(n, n)
    best = 0.0
    for _ in range(200):
        began = time.perf_counter()
        torch.mm(a, b, out=out)
        best = max(best, n**3 / (time.perf_counter() - began))
    torch.set_num_threads(before)
    return best


def make_task(case: Case) -> Task:
    rng = np.random.default_rng(SEED)
    per_client = 5 * case.batch_size
    n = per_client * case.n_clients
    x = rng.uniform(size=(n, *case.shape)).astype(np.float32)
    y = rng.integers(0, case.n_outputs, n)
    options = {} if case.hidden is None else {"hidden": case.hidden}
    return Task(
        model=models.build(case.model, case.shape, case.n_outputs, SEED, **options),
        x_train=x, y_train=y, x_test=x[:20], y_test=y[:20],
        parts=tuple(np.array_split(rng.permutation(n), case.n_clients)), batch_size=case.batch_size,
    )  # fmt: skip


def measure(name: str, case: Case, repeats: int) -> dict[str, object]:
    """Medians; raises if the results do not agree."""
    task = make_task(case)
    start = rows.to_row(task.model)
    k = case.n_clients
    weights = np.random.default_rng(SEED).dirichlet(np.ones(k))
    zeros, clients = np.zeros(k, dtype=np.int64), np.arange(k)
    jobs = Jobs(start=zeros, client=clients, n_steps=zeros + case.n_steps, first_step=zeros, lr_step=zeros)
    mix = Mix(n_targets=1, target=zeros, job=clients, weight=weights)
    engines = {e.__name__: e(task, RULE, SEED, n_workers=N_WORKERS) for e in (NativeEngine, TorchEngine)}
    native, theirs = engines.values()
    # dropout of the bare loops draws from torch's generator: they cost the same, but cannot be compared
    comparable = not any(isinstance(m, nn.Dropout) for m in task.model.modules())
    loops = {"bare": Bare(with_optimizer, task, case.n_steps, weights)}
    loops["function"] = Bare(functional, task, case.n_steps, weights)
    runs: dict[str, Callable[[], np.ndarray]] = {
        "native": lambda: native.train_average(start[None], jobs, mix)[0],
        "torch": lambda: theirs.train_average(start[None], jobs, mix)[0],
        "bare": lambda: loops["bare"].run(start),
        "function": lambda: loops["function"].run(start),
    }
    results = {which: run() for which, run in runs.items()}  # also starts and warms the pools
    reference = results["torch"]
    differences = {
        which: float(np.linalg.norm(result - reference) / np.linalg.norm(reference - start))
        for which, result in results.items()
        if comparable or which == "native"
    }
    few = clients[:7]
    one = Jobs(start=few * 0, client=few, n_steps=few * 0 + 1, first_step=few * 0, lr_step=few * 0)
    first, second = (engine.train(start[None], one) for engine in engines.values())
    apart = np.linalg.norm(first - second, axis=1) / np.linalg.norm(second - start, axis=1)
    after_one = float(np.median(apart))
    worst = max(differences.values())
    if not (worst < 5e-2 and after_one < 1e-4):
        differences["native, one step"] = after_one
        raise RuntimeError(f"{name}: results differ by {worst:.1e} of the update ({differences}); times mean nothing")

    seconds: dict[str, list[float]] = {which: [] for which in runs}
    order = list(runs)
    for i in range(repeats):
        for which in order[i % len(order) :] + order[: i % len(order)]:
            began = time.perf_counter()
            runs[which]()
            seconds[which].append(time.perf_counter() - began)
    chosen, words = make_engine(task, RULE, SEED, N_WORKERS)
    auto = "native" if isinstance(chosen, NativeEngine) else "torch"
    for closable in (*engines.values(), *loops.values()):
        closable.close()
    middle = {which: statistics.median(values) for which, values in seconds.items()}

    def over(a: str, b: str) -> float:
        """Speed of a over speed of b."""
        return statistics.median(y / x for x, y in zip(seconds[a], seconds[b]))

    return {
        "case": name, "n_clients": k, "n_steps": case.n_steps, "batch_size": case.batch_size,
        "n_values": len(start), "seconds": middle,
        "samples_per_s": {which: case.n_samples / s for which, s in middle.items()},
        "native_over_bare": over("native", "bare"), "torch_over_bare": over("torch", "bare"),
        "torch_over_function": over("torch", "function"), "auto": auto, "auto_words": words,
        "auto_over_best": 1.0 if middle[auto] == min(middle["native"], middle["torch"]) else
        over(auto, "torch" if auto == "native" else "native"),
        "multiply_adds_per_s": multiply_adds(task.model, case.shape) * case.n_samples / middle["native"],
        "difference": worst, "difference_after_one_step": after_one,
    }  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--only", choices=CASES)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if options.repeats < 1:
        parser.error("--repeats must be at least 1")
    cases = {options.only: CASES[options.only]} if options.only else CASES
    results = []
    if not options.json:
        print_head()
    try:
        for name, case in cases.items():
            peak = gemm_peak()  # next to the case: the machine may be busier at another time
            result = measure(name, case, options.repeats)
            results.append({**result, "gemm_peak": peak, "share_of_peak": result["multiply_adds_per_s"] / peak})
            if not options.json:
                print_line(results[-1])
    except Unsupported as error:
        print(f"there is no native engine to measure: {error}", file=sys.stderr)
        return 1
    about = {**conditions(), "torch": torch.__version__, "repeats": options.repeats, "load": os.getloadavg()[0]}
    if options.json:
        print(json.dumps({**about, "target_torch_over_function": TARGET, "results": results}, indent=2))
    else:
        print(f"target: torch/function at least {TARGET}; " + ", ".join(f"{k} {v}" for k, v in about.items()))
    return 0


def print_head() -> None:
    print(
        f"{'':12}{'clients':>8}{'native':>10}{'torch':>9}{'bare':>9}{'native/':>9}{'torch/':>8}{'torch/':>10}"
        f"{'auto':>8}{'auto/':>7}{'native':>8}{'GEMM':>8}"
    )
    print(
        f"{'samples/s':12}{'':8}{'2 thr.':>10}{'2 proc.':>9}{'loop':>9}{'bare':>9}{'bare':>8}{'function':>10}"
        f"{'':8}{'best':>7}{'/ peak':>8}{'GMAC/s':>8}"
    )


def print_line(r: dict) -> None:
    speed = r["samples_per_s"]
    print(
        f"{r['case']:12}{r['n_clients']:8}{speed['native']:10.0f}{speed['torch']:9.0f}{speed['bare']:9.0f}"
        f"{r['native_over_bare']:9.2f}{r['torch_over_bare']:8.2f}{r['torch_over_function']:10.3f}{r['auto']:>8}"
        f"{r['auto_over_best']:7.2f}{r['share_of_peak']:8.2f}{r['gemm_peak'] / 1e9:8.0f}",
        flush=True,
    )


if __name__ == "__main__":
    sys.exit(main())

"""What the torch engine costs over the bare arithmetic.

Ours: TorchEngine.train_average with 2 workers. Bare: the least code that does the same steps on the same batches, namely
two forked processes with one thread each, clients dealt out in advance, batches chosen in advance, the model bound once to
a vector, torch.autograd.grad and an in-place update, no optimizer object; each adds its clients' rows up in float64.
Both are warm before they are timed, and timed in turns. ratio = bare / ours; 1 means that the engine is free.

    python benchmarks/torch_engine.py [--repeats 9] [--only softmax] [--json]
"""

import argparse
import datetime
import json
import mmap
import multiprocessing
import platform
import statistics
import sys
import time
from pathlib import Path

import numpy as np
import torch
from torch import nn

from fedloom.training import models, rows
from fedloom.training.batches import batches
from fedloom.training.engine import Jobs, Mix, Task
from fedloom.training.rule import LocalRule
from fedloom.training.torch_engine import TorchEngine

N_CLIENTS, N_WORKERS, BATCH, PER_CLIENT, SEED = 57, 2, 20, 100, 1
CASES = {"softmax": 25, "lenet5": 5, "cnn": 5}  # model: local steps of each client
TARGET = 0.95
RULE = LocalRule(lr=0.05)


class Bare:
    """The bare loop in two processes; `run` takes a start row and returns the weighted sum of the trained rows."""

    def __init__(self, task: Task, n_steps: int, weights: np.ndarray) -> None:
        n_values = rows.n_values(task.model)
        self.start = _shared(torch.float32, n_values)
        self.sums = [_shared(torch.float64, n_values) for _ in range(N_WORKERS)]
        self.pipes = []
        context = multiprocessing.get_context("fork")
        for worker in range(N_WORKERS):
            ours, theirs = context.Pipe()
            mine = range(worker, N_CLIENTS, N_WORKERS)
            args = (theirs, task, mine, n_steps, weights, self.start, self.sums[worker])
            context.Process(target=_bare_worker, args=args, daemon=True).start()
            self.pipes.append(ours)

    def run(self, start: np.ndarray) -> np.ndarray:
        self.start.copy_(torch.from_numpy(start))
        for pipe in self.pipes:
            pipe.send_bytes(b"go")
        for pipe in self.pipes:
            pipe.recv_bytes()
        return sum(self.sums).numpy()


def _bare_worker(pipe, task, clients, n_steps, weights, start, total) -> None:
    torch.set_num_threads(1)
    model, lr = task.model, RULE.lr
    row = rows.bind(model)
    params = list(model.parameters())
    x, y = torch.from_numpy(task.x_train), torch.from_numpy(task.y_train)
    plans = [
        [torch.from_numpy(task.parts[k][b]) for b in batches(SEED, k, PER_CLIENT, BATCH, 0, n_steps)] for k in clients
    ]
    model.train()
    while True:
        pipe.recv_bytes()
        total.zero_()
        for k, plan in zip(clients, plans):
            row.copy_(start)
            for index in plan:
                loss = nn.functional.cross_entropy(model(x.index_select(0, index)), y.index_select(0, index))
                gradient = torch.autograd.grad(loss, params)
                with torch.no_grad():
                    torch._foreach_add_(params, gradient, alpha=-lr)
            total.add_(row, alpha=float(weights[k]))
        pipe.send_bytes(b"done")


def _shared(dtype: torch.dtype, n: int) -> torch.Tensor:
    return torch.frombuffer(mmap.mmap(-1, n * dtype.itemsize), dtype=dtype, count=n)


def measure(name: str, n_steps: int, repeats: int) -> dict[str, object]:
    """Medians in seconds; raises if the two do not agree."""
    rng = np.random.default_rng(SEED)
    n = N_CLIENTS * PER_CLIENT
    x = rng.uniform(size=(n, 1, 28, 28)).astype(np.float32)
    y = rng.integers(0, 10, n)
    task = Task(
        model=models.build(name, (1, 28, 28), 10, seed=SEED),
        x_train=x, y_train=y, x_test=x[:20], y_test=y[:20],
        parts=tuple(np.array_split(rng.permutation(n), N_CLIENTS)), batch_size=BATCH,
    )  # fmt: skip
    start = rows.to_row(task.model)
    weights = rng.dirichlet(np.ones(N_CLIENTS))
    zeros, clients = np.zeros(N_CLIENTS, dtype=np.int64), np.arange(N_CLIENTS)
    jobs = Jobs(start=zeros, client=clients, n_steps=zeros + n_steps, first_step=zeros, lr_step=zeros)
    mix = Mix(n_targets=1, target=zeros, job=clients, weight=weights)
    engine = TorchEngine(task, RULE, SEED, n_workers=N_WORKERS)
    bare = Bare(task, n_steps, weights)

    def ours() -> np.ndarray:
        return engine.train_average(start[None], jobs, mix)[0]

    for _ in range(2):  # also starts and warms both pools
        a, b = ours(), bare.run(start)
    error = np.linalg.norm(a - b) / np.linalg.norm(b - start)
    if not error < 1e-6:
        raise RuntimeError(f"{name}: the results differ by {error:.1e} of the update; the times mean nothing")

    seconds: dict[str, list[float]] = {"ours": [], "bare": []}
    for i in range(repeats):
        turns = [("ours", ours), ("bare", lambda: bare.run(start))]
        for which, run in turns if i % 2 else turns[::-1]:
            began = time.perf_counter()
            run()
            seconds[which].append(time.perf_counter() - began)
    engine.close()
    middle = {which: statistics.median(values) for which, values in seconds.items()}
    paired = statistics.median(b / a for a, b in zip(seconds["ours"], seconds["bare"]))
    return {
        "model": name, "n_clients": N_CLIENTS, "n_steps": n_steps, "ours_s": middle["ours"], "bare_s": middle["bare"],
        "ratio": middle["bare"] / middle["ours"], "paired_ratio": paired, "difference": error,
    }  # fmt: skip


def commit() -> str:
    """The checked-out commit, read from the files of git."""
    folder = Path(__file__).resolve().parents[1] / ".git"
    try:
        head = (folder / "HEAD").read_text().strip()
        if not head.startswith("ref: "):
            return head
        if (folder / head[5:]).exists():
            return (folder / head[5:]).read_text().strip()
        packed = (folder / "packed-refs").read_text().splitlines()
        return next(line.split()[0] for line in packed if line.endswith(head[5:]))
    except (OSError, StopIteration):
        return "unknown"


def machine() -> str:
    info = Path("/proc/cpuinfo")
    names = [line.split(":")[1].strip() for line in info.read_text().splitlines() if line.startswith("model name")]
    return f"{names[0] if names else platform.processor()} x {len(names)}, torch {torch.__version__}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--only", choices=CASES)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    cases = {options.only: CASES[options.only]} if options.only else CASES
    results = [measure(name, n_steps, options.repeats) for name, n_steps in cases.items()]
    about = {"machine": machine(), "date": datetime.date.today().isoformat(), "commit": commit(), "target": TARGET}
    if options.json:
        print(json.dumps({**about, "repeats": options.repeats, "results": results}, indent=2))
    else:
        print(f"{'model':10}{'clients':>8}{'steps':>7}{'ours ms':>10}{'bare ms':>10}{'ratio':>8}{'paired':>8}")
        for r in results:
            print(
                f"{r['model']:10}{r['n_clients']:8}{r['n_steps']:7}{1e3 * r['ours_s']:10.1f}{1e3 * r['bare_s']:10.1f}"
                f"{r['ratio']:8.3f}{r['paired_ratio']:8.3f}"
            )
        print(", ".join(f"{name} {value}" for name, value in about.items()))
    return 0


if __name__ == "__main__":
    sys.exit(main())

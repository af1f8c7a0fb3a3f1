"""How fast the networks of the published experiments train: samples per second, and the share of what the machine can multiply.

    python benchmarks/workloads.py [--repeats 5] [--only NAME] [--json]

Networks, batch sizes and rules are those of `fedloom.reproduce`; clients and steps are as many as take about a second. What
trains is the engine that FedLoom chooses, with 2 workers, on random data of the right shape: once to warm up, then `repeats`
times; seconds are medians. peak: multiply-adds per second over those of torch.mm, both as benchmarks/engine.py counts them.
"""

import argparse
import json
import statistics
import sys
import time
from dataclasses import dataclass, field

import numpy as np
import torch

from conditions import conditions
from engine import N_WORKERS, SEED, gemm_peak, multiply_adds
from fedloom.training import models, rows
from fedloom.training.choose import make_engine
from fedloom.training.engine import Jobs, Mix, Task
from fedloom.training.native import NativeEngine
from fedloom.training.rule import LocalRule


@dataclass(frozen=True)
class Workload:
    """A network, how it is trained, and how much of it."""

    model: str
    shape: tuple[int, ...]
    n_outputs: int
    batch_size: int
    n_clients: int
    n_steps: int
    options: dict[str, object] = field(default_factory=dict)
    rule: LocalRule = field(default_factory=lambda: LocalRule(lr=0.01))

    @property
    def n_samples(self) -> int:
        return self.batch_size * self.n_clients * self.n_steps


WORKLOADS = {
    "camu, CNN with BatchNorm, MNIST": Workload("cnn-bn", (1, 28, 28), 10, 27, 30, 20),
    "camu, the same, batch of the paper": Workload("cnn-bn", (1, 28, 28), 10, 400, 10, 4),
    "ltc, LeNet-5, CIFAR-10": Workload("lenet5", (3, 32, 32), 10, 16, 100, 10),
    "ltc, SqueezeNet, CIFAR-10": Workload("squeezenet", (3, 32, 32), 10, 16, 4, 2),
    "ltc, MLP 256-256, magnet": Workload("mlp", (48,), 6, 32, 100, 20, {"hidden": (256, 256)}),
    "ddc, CNN of 28 kB, Fashion-MNIST": Workload("cnn-small", (1, 28, 28), 10, 32, 100, 10),
    "ddc, CNN of 28 kB, CIFAR-10": Workload("cnn-small", (3, 32, 32), 10, 32, 100, 10, {"channels": (8, 16)}),
    "ddc, MLP of 28 kB, Fashion-MNIST": Workload("mlp", (1, 28, 28), 10, 32, 200, 20, {"hidden": (34,), "pool": 2}),
    "csahfl, MLP 784-64-10, Fashion-MNIST": Workload("mlp", (1, 28, 28), 10, 10, 200, 30, {"hidden": (64,)}),
    "hhfl, softmax, MNIST": Workload("softmax", (1, 28, 28), 10, 20, 500, 50),
    "hhfl, CNN, MNIST": Workload("cnn", (1, 28, 28), 10, 20, 57, 10),
}


def make_task(work: Workload) -> Task:
    rng = np.random.default_rng(SEED)
    n = 3 * work.batch_size * work.n_clients
    x = rng.uniform(size=(n, *work.shape)).astype(np.float32)
    y = rng.integers(0, work.n_outputs, n)
    return Task(
        model=models.build(work.model, work.shape, work.n_outputs, SEED, **work.options),
        x_train=x, y_train=y, x_test=x[:20], y_test=y[:20],
        parts=tuple(np.array_split(rng.permutation(n), work.n_clients)), batch_size=work.batch_size,
    )  # fmt: skip


def measure(name: str, work: Workload, repeats: int) -> dict[str, object]:
    task = make_task(work)
    clients = np.arange(work.n_clients)
    zeros = clients * 0
    jobs = Jobs(start=zeros, client=clients, n_steps=zeros + work.n_steps, first_step=zeros, lr_step=zeros)
    mix = Mix(n_targets=1, target=zeros, job=clients, weight=np.full(work.n_clients, 1 / work.n_clients))
    start = rows.to_row(task.model)[None]
    engine, _ = make_engine(task, work.rule, SEED, N_WORKERS)
    which = f"native ({engine.build})" if isinstance(engine, NativeEngine) else "torch"
    engine.train_average(start, jobs, mix)
    seconds = []
    for _ in range(repeats):
        began = time.perf_counter()
        engine.train_average(start, jobs, mix)
        seconds.append(time.perf_counter() - began)
    engine.close()
    speed = work.n_samples / statistics.median(seconds)
    return {
        "workload": name, "batch_size": work.batch_size, "engine": which, "samples_per_s": speed,
        "multiply_adds_per_s": speed * multiply_adds(models.as_module(task.model), work.shape),
    }  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--only", choices=WORKLOADS)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if options.repeats < 1:
        parser.error("--repeats must be at least 1")
    chosen = {options.only: WORKLOADS[options.only]} if options.only else WORKLOADS
    results = []
    if not options.json:
        print(f"{'':40}{'batch':>6}{'engine':>16}{'samples/s':>11}{'/ peak':>8}{'GMAC/s of GEMM':>16}")
    for name, work in chosen.items():
        peak = gemm_peak()  # next to the workload: the machine may be busier at another time
        found = measure(name, work, options.repeats)
        results.append({**found, "gemm_peak": peak, "share_of_peak": found["multiply_adds_per_s"] / peak})
        if not options.json:
            print(
                f"{name:40}{work.batch_size:6}{found['engine']:>16}{found['samples_per_s']:11.0f}"
                f"{results[-1]['share_of_peak']:8.2f}{peak / 1e9:16.0f}",
                flush=True,
            )
    about = {**conditions(), "torch": torch.__version__, "repeats": options.repeats}
    if options.json:
        print(json.dumps({**about, "results": results}, indent=2))
    else:
        print(", ".join(f"{k} {v}" for k, v in about.items()))
    return 0


if __name__ == "__main__":
    sys.exit(main())

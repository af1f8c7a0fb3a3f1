"""How the torch engine trains large models, against bare loops: speed, memory, and the share of what the machine can multiply.

    python benchmarks/large.py [--repeats 5] [--only NAME] [--what speed|memory|both] [--json]

For every case the same local training of all clients by two workers: `torch` is TorchEngine.train_average, `bare` the
loop of benchmarks/engine.py with an optimizer. Both are warm before they are timed and are timed in turns, each time another
first; ratios are medians over turns of the ratio within a turn, with the least and the largest. Results are compared first, to
1e-6 of the update; with convolutions, which the engine rounds otherwise, to 1e-2, as a nearly tied ReLU may decide either way
(with dropout the loop draws other numbers, and cannot be compared).
memory: the most that all processes of one way of training have together while they train two times, in a tree of their own;
pages that are shared count once (PSS), sampled every 20 ms.
peak: multiply-adds per second over those of torch.mm in float32 with 2 threads, both as benchmarks/engine.py counts them, next
to the case.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch import nn

from conditions import conditions
from engine import N_WORKERS, RULE, SEED, Bare, Case, gemm_peak, make_task, multiply_adds, with_optimizer
from fedloom.training import rows
from fedloom.training.engine import Jobs, Mix, Task
from fedloom.training.torch_engine import TorchEngine

CASES = {
    "vgg-10": Case("vgg", (3, 32, 32), 10, 20, 10, 2),
    "vgg-9": Case("vgg", (3, 32, 32), 10, 20, 9, 2),
    "resnet18-10": Case("resnet18", (3, 32, 32), 10, 16, 10, 1),
    "squeezenet-10": Case("squeezenet", (3, 32, 32), 10, 16, 10, 2),
    "mlp-2048-10": Case("mlp", (48,), 6, 32, 10, 5, hidden=(2048, 2048, 2048)),
    "mlp-2048-9": Case("mlp", (48,), 6, 32, 9, 5, hidden=(2048, 2048, 2048)),
}
WAYS = ("torch", "bare")
TARGET_SPEED, TARGET_MEMORY = 1.05, 1.0
SAMPLED_S = 0.02

Run = Callable[[], np.ndarray]  # trains all clients; the weighted sum of their rows (P,)


def make_run(way: str, task: Task, n_steps: int) -> tuple[Run, Callable[[], None]]:
    """One way of training all clients, and what ends it."""
    start, k = rows.to_row(task.model), task.n_clients
    weights = np.random.default_rng(SEED).dirichlet(np.ones(k))
    if way != "torch":
        loop = Bare(with_optimizer, task, n_steps, weights)
        return lambda: loop.run(start), loop.close
    zeros, clients = np.zeros(k, dtype=np.int64), np.arange(k)
    jobs = Jobs(start=zeros, client=clients, n_steps=zeros + n_steps, first_step=zeros, lr_step=zeros)
    mix = Mix(n_targets=1, target=zeros, job=clients, weight=weights)
    engine = TorchEngine(task, RULE, SEED, n_workers=N_WORKERS)
    return lambda: engine.train_average(start[None], jobs, mix)[0], engine.close


def in_turns(case: Case, repeats: int) -> dict[str, list[float]]:
    """Seconds of every way, (repeats,) each; raises if the results do not agree."""
    task = make_task(case)
    made = {way: make_run(way, task, case.n_steps) for way in WAYS}
    found = {way: run() for way, (run, _) in made.items()}  # also starts and warms the workers
    if not any(isinstance(m, nn.Dropout) for m in task.model.modules()):
        update = np.linalg.norm(found["torch"] - rows.to_row(task.model))
        apart = np.linalg.norm(found["bare"] - found["torch"]) / update
        if not apart < (1e-2 if any(isinstance(m, nn.Conv2d) for m in task.model.modules()) else 1e-6):
            raise RuntimeError(f"results differ by {apart:.1e} of the update; times mean nothing")
    seconds: dict[str, list[float]] = {way: [] for way in WAYS}
    for i in range(repeats):
        for way in WAYS[i % len(WAYS) :] + WAYS[: i % len(WAYS)]:
            began = time.perf_counter()
            made[way][0]()
            seconds[way].append(time.perf_counter() - began)
    for _, close in made.values():
        close()
    return seconds


def hold(case: Case, way: str) -> int:
    """The most that this process and its workers have together while they train two times, in bytes."""
    task = make_task(case)
    most, over = 0, threading.Event()

    def watch() -> None:
        nonlocal most
        while not over.wait(SAMPLED_S):
            most = max(most, tree_memory(os.getpid()))

    watcher = threading.Thread(target=watch)
    run, close = make_run(way, task, case.n_steps)
    watcher.start()
    for _ in range(2):
        run()
    over.set()
    watcher.join()
    close()
    return most


def tree_memory(pid: int) -> int:
    """Bytes of a process and its children, shared pages once (PSS)."""
    total, waiting = 0, [pid]
    while waiting:
        here = waiting.pop()
        try:
            lines = Path(f"/proc/{here}/smaps_rollup").read_text().splitlines()
            total += sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))
            for children in Path(f"/proc/{here}/task").glob("*/children"):
                waiting += [int(child) for child in children.read_text().split()]
        except (FileNotFoundError, ProcessLookupError):  # it has ended
            continue
    return total


def speed(case: Case, repeats: int) -> dict[str, object]:
    peak = gemm_peak()  # next to the case: the machine may be busier at another time
    work = multiply_adds(make_task(case).model, case.shape) * case.n_samples
    seconds = in_turns(case, repeats)
    middle = {way: statistics.median(values) for way, values in seconds.items()}
    over = [bare / torch for torch, bare in zip(seconds["torch"], seconds["bare"])]
    return {
        "seconds": seconds, "samples_per_s": {way: case.n_samples / s for way, s in middle.items()},
        "torch_over_bare": statistics.median(over), "torch_over_bare_range": (min(over), max(over)),
        "gemm_peak": peak, "share_of_peak": {way: work / s / peak for way, s in middle.items()},
    }  # fmt: skip


def memory(name: str) -> dict[str, object]:
    held = {}
    for way in WAYS:
        command = [sys.executable, __file__, "--hold", way, "--only", name]
        held[way] = int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    return {"memory_bytes": held, "memory_over_bare": held["torch"] / held["bare"]}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--only", choices=CASES)
    parser.add_argument("--what", choices=("speed", "memory", "both"), default="both")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--hold", choices=WAYS, help="print the memory of one way of training and nothing else")
    options = parser.parse_args()
    if options.repeats < 1:
        parser.error("--repeats must be at least 1")
    if options.hold:
        if not options.only:
            parser.error("--hold goes with --only")
        print(hold(CASES[options.only], options.hold))
        return 0
    chosen = {options.only: CASES[options.only]} if options.only else CASES
    results = []
    for name, case in chosen.items():
        found: dict[str, object] = {"case": name}
        found |= speed(case, options.repeats) if options.what != "memory" else {}
        found |= memory(name) if options.what != "speed" else {}
        results.append(found)
        if not options.json:
            print(line(found), flush=True)
    about = {**conditions(), "torch": torch.__version__, "repeats": options.repeats, "load": os.getloadavg()[0]}
    if options.json:
        targets = {"target_torch_over_bare": TARGET_SPEED, "target_memory_over_bare": TARGET_MEMORY}
        print(json.dumps({**about, **targets, "results": results}, indent=2))
    else:
        print(
            f"targets: torch/bare at least {TARGET_SPEED}, memory at most {TARGET_MEMORY} of the bare loop's; "
            + ", ".join(f"{k} {v}" for k, v in about.items())
        )
    return 0


def line(found: dict) -> str:
    """What was found in words."""
    words = f"{found['case']:14}"
    if "samples_per_s" in found:
        fast, share, (least, most) = found["samples_per_s"], found["share_of_peak"], found["torch_over_bare_range"]
        words += (
            f"torch {fast['torch']:.0f} samples/s, bare {fast['bare']:.0f}, ratio {found['torch_over_bare']:.3f} "
            f"({least:.2f} .. {most:.2f}); of torch.mm's {found['gemm_peak'] / 1e9:.0f} GMAC/s: torch {share['torch']:.2f}, "
            f"bare {share['bare']:.2f}; "
        )
    if "memory_bytes" in found:
        held = found["memory_bytes"]
        words += f"memory: torch {held['torch'] / 1e6:.0f} MB, bare {held['bare'] / 1e6:.0f}, "
        words += f"ratio {found['memory_over_bare']:.2f}"
    return words


if __name__ == "__main__":
    sys.exit(main())

"""How a run grows with its fleet, and what Ray costs against threads.

    python benchmarks/scale.py [--clients 100,1000,10000] [--ray-clients 1000] [--rounds 3] [--json]
    python benchmarks/scale.py --one 4000 --method pacfl --model softmax --rounds 1      one size, grouping included

1. Seconds per cloud round and peak memory against the number of clients: HierFedAVG, LeNet-5 on fashion-mini, 20 samples a
   client drawn with replacement, 19 cells, one local step, two edge rounds. Every size runs in a process of its own. The growth
   exponent is the slope of log seconds over log clients, 1 for time in proportion.
2. Seconds per batch of jobs on Ray with two actors over the local engine with two threads, on the same jobs, interleaved,
   median of the ratios; sums are compared first and must have the same bits.
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import time

import numpy as np

from conditions import conditions
from fedloom.simulator import Simulation, make_method, scenario
from fedloom.training import models, rows
from fedloom.training.engine import Jobs, Mix, Task
from fedloom.training.native import NativeEngine
from fedloom.training.rule import LocalRule


def fleet(n_clients: int, rounds: int, model: str) -> dict:
    return {
        "name": f"fleet-{n_clients}",
        "fleet": {
            "n_devices": n_clients,
            "cells": {"kind": "grid", "shape": "hex", "n": 19, "spacing_m": 1000, "radius_m": 800},
            "placement": {"kind": "cells"},
            "device_edge": {"up": {"kind": "radio"}, "down": {"kind": "rate", "bit_s": 1e7}},
            "device_cloud": {"via": "direct", "up": {"kind": "radio"}},  # for methods without edge servers
            "compute": {"law": {"kind": "uniform", "low": 0.01, "high": 0.03}},
        },
        "task": {"partition": {"kind": "drawn", "samples_per_client": 20}, "model": {"kind": model}},
        "training": {"batch_size": 20, "local_steps": 1, "edge_rounds": 2, "cloud_rounds": rounds, "lr": 0.05},
        "evaluation": {"local_samples": 0},
    }


def one_size(n_clients: int, method: str, rounds: int, model: str) -> dict[str, float]:
    """Seconds of set-up, of the median cloud round with its evaluation and of all; aggregators; peak memory of this process."""
    start = time.perf_counter()
    simulation = Simulation(scenario(fleet(n_clients, rounds, model)), make_method(method), seed=1)
    setup_s = time.perf_counter() - start
    seconds, before = [], time.perf_counter()
    for _ in simulation.rounds():
        seconds.append(time.perf_counter() - before)
        before = time.perf_counter()
    peak_bytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return {
        "setup_s": setup_s,
        "round_s": statistics.median(seconds[1:]),
        "all_s": time.perf_counter() - start,
        "processor_s": time.process_time(),
        "aggregators": simulation.places[0].topology.n_aggregators,
        "peak_mb": peak_bytes / 1e6,
    }


def growth(sizes: list[int], method: str, rounds: int) -> list[dict[str, float]]:
    found = []
    for n in sizes:
        command = [sys.executable, __file__, "--one", str(n), "--method", method, "--rounds", str(rounds)]
        answer = subprocess.run(command, check=True, capture_output=True, text=True)
        found.append({"clients": n} | json.loads(answer.stdout.splitlines()[-1]))
    return found


def exponent(sizes: list[dict[str, float]]) -> float:
    x, y = (np.log([size[key] for size in sizes]) for key in ("clients", "round_s"))
    return float(np.polyfit(x, y, 1)[0])


def against_ray(n_clients: int, repeats: int = 5) -> dict[str, float]:
    """Two actors against two threads on one batch of LeNet-5 jobs of five steps, ten averages."""
    from fedloom.scale.cluster import load_ray
    from fedloom.scale.engine import RayEngine

    ray = load_ray()
    ray.init(address="local", num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="error")
    rng = np.random.default_rng(0)
    task = Task(
        model=models.build("lenet5", (1, 28, 28), 10, seed=0),
        x_train=rng.normal(size=(2000, 1, 28, 28)).astype(np.float32),
        y_train=rng.integers(0, 10, 2000),
        x_test=rng.normal(size=(100, 1, 28, 28)).astype(np.float32),
        y_test=rng.integers(0, 10, 100),
        parts=tuple(rng.integers(0, 2000, 40) for _ in range(n_clients)),
    )
    rule = LocalRule(lr=0.05)
    threads = NativeEngine(task, rule, 3, n_workers=2)
    actors = RayEngine(ray, threads, task, rule, 3, 2)
    starts = np.repeat(rows.to_row(task.model)[None], 10, axis=0)
    clients = np.arange(n_clients)
    zeros = np.zeros(n_clients, dtype=np.int64)
    jobs = Jobs(start=clients % 10, client=clients, n_steps=zeros + 5, first_step=zeros, lr_step=zeros)
    mix = Mix(n_targets=10, target=clients % 10, job=clients, weight=np.full(n_clients, 10 / n_clients))
    first = time.perf_counter()
    wanted = actors.train_average(starts, jobs, mix)
    start_s = time.perf_counter() - first
    assert np.array_equal(threads.train_average(starts, jobs, mix), wanted), "the sums differ"
    up, local_s, ray_s = actors.bytes_up, [], []
    for _ in range(repeats):
        for engine, seconds in ((threads, local_s), (actors, ray_s)):
            before = time.perf_counter()
            engine.train_average(starts, jobs, mix)
            seconds.append(time.perf_counter() - before)
    actors.close()
    moved = (actors.bytes_up - up) / repeats
    ray.shutdown()
    return {
        "clients": n_clients,
        "local_s": statistics.median(local_s),
        "ray_s": statistics.median(ray_s),
        "ratio": statistics.median(theirs / ours for ours, theirs in zip(local_s, ray_s)),
        "first_batch_s": start_s,
        "up_mb_per_batch": moved / 1e6,
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--clients", default="100,1000,10000")
    parser.add_argument("--ray-clients", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--method", default="hierfedavg")
    parser.add_argument("--one", type=int)
    parser.add_argument("--model", default="lenet5")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if options.one:
        print(json.dumps(one_size(options.one, options.method, options.rounds, options.model)))
        return
    sizes = growth([int(n) for n in options.clients.split(",")], options.method, options.rounds)
    out = {"sizes": sizes, "exponent": exponent(sizes), "ray": against_ray(options.ray_clients), **conditions()}
    if options.json:
        print(json.dumps(out))
        return
    for size in sizes:
        print(
            f"{options.method}, LeNet-5, {size['clients']:>6,} clients: {size['round_s']:.2f} s a cloud round, "
            f"set-up {size['setup_s']:.1f} s, peak {size['peak_mb']:.0f} MB"
        )
    print(f"growth exponent {out['exponent']:.2f} (1: in proportion to the clients)")
    ray = out["ray"]
    print(
        f"Ray, 2 actors, over 2 threads, {ray['clients']:,} clients x 5 steps: {ray['ratio']:.2f} ({ray['ray_s']:.2f} s and "
        f"{ray['local_s']:.2f} s), first batch {ray['first_batch_s']:.1f} s, {ray['up_mb_per_batch']:.1f} MB back a batch"
    )
    print(out["machine"], out["date"], out["commit"])


if __name__ == "__main__":
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    os.environ.setdefault("RAY_worker_niceness", "0")  # as the threads
    main()

"""How fast whole federated loops are, against a bare loop, and what share of a round is not training.

    python benchmarks/loops.py [--turns 5] [--only softmax|lenet5|large|evaluation] [--json]

Loops   FedAvg and HierFedAVG (3 cells, a cloud round of 1 and of 5 edge rounds) with clock, ledger, timeline and 2 threads,
        evaluation off, against two forked processes that do the same local training and averaging with nn.Module and
        torch.optim.SGD (`Bare` of engine.py). Clients trained per second; ratios are medians over turns of the ratio within a
        turn. After the first round the models are compared: within 1e-3 of the update. outside: share of the wall time that is
        not spent in calls of the engine.
Large   100,000 clients with softmax regression, 19 cells, one step of 20, two edge rounds: seconds a cloud round, and the share
        outside the engine, which is clock and notes.
Evaluation  19 LeNet-5 models on 10,000 images over 19 times one model, both with all threads.
Targets: softmax at least 22 times bare, at most 10 % outside the engine; evaluation at most 1.5.
"""

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from conditions import conditions
from engine import N_WORKERS, SEED, Bare, with_optimizer
from fedloom import data
from fedloom.simulator import Simulation, make_method, scenario
from fedloom.training import models, rows
from fedloom.training.chain import Limits
from fedloom.training.engine import Task
from fedloom.training.native import NativeEngine, load_build
from fedloom.training.rule import LocalRule
from scale import fleet

SHAPE, LR = (1, 28, 28), 0.01


@dataclass(frozen=True)
class Case:
    """A model, and what a client trains of it in an edge round."""

    model: str
    n_clients: int
    n_steps: int
    batch_size: int
    bare_rounds: int  # of a turn


CASES = {"softmax": Case("softmax", 57, 5, 20, 10), "lenet5": Case("lenet5", 100, 10, 16, 1)}
LOOPS = (("fedavg", 1), ("fedavg", 5), ("hierfedavg", 1), ("hierfedavg", 5))


class Timed:
    """A native engine that says how long its calls took."""

    def __init__(self, task: Task, rule: LocalRule, seed: int) -> None:
        self._engine = NativeEngine(task, rule, seed, N_WORKERS)
        self.seconds = 0.0
        self.close = self._engine.close
        self.gradient, self.outputs, self.evaluate = self._engine.gradient, self._engine.outputs, self._engine.evaluate

    def _timed(self, call: Callable[..., Any], *args: Any) -> Any:
        before = time.perf_counter()
        try:
            return call(*args)
        finally:
            self.seconds += time.perf_counter() - before

    def chain_limits(self) -> Limits:
        return self._engine.chain_limits()

    def train_average(self, *args: Any) -> Any:
        return self._timed(self._engine.train_average, *args)

    def train_chain(self, *args: Any) -> Any:
        return self._timed(self._engine.train_chain, *args)

    def train(self, *args: Any) -> Any:
        return self._timed(self._engine.train, *args)


@dataclass
class Loop:
    """A simulation that goes on, some cloud rounds at a time."""

    simulation: Simulation
    rounds: Iterator[Any]
    edge_rounds: int

    @classmethod
    def of(cls, chosen: dict, method: str, edge_rounds: int, **options: Any) -> "Loop":
        made = scenario(chosen | {"training": chosen["training"] | {"edge_rounds": edge_rounds}})
        simulation = Simulation(made, make_method(method), SEED, engine=_make_timed, **options)
        rounds = simulation.rounds()
        next(rounds)  # the first model is measured
        return cls(simulation, rounds, edge_rounds)

    def run(self, n_rounds: int) -> tuple[float, float]:
        """Seconds, and the share of them that is outside the engine."""
        engine = self.simulation.engine
        assert isinstance(engine, Timed)
        before, inside = time.perf_counter(), engine.seconds
        for _ in range(n_rounds):
            next(self.rounds)
        self.simulation.result()  # models that nobody has looked at are computed now
        seconds = time.perf_counter() - before
        return seconds, 1 - (engine.seconds - inside) / seconds


def _make_timed(task: Task, rule: LocalRule, seed: int) -> tuple[Timed, str]:
    return Timed(task, rule, seed), "native, timed"


def small_fleet(case: Case) -> dict:
    return {
        "name": "loops",
        "fleet": {
            "n_devices": case.n_clients,
            "cells": {"kind": "grid", "shape": "triangle", "n": 3, "spacing_m": 1000, "radius_m": 830},
            "placement": {"kind": "cells"},
            "homes": "even",
            "device_edge": {"up": {"kind": "radio"}, "down": {"kind": "rate", "bit_s": 1e7}},
            "compute": {"law": {"kind": "uniform", "low": 0.01, "high": 0.03}},
        },
        "task": {"model": {"kind": case.model}},
        "training": {
            "batch_size": case.batch_size,
            "local_steps": case.n_steps,
            "cloud_rounds": 100_000,
            "lr": LR,
        },
        "evaluation": {"every": 10**6, "models": "global", "local_samples": 0},
    }


def loops(case: Case, turns: int) -> list[dict[str, Any]]:
    """Medians of all loops of a case; raises if they do not train the same."""
    rng = np.random.default_rng(SEED)
    n = case.n_clients * case.n_steps * case.batch_size
    x, y = rng.uniform(size=(n, *SHAPE)).astype(np.float32), rng.integers(0, 10, n)
    dataset = data.Dataset(name="noise", x_train=x, y_train=y, x_test=x[:20], y_test=y[:20], n_classes=10)
    parts = tuple(np.array_split(rng.permutation(n), case.n_clients))
    ours = {
        (method, edge_rounds): Loop.of(small_fleet(case), method, edge_rounds, dataset=dataset, parts=parts)
        for method, edge_rounds in LOOPS
    }
    task = Task(
        model=models.build(case.model, SHAPE, 10, SEED),
        x_train=x, y_train=y, x_test=x[:20], y_test=y[:20], parts=parts, batch_size=case.batch_size,
    )  # fmt: skip
    bare = Bare(with_optimizer, task, case.n_steps, np.full(case.n_clients, 1 / case.n_clients))
    first = rows.to_row(task.model)
    theirs = bare.run(first).astype(np.float32)
    for loop in ours.values():
        loop.run(1)
    row = ours["fedavg", 1].simulation.result().row
    apart = float(np.linalg.norm(row - theirs) / np.linalg.norm(theirs - first))
    if not apart < 1e-3:
        raise RuntimeError(
            f"{case.model}: after a round the models differ by {apart:.1e} of the update; times mean nothing"
        )
    n_rounds = case.bare_rounds
    seconds, outside = {key: [] for key in (*ours, "bare")}, {key: [] for key in ours}
    for turn in range(turns):
        keys = list(seconds)
        for key in keys[turn % len(keys) :] + keys[: turn % len(keys)]:
            if key == "bare":
                before = time.perf_counter()
                for _ in range(n_rounds):
                    theirs = bare.run(theirs).astype(np.float32)
                seconds[key].append((time.perf_counter() - before) / n_rounds)
            else:
                k = max(1, 5 * n_rounds // key[1])
                took, share = ours[key].run(k)
                seconds[key].append(took / (k * key[1]))
                outside[key].append(share)
    bare.close()
    for loop in ours.values():
        loop.rounds.close()
    found = [{"case": case.model, "loop": "bare", "clients_per_s": case.n_clients / statistics.median(seconds["bare"])}]
    for method, edge_rounds in ours:
        key = method, edge_rounds
        ratios = [b / s for b, s in zip(seconds["bare"], seconds[key])]
        found.append(
            {
                "case": case.model,
                "loop": f"{method}, {edge_rounds} edge round{'s' * (edge_rounds > 1)}",
                "clients_per_s": case.n_clients / statistics.median(seconds[key]),
                "over_bare": statistics.median(ratios),
                "over_bare_from_to": [min(ratios), max(ratios)],
                "outside": statistics.median(outside[key]),
            }
        )
    return found


def large(turns: int, n_clients: int = 100_000) -> dict[str, Any]:
    chosen = fleet(n_clients, turns + 3, "softmax")
    chosen["evaluation"] = {"every": 10**6, "models": "global", "local_samples": 0}
    loop = Loop.of(chosen, "hierfedavg", 2)
    loop.run(1)
    found = [loop.run(1) for _ in range(turns)]
    loop.rounds.close()
    seconds, outside = (statistics.median(values) for values in zip(*found))
    return {"case": "large", "clients": n_clients, "round_s": seconds, "outside": outside}


def evaluation(turns: int, n_models: int = 19, n_images: int = 10_000) -> dict[str, Any]:
    rng = np.random.default_rng(SEED)
    x, y = rng.uniform(size=(n_images, *SHAPE)).astype(np.float32), rng.integers(0, 10, n_images)
    network = models.build("lenet5", SHAPE, 10, SEED)
    task = Task(
        model=network, x_train=x[:100], y_train=y[:100], x_test=x, y_test=y, parts=(np.arange(100),)
    )  # fmt: skip
    engine = NativeEngine(task, LocalRule(lr=LR), SEED, N_WORKERS)
    several = np.stack([rows.to_row(network) * (1 + 0.01 * i) for i in range(n_models)]).astype(np.float32)
    together, alone = engine.evaluate(several), engine.evaluate(several[:1])
    assert together.loss[0] == alone.loss[0], "a model's score depends on the others"
    one_s, all_s = [], []
    for _ in range(turns):
        for which, seconds in ((several[:1], one_s), (several, all_s)):
            before = time.perf_counter()
            engine.evaluate(which)
            seconds.append(time.perf_counter() - before)
    engine.close()
    return {
        "case": "evaluation",
        "models": n_models,
        "images": n_images,
        "one_s": statistics.median(one_s),
        "all_s": statistics.median(all_s),
        "all_over_one_each": statistics.median(a / (n_models * b) for a, b in zip(all_s, one_s)),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--only", choices=[*CASES, "large", "evaluation"])
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if options.turns < 1:
        parser.error("--turns must be at least 1")
    results: list[dict[str, Any]] = []
    for name in [options.only] if options.only else [*CASES, "large", "evaluation"]:
        if name in CASES:
            found = loops(CASES[name], options.turns)
        else:
            found = [large(options.turns) if name == "large" else evaluation(options.turns)]
        results += found
        for result in [] if options.json else found:
            print(line(result), flush=True)
    about = {
        **conditions(),
        "build": load_build().__name__.rsplit("_", 1)[1],
        "load": os.getloadavg()[0],
        "turns": options.turns,
    }
    print(
        json.dumps({**about, "results": results}) if options.json else ", ".join(f"{k} {v}" for k, v in about.items())
    )
    return 0


def line(r: dict[str, Any]) -> str:
    if r["case"] == "large":
        return f"{r['clients']:,} softmax clients: {r['round_s']:.2f} s a cloud round, {r['outside']:.1%} outside the engine"
    if r["case"] == "evaluation":
        return (
            f"{r['models']} LeNet-5 models on {r['images']:,} images: {r['all_s']:.3f} s, one: {r['one_s']:.3f} s; "
            f"{r['all_over_one_each']:.2f} times one each"
        )
    text = f"{r['case']:9}{r['loop']:26}{r['clients_per_s']:9.0f} clients/s"
    if "over_bare" in r:
        low, high = r["over_bare_from_to"]
        text += f"  {r['over_bare']:5.2f} x bare ({low:.1f} to {high:.1f})  {r['outside']:6.1%} outside the engine"
    return text


if __name__ == "__main__":
    sys.exit(main())

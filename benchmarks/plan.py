"""Plans against k-means at every k and against the exact optimum, for everything that a plan can be asked for.

python benchmarks/plan.py                     20 random fleets of 50 to 2,000 devices, and 40 small ones with their optimum
python benchmarks/plan.py --fleets 3 --small 5 --most 300
python benchmarks/plan.py --devices 10000     seconds of one plan for a large fleet

Fleets stand in towns, with powers, speeds, batteries and capacities that differ, four in five devices may be heads. "every k"
is every number of clusters up to 300 devices, and 40 numbers evenly by ratio beyond, one start each besides those that the
search itself has tried. The optimum of a small fleet comes of all groupings with at most half as many heads as devices.
A plan must never be worse than k-means and at most 2 % worse than the optimum.
"""

import argparse
import itertools
import json
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from fedloom.fleet.table import FleetTable
from fedloom.planning import OBJECTIVES, Prices, Work, devices_of, figures_of, k_means_sweep, optimise
from fedloom.planning.costs import costs_of
from fedloom.planning.objectives import Objective, figures_of_costs
from fedloom.planning.simple_plans import most_clusters, numbers_of_clusters

WORK = Work(model_bytes=200_000)
EVERY = 300  # devices up to which every k is tried
NUMBERS = 40


def random_fleet(n: int, seed: int, *, capacity: tuple[int, int] | None = None) -> Prices:
    """A made-up fleet of n devices."""
    rng = np.random.default_rng(seed)
    towns = rng.uniform(-1500, 1500, (max(2, n // 40), 2))
    position = towns[rng.integers(len(towns), size=n)] + rng.normal(0, 250, (n, 2))
    labels = np.stack([rng.multinomial(100, rng.dirichlet(np.full(5, 0.4))) for _ in range(n)])
    table = FleetTable(
        ids=tuple(map(str, range(n))),
        position_m=position,
        power_w=rng.choice([0.01, 0.03, 0.1], n),
        steps_per_s=rng.uniform(5, 60, n),
        n_samples=labels.sum(axis=1),
        label_counts=labels,
        labels=tuple("abcde"),
        capacity=rng.integers(*capacity, n) if capacity else None,
        candidate=(rng.random(n) < 0.8) | (np.arange(n) < 2),
        battery_j=rng.uniform(500, 5000, n),
    )
    server = position.mean(axis=0) + rng.uniform(-1, 1, 2) * 1500 * (seed % 2)
    return Prices(devices=devices_of(table, server), work=WORK)


def groupings(prices: Prices) -> Iterator[np.ndarray]:
    """All heads (K,) with room, at most as many as `most_clusters`."""
    devices = prices.devices
    allowed = np.flatnonzero(devices.candidate)
    for k in range(1, min(most_clusters(devices), len(allowed)) + 1):
        for hosts in map(np.array, itertools.combinations(allowed.tolist(), k)):
            members = np.setdiff1d(np.arange(devices.n), hosts)
            for choice in itertools.product(range(k), repeat=len(members)):
                size = 1 + np.bincount(np.array(choice, dtype=np.int64), minlength=k)
                if (size <= devices.capacity[hosts]).all():
                    head = np.arange(devices.n)
                    head[members] = hosts[list(choice)]
                    yield head


def optimum(prices: Prices, objectives: list[Objective]) -> list[float]:
    """The least of each objective."""
    own, best = np.arange(prices.devices.n), [np.inf] * len(objectives)
    for head in groupings(prices):
        figures = figures_of_costs(prices, costs_of(prices, own, head))
        best = [min(value, objective.value(figures)) for value, objective in zip(best, objectives)]
    return best


def against_k_means(prices: Prices, names: list[str], seed: int) -> Iterator[dict[str, object]]:
    """A row for each objective."""
    devices = prices.devices
    low, high = numbers_of_clusters(devices)[0], min(most_clusters(devices), int(devices.candidate.sum()))
    every = range(low, high + 1) if devices.n <= EVERY else np.unique(np.geomspace(low, high, NUMBERS).round())
    rivals = k_means_sweep(prices, np.random.default_rng(seed + 1), numbers=[int(k) for k in every])
    for name in names:
        began = time.process_time()
        found = optimise(prices, name, np.random.default_rng(seed), ladder=False)
        cpu_s = time.process_time() - began
        objective = found.objective
        best = min([*rivals, *found.sweep], key=lambda g: objective.key(g.figures))
        mine, theirs = objective.value(found.best.figures), objective.value(best.figures)
        yield {
            "devices": devices.n,
            "for": name,
            "plan": mine,
            "clusters": found.best.figures.clusters,
            "k-means": theirs,
            "its clusters": best.figures.clusters,
            "ratio": mine / theirs if theirs else 1.0,
            "wins": mine <= theirs * (1 + 1e-9),
            "cpu_s": cpu_s,
        }


def against_optimum(prices: Prices, names: list[str], seed: int) -> Iterator[dict[str, object]]:
    """A row for each objective."""
    found = [optimise(prices, name, np.random.default_rng(seed), ladder=False) for name in names]
    least = optimum(prices, [one.objective for one in found])
    for name, one, value in zip(names, found, least):
        mine = one.objective.value(one.best.figures)
        gap = mine / value - 1 if value > 1e-9 else mine
        yield {
            "devices": prices.devices.n,
            "for": name,
            "plan": mine,
            "optimum": value,
            "gap": gap,
            "good": gap <= 0.02,
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--fleets", type=int, default=20)
    parser.add_argument("--small", type=int, default=40)
    parser.add_argument("--most", type=int, default=2000, help="devices of the largest fleet")
    parser.add_argument("--devices", type=int, help="time one plan for so many devices instead")
    parser.add_argument("--for", dest="names", nargs="*", default=list(OBJECTIVES))
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    rows: list[dict[str, object]] = []
    if args.devices:
        for name in args.names:
            prices = random_fleet(args.devices, 0)
            began, cpu = time.perf_counter(), time.process_time()
            found = optimise(prices, name, np.random.default_rng(0))
            figures = figures_of(prices, found.best.head)
            print(f"{name}: {figures.clusters} clusters, {figures.seconds:.4g} s, {figures.joules:.4g} J", flush=True)
            print(f"{time.perf_counter() - began:.1f} s, {time.process_time() - cpu:.1f} s of computing", flush=True)
        return
    for i in range(args.small):
        capacity = (2, 6) if i % 2 else None
        for row in against_optimum(random_fleet(6 + i % 3, 1000 + i, capacity=capacity), args.names, i):
            rows.append(row)
            print(row, flush=True)
    for i, n in enumerate(np.geomspace(50, args.most, max(args.fleets, 1)).round().astype(int)[: args.fleets].tolist()):
        capacity = (5, 40) if i % 3 == 1 else None
        for row in against_k_means(random_fleet(n, i, capacity=capacity), args.names, i):
            rows.append(row)
            print(row, flush=True)
    for name in args.names:
        gaps = [row["gap"] for row in rows if row["for"] == name and "gap" in row]
        ratios = [row["ratio"] for row in rows if row["for"] == name and "ratio" in row]
        lost = sum(not row.get("wins", row.get("good")) for row in rows if row["for"] == name)
        worst = f"worst gap to the optimum {max(gaps):.2%}, " if gaps else ""
        mean = f"{np.exp(np.mean(np.log(np.maximum(ratios, 1e-3)))):.3f} of k-means' in the mean" if ratios else ""
        print(f"{name}: {worst}{mean}; {lost} lost of {len(gaps) + len(ratios)}")
    if args.out:
        args.out.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()

"""Plans against k-means at every k and against the exact optimum, for everything that a plan can be asked for.

python benchmarks/plan.py                     all that is not in the results yet: 20 random fleets of 50 to 2,000 devices, and 40
                                              small ones with their optimum; bands of their own, and shared ones
python benchmarks/plan.py --minutes 4         no more than so long; what was found is kept, and the next call goes on
python benchmarks/plan.py --kind small --sharing time --for seconds --first 5
python benchmarks/plan.py --table             what the results come to, as it stands in docs/plan.md
python benchmarks/plan.py --devices 10000     seconds of one plan for a large fleet

Fleets stand in towns, with powers, speeds, batteries and capacities that differ, four in five devices may be heads. "every k"
is every number of clusters up to 300 devices, and 40 numbers evenly by ratio beyond, one start each besides those that the
search itself has tried. The optimum of a small fleet, of 8 to 10 devices, comes of all groupings with at most half as many heads
as devices: more of them than the search tries one by one. A plan must never be worse than k-means and at most 2 % worse than the
optimum.
"""

import argparse
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from fedloom.fleet.table import FleetTable
from fedloom.planning import OBJECTIVES, Prices, Work, devices_of, figures_of, k_means_sweep, optimise
from fedloom.planning.simple_plans import most_clusters, numbers_of_clusters
from plan_optimum import n_groupings, optimum

RESULTS = Path(__file__).resolve().parent / "plan_results.json"
WORK = Work(model_bytes=200_000)
SHARINGS = ("own", "time", "equal")
BY_SHARING = ("seconds", "mix")  # objectives for which it matters how bands are shared
EVERY = 300  # devices up to which every k is tried
NUMBERS = 40
FLEETS, MOST, SMALL = 20, 2000, 40
Row = dict[str, Any]


def random_fleet(n: int, seed: int, *, capacity: tuple[int, int] | None = None, sharing: str = "own") -> Prices:
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
    return Prices(devices=devices_of(table, server, sharing=sharing), work=WORK)


def small_fleet(i: int, sharing: str) -> Prices:
    """The i-th of 8 to 10 devices; every other with capacities."""
    return random_fleet(8 + i % 3, 1000 + i, capacity=(2, 6) if i % 2 else None, sharing=sharing)


def large_fleet(i: int, sharing: str) -> Prices:
    """The i-th of 50 to 2,000 devices; every third with capacities."""
    n = np.geomspace(50, MOST, FLEETS).round().astype(int)[i]
    return random_fleet(int(n), i, capacity=(5, 40) if i % 3 == 1 else None, sharing=sharing)


def against_k_means(i: int, sharing: str, names: list[str]) -> Iterator[Row]:
    """A row for each objective."""
    prices = large_fleet(i, sharing)
    devices = prices.devices
    low, high = numbers_of_clusters(devices)[0], min(most_clusters(devices), int(devices.candidate.sum()))
    every = range(low, high + 1) if devices.n <= EVERY else np.unique(np.geomspace(low, high, NUMBERS).round())
    rivals = k_means_sweep(prices, np.random.default_rng(i + 1), numbers=[int(k) for k in every])
    for name in names:
        began = time.process_time()
        found = optimise(prices, name, np.random.default_rng(i), ladder=False)
        cpu_s = time.process_time() - began
        objective = found.objective
        best = min([*rivals, *found.sweep], key=lambda g: objective.key(g.figures))
        mine, theirs = objective.value(found.best.figures), objective.value(best.figures)
        yield {
            "devices": devices.n,
            "for": name,
            "plan": mine,
            "clusters": found.best.figures.clusters,
            "rival": theirs,
            "its_clusters": best.figures.clusters,
            "ratio": mine / theirs if theirs else 1.0,
            "good": mine <= theirs * (1 + 1e-9),
            "cpu_s": round(cpu_s, 2),
        }


def against_optimum(i: int, sharing: str, names: list[str]) -> Iterator[Row]:
    """A row for each objective."""
    prices = small_fleet(i, sharing)
    found = [optimise(prices, name, np.random.default_rng(i), ladder=False) for name in names]
    least = optimum(prices, [one.objective for one in found])
    for name, one, value in zip(names, found, least):
        mine = one.objective.value(one.best.figures)
        gap = mine / value - 1 if value > 1e-9 else mine
        yield {
            "devices": prices.devices.n,
            "groupings": n_groupings(prices),
            "for": name,
            "plan": mine,
            "rival": value,
            "gap": gap,
            "good": gap <= 0.02,
        }


def key_of(row: Row) -> tuple[Any, ...]:
    return row["kind"], row["sharing"], row["fleet"], row["for"]


def missing(args: argparse.Namespace, rows: list[Row]) -> Iterator[tuple[str, str, int, list[str]]]:
    """What is to be done: kind, sharing, fleet and objectives."""
    there = {key_of(row) for row in rows} if not args.again else set()
    for kind, n in (("small", SMALL), ("large", FLEETS)):
        for i in range(min(n, args.first)):
            for sharing in args.sharing:
                names = [name for name in args.names if name in BY_SHARING or sharing == "own"]
                names = [name for name in names if (kind, sharing, i, name) not in there]
                if names and kind in args.kind:
                    yield kind, sharing, i, names


def run(args: argparse.Namespace) -> None:
    began = time.monotonic()
    rows: list[Row] = json.loads(args.results.read_text()) if args.results.exists() else []
    for kind, sharing, i, names in missing(args, rows):
        for row in (against_optimum if kind == "small" else against_k_means)(i, sharing, names):
            row = {"kind": kind, "sharing": sharing, "fleet": i, **row}
            print(json.dumps(row), flush=True)
            rows = sorted([*(old for old in rows if key_of(old) != key_of(row)), row], key=key_of)
            args.results.write_text("[\n" + ",\n".join(map(json.dumps, rows)) + "\n]\n")
            if kind == "large" and time.monotonic() - began > 60 * args.minutes:
                return
        if time.monotonic() - began > 60 * args.minutes:
            return
    print("all there")


def table(rows: list[Row]) -> str:
    """What the results come to, as Markdown."""
    lines = [
        "| bands | `--for` | against k-means at every k | in the mean | worst | small fleets | furthest from the optimum |",
        "|---|---|---|---|---|---|---|",
    ]
    for sharing in SHARINGS:
        for name in OBJECTIVES:
            of = [row for row in rows if row["sharing"] == sharing and row["for"] == name]
            ratios = [row["ratio"] for row in of if row["kind"] == "large"]
            gaps = [row["gap"] for row in of if row["kind"] == "small"]
            lost = sum(not row["good"] for row in of if row["kind"] == "large")
            if not of:
                continue
            mean = f"{np.exp(np.mean(np.log(np.maximum(ratios, 1e-3)))):.2f}" if ratios else "-"
            against = f"{len(ratios)} fleets, {lost} lost" if ratios else "-"
            worst, gap = (f"{max(v):{f}}" if v else "-" for v, f in ((ratios, ".3f"), (gaps, ".2%")))
            lines.append(f"| {sharing} | {name} | {against} | {mean} | {worst} | {len(gaps)} | {gap} |")
    return "\n".join(lines) + "\n"


def time_one(n: int, names: list[str], sharing: str) -> None:
    """Seconds of a plan with its table of numbers of clusters."""
    for name in names:
        prices = random_fleet(n, 0, sharing=sharing)
        began, cpu = time.perf_counter(), time.process_time()
        found = optimise(prices, name, np.random.default_rng(0))
        figures = figures_of(prices, found.best.head)
        print(f"{name}: {figures.clusters} clusters, {figures.seconds:.4g} s, {figures.joules:.4g} J", flush=True)
        print(f"{time.perf_counter() - began:.1f} s, {time.process_time() - cpu:.1f} s of computing", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kind", nargs="*", default=["small", "large"])
    parser.add_argument("--sharing", nargs="*", default=list(SHARINGS))
    parser.add_argument("--for", dest="names", nargs="*", default=list(OBJECTIVES))
    parser.add_argument("--first", type=int, default=SMALL, help="so many fleets of each kind")
    parser.add_argument("--minutes", type=float, default=float("inf"))
    parser.add_argument("--again", action="store_true", help="what is there already too")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--devices", type=int, help="time one plan for so many devices instead")
    args = parser.parse_args()
    if args.table:
        print(table(json.loads(args.results.read_text())), end="")
    elif args.devices:
        time_one(args.devices, args.names, args.sharing[0])
    else:
        run(args)


if __name__ == "__main__":
    main()

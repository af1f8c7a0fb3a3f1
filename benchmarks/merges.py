"""Benchmark: the median of every coordinate, and a trimmed mean, of 100 models with a million values each.

Checks first that the kernels give numpy's numbers, then times both in the same run, one after the other.
Target: medians at least 5 times as fast as np.median(axis=0).

    python benchmarks/merges.py
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable

import numpy as np

from conditions import conditions
from fedloom import _kernels
from fedloom.mixing.order import column_median, sorted_columns
from fedloom.mixing.robust.trimmed_mean import trimmed

SEED, TARGET_RATIO = 1, 5


def seconds(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--clients", type=int, default=100)
    parser.add_argument("--values", type=int, default=1_000_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    kernels = _kernels.compiled()
    if kernels is None:
        raise SystemExit("the kernels of merges were not built, or are switched off: there is nothing to compare")

    rng = np.random.default_rng(SEED)
    rows = rng.normal(size=(options.clients, options.values)).astype(np.float32)
    rows[:, ::7] = rows[0, ::7]  # ties
    assert np.array_equal(column_median(rows), np.median(rows, axis=0))
    few = np.ascontiguousarray(rows[:, :10_000])
    assert np.array_equal(sorted_columns(few), np.sort(few, axis=0))

    weights = np.full(options.clients, 1 / options.clients)
    times: dict[str, list[float]] = {}
    for _ in range(options.repeats):
        for name, call in {
            "numpy": lambda: np.median(rows, axis=0),
            "median": lambda: column_median(rows),
            "median, one thread": lambda: kernels.median(rows, 1),
            "sorted": lambda: sorted_columns(rows),
            "numpy's mean": lambda: rows.mean(axis=0),
        }.items():
            times.setdefault(name, []).append(seconds(call))
    times["trimmed mean"] = [seconds(lambda: trimmed(rows, weights, options.clients // 10))]
    out = {
        "seconds": {name: statistics.median(values) for name, values in times.items()},
        "ratio": statistics.median(a / b for a, b in zip(times["numpy"], times["median"])),
        "ratio_one_thread": statistics.median(a / b for a, b in zip(times["numpy"], times["median, one thread"])),
        "build": kernels.__name__.rsplit("_", 1)[1],
        **conditions(),
    }
    if options.json:
        print(json.dumps(out))
        return
    print(f"{options.clients} models of {options.values:,} values ({out['build']}, {_kernels.n_threads()} threads):")
    for name, value in out["seconds"].items():
        print(f"  {name:20} {value:.3f} s")
    print(
        f"  np.median / median: {out['ratio']:.1f} (target: {TARGET_RATIO}); one thread: {out['ratio_one_thread']:.1f}"
    )
    print(out["machine"], out["date"], out["commit"])


if __name__ == "__main__":
    main()

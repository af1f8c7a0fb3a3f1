"""How fast swap search is: 1,000 clients in 50 clusters. Targets: 1,000 trials per second, 50 times a naive search.

    python benchmarks/swap_search.py [--repeats 5] [--json]

  fast     fedloom.grouping.swap_search, 2,000 trials, with everything it prepares
  naive    the search of tests/grouping/naive_swap_search.py, which evaluates every change from the features and times with
           numpy, 5 trials
Features have the 456 values of the smallest convolution of a CIFAR10 network; longer ones cost the naive search more and
the fast one only in the Gram matrix, whose time for 62,006 values in float32 is given too. Both are warm before they are
timed, are timed in turns, and their results are compared first. The ratio is the median over turns of the ratio of
seconds per trial within a turn; seconds are medians. cpu: trials per second of processor time, which a busy machine
disturbs less.
"""

import argparse
import json
import statistics
import sys
import time
from pathlib import Path

import numpy as np

from conditions import conditions
from fedloom.grouping import round_matrix, swap_search
from fedloom.grouping.directions import gram_matrix

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "grouping"))
from naive_swap_search import naive_swap_search

N_CLIENTS, N_CLUSTERS, LENGTH, FULL_LENGTH = 1000, 50, 456, 62_006
N_FAST, N_NAIVE, SEED, TARGET_RATE, TARGET_RATIO = 2000, 5, 1, 1000, 50
SIZES = {"size_min": 10, "size_max": 30}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()

    rng = np.random.default_rng(SEED)
    features = rng.normal(size=(N_CLIENTS, LENGTH)) + rng.normal(size=LENGTH)
    n_samples = rng.integers(20, 200, N_CLIENTS)
    compute_s = rng.uniform(5, 20, N_CLIENTS)
    rate = rng.integers(1, 6, (N_CLIENTS, N_CLIENTS))
    link_s = 15 / np.minimum(rate, rate.T)
    t = round_matrix(compute_s, link_s)

    def fast(n_trials: int):
        return swap_search(
            features, n_samples, compute_s, link_s, n_clusters=N_CLUSTERS, n_trials=n_trials, t_cap=1200.0, **SIZES,
            rng=np.random.default_rng(SEED),
        )  # fmt: skip

    def naive(n_trials: int):
        return naive_swap_search(
            features, n_samples, t, n_clusters=N_CLUSTERS, n_trials=n_trials, t_cap=1200.0, **SIZES,
            rng=np.random.default_rng(SEED),
        )  # fmt: skip

    found, (clusters, values, accepted) = fast(N_NAIVE), naive(N_NAIVE)
    assert [(c.trial, c.first, c.second, c.leaves, c.joins) for c in found.accepted] == accepted
    assert [c.tolist() for c in found.clusters] == clusters
    np.testing.assert_allclose(found.theta, values[:, 0], rtol=0, atol=1e-9)
    np.testing.assert_array_equal(found.round_s, values[:, 1])

    fast_s, fast_cpu_s, naive_s = [], [], []
    for _ in range(options.repeats):
        start, start_cpu = time.perf_counter(), time.process_time()
        found = fast(N_FAST)
        fast_s.append((time.perf_counter() - start) / N_FAST)
        fast_cpu_s.append((time.process_time() - start_cpu) / N_FAST)
        start = time.perf_counter()
        naive(N_NAIVE)
        naive_s.append((time.perf_counter() - start) / N_NAIVE)
    wide = rng.normal(size=(N_CLIENTS, FULL_LENGTH)).astype(np.float32)
    start = time.perf_counter()
    gram_matrix(wide, n_samples.astype(np.float64))
    gram_s = time.perf_counter() - start

    out = {
        "trials_per_s": 1 / statistics.median(fast_s),
        "trials_per_cpu_s": 1 / statistics.median(fast_cpu_s),
        "naive_trials_per_s": 1 / statistics.median(naive_s),
        "ratio": statistics.median(slow / quick for slow, quick in zip(naive_s, fast_s)),
        "accepted": len(found.accepted),
        "gram_s": gram_s,
        **conditions(),
    }
    if options.json:
        print(json.dumps(out))
    else:
        print(
            f"swap search, {N_CLIENTS:,} clients, {N_CLUSTERS} clusters, {N_FAST:,} trials, {out['accepted']:,} changes:"
        )
        print(
            f"  {out['trials_per_s']:,.0f} trials/s (target: {TARGET_RATE:,}; {out['trials_per_cpu_s']:,.0f} per second of "
            f"processor time), naive {out['naive_trials_per_s']:.1f}/s, ratio {out['ratio']:.0f} (target: {TARGET_RATIO})"
        )
        print(f"  Gram matrix of {FULL_LENGTH:,} values each, once: {out['gram_s']:.1f} s")
        print(out["machine"], out["date"], out["commit"])


if __name__ == "__main__":
    main()

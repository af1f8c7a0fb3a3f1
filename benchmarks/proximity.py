"""How fast angles between clients' data are: 1,000 clients with 3 vectors of 784 values. Target: 20 times a double loop.

    python benchmarks/proximity.py [--repeats 3] [--pairs 300] [--json]

  fast     fedloom.grouping.proximity, all 499,500 pairs
  loop     scipy.linalg.subspace_angles on some of the pairs, scaled up to all
The results are compared first, to 1e-6 degrees. Both are warm before they are timed and are timed in turns; the ratio is
the median over turns, of processor time, which a busy machine disturbs less. Clients share most of their first direction, as
images of like classes do. The seconds of signatures of 220 samples each and of clustering are given too.
"""

import argparse
import json
import statistics
import time

import numpy as np
from scipy.linalg import subspace_angles

from conditions import conditions
from fedloom.grouping import angle_clusters, proximity, signatures

N_CLIENTS, N_SAMPLES, D, RANK, SEED, TARGET_RATIO = 1000, 220, 784, 3, 1, 20
N_PAIRS = N_CLIENTS * (N_CLIENTS - 1) // 2


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--pairs", type=int, default=300)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()

    rng = np.random.default_rng(SEED)
    kinds = rng.uniform(size=(10, D))
    some_data = [kinds[rng.integers(10, size=2)].repeat(N_SAMPLES // 2, axis=0) for _ in range(20)]
    some_data = [x + rng.normal(0, 0.2, x.shape) for x in some_data]
    start = time.process_time()
    signatures(some_data, RANK)
    signature_s = (time.process_time() - start) / len(some_data)

    shared = rng.uniform(size=(D, 1))
    given = [np.linalg.qr(np.hstack([shared, rng.normal(size=(D, RANK - 1))]))[0] for _ in range(N_CLIENTS)]
    given = [np.linalg.qr(u + rng.normal(0, 0.005, u.shape))[0] for u in given]
    pairs = [sorted(rng.choice(N_CLIENTS, 2, replace=False)) for _ in range(options.pairs)]

    found = proximity(given)
    loop = [np.degrees(subspace_angles(given[i], given[j])[-1]) for i, j in pairs]
    np.testing.assert_allclose([found[i, j] for i, j in pairs], loop, rtol=0, atol=1e-6)

    fast_s, fast_cpu_s, loop_s, loop_cpu_s = [], [], [], []
    for _ in range(options.repeats):
        start, start_cpu = time.perf_counter(), time.process_time()
        proximity(given)
        fast_s.append(time.perf_counter() - start)
        fast_cpu_s.append(time.process_time() - start_cpu)
        start, start_cpu = time.perf_counter(), time.process_time()
        for i, j in pairs:
            subspace_angles(given[i], given[j])
        loop_s.append((time.perf_counter() - start) / len(pairs) * N_PAIRS)
        loop_cpu_s.append((time.process_time() - start_cpu) / len(pairs) * N_PAIRS)
    start = time.process_time()
    n_clusters = int(angle_clusters(found, beta_deg=20).max()) + 1
    cluster_s = time.process_time() - start

    out = {
        "seconds": statistics.median(fast_s),
        "cpu_seconds": statistics.median(fast_cpu_s),
        "loop_cpu_seconds": statistics.median(loop_cpu_s),
        "ratio": statistics.median(slow / quick for slow, quick in zip(loop_cpu_s, fast_cpu_s)),
        "ratio_wall": statistics.median(slow / quick for slow, quick in zip(loop_s, fast_s)),
        "signature_cpu_s": signature_s,
        "clustering_cpu_s": cluster_s,
        "clusters": n_clusters,
        **conditions(),
    }
    if options.json:
        print(json.dumps(out))
    else:
        print(f"angles of {N_CLIENTS:,} clients, {N_PAIRS:,} pairs of {RANK} vectors of {D} values:")
        print(
            f"  {out['seconds']:.2f} s ({out['cpu_seconds']:.2f} s of processor time), double loop "
            f"{out['loop_cpu_seconds']:.0f} s, ratio {out['ratio']:.0f} (wall: {out['ratio_wall']:.0f}; target: {TARGET_RATIO})"
        )
        print(f"  signature of a client: {1000 * signature_s:.1f} ms, clustering: {cluster_s:.2f} s")
        print(out["machine"], out["date"], out["commit"])


if __name__ == "__main__":
    main()

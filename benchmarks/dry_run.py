"""How fast the clock is: a dry run of 1,000 clients, 10 edges, 100 cloud rounds of 5 edge rounds. Target: under 3 s.

python benchmarks/dry_run.py [--json]
"""

import json
import statistics
import subprocess
import sys
import time

from conditions import conditions
from fedloom.simulator import make_method, scenario, simulate

SCENARIO = {
    "name": "thousand",
    "fleet": {
        "n_devices": 1000,
        "cells": {"kind": "grid", "shape": "hex", "n": 10, "spacing_m": 500},
        "placement": {"kind": "cells"},
        "device_edge": {"up": {"kind": "radio"}},
        "compute": {"law": {"kind": "uniform", "low": 0.01, "high": 0.1}, "power_w": 1.0},
    },
    "task": {"dataset": "gaussian", "gaussian": {"n_train": 20000}, "model": {"kind": "mlp"}},
    "training": {"edge_rounds": 5, "cloud_rounds": 100},
}


def main() -> None:
    seconds = []
    for _ in range(3):
        start = time.perf_counter()
        result = simulate(scenario(SCENARIO), make_method("hierfedavg"), seed=1, dry_run=True)
        seconds.append(time.perf_counter() - start)
    assert result.measures[-1]["updates"] == 500_000
    helps = []
    for _ in range(5):
        start = time.perf_counter()
        subprocess.run([sys.executable, "-m", "fedloom", "--help"], check=True, capture_output=True)
        helps.append(time.perf_counter() - start)
    out = {"dry_run_s": statistics.median(seconds), "help_s": statistics.median(helps), **conditions()}
    if "--json" in sys.argv:
        print(json.dumps(out))
    else:
        print(f"dry run, 1,000 clients, 100 x 5 rounds: {out['dry_run_s']:.2f} s (target: under 3 s)")
        print(f"fedloom --help: {out['help_s']:.2f} s (target: under 0.7 s)")
        print(out["machine"], out["date"], out["commit"])


if __name__ == "__main__":
    main()

"""How fast the clock is: a dry run of 1,000 clients, 10 edges, 100 cloud rounds of 5 edge rounds. Target: under 3 s. And the same
with devices that walk, by ticks of 5 s and with handover after hysteresis.

python benchmarks/dry_run.py [--json]
"""

import json
import statistics
import subprocess
import sys
import time
from typing import Any

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


WALKS = [
    "fleet.mobility={kind: waypoint}",
    "fleet.tick_s=5",
    "fleet.handover={hysteresis_m: 20, time_to_trigger_s: 10}",
]


def timed(*changes: str) -> tuple[float, dict[str, Any]]:
    """Median of three dry runs, and what was measured last."""
    seconds = []
    for _ in range(3):
        start = time.perf_counter()
        result = simulate(scenario(SCENARIO, list(changes)), make_method("hierfedavg"), seed=1, dry_run=True)
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds), result.measures[-1]


def main() -> None:
    still_s, still = timed()
    moving_s, moving = timed(*WALKS)
    assert still["updates"] == 500_000 and moving["handovers"] > 100
    helps = []
    for _ in range(5):
        start = time.perf_counter()
        subprocess.run([sys.executable, "-m", "fedloom", "--help"], check=True, capture_output=True)
        helps.append(time.perf_counter() - start)
    out = {"dry_run_s": still_s, "moving_s": moving_s, "help_s": statistics.median(helps), **conditions()}
    if "--json" in sys.argv:
        print(json.dumps(out))
    else:
        print(f"dry run, 1,000 clients, 100 x 5 rounds: {out['dry_run_s']:.2f} s (target: under 3 s)")
        print(f"the same with devices that walk: {out['moving_s']:.2f} s")
        print(f"fedloom --help: {out['help_s']:.2f} s (target: under 0.7 s)")
        print(out["machine"], out["date"], out["commit"])


if __name__ == "__main__":
    main()

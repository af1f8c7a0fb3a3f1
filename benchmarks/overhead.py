"""What share of a run is not training: policies, clock, ledger, record. Target: under 10 % on LeNet-5, 57 clients.

    python benchmarks/overhead.py [--json]

The share is (wall seconds - seconds inside the engine) / wall seconds of whole recorded runs, median of three.
"""

import json
import statistics
import sys
import tempfile
from pathlib import Path

from conditions import conditions
from fedloom.record.folder import record
from fedloom.simulator import Simulation, make_method, scenario


def main() -> None:
    chosen = scenario("cells-overlap", ["task.model={kind: lenet5}", "training.cloud_rounds=4"])
    shares, walls = [], []
    with tempfile.TemporaryDirectory() as folder:
        for i in range(3):
            summary = record(Simulation(chosen, make_method("hierfedavg"), seed=i), "hierfedavg", Path(folder) / str(i))
            walls.append(summary["wall_s"])
            shares.append(1 - summary["engine_s"] / summary["wall_s"])
    out = {
        "share_outside_training": statistics.median(shares),
        "wall_s": statistics.median(walls),
        **conditions(),
    }
    if "--json" in sys.argv:
        print(json.dumps(out))
    else:
        share = out["share_outside_training"]
        print(f"LeNet-5, 57 clients, fashion-mini, 4 cloud rounds: {out['wall_s']:.1f} s, {share:.1%} outside training")
        print("(target: under 10 %)", out["machine"], out["date"], out["commit"])


if __name__ == "__main__":
    main()

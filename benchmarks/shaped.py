"""The simulator's clock against reality: deployments on this machine whose links have the rates of the fleet (root, Linux).

    python benchmarks/shaped.py [--json] [METHOD ...]

Every node is a process in a network namespace of its own; devices compute for as long as the fleet says (`fedloom deploy local
--shape`). Per method: measured over predicted seconds of edge rounds, measured over predicted bytes of values, and what went over
the wire beyond them. Targets: median of the seconds between 0.9 and 1.15, bytes within 2 %. Scenarios are the shipped ones with
fewer devices; of disc-100, whose rounds are shorter than two cores need for the letters of a round, with slower computing.
"""

import argparse
import json
import statistics
import tempfile
from pathlib import Path
from typing import Any

from conditions import conditions
from fedloom.cli.deploy_bundles import Wanted
from fedloom.cli.deploy_local import run_here
from fedloom.record.measured import hop_amounts, overhead, round_ratios
from fedloom.record.runs import read_run

CELLS = [
    "fleet.n_devices=12",
    "fleet.placement={kind: three-cells, exclusive: 2, pair: 2, triple: 0}",
    "task.partition={kind: iid}",
    "training.cloud_rounds=3",
]
MESH = ["fleet.n_devices=8", "training.local_epochs=null", "training.local_steps=4", "training.cloud_rounds=2"]
RUNS = {
    "hierfedavg": ("cells-overlap", "hierfedavg", CELLS),
    "hhfl": ("cells-overlap", "hhfl", CELLS),
    "ddc": ("disc-100", "ddc", ["fleet.n_devices=8", "fleet.compute.law.value=0.05", "training.cloud_rounds=8"]),
    "ltc": ("d2d-mesh", "ltc:n_clusters=2:box_s=40", MESH),
}


def measured_of(name: str, where: Path) -> dict[str, Any]:
    """Ratios of one method."""
    scenario, method, changes = RUNS[name]
    run_here(where, Wanted(scenario=scenario, method=method, changes=changes), quiet=True, shape=True)
    run = read_run(where / "cloud" / "record")
    assert run.measured is not None
    ratios, hops, carried = round_ratios(run.measured), hop_amounts(run.measured), overhead(run.measured)
    sums = [sum(getattr(hop["bytes"], which) for hop in hops.values()) for which in ("predicted", "measured")]
    assert carried["wire"] is not None and carried["values"]
    return {
        "edge_rounds": len(ratios),
        "seconds": statistics.median(ratios),
        "seconds_from_to": [ratios[0], ratios[-1]],
        "bytes": sums[1] / sums[0],
        "wire": carried["wire"] / carried["values"],
        "letters": carried["letters"] / carried["values"],  # type: ignore[operator]
        "counted_bytes": run.measured["model"]["counted_bytes"],
        "carried_bytes": run.measured["model"]["carried_bytes"],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "names", metavar="METHOD", nargs="*", choices=[[], *RUNS], help=f"by default all of {', '.join(RUNS)}"
    )
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    names = options.names or list(RUNS)
    with tempfile.TemporaryDirectory() as folder:
        out = {name: measured_of(name, Path(folder) / name) for name in names}
    if options.json:
        print(json.dumps(out | conditions()))
        return
    for name, line in out.items():
        low, high = line["seconds_from_to"]
        print(
            f"{name}: seconds {line['seconds']:.3f} of predicted (median of {line['edge_rounds']} edge rounds, {low:.3f} to "
            f"{high:.3f}), bytes of values {line['bytes']:.4f}, letters {line['letters']:.3f} and wire {line['wire']:.3f} of the "
            f"values; a model is counted as {line['counted_bytes']:,} bytes and carried as {line['carried_bytes']:,}"
        )
    print("(targets: 0.9 to 1.15, and 0.98 to 1.02)", *conditions().values())


if __name__ == "__main__":
    main()

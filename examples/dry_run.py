"""Plan before training: clock, energy and traffic of a whole run in a moment, for several edge periods."""

import sys

from matplotlib.figure import Figure

import fedloom as fl

axes = Figure(figsize=(4.5, 3), layout="constrained").subplots()
for edge_rounds in (1, 2, 5, 10):
    changes = [f"training.edge_rounds={edge_rounds}", f"training.cloud_rounds={100 // edge_rounds}"]
    result = fl.simulate(fl.scenario("cells-overlap", changes), "hhfl", dry_run=True)
    last = result.metrics.row(-1, named=True)
    cloud_mb = sum(line["bytes"] for line in result.ledger.table() if line["hop"] == "edge_cloud") / 1e6
    print(
        f"{edge_rounds:2} edge rounds: {last['time_s']:.0f} s, {last['energy_j']:.0f} J, {cloud_mb:.0f} MB to the cloud"
    )
    axes.bar(str(edge_rounds), cloud_mb, color="C0")
axes.set(xlabel="edge rounds in a cloud round", ylabel="MB between edge servers and cloud")
axes.figure.savefig(sys.argv[1] if len(sys.argv) > 1 else "dry_run.png", dpi=110)

"""What accuracy costs: the same runs against time, energy and traffic."""

import sys

from matplotlib.figure import Figure

import fedloom as fl

scenario = fl.scenario("cells-overlap", ["training.cloud_rounds=6"])
figure = Figure(figsize=(8, 2.8), layout="constrained")
panels = figure.subplots(1, 3, sharey=True)
costs = {"time_s": ("simulated time (s)", 1), "energy_j": ("energy (J)", 1), "bytes": ("traffic (MB)", 1e6)}
for name in ("fedavg", "hierfedavg", "hhfl"):
    metrics = fl.simulate(scenario, name, seed=1).metrics
    print(f"{name:11} {metrics['accuracy'][-1]:.1%}")
    for axes, (column, (label, size)) in zip(panels, costs.items()):
        axes.plot(metrics[column] / size, metrics["accuracy"], marker="o", markersize=3, label=name)
        axes.set_xlabel(label)
panels[0].set_ylabel("accuracy")
panels[0].legend()
figure.savefig(sys.argv[1] if len(sys.argv) > 1 else "price_of_accuracy.png", dpi=110)

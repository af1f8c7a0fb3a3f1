"""Bring your own optimiser: what the cloud keeps of its steps, and by how much its model moves; beside plain steps and Adam."""

import sys

from matplotlib.figure import Figure

import fedloom as fl
from fedloom.mixing.server import Adam


class Farther:  # a step, and half of the one before it
    begins = (0.0, 0.0)  # two moments, zero at first: this step and the last one; they are part of checkpoints

    def moments(self, step, before):
        return step, before[0]

    def move(self, step, moments):
        return step + 0.5 * moments[1]


axes = Figure(figsize=(4.5, 3), layout="constrained").subplots()
for name, then in {"as it is": None, "Adam": Adam(lr=0.03), "Farther": Farther()}.items():
    method = fl.make_method("hierfedavg").with_(merge_cloud=fl.CloudLinear(then=then))
    metrics = fl.simulate(fl.scenario("cells-overlap", ["training.cloud_rounds=4"]), method, seed=1).metrics
    axes.plot(metrics["time_s"], metrics["accuracy"], marker="o", label=name)
    print(f"{name:12} {metrics['accuracy'][-1]:.1%}")
axes.set(xlabel="simulated time (s)", ylabel="accuracy")
axes.legend()
axes.figure.savefig(sys.argv[1] if len(sys.argv) > 1 else "own_optimiser.png", dpi=110)

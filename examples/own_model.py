"""Bring your own model: any torch module whose outputs are class scores."""

import sys

from matplotlib.figure import Figure
from torch import nn

import fedloom as fl


class Small(nn.Module):
    """One convolution, then a linear layer; 28 x 28 grey images in, ten scores out."""

    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(1, 6, 5, stride=2), nn.ReLU(), nn.MaxPool2d(2))
        self.classify = nn.Linear(6 * 6 * 6, 10)

    def forward(self, images):
        return self.classify(self.features(images).flatten(1))


scenario = fl.scenario("cells-overlap", ["training.cloud_rounds=4"])
axes = Figure(figsize=(4.5, 3), layout="constrained").subplots()
for name, model in {"my own model": Small(), "the scenario's": None}.items():
    metrics = fl.simulate(scenario, "hhfl", seed=1, model=model).metrics
    axes.plot(metrics["time_s"], metrics["accuracy"], marker="o", label=name)
    print(f"{name:15} {metrics['accuracy'][-1]:.1%}, {metrics['bytes'][-1] / 1e6:.0f} MB on air")
axes.set(xlabel="simulated time (s)", ylabel="accuracy")
axes.legend()
axes.figure.savefig(sys.argv[1] if len(sys.argv) > 1 else "own_model.png", dpi=110)

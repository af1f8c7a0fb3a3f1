"""Bring your own data: arrays, and which client holds which samples."""

import sys

import numpy as np
from matplotlib.figure import Figure
from sklearn.datasets import load_digits

import fedloom as fl

x, y = load_digits(return_X_y=True)
order = np.random.default_rng(0).permutation(len(y))
train, test = order[:1400], order[1400:]
dataset = fl.data.Dataset(
    name="my digits", x_train=x[train], y_train=y[train], x_test=x[test], y_test=y[test], n_classes=10, scale=16.0
)
parts = fl.data.dirichlet(y[train], n_clients=12, concentration=0.3, rng=np.random.default_rng(1))
scenario = fl.scenario(
    {
        "name": "my-data",
        "fleet": {
            "n_devices": 12,
            "cells": {"kind": "grid", "shape": "line", "n": 2, "spacing_m": 150, "radius_m": 100},
        },
        "task": {"model": {"kind": "mlp", "hidden": [32]}},
        "training": {"cloud_rounds": 8, "batch_size": 10, "lr": 0.1},
    }
)
result = fl.simulate(scenario, "hierfedavg", seed=0, dataset=dataset, parts=parts)
print(
    f"accuracy {result.metrics['accuracy'][-1]:.1%} with {min(map(len, parts))} to {max(map(len, parts))} samples a client"
)

axes = Figure(figsize=(4.5, 3), layout="constrained").subplots()
image = axes.imshow(fl.data.label_counts(y[train], parts, 10).T, cmap="Blues", origin="lower", aspect="auto")
axes.set(xlabel="client", ylabel="digit")
axes.figure.colorbar(image, label="samples")
axes.figure.savefig(sys.argv[1] if len(sys.argv) > 1 else "own_data.png", dpi=110)

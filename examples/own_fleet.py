"""Bring your own fleet: positions, cells, radio and speeds of devices along a street."""

import sys

import numpy as np
from matplotlib.figure import Figure

import fedloom as fl

rng = np.random.default_rng(0)
positions = np.column_stack([rng.uniform(0, 900, 24), rng.normal(0, 40, 24)]).round(1)
scenario = fl.scenario(
    {
        "name": "street",
        "fleet": {
            "n_devices": 24,
            "placement": {"kind": "coordinates", "positions_m": positions.tolist()},
            "cells": {"kind": "explicit", "centres_m": [[150, 0], [450, 0], [750, 0]], "radius_m": 260},
            "device_edge": {"up": {"kind": "radio", "power_w": 0.1}, "down": {"kind": "rate", "bit_s": 2e7}},
            "compute": {"law": {"kind": "uniform", "low": 0.01, "high": 0.05}, "power_w": 1.5},
        },
        "task": {"partition": {"kind": "classes", "classes_per_client": 3}, "model": {"kind": "softmax"}},
        "training": {"cloud_rounds": 5, "lr": 0.05},
    }
)
result = fl.simulate(scenario, "hhfl", seed=0)
last, cover = result.metrics.row(-1, named=True), result.places[0].topology.cover
print(f"accuracy {last['accuracy']:.1%} after {last['time_s']:.1f} s and {last['energy_j']:.0f} J")

axes = Figure(figsize=(6, 2.6), layout="constrained").subplots()
for n, centre in enumerate([150, 450, 750]):
    for k in np.flatnonzero(cover[n]):
        axes.plot([positions[k, 0], centre], [positions[k, 1], 0], color=f"C{n}", linewidth=0.7)
axes.scatter(*positions.T, s=12, color="black", zorder=3)
axes.set(xlabel="x (m)", ylabel="y (m)")
axes.figure.savefig(sys.argv[1] if len(sys.argv) > 1 else "own_fleet.png", dpi=110)

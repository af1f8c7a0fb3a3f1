"""Devices that move between cells: who is where, and what it does to accuracy."""

import sys

import numpy as np
from matplotlib.figure import Figure

import fedloom as fl

figure = Figure(figsize=(7, 2.8), layout="constrained")
left, right = figure.subplots(1, 2)
for p_stay in (1.0, 0.8, 0.5):
    changes = ["training.cloud_rounds=8", f"fleet.mobility={{p_stay: {p_stay}, neighbours: complete}}"]
    result = fl.simulate(fl.scenario("cells-overlap", changes), "hierfedavg", seed=1)
    homes = {place.cloud_round: place.home for place in result.places}
    away = [np.mean(home != homes[1]) for home in homes.values()]
    left.plot(list(homes), away, marker="o", label=f"stay with {p_stay:.0%}")
    right.plot(result.metrics["cloud_round"], result.metrics["accuracy"], marker="o")
    print(f"stay with {p_stay:.0%}: accuracy {result.metrics['accuracy'][-1]:.1%}, {away[-1]:.0%} away in the end")
left.set(xlabel="cloud round", ylabel="devices away from their first cell")
left.yaxis.set_major_formatter("{x:.0%}")
left.legend()
right.set(xlabel="cloud round", ylabel="accuracy")
figure.savefig(sys.argv[1] if len(sys.argv) > 1 else "moving_devices.png", dpi=110)

"""Bring your own pacing: how much work each client gets, and when the edge server stops waiting."""

import sys

import numpy as np
from matplotlib.figure import Figure

import fedloom as fl
from fedloom.pacing import Pace


def equal_time(offer):
    """Everybody works for as long as the median client needs: slow devices take fewer steps, nobody is late."""
    goal_s = np.median(offer.full_s)
    fits = np.floor((goal_s - offer.link_s) / offer.step_s)
    return Pace(steps=np.clip(fits, 1, offer.full_steps).astype(np.int64))


scenario = fl.scenario("cells-overlap", ["training.cloud_rounds=6", "fleet.compute.law.high=0.2"])
axes = Figure(figsize=(4.5, 3), layout="constrained").subplots()
paces = {
    "wait for all": fl.pacing.lockstep,
    "deadline": fl.pacing.median_iqr(alpha=0.5),
    "equal time": equal_time,
}
for name, pace in paces.items():
    metrics = fl.simulate(scenario, fl.make_method("hhfl").with_(edge=fl.Rounds(pace=pace)), seed=1).metrics
    axes.plot(metrics["time_s"], metrics["accuracy"], marker="o", label=name)
    print(f"{name:13} {metrics['accuracy'][-1]:.1%} after {metrics['time_s'][-1]:.0f} s, {metrics['late'][-1]} late")
axes.set(xlabel="simulated time (s)", ylabel="accuracy")
axes.legend()
axes.figure.savefig(sys.argv[1] if len(sys.argv) > 1 else "own_pacing.png", dpi=110)

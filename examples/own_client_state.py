"""Bring your own client state: a pull towards the shared model, less what pulled in all jobs before, which clients remember."""

import sys

from matplotlib.figure import Figure

import fedloom as fl


class Dynamic:
    states, trainings, alpha = (fl.State("pulled"),), 1, 0.1

    def gradient(self, gradient, job):
        return gradient - job.state["pulled"] + self.alpha * (job.model - job.start)

    def after(self, job):
        return {"pulled": job.state["pulled"] - self.alpha * (job.model - job.start)}


scenario = fl.scenario("cells-overlap", ["training.cloud_rounds=4"])
axes = Figure(figsize=(4.5, 3), layout="constrained").subplots()
for name, rule in {"plain": None, "SCAFFOLD": "scaffold", "dynamic": Dynamic()}.items():
    metrics = fl.simulate(scenario, fl.make_method("hhfl").with_(rule=rule), seed=1).metrics
    axes.plot(metrics["cloud_round"], metrics["accuracy"], marker="o", label=name)
    print(f"{name:9} {metrics['accuracy'][-1]:.1%} for {metrics['bytes'][-1] / 1e6:.0f} MB")
axes.set(xlabel="cloud round", ylabel="accuracy")
axes.legend()
axes.figure.savefig(sys.argv[1] if len(sys.argv) > 1 else "own_client_state.png", dpi=110)

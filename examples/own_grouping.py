"""Bring your own grouping: a function of what the server may know that says who aggregates with whom."""

import sys

import numpy as np
from matplotlib.figure import Figure

import fedloom as fl
from fedloom.grouping import Need, Topology


def dealt_by_label(view, rng):
    """Clusters that all see every class: sort devices by their most frequent label, then deal them out like cards."""
    favourite = view.label_counts.argmax(axis=1)
    order = np.lexsort((rng.permutation(len(favourite)), favourite))
    clusters = [np.sort(order[i::5]) for i in range(5)]
    heads = np.array([members[view.link_s[np.ix_(members, members)].sum(axis=0).argmin()] for members in clusters])
    return Topology.of_heads(clusters, heads, len(favourite))


scenario = fl.scenario("d2d-mesh", ["training.cloud_rounds=3", "task.model.kind=softmax", "training.lr=0.02"])
base = fl.make_method("random_clusters")
mine = base.with_(name="dealt", group=dealt_by_label, needs=base.needs | {Need.LABELS, Need.LINKS})
figure = Figure(figsize=(6, 3), layout="constrained")
for axes, (name, method) in zip(figure.subplots(1, 2), {"random clusters": base, "dealt by label": mine}.items()):
    result = fl.simulate(scenario, method, seed=0)
    place = result.places[0]
    cluster = place.topology.cover.argmax(axis=0)
    axes.scatter(*place.position_m.T[:2], c=cluster, cmap="tab10", s=18)
    axes.scatter(*place.position_m[place.topology.host].T[:2], marker="*", s=90, c="black")
    axes.set(title=f"{name}: {result.metrics['accuracy'][-1]:.1%}", aspect="equal", xlabel="x (m)")
    print(f"{name:16} {result.metrics['accuracy'][-1]:.1%}")
figure.savefig(sys.argv[1] if len(sys.argv) > 1 else "own_grouping.png", dpi=110)

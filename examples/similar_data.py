"""Who has similar data: angles between what clients' images span, and clusters for every threshold."""

import sys
from pathlib import Path

import fedloom as fl
from fedloom.grouping import angle_clusters, proximity, signatures
from fedloom.record.proximity import draw_proximity

BETA = 14.0  # degrees

simulation = fl.Simulation(fl.scenario("edge-mobility"), fl.make_method("csahfl"), seed=1, dry_run=True)
images = simulation.dataset.inputs("train")
angles = proximity(signatures([images[part] for part in simulation.parts], rank=3))  # (40, 40) degrees
clusters = angle_clusters(angles, beta_deg=BETA)
for c in range(clusters.max() + 1):
    classes = simulation.label_counts[clusters == c].sum(axis=0).nonzero()[0]
    print(f"cluster {c}: {(clusters == c).sum()} clients with classes {classes.tolist()}")
draw_proximity(angles, BETA, path=Path(sys.argv[1] if len(sys.argv) > 1 else "similar_data.png"))

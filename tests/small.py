"""A scenario that runs in a fraction of a second."""

import copy

SMALL = {
    "name": "small",
    "description": "six devices in two overlapping cells on generated data",
    "fleet": {
        "n_devices": 6,
        "cells": {"kind": "grid", "shape": "line", "n": 2, "spacing_m": 100, "radius_m": 80},
        "placement": {"kind": "cells"},
        "device_edge": {"up": {"kind": "radio"}, "down": {"kind": "rate", "bit_s": 1e6}},
        "compute": {"law": {"kind": "uniform", "low": 0.1, "high": 0.4}, "power_w": 1.0},
    },
    "task": {
        "dataset": "gaussian",
        "gaussian": {"n_classes": 4, "n_features": 8, "n_train": 240, "n_test": 80},
        "partition": {"kind": "classes", "classes_per_client": 2},
        "model": {"kind": "mlp", "hidden": [8]},
    },
    "training": {"batch_size": 8, "local_steps": 2, "edge_rounds": 2, "cloud_rounds": 4, "lr": 0.1},
}

# Options that make the published methods fit six clients.
TEXTS = {"fedat": "fedat:n_tiers=3", "feduc_r": "feduc_r:n_groups=2", "hiflash_r": "hiflash_r:adapt=false"}
TEXTS |= {
    name: f"{name}:n_clusters=2:box_s=6" for name in ("ltc", "fedmds", "fedmds_plus", "dcliques", "random_clusters")
}


def for_method(name, **training):
    """The small scenario in which every method runs: with links between devices, and a radio link of each to the cloud."""
    made = copy.deepcopy(SMALL)
    made["fleet"]["device_cloud"] = {
        "via": "direct",
        "up": {"kind": "radio", "antennas": 4},
        "down": {"kind": "rate", "bit_s": 1e6},
    }
    made["training"] |= training
    return made, TEXTS.get(name, name)

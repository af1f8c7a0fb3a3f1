"""A scenario that runs in a fraction of a second."""

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

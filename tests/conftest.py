"""Settings shared by all tests."""

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile("fedloom", deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True)
settings.load_profile("fedloom")

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


@pytest.fixture
def small():
    """A scenario as a mapping that runs in a fraction of a second; each test gets its own copy."""
    import copy

    return copy.deepcopy(SMALL)

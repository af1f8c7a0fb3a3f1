"""Ray on this machine, quietly: no statistics, no dashboard, small object stores."""

import gc
import os
import warnings

import pytest

os.environ.update(RAY_USAGE_STATS_ENABLED="0", RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO="0", RAY_worker_niceness="0")
STORE = 80 * 1024 * 1024  # bytes; the least that Ray accepts is 75 MB


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Ray leaves log files, sockets and processes to the garbage collector, in this folder's tests and in no others."""
    for item in items:
        if "tests/scale" in item.path.as_posix():
            item.add_marker(pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning"))
            item.add_marker(pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"))
            item.add_marker(pytest.mark.filterwarnings("ignore:subprocess .* is still running:ResourceWarning"))
            unraisable = "ignore:Exception ignored in.*:pytest.PytestUnraisableExceptionWarning"
            item.add_marker(pytest.mark.filterwarnings(unraisable))


def started(start):
    """What `start` gives, tried again if Ray gives up: it waits for some 30 s, which a busy machine may exceed."""
    import ray

    for tries_left in (2, 1, 0):
        try:
            return start()
        except Exception as error:
            if "timed out" not in str(error).lower() or not tries_left:
                raise
            ray.shutdown()
            del error
            gc.collect()  # what it leaves behind
    raise AssertionError


@pytest.fixture(scope="module")
def two_cpus():
    """A Ray of its own with two processors."""
    import ray

    settings = {"num_cpus": 2, "object_store_memory": STORE, "include_dashboard": False, "log_to_driver": False}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        started(lambda: ray.init(address="local", logging_level="error", **settings))
    yield ray
    ray.shutdown()


@pytest.fixture(scope="module")
def three_nodes():
    """A cluster of three machines, as far as Ray can tell, with a processor each; the driver is on the first."""
    import ray
    from ray.cluster_utils import Cluster

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        node = {"num_cpus": 1, "object_store_memory": STORE}
        cluster = started(lambda: Cluster(initialize_head=True, head_node_args=node | {"include_dashboard": False}))
        others = [cluster.add_node(**node) for _ in range(2)]
        ray.init(address=cluster.address, log_to_driver=False, logging_level="error")
    yield ray, cluster, others
    ray.shutdown()
    cluster.shutdown()


@pytest.fixture
def crowd():
    """A scenario as a mapping: 150 clients in three overlapping cells, so that sums take more than one block."""
    return {
        "name": "crowd",
        "fleet": {
            "n_devices": 150,
            "cells": {"kind": "grid", "shape": "line", "n": 3, "spacing_m": 100, "radius_m": 80},
            "placement": {"kind": "cells"},
            "device_edge": {"up": {"kind": "radio"}, "down": {"kind": "rate", "bit_s": 1e6}},
            "compute": {"law": {"kind": "uniform", "low": 0.1, "high": 0.4}, "power_w": 1.0},
        },
        "task": {
            "dataset": "gaussian",
            "gaussian": {"n_classes": 4, "n_features": 8, "n_train": 1500, "n_test": 80},
            "model": {"kind": "mlp", "hidden": [8]},
        },
        "training": {"batch_size": 4, "local_steps": 3, "edge_rounds": 2, "cloud_rounds": 3, "lr": 0.1},
    }

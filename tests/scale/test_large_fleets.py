"""Fleets of ten thousand clients and more: the clock copes, and what cannot work says so before it takes all memory."""

import pytest

from fedloom.simulator import scenario, simulate


def fleet(n_devices):
    return scenario(
        {
            "fleet": {
                "n_devices": n_devices,
                "cells": {"kind": "grid", "shape": "hex", "n": 19, "spacing_m": 1000, "radius_m": 800},
                "placement": {"kind": "cells"},
            },
            "task": {"partition": {"kind": "drawn", "samples_per_client": 20}, "model": {"kind": "lenet5"}},
            "training": {"local_steps": 1, "edge_rounds": 2, "cloud_rounds": 1},
        }
    )


@pytest.mark.parametrize("method", ["hierfedavg", "hhfl"])
def test_the_clock_runs_ten_thousand_clients(method):
    result = simulate(fleet(10_000), method, dry_run=True)
    assert result.measures[-1]["updates"] == 20_000 and result.measures[-1]["time_s"] > 0


def test_clusters_by_links_between_too_many_devices_are_refused():
    with pytest.raises(ValueError, match=r"pairs of 20,000 devices would take 3 GB .* up to 10,000 of them: .* hhfl"):
        simulate(fleet(20_000), "random_clusters", dry_run=True)

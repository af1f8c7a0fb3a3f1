"""Fleets of ten thousand clients and more: the clock copes, and what cannot work says so before it takes all memory."""

import pytest

from fedloom.simulator import scenario, simulate


def fleet(n_devices, **fleet):
    return scenario(
        {
            "fleet": {
                "n_devices": n_devices,
                "cells": {"kind": "grid", "shape": "hex", "n": 19, "spacing_m": 1000, "radius_m": 800},
                "placement": {"kind": "cells"},
                **fleet,
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


@pytest.mark.parametrize(
    ("method", "n", "message"),
    [
        (
            "fedmds",
            6_000,
            "spectral clustering compares all pairs of clients and does at most 5,000 of them, got 6,000",
        ),
        ("fedmds_plus", 6_000, "spectral clustering compares .* use fewer clients, or a method that groups by cells"),
        ("camu_single", 6_000, "affinity propagation compares .* at most 5,000 of them, got 6,000"),
        ("csahfl", 20_000, "clustering by angles compares .* at most 15,000 of them, got 20,000"),
        ("pacfl", 6_000, "clustering by angles compares .* at most 5,000 of them, got 6,000"),
        ("ddc", 50_000, "the gradients of 50,000 clients would take 9 GB, .* hierfedavg or hhfl"),
    ],
)
def test_what_would_take_hours_or_all_memory_is_refused_at_once(method, n, message):
    with pytest.raises(ValueError, match=message):
        simulate(fleet(n, device_cloud={"via": "direct"}), method, dry_run=True)


def test_groupings_that_compare_no_pairs_do_a_hundred_thousand_clients():
    assert simulate(fleet(100_000), "fedat", dry_run=True).measures[-1]["updates"] >= 100_000

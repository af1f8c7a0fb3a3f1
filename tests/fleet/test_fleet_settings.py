"""What may stand in a scenario file, and what is refused."""

import re

import numpy as np
import pytest
from pydantic import ValidationError

from fedloom.fleet import Fleet, FleetSettings
from fedloom.gate import yaml_text

EVERYTHING = """
n_devices: 57
cells: {kind: grid, shape: triangle, n: 3, spacing_m: 1000, radius_m: 830}
placement: {kind: three-cells, exclusive: 14, pair: 4, triple: 3}
homes: even
uncovered: error
device_edge:
  up: {kind: radio, power_w: .01, bandwidth_hz: 1e6, noise_dbm_hz: -173, path_loss: {kind: log-distance}}
  down: {kind: fixed, seconds: 10, power_w: 1}
device_device: {kind: drawn, low: 1, high: 5, integer: true, unit_bit_s: 1e6, power_w: 0.1}
edge_cloud: {up: {kind: rate, bit_s: 1e7}, down: {kind: free}}
device_cloud:
  via: direct
  up: {kind: radio, path_loss: {kind: free-space, gain_tx: 3.16}}
server_m: [0, 0, 10]
compute:
  law: {kind: normal, mean: 63, std: 40, low: 2, high: 128}
  unit: seconds-per-session
  session_epochs: 10
  power_w: 2.0
  jitter_sigma: 0.3
redraw: {links: cloud-round, compute: cloud-round}
mobility: {p_stay: 0.5, neighbours: adjacent}
"""


def test_a_whole_fleet_in_yaml():
    settings = FleetSettings.model_validate(yaml_text.read(EVERYTHING, "a fleet"))
    snapshot = Fleet.from_settings(settings, seed=1).snapshot(2)
    assert snapshot.position_m.shape == (57, 3)
    assert snapshot.jitter_sigma == 0.3
    assert snapshot.compute_power_w == 2.0
    assert FleetSettings.model_validate_json(settings.model_dump_json()) == settings


def test_the_defaults_run():
    snapshot = Fleet.from_settings(FleetSettings(n_devices=20), seed=0).snapshot(0)
    assert snapshot.n_devices == 20
    assert snapshot.n_cells == 1
    assert snapshot.edge_up.seconds(1e7).tolist() == [[1.0] * 20]
    assert snapshot.backhaul_up.seconds(1e7).tolist() == [0.0]
    assert snapshot.cloud_via_edge
    assert snapshot.step_seconds(10, [100] * 20).tolist() == [0.01] * 20


@pytest.mark.parametrize(("overlap", "n_in_cells"), [(None, [0, 42, 12, 3]), (21, [0, 36, 18, 3]), (0, [0, 57])])
def test_overlap_relocates_devices_and_keeps_homes(overlap, n_in_cells):
    fleet = yaml_text.read(EVERYTHING, "a fleet")
    fleet["placement"]["overlap"] = overlap
    settings = FleetSettings.model_validate(fleet)
    assert FleetSettings.model_validate_json(settings.model_dump_json()) == settings
    snapshot = Fleet.from_settings(settings, seed=1).snapshot(0)
    assert np.bincount(snapshot.in_reach.sum(axis=0)).tolist() == n_in_cells
    np.testing.assert_array_equal(snapshot.home, np.arange(57) // 19)


def refused(**fields):
    with pytest.raises(ValidationError) as error:
        FleetSettings.model_validate({"n_devices": 6, **fields})
    first = error.value.errors()[0]
    return ".".join(map(str, first["loc"])), first["msg"]


GRID = {"kind": "grid", "shape": "line", "n": 2}


@pytest.mark.parametrize(
    ("fields", "where", "message"),
    [
        ({"n_devices": 0}, "n_devices", "greater than or equal to 1"),
        ({"n_device": 3}, "n_device", "Extra inputs are not permitted"),
        ({"homes": "far"}, "homes", "'even', 'nearest' or 'random'"),
        ({"cells": {"kind": "disc"}}, "cells", "'single', 'grid', 'explicit'"),
        ({"cells": {"kind": "grid", "n": 4}}, "cells.grid.n", "triangle has n = 3 cells, got 4"),
        ({"cells": {**GRID, "spacing_m": -1}}, "cells.grid.spacing_m", "greater than or equal to 0.001"),
        ({"cells": {**GRID, "radius_m": [1, 2, 3]}}, "cells.grid.radius_m", "must have 2 numbers, got 3"),
        (
            {"cells": {"kind": "explicit", "centres_m": [[0, 0], [0, 0, 1]], "radius_m": 1}},
            "cells.explicit.centres_m",
            "cell 1 has 3 coordinates, but cell 0 has 2; give a height to all or to none",
        ),
        (
            {"cells": {"kind": "explicit", "centres_m": [[0, 0]], "radius_m": [1, 2]}},
            "cells.explicit.radius_m",
            "must have 1 numbers, got 2",
        ),
        (
            {"cells": {"kind": "grid"}, "placement": {"kind": "three-cells"}},
            "placement",
            "kind three-cells places 57 devices, but n_devices is 6",
        ),
        (
            {"n_devices": 57, "cells": GRID, "placement": {"kind": "three-cells"}},
            "placement",
            r"three-cells needs 3 cells, got .*2",
        ),
        ({"placement": {"kind": "three-cells", "pair": 3}}, "placement.three-cells.pair", "must be even"),
        (
            {"placement": {"kind": "three-cells", "triple": 4}},
            "placement.three-cells.triple",
            "divisible by 3",
        ),
        (
            {"placement": {"kind": "three-cells", "overlap": 20}},
            "placement.three-cells.overlap",
            r"multiple of 3 .* in 0\.\.57.*got 20: use 18",
        ),
        (
            {"placement": {"kind": "three-cells", "exclusive": 1, "pair": 0, "triple": 3, "overlap": 9}},
            "placement.three-cells.overlap",
            r"in 0\.\.6, the number of devices; got 9: use 6",
        ),
        ({"placement": {"kind": "three-cells", "overlap": -3}}, "placement.three-cells.overlap", "equal to 0"),
        ({"placement": {"kind": "three-cells", "pair": 3, "overlap": 3}}, "placement.three-cells.pair", "must be even"),
        ({"placement": {"kind": "three-cells", "pair": -2}}, "placement.three-cells.pair", "equal to 0"),
        ({"placement": {"kind": "cells"}}, "placement", "needs cells with a radius, got kind single"),
        (
            {"placement": {"kind": "coordinates", "positions_m": [[0, 0]]}},
            "placement",
            "kind coordinates places 1 devices, but n_devices is 6",
        ),
        (
            {"placement": {"kind": "rectangles", "regions_m": [[0, 1, 0, 1]], "counts": [5]}},
            "placement",
            "kind rectangles places 5 devices, but n_devices is 6",
        ),
        (
            {"placement": {"kind": "rectangles", "regions_m": [[1, 0, 0, 1]], "counts": [6]}},
            "placement.rectangles",
            "region 0 must be .* with min <= max",
        ),
        ({"placement": {"kind": "disc", "radius_m": 0}}, "placement.disc.radius_m", "greater than or equal to 0.001"),
        (
            {"device_edge": {"up": {"kind": "rate", "bit_s": 0}}},
            "device_edge.up.rate.bit_s",
            "greater than or equal to 0.001",
        ),
        ({"device_edge": {"up": {"kind": "fixed"}}}, "device_edge.up.fixed.seconds", "required"),
        (
            {"device_edge": {"up": {"kind": "drawn"}}},
            "device_edge.up",
            "'free', 'fixed', 'rate', 'radio'",
        ),
        (
            {"device_edge": {"up": {"kind": "radio", "path_loss": {"kind": "log-distance", "floor_m": 0}}}},
            "device_edge.up.radio.path_loss.log-distance.floor_m",
            "greater than or equal to 0.001",
        ),
        (
            {"edge_cloud": {"up": {"kind": "rate", "bit_s": float("inf")}}},
            "edge_cloud.up.rate.bit_s",
            "finite number",
        ),
        (
            {"device_cloud": {"up": {"kind": "free"}}},
            "device_cloud",
            "up has no effect via edge; set via: direct",
        ),
        (
            {"device_device": {"kind": "drawn", "low": 3, "high": 2}},
            "device_device.drawn",
            "low must be at most",
        ),
        ({"device_device": {"kind": "drawn", "low": 0.5}}, "device_device.drawn", "must be whole"),
        (
            {"device_device": {"kind": "given", "matrix_bit_s": [[0, 1], [1, 0]]}},
            "device_device",
            "matrix_bit_s is for 2 devices, but n_devices is 6",
        ),
        (
            {"device_device": {"kind": "given", "matrix_bit_s": [[0, 1], [2, 0]]}},
            "device_device.given.matrix_bit_s",
            "must be symmetric",
        ),
        (
            {"device_device": {"kind": "given", "matrix_bit_s": [[0, 1], [1]]}},
            "device_device.given.matrix_bit_s",
            "row 1 must have 2 numbers, got 1",
        ),
        ({"cells": GRID, "mobility": {"p_stay": 1.2}}, "mobility.markov.p_stay", "less than or equal to 1"),
        ({"cells": GRID, "mobility": {"p_stay": -0.1}}, "mobility.markov.p_stay", "greater than or equal to 0"),
        ({"mobility": {"p_stay": 0.5}}, "mobility", "needs at least two cells, got one"),
        ({"redraw": {"links": "often"}}, "redraw.links", "'never', 'cloud-round', 'edge-round' or 'tick'"),
        ({"compute": {"law": {"kind": "fixed", "value": -1}}}, "compute.law.fixed.value", "equal to 0"),
        (
            {"compute": {"law": {"kind": "uniform", "low": 2, "high": 1}}},
            "compute.law.uniform",
            "at most high",
        ),
        (
            {"compute": {"law": {"kind": "uniform", "low": 0.5, "high": 1, "integer": True}}},
            "compute.law.uniform",
            "whole if integer, got 0.5 and 1",
        ),
        (
            {"compute": {"law": {"kind": "normal", "mean": 1, "std": 1, "low": 2, "high": 1}}},
            "compute.law.normal",
            "low must be at most high, got low 2 and high 1",
        ),
        (
            {"compute": {"law": {"kind": "classes", "values": [1, 2], "shares": [0.5, 0.4]}}},
            "compute.law.classes.shares",
            "must sum to 1, got 0.9",
        ),
        (
            {"compute": {"law": {"kind": "classes", "values": [1, 2], "shares": [1.0]}}},
            "compute.law.classes.shares",
            "must have 2 numbers, got 1",
        ),
        ({"compute": {"unit": "seconds-per-session"}}, "compute", "needs exactly one of session_steps and"),
        (
            {"compute": {"unit": "seconds-per-session", "session_steps": 1, "session_epochs": 1}},
            "compute",
            "needs exactly one of session_steps and",
        ),
        ({"compute": {"session_epochs": 10}}, "compute", "other units none; got unit seconds-per-step"),
        ({"compute": {"unit": "cycles-per-second"}}, "compute", "cycles-per-second needs cycles_per_sample"),
        (
            {"compute": {"unit": "steps-per-second", "law": {"kind": "uniform", "low": 0, "high": 1}}},
            "compute",
            "a law in steps-per-second must stay above 0",
        ),
    ],
)
def test_nonsense_is_refused_by_field(fields, where, message):
    location, text = refused(**fields)
    assert location == where
    assert re.search(message, text), text


@pytest.mark.parametrize(("shape", "n", "radius_m"), [("triangle", 3, 830), ("hex", 7, 577.35), ("line", 5, 500)])
def test_the_radius_follows_the_shape(shape, n, radius_m):
    cells = {"kind": "grid", "shape": shape, "n": n, "spacing_m": 1000}
    settings = FleetSettings.model_validate({"n_devices": n, "cells": cells, "placement": {"kind": "cells"}})
    snapshot = Fleet.from_settings(settings, seed=0).snapshot(0)
    assert snapshot.radius_m == pytest.approx([radius_m] * n, abs=0.01)

"""Positions, rates and speeds as they were measured: files, errors with line and column, and fleets that go by them."""

import re

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedloom.fleet import Fleet, FleetSettings
from fedloom.fleet.table import read_fleet
from fedloom.fleet.trace import Held, Paths
from fedloom.fleet.trace_files import read_matrix, read_positions, read_rates, read_speeds

TWO = {"kind": "grid", "shape": "line", "n": 2, "spacing_m": 100, "radius_m": 90}


@pytest.fixture
def write(tmp_path):
    def written(name, text):
        path = tmp_path / name
        path.write_text(text)
        return str(path)

    return written


def fleet(n=2, seed=0, **changes):
    made = {"n_devices": n, "cells": TWO, "placement": {"kind": "cells"}} | changes
    return Fleet.from_settings(FleetSettings.model_validate(made), seed)


POSITIONS = """device,time_s,x_m,y_m
1,20,80,0
0,10,0,0
1,0,100,0
0,30,40,20
"""


def test_positions_are_joined_by_straight_lines(write):
    walks = fleet(mobility={"kind": "trace", "file": write("p.csv", POSITIONS)}, tick_s=5)
    for time_s, wanted in [
        (0, [[0, 0], [100, 0]]),  # device 0 is as in its first line
        (10, [[0, 0], [90, 0]]),
        (20, [[20, 10], [80, 0]]),
        (27, [[30, 15], [80, 0]]),  # the tick began at 25 s
        (1000, [[40, 20], [80, 0]]),
    ]:
        np.testing.assert_allclose(walks.snapshot(0, 0, time_s).position_m, wanted, atol=1e-12)


def series(draw_times):
    return st.lists(st.floats(0, 1000), min_size=0, max_size=12, unique=True).map(sorted)


@settings(max_examples=30, deadline=None)
@given(st.lists(series(None), min_size=1, max_size=6), st.lists(st.floats(-10, 1100), max_size=8), st.randoms())
def test_a_trace_goes_through_its_points_and_is_what_a_plain_loop_gives(times, asked, rnd):
    x = [[rnd.uniform(-50, 50) for _ in one] for one in times]
    y = [[rnd.uniform(-50, 50) for _ in one] for one in times]
    start = np.full((len(times), 2), 7.0)
    paths, held = Paths(times, x, y, start), Held(times, x, missing=-1.0)
    for t in [*asked, *(t for one in times for t in one)]:
        t = max(t, 0.0)
        for k, one in enumerate(times):
            if one:
                wanted = [np.interp(t, one, x[k]), np.interp(t, one, y[k])]
                np.testing.assert_allclose(paths.at(t)[k], wanted, rtol=0, atol=1e-9)
                if t in one:
                    np.testing.assert_array_equal(paths.at(t)[k], [x[k][one.index(t)], y[k][one.index(t)]])
                line = max((i for i, begun in enumerate(one) if begun <= t), default=0)
                assert held.at(t)[k] == x[k][line]
            else:
                assert paths.at(t)[k].tolist() == [7.0, 7.0] and held.at(t)[k] == -1.0


def test_degrees_are_projected_as_the_fleet_s_table_does(write):
    table = write("fleet.csv", "id,latitude,longitude\na,48.00,11.00\nb,48.02,11.02\n")
    trace = write("trace.csv", "time_s,id,latitude,longitude\n0,b,48.02,11.02\n100,b,48.00,11.00\n")
    made = {"table": table, "cells": {"kind": "single"}, "mobility": {"kind": "trace", "file": trace}, "tick_s": 50}
    walks = Fleet.from_settings(FleetSettings.model_validate(made), 0)
    a, b = read_fleet(table).position_m
    np.testing.assert_allclose(walks.snapshot(0, 0, 0.0).position_m, [a, b], atol=1e-6)
    np.testing.assert_allclose(walks.snapshot(0, 0, 50.0).position_m, [a, (a + b) / 2], atol=1e-6)
    np.testing.assert_allclose(walks.snapshot(0, 0, 100.0).position_m, [a, a], atol=1e-6)


def test_a_trace_in_degrees_without_a_table_is_around_its_own_middle(write):
    trace = write("trace.csv", "time_s,device,lat,lon\n0,0,48.00,11.00\n100,0,48.00,11.01\n")
    found = read_positions(trace, ["0"])
    np.testing.assert_allclose(found.values["x_m"][0], [-372.0, 372.0], atol=0.1)
    np.testing.assert_allclose(found.values["y_m"][0], [0.0, 0.0], atol=1e-6)


@pytest.mark.parametrize("table, trace", [("x_m,y_m", "lat,lon"), ("lat,lon", "x_m,y_m")])
def test_a_trace_has_the_coordinates_of_its_table(table, trace, write):
    made = {
        "table": write("fleet.csv", f"id,{table}\na,48.0,11.0\nb,48.1,11.1\n"),
        "mobility": {"kind": "trace", "file": write("trace.csv", f"time_s,device,{trace}\n0,a,48.0,11.0\n")},
    }
    with pytest.raises(
        ValueError, match=r"nothing says how they lie to each other; give both in (degrees|metres) or both"
    ):
        FleetSettings.model_validate(made)


def test_parquet_is_read_like_csv(tmp_path, write):
    frame = pl.read_csv(write("p.csv", POSITIONS))
    frame.write_parquet(tmp_path / "p.parquet")
    assert read_positions(tmp_path / "p.parquet", ["0", "1"]) == read_positions(tmp_path / "p.csv", ["0", "1"])


RATES = """time_s,device,cell,bit_s
0,0,0,1e6
10,0,0,0
20,0,0,2e6
0,0,1,5e5
0,1,1,3e6
"""


def test_measured_rates_hold_and_links_without_one_are_down(write):
    edge = {"up": {"kind": "trace", "file": write("r.csv", RATES), "power_w": 0.2}}
    measured = fleet(device_edge=edge, tick_s=5, homes="nearest", cells=TWO | {"radius_m": 500})
    assert measured.in_time and measured.moves == "never"
    now = measured.snapshot(0, 0, 0.0)
    assert now.edge_up.rate_bit_s.tolist() == [[1e6, 0.0], [5e5, 3e6]]
    assert now.in_reach.tolist() == [[True, False], [True, True]]
    assert now.home.tolist() == [0, 1] and now.edge_up.power_w == 0.2
    assert measured.snapshot(0, 0, 9.99).edge_up.rate_bit_s[0, 0] == 1e6
    # the link to its home is down: the best of the others is
    down = measured.snapshot(0, 0, 12.0)
    assert down.edge_up.rate_bit_s.tolist() == [[0.0, 0.0], [5e5, 3e6]] and down.home.tolist() == [1, 1]
    assert measured.snapshot(0, 0, 20.0).home.tolist() == [0, 1]
    assert measured.snapshot(0, 0, 20.0).edge_down.rate_bit_s[0, 0] == 1e7  # as the settings say


def test_who_has_no_link_for_a_while_takes_no_part_then(write):
    lines = "time_s,device,cell,bit_s\n0,0,0,1e6\n10,0,0,0\n20,0,0,1e6\n0,1,1,1e6\n"
    edge = {"up": {"kind": "trace", "file": write("r.csv", lines)}}
    measured = fleet(device_edge=edge, tick_s=1, cells=TWO | {"radius_m": 500}, homes="nearest")
    now = measured.snapshot(0, 0, 15.0)
    assert now.home.tolist() == [-1, 1] and now.active.tolist() == [False, True]
    assert measured.snapshot(0, 0, 20.0).active.all()
    alone = write("one.csv", "time_s,device,cell,bit_s\n0,0,0,0\n30,0,0,1e6\n")
    late = fleet(
        1, device_edge={"up": {"kind": "trace", "file": alone}}, cells={"kind": "single"}, placement={"kind": "disc"}
    )
    assert late.somebody_s(3.0) == 30.0 and late.somebody_s(31.5) == 31.5


def test_a_matrix_of_rates_says_who_reaches_whom_at_all_times(write):
    matrix = write("m.csv", "device,1,0\n1,4e6,\n0,0,2e6\n")
    edge = {"up": {"kind": "matrix", "file": matrix}, "down": {"kind": "matrix", "file": matrix}}
    measured = fleet(device_edge=edge, cells=TWO | {"radius_m": 500})
    now = measured.snapshot(0)
    assert not measured.in_time and measured.snapshot(7, 3, 99.0) is now
    assert now.edge_up.rate_bit_s.tolist() == [[2e6, 0.0], [0.0, 4e6]]
    assert now.edge_down.rate_bit_s.tolist() == now.edge_up.rate_bit_s.tolist()
    assert now.home.tolist() == [0, 1] and now.in_reach.tolist() == [[True, False], [False, True]]


def test_a_device_that_no_measured_link_reaches_is_refused_or_dropped(write):
    matrix = write("m.csv", "device,0,1\n0,1e6,1e6\n1,,\n")
    edge = {"up": {"kind": "matrix", "file": matrix}}
    with pytest.raises(ValueError, match=r"devices \[1\] are in reach of none of the 2 cells"):
        fleet(device_edge=edge)
    assert fleet(device_edge=edge, uncovered="drop").snapshot(0).active.tolist() == [True, False]


def test_a_matrix_between_devices_comes_from_a_file_by_ids(write):
    table = write("fleet.csv", "id,x_m,y_m\na,0,0\nb,1,0\nc,2,0\n")
    matrix = write("d2d.csv", "id,b,a,c\nc,3,2,\na,1,,2\nb,,1,3\n")
    made = {"table": table, "device_device": {"kind": "given", "file": matrix}}
    rates = Fleet.from_settings(FleetSettings.model_validate(made), 0).snapshot(0).d2d.rate_bit_s
    assert rates.tolist() == [[np.inf, 1, 2], [1, np.inf, 3], [2, 3, np.inf]]


def test_speeds_hold_from_one_line_to_the_next(write):
    lines = "time_s,device,steps_per_s\n0,0,10\n0,1,4\n60,0,5\n"
    timed = fleet(compute={"trace": {"file": write("s.csv", lines)}, "power_w": 2.0}, tick_s=10)
    assert timed.in_time
    for time_s, wanted in [(0, [0.1, 0.25]), (59, [0.1, 0.25]), (60, [0.2, 0.25])]:
        now = timed.snapshot(0, 0, time_s)
        np.testing.assert_allclose(now.step_seconds(8, [100, 100]), wanted)
        assert now.compute_power_w == 2.0


def test_settings_hold_what_the_files_held(write):
    """So that a run is known by what it was given, and goes on where the files are not."""
    made = {
        "n_devices": 2,
        "cells": TWO,
        "mobility": {"kind": "trace", "file": write("p.csv", POSITIONS)},
        "device_edge": {"up": {"kind": "trace", "file": write("r.csv", RATES)}},
        "compute": {"trace": {"file": write("s.csv", "time_s,device,steps_per_s\n0,0,10\n0,1,4\n")}},
    }
    one = FleetSettings.model_validate(made)
    again = FleetSettings.model_validate_json(one.model_dump_json(), strict=False)
    assert again == one and "file" not in one.model_dump_json()
    a, b = Fleet.from_settings(one, 1).snapshot(0, 0, 12.0), Fleet.from_settings(again, 1).snapshot(0, 0, 12.0)
    np.testing.assert_array_equal(a.position_m, b.position_m)
    np.testing.assert_array_equal(a.edge_up.rate_bit_s, b.edge_up.rate_bit_s)


IDS = ["0", "1"]
BAD = [
    (
        read_positions,
        "time_s,device\n0,0\n",
        "line 1: expected the columns time_s, device, x_m, y_m; got time_s, device",
    ),
    (
        read_positions,
        "time_s,device,x_m,y_m\n0,0,1,inf\n",
        "line 2, column y_m: expected metres in -1e+09..1e+09, got 'inf'",
    ),
    (read_positions, "time_s,device,x_m,y_m\n-1,0,1,1\n", "column time_s: expected seconds in 0..1e+09, got '-1'"),
    (read_positions, "time_s,device,x_m,y_m\n1,2,1,1\n", "column device: expected one of 0, 1, got '2'"),
    (
        read_positions,
        "time_s,device,x_m,y_m\n1,0,1,1\n0,0,1,1\n1,0,2,2\n",
        "line 4: the device has another line with the same time_s, line 2; leave out",
    ),
    (read_positions, "time_s,device,x_m,y_m,lat,lon\n1,0,1,1,1,1\n", "has positions in metres and in degrees"),
    (read_positions, "time_s,device,lat,lon\n1,0,91,1\n", "column latitude: expected degrees in -90..90, got '91'"),
    (read_positions, "", "is empty or has no line of column names; expected time_s,device,x_m,y_m or latitude"),
    (read_positions, "time_s,device,x_m,y_m\n", "expected one line per position after the line of column names"),
    (
        read_speeds,
        "time_s,device,steps_per_s\n0,0,0\n",
        "column steps_per_s: expected steps a second in 1e-09..1e+15, got '0'",
    ),
    (read_speeds, "time_s,device,steps_per_s\n0,0,1\n", "expected a line of every device, got none of 1"),
]


@pytest.mark.parametrize("read, text, message", BAD)
def test_what_is_wrong_with_a_file_is_said_with_its_line_and_column(read, text, message, write):
    with pytest.raises(ValueError, match=re.escape(message)):
        read(write("bad.csv", text), IDS)


def test_what_is_wrong_with_rates_and_matrices_is_said(write):
    head = "time_s,device,cell,bit_s\n"
    for text, message in [
        (head + "0,0,2,1\n", "line 2, column cell: expected a whole number in 0..1, got '2'"),
        (head + "0,0,0.5,1\n", "column cell: expected a whole number in 0..1, got '0.5'"),
        (head + "0,0,0,-1\n", "column bit_s: expected bit/s in 0.001..1e+15 or 0, got '-1'"),
        (head + "0,0,0,1e-300\n", "column bit_s: expected bit/s in 0.001..1e+15 or 0, got '1e-300'"),
        ("time_s,device,bit_s\n0,0,1\n", "expected the columns time_s, device, cell, bit_s; got time_s, device, bit_s"),
    ]:
        with pytest.raises(ValueError, match=re.escape(message)):
            read_rates(write("bad.csv", text), IDS, 2)
    for text, message in [
        ("device,0\n0,1\n1,1\n", "expected the column device and one for each of 0, 1; missing: 1, too many: none"),
        ("device,0,1,2\n0,1,1,1\n", "missing: none of these, too many: 2"),
        ("device,0,1\n0,1,1\n", "expected one line for each device, got 0 of device '1'"),
        ("device,0,1\n0,1,1\n0,1,1\n1,1,1\n", "expected one line for each device, got 2 of device '0'"),
        ("device,0,1\n0,1,x\n1,1,1\n", "line 2, column 1: expected bit/s in 0.001..1e+15 or 0, got 'x'"),
    ]:
        with pytest.raises(ValueError, match=re.escape(message)):
            read_matrix(write("bad.csv", text), IDS, IDS)


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"mobility": {"kind": "trace", "file": "nowhere.csv"}}, "file: nowhere.csv cannot be read"),
        ({"mobility": {"kind": "trace", "file": 3}}, "must be the path of a CSV or Parquet file, got 3"),
        ({"mobility": {"kind": "trace"}}, "mobility.trace.times_s"),
        (
            {"mobility": {"kind": "trace", "times_s": [[0]], "x_m": [[0]], "y_m": [[0]]}},
            "mobility: the trace is of 1 devices, but n_devices is 2",
        ),
        (
            {"mobility": {"kind": "trace", "times_s": [[0], []], "x_m": [[0], [1]], "y_m": [[0], []]}},
            "x_m must have a number for each of times_s, in every series",
        ),
        (
            {"mobility": {"kind": "trace", "times_s": [[1, 0], []], "x_m": [[0, 0], []], "y_m": [[0, 0], []]}},
            "times_s of series 0 must ascend",
        ),
        (
            {"device_edge": {"up": {"kind": "trace", "times_s": [[0]], "bit_s": [[1]]}}},
            "the trace has 1 series, expected one for each of 2 devices and 2 cells",
        ),
        ({"device_edge": {"up": {"kind": "matrix", "bit_s": [[1, 1]]}}}, "device_edge.up: the matrix is of 1 devices"),
        ({"device_edge": {"down": {"kind": "matrix", "bit_s": [[1, 1], [1]]}}}, "must have a number for each of 2 cells"),
        (
            {"device_edge": {"up": {"kind": "matrix", "bit_s": [[1, 1], [1, 1]]}}, "devices": {"up_bit_s": [1, 1]}},
            "device_edge.up and up_bit_s of devices both say what was measured",
        ),
        ({"compute": {"trace": {"times_s": [[0]], "steps_per_s": [[1]]}}}, "compute: the trace is of 1 devices"),
        ({"compute": {"trace": {"times_s": [[0], []], "steps_per_s": [[1], []]}}}, "device 1 has none"),
        (
            {"compute": {"trace": {"times_s": [[0], [0]], "steps_per_s": [[1], [1]]}, "unit": "steps-per-second",
                         "law": {"kind": "fixed", "value": 1}}},
            "trace says how fast devices are; leave out law and unit",
        ),
        (
            {"compute": {"trace": {"times_s": [[0], [0]], "steps_per_s": [[1], [1]]}}, "devices": {"steps_per_s": [1, 1]}},
            "both say how fast devices are",
        ),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused(changes, message):
    with pytest.raises(ValueError) as caught:
        fleet(**changes)
    assert message in str(caught.value)

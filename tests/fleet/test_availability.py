"""When devices are there: on and off in turn, by laws and by traces."""

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedloom.fleet import FleetSettings
from fedloom.fleet.availability import exponential, periodic, traced
from fedloom.fleet.availability_trace import read_trace
from fedloom.fleet.failures import availability
from fedloom.fleet.settings.failures import Daily
from fedloom.gate import Refused


def state(turns, time_s):
    on, until_s = turns.at(time_s)
    return on.tolist(), until_s.tolist()


def test_periodic_turns_by_hand():
    """On for 3 s, off for 2 s. Device 0 begins at 0: on in [0, 3), [5, 8). Device 1 begins at 4: on in [-1, 2), [4, 7), for
    4 - 5 = -1. Device 2 begins at 1: its last time on, [-4, -1), is over: off until 1."""
    turns = periodic(np.full(3, 3.0), np.full(3, 2.0), np.array([0.0, 4.0, 1.0]))
    assert state(turns, 0.0) == ([True, True, False], [3.0, 2.0, 1.0])
    assert state(turns, 1.0) == ([True, True, True], [3.0, 2.0, 4.0])
    assert state(turns, 3.0) == ([False, False, True], [5.0, 4.0, 4.0])
    assert state(turns, 7.5) == ([True, False, True], [8.0, 9.0, 9.0])


def test_daily_windows_go_over_midnight():
    fleet = FleetSettings(n_devices=1, availability=Daily(from_h=22, to_h=6))
    turns = availability(fleet, seed=1)
    assert state(turns, 0.0) == ([True], [6 * 3600.0])
    assert state(turns, 12 * 3600.0) == ([False], [22 * 3600.0])
    assert state(turns, 23 * 3600.0) == ([True], [30 * 3600.0])


def test_spread_shifts_each_device_by_its_own_lot_and_no_further():
    at_h = {}
    for n in (3, 30):
        turns = availability(FleetSettings(n_devices=n, availability=Daily(from_h=8, to_h=20, spread_h=2)), seed=5)
        on, until_s = turns.at(0.0)
        assert not on.any()
        at_h[n] = until_s / 3600
        assert (np.abs(at_h[n] - 8) <= 2).all()
    assert at_h[3].tolist() == at_h[30][:3].tolist()
    assert np.ptp(at_h[30]) > 2


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**40),
    on_s=st.floats(0.5, 50),
    off_s=st.floats(0.5, 50),
    law=st.sampled_from(["exponential", "fixed"]),
    times=st.lists(st.floats(0, 500), min_size=2, max_size=8),
)
def test_what_is_on_depends_on_the_time_alone_and_changes_when_it_says(seed, on_s, off_s, law, times):
    fleet = FleetSettings.model_validate(
        {"n_devices": 4, "availability": {"kind": "on-off", "on_s": on_s, "off_s": off_s, "law": law}}
    )
    turns = availability(fleet, seed)
    for time_s in times:  # in any order
        on, until_s = turns.at(time_s)
        fresh, fresh_until_s = availability(fleet, seed).at(time_s)
        assert on.tolist() == fresh.tolist() and until_s.tolist() == fresh_until_s.tolist()
        assert (until_s > time_s).all()
        for k, then_s in enumerate(until_s.tolist()):
            halfway, _ = turns.of(np.array([k]), np.array([(time_s + then_s) / 2]))
            then, _ = turns.of(np.array([k]), np.array([then_s]))
            assert halfway[0] == on[k] and then[0] != on[k]


def test_exponential_turns_have_their_means_and_their_share():
    turns, n = exponential(3, "availability", 400, on_s=30.0, off_s=10.0), 400
    on_first, until_s = turns.at(0.0)
    assert abs(on_first.mean() - 0.75) < 4 * np.sqrt(0.75 * 0.25 / n)
    shares = [turns.at(t)[0].mean() for t in np.arange(0, 4000, 40.0)]
    assert abs(np.mean(shares) - 0.75) < 0.01
    assert abs(until_s[on_first].mean() - 30) < 4 * 30 / np.sqrt(on_first.sum())
    assert abs(until_s[~on_first].mean() - 10) < 4 * 10 / np.sqrt((~on_first).sum())


def test_a_device_has_its_own_turns_however_many_others_there_are():
    few, many = (exponential(3, "availability", n, 5.0, 5.0).at(100.0) for n in (3, 50))
    assert few[0].tolist() == many[0][:3].tolist() and few[1].tolist() == many[1][:3].tolist()


def test_traced_turns_by_hand():
    turns = traced(np.array([True, False, True]), [np.array([1.0, 4.0]), np.array([2.0]), np.zeros(0)])
    assert state(turns, 0.5) == ([True, False, True], [1.0, 2.0, np.inf])
    assert state(turns, 2.0) == ([False, True, True], [4.0, np.inf, np.inf])
    assert state(turns, 9.0) == ([True, True, True], [np.inf] * 3)
    assert state(turns, 1.5) == ([False, False, True], [4.0, 2.0, np.inf])  # back in time


TABLE = "time_s,device,up\n5,1,0\n0,0,no\n2.5,0,YES\n7,1,1\n9,1,1\n"


def written(tmp_path, text, name="trace.csv"):
    (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path / name


def test_a_trace_file_by_hand(tmp_path):
    found = read_trace(written(tmp_path, TABLE), 3)
    assert found.first_on == [False, True, True]
    assert found.changes_s == [[2.5], [5.0, 7.0], []]  # that 1 is on from 9 on is nothing new


def test_parquet_and_csv_traces_are_the_same(tmp_path):
    rows = {"time_s": [5, 0, 2.5, 7, 9], "device": [1, 0, 0, 1, 1], "up": [False, False, True, True, True]}
    pl.DataFrame(rows, strict=False).write_parquet(tmp_path / "trace.parquet")
    assert read_trace(tmp_path / "trace.parquet", 3) == read_trace(written(tmp_path, TABLE), 3)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty or has no line of column names; expected time_s,device,on"),
        ("time_s,device\n1,0\n", "expected the columns time_s, device and on; got time_s, device"),
        ("time_s,device,on\n", "expected one line per change"),
        ("time_s,device,on\n-1,0,1\n", "line 2, column time_s: expected seconds in 0..1e\\+09, got '-1'"),
        ("time_s,device,on\n1,7,1\n", "line 2, column device: expected one of 0, 1, 2, got '7'"),
        ("time_s,device,on\n1,0,2\n", "line 2, column on: expected yes or no \\(or 1 or 0\\), got '2'"),
        ("time_s,device,on\n1,0,1\n2,1,1\n1,0,0\n", "line 4: the device has another line with the same time_s, line 2"),
    ],
)
def test_what_is_wrong_with_a_trace_is_said(tmp_path, text, message):
    with pytest.raises(Refused, match=message):
        read_trace(written(tmp_path, text), 3)


def test_a_trace_in_a_scenario_stands_for_what_is_in_it(tmp_path):
    path = written(tmp_path, TABLE)
    fleet = FleetSettings.model_validate({"n_devices": 3, "availability": {"kind": "trace", "file": str(path)}})
    path.unlink()
    again = FleetSettings.model_validate(fleet.model_dump())
    assert again == fleet and state(availability(again, 0), 6.0) == ([True, False, True], [np.inf, 7.0, np.inf])


def test_devices_of_a_table_are_named_by_their_ids(tmp_path):
    table = written(tmp_path, "id,x_m,y_m,battery_j\nann,0,0,50\nbob,10,0,mains\n", "fleet.csv")
    trace = written(tmp_path, "time_s,device,on\n3,bob,0\n")
    content = {
        "table": str(table),
        "availability": {"kind": "trace", "file": str(trace)},
        "battery": {"charging": {"power_w": 1, "when": {"kind": "trace", "file": str(trace)}}},
    }
    fleet = FleetSettings.model_validate(content)
    assert fleet.availability.changes_s == fleet.battery.charging.when.changes_s == ((), (3.0,))
    assert fleet.devices.battery_j == (50.0, None)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"availability": {"kind": "trace", "file": "nowhere.csv"}}, "nowhere.csv cannot be read"),
        ({"availability": {"kind": "trace", "file": 3}}, "must be the path of a CSV or Parquet file, got 3"),
        (
            {"availability": {"kind": "trace", "first_on": [True], "changes_s": [[]]}},
            "trace is of 1 devices, but n_devices is 2",
        ),
        ({"availability": {"kind": "trace", "first_on": [True], "changes_s": []}}, "of the same devices, got 1 and 0"),
        (
            {"availability": {"kind": "trace", "first_on": [True] * 2, "changes_s": [[2, 1], []]}},
            "device 0 must ascend",
        ),
        ({"availability": {"kind": "daily", "from_h": 5, "to_h": 5}}, "from_h and to_h must differ"),
        ({"availability": {"kind": "on-off", "on_s": 0, "off_s": 1}}, "greater than"),
        ({"battery": {}}, "battery needs capacity_j"),
        ({"battery": {"capacity_j": 1, "volts": 5}}, "volts"),
        ({"dropout": {"per_round": 1.0}}, "less than 1"),
        ({"loss": {"packet": 0.1, "tries": 0}}, "greater than or equal to 1"),
    ],
)
def test_settings_that_cannot_be_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        FleetSettings.model_validate({"n_devices": 2, **changes})

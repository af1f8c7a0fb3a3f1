"""Random waypoint walks: legs by hand, bounds of place and speed, the law of speeds, and that asking changes nothing."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedloom.fleet import Fleet, FleetSettings
from fedloom.fleet.waypoint import Waypoint

AREA = (-100.0, 300.0, 0.0, 50.0)


def walk(seed=1, n=20, speed=(0.5, 2.0), pause=(0.0, 30.0), area=AREA):
    rng = np.random.default_rng(seed)
    start = rng.uniform((area[0], area[2]), (area[1], area[3]), (n, 2))
    return Waypoint(seed, start, area, speed, pause), start


def fleet(seed=1, **changes):
    made = {
        "n_devices": 40,
        "cells": {"kind": "grid", "shape": "line", "n": 3, "spacing_m": 100, "radius_m": 80},
        "placement": {"kind": "cells"},
        "mobility": {"kind": "waypoint", "speed_m_s": [1, 2], "pause_s": [0, 10]},
        "tick_s": 5,
    }
    return Fleet.from_settings(FleetSettings.model_validate(made | changes), seed)


def test_a_leg_is_walked_straight_at_its_speed_and_ends_with_its_pause():
    moving, start = walk(n=1, speed=(2.0, 2.0), pause=(7.0, 7.0))
    trail = np.array([moving.at(t)[0] for t in np.arange(0, 2000, 0.25)])
    np.testing.assert_array_equal(trail[0], start[0])
    step = np.linalg.norm(np.diff(trail, axis=0), axis=1)
    still = step < 1e-12
    # away from turns it goes 0.25 s * 2 m/s, or rests
    assert np.isclose(step[~still], 0.5).mean() > 0.95 and step.max() <= 0.5 + 1e-9
    ends = np.flatnonzero(np.diff(still.astype(int)))  # rests begin and end
    rests = [b - a for a, b in zip(ends[::2], ends[1::2])]
    assert len(rests) > 5 and all(abs(0.25 * n - 7.0) <= 0.25 for n in rests)


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 2**32), st.lists(st.floats(0, 5000), min_size=2, max_size=12))
def test_devices_stay_in_their_area_and_within_their_speeds_whatever_is_asked(seed, times):
    moving, _ = walk(seed)
    seen = {t: moving.at(t) for t in times}
    for t, position in seen.items():
        np.testing.assert_array_equal(position, walk(seed)[0].at(t))  # as if nothing else had been asked for
        assert ((position >= [AREA[0], AREA[2]]) & (position <= [AREA[1], AREA[3]])).all()
    ordered = sorted(seen)
    for a, b in itertools.pairwise(ordered):
        gone = np.linalg.norm(seen[b] - seen[a], axis=1)
        assert (gone <= 2.0 * (b - a) + 1e-6).all()


def test_a_walk_does_not_depend_on_who_else_walks():
    many, start = walk(3, n=50)
    few = Waypoint(3, start[:5], AREA, (0.5, 2.0), (0.0, 30.0))
    np.testing.assert_array_equal(few.at(777.0), many.at(777.0)[:5])


def test_targets_and_speeds_are_uniform():
    # with long pauses nearly all devices rest at a target
    moving, _ = walk(5, n=4000, speed=(50.0, 100.0), pause=(1000.0, 1000.0))
    x, y = moving.at(900.0).T
    assert x.mean() == pytest.approx(100, abs=6) and x.std() == pytest.approx(400 / 12**0.5, abs=4)
    assert y.mean() == pytest.approx(25, abs=1) and y.std() == pytest.approx(50 / 12**0.5, abs=0.5)
    # without pauses the first legs are all under way: each device has gone its speed times the time
    moving, start = walk(6, n=4000, speed=(1.0, 3.0), pause=(0.0, 0.0))
    gone = np.linalg.norm(moving.at(0.01) - start, axis=1) / 0.01
    assert gone.mean() == pytest.approx(2.0, abs=0.05) and gone.min() >= 1.0 - 1e-6 and gone.max() <= 3.0 + 1e-6


def test_a_snapshot_is_that_of_a_tick():
    moving = fleet()
    assert moving.moves == "tick" and moving.in_time
    start = moving.snapshot(0)
    assert moving.snapshot(3, 17, 4.999) is start  # rounds are nothing to it
    later = moving.snapshot(0, 1, 5.0)
    assert later is not start and (later.position_m != start.position_m).any()
    assert moving.snapshot(0, 1, 9.0) is later
    np.testing.assert_array_equal(moving.homes_at(1), later.home)
    assert [moving.tick_at(t) for t in (0.0, 4.9, 5.0 - 1e-12, 5.0, 12.0)] == [0, 0, 1, 1, 2]


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 1000), st.lists(st.floats(0, 3000), min_size=1, max_size=6))
def test_a_snapshot_does_not_depend_on_what_was_asked_before(seed, times):
    asked = fleet(seed)
    for t in times:
        one, other = asked.snapshot(0, 0, t), fleet(seed).snapshot(0, 0, t)
        np.testing.assert_array_equal(one.position_m, other.position_m)
        np.testing.assert_array_equal(one.home, other.home)
        np.testing.assert_array_equal(one.edge_up.rate_bit_s, other.edge_up.rate_bit_s)


def test_homes_are_the_nearest_cells_in_reach_and_none_out_of_coverage():
    moving = fleet(mobility={"kind": "waypoint", "speed_m_s": [5, 5], "area_m": [-200, 400, -100, 100]})
    uncovered = 0
    for tick in range(0, 200, 7):
        now = moving.snapshot(0, 0, 5.0 * tick)
        distance = np.linalg.norm(now.position_m[None] - now.cell_m[:, None], axis=2)
        nearest, reach = distance.argmin(axis=0), distance.min(axis=0) <= 80
        np.testing.assert_array_equal(now.home, np.where(reach, nearest, -1))
        np.testing.assert_array_equal(now.active, reach)
        uncovered += int((~reach).sum())
    assert uncovered > 100


def test_heights_stay():
    places = [[0.0, 0.0, 1.5], [10.0, 0.0, 30.0]]
    moving = fleet(n_devices=2, placement={"kind": "coordinates", "positions_m": places})
    assert moving.snapshot(0, 0, 500.0).position_m[:, 2].tolist() == [1.5, 30.0]


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"mobility": {"kind": "waypoint", "speed_m_s": [2, 1]}}, "speed_m_s must be (least, most), got 2 and 1"),
        ({"mobility": {"kind": "waypoint", "speed_m_s": [0, 1]}}, "greater than or equal to 0.001"),
        ({"mobility": {"kind": "waypoint", "area_m": [0, 0, 0, 1]}}, "must be (x_min, x_max, y_min, y_max) with min <"),
        ({"homes": "even"}, "have their homes in the nearest cell; got homes even: leave it out"),
        ({"tick_s": 0}, "greater than or equal to 0.001"),
        ({"mobility": {"kind": "drive"}}, "'markov', 'waypoint'"),
    ],
)
def test_what_makes_no_sense_is_refused(changes, message):
    with pytest.raises(ValueError) as caught:
        fleet(**changes)
    assert message in str(caught.value)


def test_an_area_must_be_known_and_times_must_be_possible():
    alone = {"cells": {"kind": "single"}, "n_devices": 1, "placement": {"kind": "coordinates", "positions_m": [[1, 2]]}}
    with pytest.raises(ValueError, match=r"all of them are on one line, x 1..1 m, y 2..2 m; give mobility.area_m"):
        fleet(**alone)
    with pytest.raises(
        ValueError, match=r"time_s must be in 0..5e[+]07, which are 10,000,000 ticks of 5 s, got 1e[+]09"
    ):
        fleet().snapshot(0, 0, 1e9)
    with pytest.raises(ValueError, match=r"time_s must be in .* got nan"):
        fleet().snapshot(0, 0, float("nan"))

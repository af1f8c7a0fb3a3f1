"""Gauss-Markov walks: a step by hand, the law of velocities, their memory, borders, and that asking changes nothing."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedloom._random import normal_of
from fedloom.fleet import Fleet, FleetSettings
from fedloom.fleet.chain import EVERY, KEPT_STATES, Chain
from fedloom.fleet.gauss_markov import OF_TICK, GaussMarkov

AREA = (-50.0, 150.0, 0.0, 40.0)


def walk(seed=1, n=30, tick_s=2.0, speed=1.0, sigma=0.5, memory=20.0, area=AREA):
    rng = np.random.default_rng(seed)
    start = rng.uniform((area[0], area[2]), (area[1], area[3]), (n, 2))
    made = GaussMarkov(seed, start, area, tick_s, speed_m_s=speed, sigma_m_s=sigma, memory_s=memory)
    return made, start


def test_two_steps_by_hand():
    # one device in a plain without borders near; a = exp(-2 / 20)
    made, start = walk(7, n=1, area=(-1e6, 1e6, -1e6, 1e6))
    a, noise = np.exp(-0.1), [normal_of(7, "gauss-markov", np.array([0, OF_TICK]) + 2 * OF_TICK * i) for i in range(2)]
    mean = made.velocity(0)[0] - 0.5 * noise[0]
    assert np.linalg.norm(mean) == pytest.approx(1.0)  # speed_m_s, in a direction of its own
    second = a * made.velocity(0)[0] + (1 - a) * mean + 0.5 * np.sqrt(1 - a**2) * noise[1]
    np.testing.assert_allclose(made.velocity(1)[0], second, rtol=1e-12)
    np.testing.assert_allclose(made.at(1)[0], start[0] + 2 * made.velocity(0)[0], rtol=1e-12)
    np.testing.assert_allclose(made.at(2)[0], made.at(1)[0] + 2 * second, rtol=1e-12)


@pytest.mark.parametrize("tick_s", [0.5, 5.0])
def test_velocities_have_their_mean_their_variance_and_their_memory_whatever_the_tick(tick_s):
    # 3,000 devices, over 40 s; standard errors: of means sigma / sqrt(6000), of correlations 1 / sqrt(6000)
    made, _ = walk(3, n=3000, tick_s=tick_s, speed=2.0, sigma=1.5, memory=20.0)
    n = round(40 / tick_s)
    first, last = made.velocity(0), made.velocity(n)
    mean = made._mean
    assert np.linalg.norm(mean, axis=1) == pytest.approx(np.full(3000, 2.0))
    for v in (first, last):
        around = (v - mean) / 1.5
        assert around.mean() == pytest.approx(0, abs=0.06) and around.std() == pytest.approx(1, abs=0.04)
    memory = np.corrcoef((first - mean).ravel(), (last - mean).ravel())[0, 1]
    assert memory == pytest.approx(np.exp(-2.0), abs=0.06)
    assert abs(np.corrcoef(*(last - mean).T)[0, 1]) < 0.08  # coordinates are independent
    assert np.abs(mean.mean(axis=0)).max() < 0.12  # and directions are any


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 2**32), st.lists(st.integers(0, 200), min_size=1, max_size=5))
def test_devices_stay_in_their_area_and_what_is_asked_changes_nothing(seed, ticks):
    made, start = walk(seed, n=5)
    for t in ticks:
        position = made.at(t)
        assert ((position >= [AREA[0], AREA[2]]) & (position <= [AREA[1], AREA[3]])).all()
        np.testing.assert_array_equal(position, walk(seed, n=5)[0].at(t))
    np.testing.assert_array_equal(made.at(0), start)


def test_a_border_mirrors():
    # straight walks of 3 m/s for 2 s from the border: nothing varies
    made = GaussMarkov(5, np.array([[-50.0, 0.0]]), AREA, 2.0, speed_m_s=3.0, sigma_m_s=0.0, memory_s=1.0)
    vx, vy = made.velocity(0)[0]
    np.testing.assert_allclose(made.at(1)[0], [-50 + 2 * abs(vx), 2 * abs(vy)])
    # after long it has gone through the width of 200 m many times: at the place of the folded way
    way = 2 * 500 * abs(vx) % 400
    assert made.at(500)[0, 0] == pytest.approx(-50 + min(way, 400 - way))


def test_without_speed_and_variation_nobody_moves():
    made, start = walk(1, speed=0.0, sigma=0.0)
    np.testing.assert_allclose(made.at(1000), start, rtol=1e-12)


def test_a_chain_gives_every_state_whatever_was_asked_before():
    made = Chain(0, lambda state, t: state + t)
    asked = [5, 3, 2500, 7, 2 * EVERY, 2499, 2501, 0, 3 * EVERY + KEPT_STATES + 5, 2500, 1, 3000]
    assert [made.at(t) for t in asked] == [t * (t + 1) // 2 for t in asked]
    assert len(made._recent) <= KEPT_STATES and set(made._kept) == {0, 1000, 2000, 3000}


def test_a_fleet_walks_so():
    made = {
        "n_devices": 4,
        "cells": {"kind": "explicit", "centres_m": [[0, 0]], "radius_m": 300},
        "mobility": {"kind": "gauss-markov", "speed_m_s": 2, "memory_s": 10},
        "tick_s": 4,
    }
    fleet = Fleet.from_settings(FleetSettings.model_validate(made), 3)
    start = fleet.snapshot(0).position_m
    expected = GaussMarkov(3, start, (-300, 300, -300, 300), 4.0, speed_m_s=2.0, sigma_m_s=0.5, memory_s=10.0)
    np.testing.assert_array_equal(fleet.snapshot(0, 0, 83.0).position_m, expected.at(20))


def test_who_is_placed_outside_of_the_area_is_named():
    made = {
        "n_devices": 2,
        "cells": {"kind": "explicit", "centres_m": [[0, 0]], "radius_m": 300},
        "placement": {"kind": "coordinates", "positions_m": [[0, 0], [20, 0]]},
        "mobility": {"kind": "gauss-markov", "area_m": [-10, 10, -10, 10]},
    }
    message = (
        r"device 1 is placed at \(20, 0\) m, outside of mobility.area_m, x -10..10 m, y -10..10 m; enlarge the area"
    )
    with pytest.raises(ValueError, match=message):
        Fleet.from_settings(FleetSettings.model_validate(made), 0)

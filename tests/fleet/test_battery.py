"""Batteries: levels are straight lines between moments, and what goes in and out adds up."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedloom.fleet import FleetSettings
from fedloom.fleet.availability import periodic, traced
from fedloom.fleet.battery import Batteries
from fedloom.fleet.failures import batteries

ONE = np.array([0])


def one(capacity_j=100.0, level_j=100.0, **options):
    return Batteries(np.array([capacity_j]), np.array([level_j]), **options)


def plugged_at(*changes_s):
    return traced(np.array([False]), [np.array(changes_s)])


def test_idling_and_working_by_hand():
    """100 J at 2 W of idling for 10 s: 80 J; at 2 + 8 W for 5 s: 30 J; at 10 W the rest lasts 3 s, until 18 s."""
    battery = one(idle_w=2.0)
    battery.idle_until(ONE, 10.0)
    assert battery.level_j[0] == 80.0
    assert battery.work(ONE, np.array([5.0]), np.array([8.0]))[0] == np.inf
    assert battery.level_j[0] == 30.0 and battery.at_s[0] == 15.0
    assert battery.work(ONE, np.array([60.0]), np.array([8.0]))[0] == 18.0
    assert battery.off[0] and battery.level_j[0] == 0.0 and battery.at_s[0] == 18.0


def test_charging_by_hand():
    """Empty at 10 s (100 J at 10 W). Plugged in at 20 s with 4 W: 20 J, a fifth, are there at 25 s."""
    battery = one(idle_w=10.0, charge_w=4.0, back_at=0.2, plugged=plugged_at(20.0))
    battery.idle_until(ONE, 12.0)
    assert battery.off[0] and battery.back_s(ONE)[0] == 25.0
    assert battery.at_s[0] == 12.0  # looking ahead changes nothing
    battery.idle_until(ONE, 24.0)
    assert battery.off[0] and battery.level_j[0] == 16.0
    battery.idle_until(ONE, 25.0)
    assert not battery.off[0] and battery.level_j[0] == 20.0


def test_a_full_battery_takes_no_more():
    battery = one(level_j=90.0, charge_w=5.0, plugged=plugged_at(1.0))
    battery.idle_until(ONE, 100.0)
    assert battery.level_j[0] == 100.0 and battery.charged_j[0] == 10.0


def test_without_charging_nobody_comes_back():
    for battery in (one(level_j=0.0), one(level_j=0.0, charge_w=5.0, plugged=plugged_at(1.0, 2.0))):
        assert battery.off[0] and battery.back_s(ONE)[0] == np.inf  # 5 J are not enough


def test_mains_are_never_empty():
    battery = one(np.inf, np.inf, idle_w=5.0, charge_w=1.0, plugged=plugged_at(1.0))
    assert battery.work(ONE, np.array([1e6]), np.array([1e6]))[0] == np.inf
    battery.take(ONE, np.array([1e9]))
    assert not battery.off[0] and battery.level_j[0] == np.inf and battery.next_s(ONE)[0] == np.inf


def test_what_is_taken_at_once_may_empty_it():
    battery = one(level_j=5.0)
    battery.take(np.array([0, 0]), np.array([2.0, 1.0]))
    assert battery.level_j[0] == 2.0 and not battery.off[0]
    battery.take(ONE, np.array([7.0]))
    assert battery.off[0] and battery.drained_j[0] == 5.0


def test_the_end_of_a_line_is_told():
    battery = one(level_j=10.0, idle_w=1.0, charge_w=3.0, plugged=plugged_at(4.0, 5.0))
    assert battery.next_s(ONE)[0] == 4.0
    battery.idle_until(ONE, 5.0)  # 10 - 4 + 2
    assert battery.level_j[0] == 8.0 and battery.next_s(ONE)[0] == 13.0


def test_a_late_moment_of_a_small_battery_is_found():
    """Rounding of times is larger than what is left: it ends all the same."""
    battery = one(1e-6, 1e-6, idle_w=1.0)
    battery.off[0], battery.at_s[0] = False, 1e8
    battery.idle_until(ONE, 1e8 + 1)
    assert battery.off[0]


def by_small_steps(capacity_j, level_j, takes_w, gets_w, back_j, on_s, off_s, seconds, dt=1e-3):
    """The level of one battery, step by step, as a plain loop."""
    off = level_j <= 0
    for i in range(round(seconds / dt)):
        gets = gets_w if (i * dt) % (on_s + off_s) < on_s else 0.0
        level_j = min(max(level_j + dt * (gets - (0.0 if off else takes_w)), 0.0), capacity_j)
        off = level_j < back_j if off else level_j <= 0
    return level_j


@pytest.mark.parametrize("seed", range(12))
def test_levels_are_those_of_a_plain_loop_of_small_steps(seed):
    rng = np.random.default_rng(seed)
    capacity_j, takes_w, gets_w, on_s, off_s = rng.uniform([5, 0.1, 0.1, 0.5, 0.5], [20, 6, 6, 4, 4])
    plugged = periodic(np.array([on_s]), np.array([off_s]), np.zeros(1))
    battery = one(capacity_j, capacity_j / 2, idle_w=takes_w, charge_w=gets_w, plugged=plugged)
    battery.idle_until(ONE, 10.0)
    slow = by_small_steps(capacity_j, capacity_j / 2, takes_w, gets_w, 0.2 * capacity_j, on_s, off_s, 10.0)
    assert battery.level_j[0] == pytest.approx(slow, abs=0.06)  # a step more or less at every corner


@settings(max_examples=80, deadline=None)
@given(
    capacity=st.lists(st.floats(1, 200), min_size=1, max_size=5),
    idle_w=st.floats(0, 3),
    charge_w=st.floats(0, 8),
    period=st.floats(0.5, 40),
    share=st.floats(0.1, 0.9),
    work=st.lists(st.tuples(st.floats(0, 30), st.floats(0, 10), st.booleans()), max_size=8),
)
def test_what_goes_in_and_out_adds_up(capacity, idle_w, charge_w, period, share, work):
    n, capacity_j = len(capacity), np.array(capacity)
    who, on_s, now_s = np.arange(n), np.full(n, period * share), 0.0
    turns = periodic(on_s, period - on_s, np.arange(n) * 0.3)
    battery = Batteries(capacity_j, capacity_j / 2, idle_w=idle_w, charge_w=charge_w, plugged=turns)
    for seconds, watts, at_work in work:
        now_s += seconds
        on = who[~battery.off & at_work]
        empty_s = battery.work(on, np.full(len(on), seconds), np.full(len(on), watts))
        assert ((empty_s <= now_s + 1e-9) | np.isinf(empty_s)).all()
        battery.idle_until(who, now_s)
    assert battery.level_j == pytest.approx(capacity_j / 2 + battery.charged_j - battery.drained_j, abs=1e-6)
    assert ((battery.level_j >= 0) & (battery.level_j <= capacity_j)).all()
    assert battery.at_s == pytest.approx(np.full(n, now_s))


def test_batteries_of_a_fleet():
    fleet = FleetSettings.model_validate(
        {"n_devices": 3, "battery": {"level": 0.5}, "devices": {"battery_j": [10.0, None, 4.0]}}
    )
    assert batteries(fleet, 0).level_j.tolist() == [5.0, np.inf, 2.0]
    assert batteries(FleetSettings(n_devices=3), 0) is None

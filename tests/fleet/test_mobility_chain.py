"""Devices that move every edge round: a case by hand, the stationary law, and what the fleet makes of it."""

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedloom.fleet import Fleet, FleetSettings, mobility
from fedloom.fleet.chain import KEPT_STATES

RING = {"kind": "explicit", "centres_m": [[1000 * n, 0] for n in range(5)], "radius_m": 100}
ROAMING = {
    "n_devices": 200,
    "cells": RING,
    "placement": {"kind": "cells"},
    "mobility": {"p_stay": 0.5, "every": "edge-round"},
}
DELAYS = {
    "law": {"kind": "normal", "mean": 63, "std": 40, "low": 2, "high": 128},
    "unit": "seconds-per-session",
    "session_epochs": 10,
}


def fleet(seed=0, **fields):
    return Fleet.from_settings(FleetSettings.model_validate(ROAMING | fields), seed)


def chain(kind, p_stay=0.5, n=5):
    return mobility.transition(mobility.neighbours(kind, n), p_stay)


def test_g6_ring():
    matrix = chain("ring")
    np.testing.assert_allclose(mobility.stationary(mobility.neighbours("ring", 5)), 0.2, rtol=1e-15)
    assert np.linalg.matrix_power(matrix, 2)[0, 0] == pytest.approx(0.375, abs=1e-15)
    third = np.linalg.matrix_power(matrix, 3)[0]
    np.testing.assert_allclose(third, [0.3125, 0.234375, 0.109375, 0.109375, 0.234375], atol=1e-15)
    assert 40 * third[0] == 12.5  # of 40 home clients
    assert np.sort(np.linalg.eigvalsh(matrix))[-2] == pytest.approx(0.6545085, abs=1e-7)


def test_g6_path_and_complete():
    stationary = mobility.stationary(mobility.neighbours("path", 5))
    np.testing.assert_allclose(stationary, [0.125, 0.25, 0.25, 0.25, 0.125], rtol=1e-15)
    third = np.linalg.matrix_power(chain("path"), 3)[0]
    np.testing.assert_allclose(third, [0.3125, 0.46875, 0.1875, 0.03125, 0], atol=1e-15)
    assert np.linalg.matrix_power(chain("complete"), 3)[0, 0] == pytest.approx(0.2421875, abs=1e-15)


@given(st.sampled_from(["ring", "path", "complete"]), st.integers(1, 9), st.floats(0, 0.99))
def test_the_stationary_law_stays_whatever_p_stay(kind, n, p_stay):
    around = mobility.neighbours(kind, n)
    law = mobility.stationary(around)
    assert law.sum() == pytest.approx(1)
    np.testing.assert_allclose(law @ mobility.transition(around, p_stay), law, atol=1e-15)


def test_in_edge_round_r_devices_have_moved_r_times():
    # 400 fleets of 200: on average 12.5 of 40 are at home after three moves; the variance of one fleet's share
    # is .3125 .6875 / 200, so the mean of 400 has a standard deviation of .0017
    stayed = [np.mean(fleet(seed).homes_at(3) == fleet(seed).homes_at(0)) for seed in range(400)]
    assert np.mean(stayed) == pytest.approx(0.3125, abs=0.007)
    counts = np.zeros(5)
    for seed in range(100):
        homes = fleet(seed)
        counts += np.bincount(homes.homes_at(3)[homes.homes_at(0) == 0], minlength=5)
    expected = 4000 * np.array([0.3125, 0.234375, 0.109375, 0.109375, 0.234375])
    assert ((counts - expected) ** 2 / expected).sum() < 23.5  # chi squared, 4 degrees of freedom: 1 in 10,000


def test_steps_of_a_device_are_independent_and_leave_to_each_neighbour_equally():
    moving = fleet(1, n_devices=2000)
    path = np.array([moving.homes_at(r) for r in range(41)])  # (41, K)
    step = (path[1:] - path[:-1]) % 5
    assert set(np.unique(step)) == {0, 1, 4}  # the ring
    share = [(step == s).mean() for s in (0, 1, 4)]
    np.testing.assert_allclose(share, [0.5, 0.25, 0.25], atol=0.01)  # 80,000 steps: sd .0018
    stays = (step == 0).astype(float)
    assert abs(np.mean((stays[1:] - 0.5) * (stays[:-1] - 0.5))) < 0.005


def test_a_round_is_the_same_whatever_was_asked_before():
    rounds = [3, 0, 7, 5, 200, 1, 100, 6, 199, 200 + KEPT_STATES, 2]
    asked = fleet(4)
    for r in rounds:
        np.testing.assert_array_equal(asked.homes_at(r), fleet(4).homes_at(r))
        np.testing.assert_array_equal(asked.snapshot(9, r).home, asked.homes_at(r))
        np.testing.assert_array_equal(asked.snapshot(9, r).position_m, fleet(4).snapshot(9, r).position_m)


def test_mobility_has_a_stream_of_its_own():
    one, other = fleet(2), fleet(2, compute=DELAYS, redraw={"compute": "edge-round", "links": "edge-round"})
    np.testing.assert_array_equal(one.homes_at(5), other.homes_at(5))
    assert (fleet(3).homes_at(5) != one.homes_at(5)).any()


def test_snapshots_follow_the_edge_round():
    moving = fleet()
    start = moving.snapshot(0)
    np.testing.assert_array_equal(np.bincount(start.home), 40)
    assert moving.snapshot(0, 0) is start
    first = moving.snapshot(0, 1)
    assert (first.home != start.home).any()
    assert moving.snapshot(3, 1) is first  # the cloud round alone changes nothing
    assert (first.in_reach[first.home, np.arange(200)]).all()
    assert np.isfinite(first.edge_up.seconds(1e6)[first.home, np.arange(200)]).all()
    assert moving.moves == "edge-round"


@settings(deadline=None, max_examples=20)
@given(st.floats(0, 1), st.sampled_from(["ring", "path", "complete"]), st.integers(0, 30))
def test_invariant_7_nobody_is_lost_and_moves_go_to_neighbours(p_stay, kind, r):
    moving = fleet(r, mobility={"p_stay": p_stay, "neighbours": kind, "every": "edge-round"})
    before, after = moving.homes_at(r), moving.homes_at(r + 1)
    around = mobility.neighbours(kind, 5)
    moved = before != after
    assert around[before[moved], after[moved]].all()
    assert np.bincount(after, minlength=5).sum() == 200
    if p_stay == 1:
        assert not moved.any()


def test_moving_every_cloud_round_ignores_edge_rounds():
    slow = fleet(mobility={"p_stay": 0.5})
    assert slow.moves == "cloud-round"
    assert slow.snapshot(2, 7) is slow.snapshot(2)
    np.testing.assert_array_equal(slow.snapshot(2).home, slow.homes_at(2))
    still = fleet(mobility=None)
    assert still.moves == "never" and still.snapshot(5, 99) is still.snapshot(0)
    np.testing.assert_array_equal(still.homes_at(12), still.homes_at(0))


def test_speeds_and_rates_can_be_drawn_for_every_edge_round():
    up = {"up": {"kind": "rate", "sigma": 0.5}}
    drawn = fleet(
        mobility=None, compute=DELAYS, device_edge=up, redraw={"compute": "edge-round", "links": "edge-round"}
    )
    one, other = drawn.snapshot(1, 4), drawn.snapshot(1, 5)
    assert (one.compute != other.compute).mean() > 0.8  # some are clipped in both
    reached = one.in_reach
    assert (one.edge_up.rate_bit_s != other.edge_up.rate_bit_s)[reached].all()
    np.testing.assert_array_equal(drawn.snapshot(7, 4).compute, one.compute)


def test_the_delays_of_csahfl():
    # clipped normal 63/40 in 2..128: mean 63.23, median 63, quartiles 36.02 and 89.98, P(2) .0636, P(128) .0521
    delay = fleet(
        n_devices=100_000, mobility=None, compute=DELAYS, cells={"kind": "single"}, placement={"kind": "disc"}
    )
    drawn = delay.snapshot(0).compute
    assert drawn.mean() == pytest.approx(63.23, abs=0.5)
    np.testing.assert_allclose(np.quantile(drawn, [0.25, 0.5, 0.75]), [36.02, 63, 89.98], atol=0.8)
    assert (drawn == 2).mean() == pytest.approx(0.0636, abs=0.004)
    assert (drawn == 128).mean() == pytest.approx(0.0521, abs=0.004)
    # 220 samples in batches of 10 are 22 steps an epoch, so 220 steps in a session of 10 epochs
    step_s = delay.snapshot(0).step_seconds(10, np.full(100_000, 220))
    np.testing.assert_allclose(step_s, drawn / 220, rtol=1e-14)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: fleet().snapshot(1), "this fleet changes every edge round: expected edge_round"),
        (lambda: fleet().snapshot(1, -1), "edge_round must be a whole number of at least 0, got -1"),
        (lambda: fleet().homes_at(-1), "t must be a whole number of at least 0, got -1"),
        (
            lambda: fleet(mobility={"p_stay": 0.5, "every": "day"}),
            "Input should be 'cloud-round', 'edge-round' or 'tick'",
        ),
        (
            lambda: mobility.stationary(np.array([[False, True], [False, False]])),
            "neighbours must be symmetric: cell 1 is a neighbour of 0, but 0 is none of 1",
        ),
        (lambda: mobility.stationary(np.zeros((2, 2), bool)), "cells [1] cannot be reached from cell 0"),
    ],
)
def test_bad_input_is_refused(call, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        call()

"""When a device that walks changes its home: margins and times by hand, against a plain loop, and in a fleet."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from fedloom.fleet import Fleet, FleetSettings
from fedloom.fleet.handover import first, hand_over
from fedloom.fleet.hops import noise_w
from fedloom.fleet.propagation import Surroundings, Survey
from fedloom.radio import db_to_ratio, distances, ratio_to_db, shannon_rate

LINE = {"kind": "grid", "shape": "line", "n": 2, "spacing_m": 100, "radius_m": 80}


def driven(**changes):
    """One device that goes from cell 0 to cell 1, 100 m away, at 1 m/s, and on: straight, by a trace."""
    made = {
        "n_devices": 1,
        "cells": LINE,
        "mobility": {"kind": "trace", "times_s": [[0, 200]], "x_m": [[0, 200]], "y_m": [[0, 0]]},
        "tick_s": 1,
    }
    return Fleet.from_settings(FleetSettings.model_validate(made | changes), 0)


def changes_of(fleet, last=200):
    homes = [int(fleet.homes_at(t)[0]) for t in range(last + 1)]
    return [(t, now) for t, (before, now) in enumerate(itertools.pairwise(homes), start=1) if before != now]


def test_without_a_margin_the_nearest_cell_is_home_and_nowhere_out_of_reach():
    # nearer to cell 1 from 51 m on; out of its reach beyond 180 m
    assert changes_of(driven()) == [(51, 1), (181, -1)]


def test_a_margin_in_metres_delays_the_handover():
    # at x: 100 - x < x - 9 from 55 m on
    assert changes_of(driven(handover={"hysteresis_m": 9})) == [(55, 1), (181, -1)]


def test_a_cell_must_be_better_for_the_time_to_trigger():
    # better by 9 m at 55 s, and at 60 s it has been for 5 s; what is between two ticks is seen at the second
    assert changes_of(driven(handover={"hysteresis_m": 9, "time_to_trigger_s": 5})) == [(60, 1), (181, -1)]
    assert changes_of(driven(handover={"hysteresis_m": 9, "time_to_trigger_s": 4.5}))[0] == (60, 1)


def test_who_leaves_the_home_s_reach_changes_at_once():
    # 80 m from cell 0 at 80 s, in reach of it for the last time: the margin of 70 m would come at 86 m
    assert changes_of(driven(handover={"hysteresis_m": 70})) == [(81, 1), (181, -1)]


def test_a_margin_in_decibels_goes_by_path_loss():
    # 37.6 dB a decade: 3 dB better at (100 - x) / x < 10^(-3 / 37.6) = 0.8322, x > 54.58
    radio = {"device_edge": {"up": {"kind": "radio"}}, "handover": {"hysteresis_db": 3}}
    assert changes_of(driven(**radio)) == [(55, 1), (181, -1)]


CITY = {"kind": "radio", "path_loss": {"kind": "tr38901", "scenario": "umi", "indoor": 0.3}}


def in_the_city(seed, **changes):
    made = {
        "n_devices": 6,
        "cells": LINE,
        "placement": {"kind": "cells"},
        "mobility": {"kind": "waypoint", "speed_m_s": [3, 9], "pause_s": [0, 40]},
        "device_edge": {"up": CITY, "down": {"kind": "rate", "bit_s": 1e6}},
        "handover": {"hysteresis_db": 3, "time_to_trigger_s": 2},
    }
    return Fleet.from_settings(FleetSettings.model_validate(made | changes), seed)


@settings(max_examples=3, deadline=None)
@given(st.integers(0, 100))
def test_a_margin_in_decibels_goes_by_the_maps_of_tr_38901(seed):
    """Homes are those of the losses that links have, each found by itself, with walls and shadows."""
    fleet, cell_m = in_the_city(seed), np.array([[0.0, 0.0], [100.0, 0.0]])
    up, around = fleet.settings.device_edge.up, Surroundings(seed=seed)
    state = None
    for t in range(30):
        now = fleet.snapshot(0, 0, float(t))
        distance_m = distances(cell_m, now.position_m)
        lost_db = -ratio_to_db(Survey(cell_m, around).paths(up.path_loss, now.position_m, distance_m).gain)
        badness = np.where(distance_m <= 80, lost_db, np.inf)
        state = first(badness) if state is None else hand_over(state, badness, 3.0, 2)
        assert now.home.tolist() == state.home.tolist()
        bit_s = shannon_rate(up.bandwidth_hz, up.power_w * db_to_ratio(-badness) / noise_w(up))
        np.testing.assert_allclose(now.edge_up.rate_bit_s, bit_s, rtol=1e-9)


def test_another_cell_that_is_better_for_a_moment_starts_the_time_again():
    badness = [
        [[0.0], [9.0], [9.0]],
        [[9.0], [1.0], [5.0]],
        [[9.0], [5.0], [1.0]],
        [[9.0], [5.0], [1.0]],
        [[9.0], [5.0], [1.0]],
    ]
    state, homes = first(np.array(badness[0])), []
    for now in badness[1:]:
        state = hand_over(state, np.array(now), 2.0, 2)
        homes.append(int(state.home[0]))
    assert homes == [0, 0, 0, 2]  # cell 2 is better from the second on, and has been for two ticks in the fourth


def slowly(badness, margin, needed):
    """One device, as the rule is told. badness (T, N)."""
    home = int(badness[0].argmin()) if np.isfinite(badness[0]).any() else -1
    found, since, better = [home], 0, None
    for now in badness[1:]:
        best = int(now.argmin()) if np.isfinite(now).any() else -1
        own = now[home] if home >= 0 else np.inf
        if np.isinf(own):
            home, better = best, None
        elif best >= 0 and now[best] < own - margin:
            since = since + 1 if better == best else 0
            better = best
            if since >= needed:
                home, better = best, None
        else:
            better = None
        found.append(home)
    return found


@settings(max_examples=50, deadline=None)
@given(
    arrays.arrays(np.float64, (12, 3, 2), elements=st.sampled_from([0.0, 1.0, 2.0, 3.0, 5.0, np.inf])),
    st.sampled_from([0.0, 0.5, 1.0, 2.0]),
    st.integers(0, 3),
)
def test_homes_are_those_of_a_plain_loop(badness, margin, needed):
    state = first(badness[0])
    homes = [state.home]
    for now in badness[1:]:
        state = hand_over(state, now, margin, needed)
        homes.append(state.home)
    for k in range(2):
        assert [int(home[k]) for home in homes] == slowly(badness[:, :, k], margin, needed)


@settings(max_examples=5, deadline=None)
@given(st.integers(0, 100), st.lists(st.integers(0, 300), min_size=1, max_size=5))
def test_homes_do_not_depend_on_what_was_asked_before(seed, ticks):
    city = in_the_city(seed)
    for t in (t % 20 for t in ticks[:2]):
        np.testing.assert_array_equal(city.homes_at(t), in_the_city(seed).homes_at(t))

    def fleet():
        walks = {
            "mobility": {"kind": "waypoint", "speed_m_s": [3, 9]},
            "handover": {"hysteresis_m": 20, "time_to_trigger_s": 3},
        }
        made = {"n_devices": 6, "cells": LINE, "placement": {"kind": "cells"}, **walks}
        return Fleet.from_settings(FleetSettings.model_validate(made), seed)

    asked = fleet()
    for t in ticks:
        np.testing.assert_array_equal(asked.homes_at(t), fleet().homes_at(t))
        assert (asked.snapshot(0, 0, float(t)).home == asked.homes_at(t)).all()


def test_hysteresis_makes_handovers_fewer():
    def n_handovers(**changes):
        made = {"n_devices": 50, "cells": LINE, "placement": {"kind": "cells"}}
        made |= {"mobility": {"kind": "gauss-markov", "speed_m_s": 2, "sigma_m_s": 2, "memory_s": 5}}
        fleet = Fleet.from_settings(FleetSettings.model_validate(made | changes), 1)
        homes = np.array([fleet.homes_at(t) for t in range(600)])
        return int(((homes[1:] != homes[:-1]) & (homes[1:] >= 0) & (homes[:-1] >= 0)).sum())

    none, some, more = (
        n_handovers(),
        n_handovers(handover={"hysteresis_m": 10}),
        n_handovers(handover={"hysteresis_m": 40}),
    )
    assert none > 1.3 * some and some > more > 0


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"handover": {}}, "give hysteresis_db, for cells with radio links, or hysteresis_m, for any"),
        ({"handover": {"hysteresis_db": 1, "hysteresis_m": 1}}, "got hysteresis_db 1.0 and hysteresis_m 1.0"),
        ({"handover": {"hysteresis_db": 1}}, "hysteresis_db needs a radio link in device_edge, up or down"),
        ({"handover": {"hysteresis_m": 1}, "mobility": None}, "handover is for devices that move over the ground"),
        ({"handover": {"hysteresis_m": -1}}, "greater than or equal to 0"),
    ],
)
def test_what_makes_no_sense_is_refused(changes, message):
    with pytest.raises(ValueError) as caught:
        driven(**changes)
    assert message in str(caught.value)

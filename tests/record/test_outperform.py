"""Rounds to a target and what features may cost: a case by hand and Tables 11 and 12 of LTC, first crossings, errors."""

import math
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.interpolate import PchipInterpolator

from fedloom.record.outperform import largest_feature_time, never_limit, rounds_to, threshold_text

CURVE = [10, 22, 31, 30, 38, 41]


@pytest.mark.parametrize(
    ("rounds", "t_max", "never"), [(20, 14.0, 32.5), (22.326, -1.002419, 51.39875), (17.354, 35.955976, 11.00125)]
)
def test_g8_thresholds(rounds, t_max, never):
    assert largest_feature_time(rounds) == pytest.approx(t_max, abs=1e-6)
    assert never_limit(rounds) == pytest.approx(never, abs=1e-6)


def test_g8_first_crossing():
    assert rounds_to(CURVE, 35) == pytest.approx(3.640678, abs=1e-6)
    assert rounds_to(CURVE, 30.5) == pytest.approx(1.819347, abs=1e-6)
    roots = PchipInterpolator(range(6), CURVE).solve(30.5, extrapolate=False)
    assert sorted(roots) == pytest.approx([1.819347, 2.5, 3.168171], abs=1e-6)  # all but the first are ignored


# R, the threshold and the never-limit as printed, to one decimal; of crop, B, pred, skew
TABLES_11_AND_12 = {
    "Dir(0.1)": [(16.7, 43.0, 5.3), (22.3, None, 51.4), (22.3, None, 51.0), (21.2, 6.2, 41.9)],
    "Dir(0.5)": [(16.8, 41.9, 6.1), (22.6, None, 53.3), (21.1, 6.6, 41.3), (21.0, 7.2, 40.5)],
    "750, 4": [(17.4, 36.0, 11.0), (21.2, 5.7, 42.4), (20.8, 8.6, 38.9), (19.2, 20.3, 25.7)],
    "750, 7": [(16.7, 42.7, 5.5), (21.6, 3.5, 45.3), (20.6, 9.8, 37.4), (19.9, 14.8, 31.6)],
    "1250, 4": [(16.4, 46.0, 2.9), (20.4, 11.1, 35.9), (20.2, 12.4, 34.3), (19.0, 21.2, 24.7)],
    "1250, 7": [(16.1, 48.6, 1.0), (20.9, 7.7, 40.0), (20.1, 13.6, 32.9), (19.3, 18.9, 27.1)],
}


@pytest.mark.parametrize("column", range(4), ids=["crop", "B", "pred", "skew"])
@pytest.mark.parametrize("row", TABLES_11_AND_12)
def test_printed_thresholds_belong_to_one_number_of_rounds(row, column):
    printed, t_max, never = TABLES_11_AND_12[row][column]
    unrounded = np.linspace(printed - 0.05, printed + 0.05, 2001)
    fits = [
        R
        for R in unrounded
        if abs(never_limit(R) - never) <= 0.0501
        and (largest_feature_time(R) < 0 if t_max is None else abs(largest_feature_time(R) - t_max) <= 0.0501)
    ]
    assert fits
    # 0.1 of the never-limit is 0.0123 rounds
    assert max(fits) - min(fits) < 0.0125


@pytest.mark.parametrize(
    ("unrounded", "printed"),
    [
        (22.326, ("22.3", "/", "51.4")),
        (16.652, ("16.7", "43.0", "5.3")),
        (19.163, ("19.2", "20.3", "25.7")),
        (17.354, ("17.4", "36.0", "11.0")),
    ],
)
def test_unrounded_rounds_give_the_printed_row(unrounded, printed):
    found = f"{unrounded:.1f}", threshold_text(largest_feature_time(unrounded)), f"{never_limit(unrounded):.1f}"
    assert found == printed


times = st.floats(0, 500)


@given(st.floats(1, 100), st.floats(1, 100), times, times, st.floats(0.1, 500))
def test_below_the_threshold_the_total_is_smaller_and_above_it_is_larger(
    rounds, reference, t_feature, t_sync, t_global
):
    settings = {"rounds_reference": reference, "t_global": t_global, "t_sync": t_sync}
    t_max = largest_feature_time(rounds, t_feature=t_feature, **settings)
    theirs = reference * (t_feature + t_global + t_sync)
    assert rounds * (t_max + t_global + t_sync) == pytest.approx(theirs, rel=1e-9)
    # the two thresholds say the same: none if the reference's feature time is below the never-limit
    never = never_limit(rounds, **settings)
    if abs(t_feature - never) > 1e-6 * (1 + t_feature):
        assert (t_max < 0) == (t_feature < never)


def test_a_contender_that_never_gets_there_cannot_win():
    assert largest_feature_time(math.inf) == -130 and never_limit(math.inf) == math.inf
    assert threshold_text(largest_feature_time(math.inf)) == "/"


def test_a_contender_with_fewer_rounds_wins_even_against_no_features():
    assert never_limit(8) == -65 and largest_feature_time(8, t_feature=0) == 130


@given(st.lists(st.integers(0, 100), min_size=2, max_size=12), st.floats(0.5, 99.5))
def test_the_first_crossing_is_where_a_fine_scan_first_reaches_the_target(curve, target):
    found = rounds_to(curve, target)
    k = np.linspace(0, len(curve) - 1, 200 * (len(curve) - 1) + 1)
    reached = k[PchipInterpolator(range(len(curve)), curve)(k) >= target]
    if not len(reached):
        assert found == math.inf
    else:
        assert reached[0] - 1 / 200 - 1e-9 <= found <= reached[0] + 1e-9


@given(st.lists(st.integers(0, 100), min_size=2, max_size=12), st.floats(0.5, 99.5))
def test_errors_that_fall_are_the_mirror_image(curve, target):
    down = rounds_to([100 - a for a in curve], 100 - target, lower_is_better=True)
    assert down == pytest.approx(rounds_to(curve, target), abs=1e-9)


@pytest.mark.parametrize(
    ("curve", "target", "wanted"),
    [
        ([10, 20, 30], 20, 1),  # a point itself
        ([10, 20, 20, 30], 20, 1),  # and the start of a plateau
        ([10, 20], 10, 0),
        ([30, 20, 40], 25, 0),  # the initial model is there already
        ([25], 20, 0),
        ([10, 20, 30], 30, 2),
        ([10, 20, 30], 30.01, math.inf),
        ([10], 20, math.inf),
        ([0, 10], 2.5, 0.25),  # two points: a line
    ],
)
def test_targets_at_points_and_beyond(curve, target, wanted):
    assert rounds_to(curve, target) == pytest.approx(wanted, abs=1e-12)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: rounds_to([], 1), "accuracies must have at least one value"),
        (lambda: rounds_to([[1, 2]], 1), "accuracies must have shape (any), got (1, 2)"),
        (lambda: rounds_to([1, math.nan], 1), "accuracies must be finite"),
        (lambda: rounds_to([1, 2], math.nan), "target must be finite, got nan"),
        (lambda: largest_feature_time(0), "rounds must be above 0, got 0"),
        (lambda: largest_feature_time(20, t_feature=-1), "t_feature must be at least 0, got -1"),
        (lambda: never_limit(20, t_sync=-1), "t_sync must be at least 0, got -1"),
        (lambda: never_limit(20, rounds_reference=math.inf), "rounds_reference must be finite"),
    ],
)
def test_what_makes_no_sense_is_refused(call, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        call()

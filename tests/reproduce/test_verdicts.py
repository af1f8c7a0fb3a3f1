"""Verdicts from seed means and spread."""

import pytest

from fedloom.reproduce.verdicts import FAILS, HOLDS, OPEN, Verdict, at_least, at_most, rising, spread, within, worst


@pytest.mark.parametrize(
    ("values", "state"),
    [
        ([1.5, 1.6, 1.7], HOLDS),  # 1.5 .. 1.7
        ([1.3, 1.6, 1.9], OPEN),  # 1.3 .. 1.9: the mean is above the bar, one deviation below is not
        ([1.2, 1.3, 1.4], FAILS),
        ([1.6], OPEN),  # one seed decides nothing
        ([1.6, 1.7, None], OPEN),
        ([], OPEN),
    ],
)
def test_a_bar(values, state):
    assert at_least(values, 1.5).state == state
    assert at_most([None if v is None else -v for v in values], -1.5).state == state


def test_an_interval():
    assert within([1.0, 1.0], 1.0, 1.0).state == HOLDS
    assert within([1.05, 1.08], 0.9, 1.1).state == HOLDS
    assert within([0.8, 1.3], 0.9, 1.1).state == OPEN  # wider than the interval on both sides
    assert within([1.2, 1.21], 0.9, 1.1).state == FAILS


def test_growth_is_judged_seed_by_seed():
    # seeds far apart, but each of them grows
    assert rising([[1.0, 5.0], [1.5, 5.5], [2.0, 6.0]]).state == HOLDS
    assert rising([[1.0, 5.0], [2.0, 6.0], [1.5, 5.5]]).state == FAILS
    assert rising([[1.0, 5.0], [2.0, 6.0], [1.5, 5.5]], slack=0.6).state == HOLDS
    assert rising([[1.0, 1.0], [1.0, 1.0]]).state == FAILS  # it does not grow at all
    assert rising([[1.0, None], [2.0, 3.0]]).state == OPEN


def test_a_claim_is_as_good_as_its_worst_part():
    holds, fails, open_ = (Verdict(state, "") for state in (HOLDS, FAILS, OPEN))
    assert worst(holds, holds) == HOLDS and worst(holds, open_) == OPEN and worst(open_, fails, holds) == FAILS


def test_numbers_are_shown_with_digits_that_matter():
    assert spread([425.0, 450.0]) == "438 ± 18" and spread([0.0, 0.0]) == "0.00 ± 0.00"
    assert spread([0.00123, 0.00125]) == "0.0012 ± 0.0000"

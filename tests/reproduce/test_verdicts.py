"""Verdicts from the intervals of means over seeds."""

import pytest

from fedloom.reproduce.paper import Claim
from fedloom.reproduce.verdicts import (
    BUILT,
    FAILS,
    FEW,
    HOLDS,
    OPEN,
    OTHER_SCALE,
    Beyond,
    Verdict,
    agreed,
    at_least,
    at_most,
    rising,
    spread,
    within,
    worst,
)


@pytest.mark.parametrize(
    ("values", "state"),
    [
        ([1.58, 1.60, 1.62], HOLDS),  # 1.55 .. 1.65: t = 4.30 for three seeds
        ([1.5, 1.6, 1.7], OPEN),  # 1.35 .. 1.85, although mean minus one deviation is at the bar
        ([1.5, 1.6, 1.7, 1.5, 1.7, 1.6, 1.6], HOLDS),  # the same spread, more seeds
        ([1.38, 1.40, 1.42], FAILS),
        ([1.2, 1.4, 1.3], OPEN),  # 1.05 .. 1.55
        ([1.6, 1.6], OPEN),  # two seeds decide nothing
        ([1.6], OPEN),
        ([1.6, 1.6, 1.6, None], OPEN),  # nor do three of four
        ([], OPEN),
    ],
)
def test_a_bar(values, state):
    assert at_least(values, 1.5).state == state
    assert at_most([None if v is None else -v for v in values], -1.5).state == state


def test_an_interval_is_shown_with_its_number_of_seeds():
    assert within([1.05, 1.06, 1.07], 0.9, 1.1) == Verdict(HOLDS, "1.06 [1.04, 1.08]", 3)
    assert within([0.8, 1.0, 1.3], 0.9, 1.1).state == OPEN  # wider than the claim on both sides
    assert within([1.2, 1.21, 1.22], 0.9, 1.1).state == FAILS
    assert within([1.0, None, 1.0], 0.9, 1.1) == Verdict(OPEN, "1.00 (2 of 3 seeds)", 2)


def test_what_is_only_known_beyond_a_bound_decides_only_what_it_can():
    later = [10.0, Beyond(10.0), 10.0]  # one of three never came in 10 rounds
    assert at_least(later, 5.0).state == HOLDS  # however late it is
    assert at_most(later, 5.0).state == FAILS
    assert within(later, 5.0, 12.0).state == OPEN  # it may be beyond 12
    assert at_least([3.0, Beyond(3.0), 3.0], 5.0).state == OPEN  # it may be beyond 5 and pull the mean up
    earlier = [Beyond(-3.0, -1)] * 3
    assert at_least(earlier, 0.0).state == FAILS and at_most(earlier, 0.0).state == HOLDS


def test_growth_is_judged_seed_by_seed():
    # seeds far apart, but each of them grows
    assert rising([[1.0, 5.0, 9.0], [1.5, 5.5, 9.5], [2.0, 6.0, 10.0]]).state == HOLDS
    falling = [[1.0, 5.0, 9.0], [2.0, 6.0, 10.0], [1.5, 5.5, 9.5]]
    assert rising(falling).state == FAILS and rising(falling, slack=0.6).state == HOLDS
    assert rising([[1.0] * 3, [1.0] * 3]).state == FAILS  # it does not grow at all
    assert rising([[1.0, 1.0, None], [2.0, 3.0, 4.0]]).state == OPEN


def test_a_claim_is_as_good_as_its_worst_part_and_as_sure_as_its_readings_agree():
    holds, fails, open_ = (Verdict(state, "") for state in (HOLDS, FAILS, OPEN))
    assert worst(holds, holds) == HOLDS and worst(holds, open_) == OPEN and worst(open_, fails, holds) == FAILS
    assert agreed(holds, holds) == HOLDS and agreed(fails, fails) == FAILS and agreed(holds, fails) == OPEN


def test_numbers_are_shown_with_digits_that_matter():
    assert spread([425.0, 450.0, 437.5]) == "438 ± 31" and spread([0.0] * 3) == "0.00 ± 0.00"
    assert spread([0.00123, 0.00125, 0.00127]) == "0.0013 ± 0.0000"
    assert spread([425.0, 450.0]) == "438"  # an interval of two says nothing


def test_what_counts_depends_on_the_scale_and_on_what_could_have_come_out():
    bad = Verdict(FAILS, "1", 3)
    figure = Claim(text="83 %", verdict=bad, absolute=True)
    assert figure.at("laptop", 3).verdict == Verdict(OTHER_SCALE, "1", 3)
    assert figure.at("paper", 3).verdict == bad
    good = Verdict(HOLDS, "1", 3)
    assert Claim(text="75 links", verdict=good, because="of the layout").at("paper", 3).verdict.state == BUILT
    assert Claim(text="76 links", verdict=bad, because="of the layout").at("paper", 3).verdict == bad  # then it is not
    assert Claim(text="an order", verdict=bad).at("laptop", 3).verdict == bad
    unsure = Claim(text="an order", verdict=Verdict(OPEN, "1", 1))
    assert [unsure.at("paper", n).verdict.state for n in (1, 2, 3)] == [FEW, FEW, OPEN]

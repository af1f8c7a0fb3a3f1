"""False link reports: a case by hand, and what can be told from two ends."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedloom.grouping import check_link_reports, late_senders

G1_REPORTS = [[0, 2, 5, 4], [2, 0, 3, 1], [10, 6, 0, 5], [4, 1.02, 2.5, 0]]


def honest(n, seed, down=0.2):
    """Symmetric throughputs (n, n), some 0."""
    rng = np.random.default_rng(seed)
    rate = np.where(rng.uniform(size=(n, n)) < down, 0, rng.uniform(1, 5, (n, n)))
    return np.triu(rate, 1) + np.triu(rate, 1).T


def test_g1_reports():
    check = check_link_reports(G1_REPORTS, rtol=0.05)
    assert np.argwhere(np.triu(check.mismatch)).tolist() == [[0, 2], [1, 2], [2, 3]]
    np.testing.assert_array_equal(check.mismatch, check.mismatch.T)
    assert check.n_mismatches.tolist() == [1, 1, 3, 1]
    assert check.suspects.tolist() == [2]
    # 1 and 1.02 agree within 5 %; the lower one is believed all the same
    assert check.believed.tolist() == [[0, 2, 5, 4], [2, 0, 3, 1], [5, 3, 0, 2.5], [4, 1, 2.5, 0]]


@given(st.integers(1, 9), st.integers(0, 2**32))
def test_honest_reports_are_believed_as_they_are(n, seed):
    rates = honest(n, seed)
    check = check_link_reports(rates, rtol=0)
    assert not check.mismatch.any() and not len(check.suspects)
    np.testing.assert_array_equal(check.believed, rates)


@given(st.integers(3, 9), st.integers(0, 2**32), st.floats(0.001, 0.5), st.booleans())
def test_who_scales_all_its_reports_is_found_and_only_its_pairs_are(n, seed, rtol, boast):
    rates = honest(n, seed, down=0.0)
    liar = seed % n
    factor = 1 / (1 - 1.01 * rtol) if boast else 1 - 1.01 * rtol  # the difference is 1.01 rtol of the larger one
    reports = rates.copy()
    reports[liar] *= factor
    before = reports.copy()
    check = check_link_reports(reports, rtol)
    np.testing.assert_array_equal(reports, before)
    lied = np.zeros((n, n), dtype=bool)
    lied[liar] = lied[:, liar] = True
    lied[liar, liar] = False
    np.testing.assert_array_equal(check.mismatch, lied)
    assert check.suspects.tolist() == [liar]  # the others disagree with one of n - 1 at least 2
    np.testing.assert_allclose(check.believed, np.where(lied, rates * min(factor, 1), rates))


def test_half_of_the_others_is_no_suspicion_and_more_is():
    reports = np.ones((5, 5))
    reports[0, 1] = reports[0, 2] = 2
    assert not len(check_link_reports(reports).suspects)
    reports[0, 3] = 2
    assert check_link_reports(reports).suspects.tolist() == [0]


def test_a_link_that_only_one_end_calls_down_is_a_mismatch_and_down():
    check = check_link_reports([[0, 0], [3, 0]], rtol=0.9)
    assert check.mismatch.tolist() == [[False, True], [True, False]]
    assert check.believed.tolist() == [[0, 0], [0, 0]]


def test_a_link_that_takes_no_time_is_equal_to_itself_only():
    check = check_link_reports([[0, np.inf, np.inf], [np.inf, 0, 2], [5, 2, 0]])
    assert np.argwhere(check.mismatch).tolist() == [[0, 2], [2, 0]]
    assert check.believed.tolist() == [[0, np.inf, 5], [np.inf, 0, 2], [5, 2, 0]]


def test_the_diagonal_says_nothing():
    check = check_link_reports([[np.inf, 2], [2, np.nan]])
    assert not check.mismatch.any()
    np.testing.assert_array_equal(check.believed, [[np.inf, 2], [2, np.nan]])


def test_who_is_late():
    assert late_senders([5.0, 5.5, 5.6, 1.0, 9.0], [5.0, 5.0, 5.0, 5.0, np.inf]).tolist() == [0, 0, 1, 0, 0]
    assert late_senders(5.6, 5.0, slack=1.2) == np.False_


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: check_link_reports(np.ones((2, 3))), "reports must be a square matrix, got shape (2, 3)"),
        (lambda: check_link_reports([[0, -1], [1, 0]]), "reports, but for the diagonal, must be at least 0, got -1"),
        (lambda: check_link_reports([[0, np.nan], [1, 0]]), "must be at least 0, got nan"),
        (lambda: check_link_reports(G1_REPORTS, rtol=-1), "rtol must be at least 0 and below 1, got -1"),
        (lambda: check_link_reports(G1_REPORTS, rtol=1.0), "rtol must be at least 0 and below 1, got 1"),
        (lambda: late_senders([1.0], [1.0, 2.0]), "observed_s and promised_s must have one shape, got (1,) and (2,)"),
        (lambda: late_senders([1.0], [np.nan]), "promised_s must be at least 0, got nan"),
    ],
    ids=lambda x: None,
)
def test_wrong_reports_say_what_is_wrong(call, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        call()

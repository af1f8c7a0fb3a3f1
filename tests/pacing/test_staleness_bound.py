"""How far edges may run ahead (HiFlash as reconstructed for CSAHFL)."""

import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedloom.pacing import StalenessBound, may_start, next_bound


def run(gains, start=None):
    """S_max after each window of 100 s."""
    bound, found = start or StalenessBound(), []
    for gain in gains:
        bound = next_bound(bound, gain, 100.0)
        found.append(bound.s_max)
    return found


def test_it_goes_on_while_things_get_better_and_turns_when_they_get_worse():
    # first: 2 -> 3; better: 4; worse: back to 3; worse again: turns to 4; better: 5; the same is not better: 4
    assert run([0.1, 0.2, 0.15, 0.1, 0.3, 0.3]) == [3, 4, 3, 4, 5, 4]


def test_gain_counts_per_second():
    first = next_bound(StalenessBound(), 0.1, 100.0)
    assert next_bound(first, 0.1, 50.0).s_max == 4
    assert next_bound(first, 0.2, 400.0).s_max == 2


def test_it_stays_in_its_range():
    assert run([k / 100 for k in range(1, 15)])[-4:] == [10, 10, 10, 10]
    assert run([0.5, 0.4, 0.45, 0.46, 0.47]) == [3, 2, 1, 1, 1]


@given(st.lists(st.floats(-1, 1), max_size=30), st.integers(1, 10), st.sampled_from([-1, 1]))
def test_any_history_moves_by_one_at_most_within_the_range(gains, s_max, direction):
    path = [s_max, *run(gains, StalenessBound(s_max=s_max, direction=direction))]
    assert all(1 <= s <= 10 for s in path)
    assert all(abs(a - b) <= 1 for a, b in pairwise(path))


def test_who_may_start():
    assert may_start(5, [3, 4], s_max=2)
    assert not may_start(6, [3, 4], s_max=2)
    assert may_start(100, [], s_max=1)  # nobody works


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: StalenessBound(s_max=11), "s_max must be between 1 and 10, got 11"),
        (lambda: StalenessBound(direction=0), "direction must be 1 or -1, got 0"),
        (lambda: next_bound(StalenessBound(), 0.1, 0), "elapsed_s must be above 0, got 0"),
    ],
)
def test_bad_input_is_refused(call, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        call()

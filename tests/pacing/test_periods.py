"""Periods of aggregation: a schedule by hand, ladders, counts of rounds, errors."""

import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedloom.pacing import Periods, Progress, aggregation_steps, lr_ladder, n_rounds, staged

STAGES = [(0, 1, 2), (5, 3, 2)]
LADDER = [(1, 1), (2, 2), (5, 2), (5, 5), (10, 5), (10, 10)]


def at(step, lr=0.1, first_lr=0.1):
    return Progress(step=step, lr=lr, first_lr=first_lr)


def pair(periods):
    return periods.local_steps, periods.edge_rounds


def by_counters(stages, total_steps):
    """Step by step: steps since the edges met, edges since the cloud did, both from zero when a stage begins."""
    waiting = list(stages)
    _, e, g = waiting.pop(0)
    since_edge = since_cloud = 0
    edge_steps, cloud_steps = [], []
    for t in range(1, total_steps + 1):
        since_edge += 1
        if since_edge == e:
            since_edge, since_cloud = 0, since_cloud + 1
            edge_steps.append(t)
            if since_cloud == g:
                since_cloud = 0
                cloud_steps.append(t)
                while waiting and waiting[0][0] <= t:
                    _, e, g = waiting.pop(0)
    return edge_steps, cloud_steps


@st.composite
def all_stages(draw):
    starts = [0, *sorted(draw(st.sets(st.integers(1, 120), max_size=4)))]
    return [(start, draw(st.integers(1, 9)), draw(st.integers(1, 6))) for start in starts]


def test_gc4_schedule():
    edge_steps, cloud_steps = aggregation_steps(STAGES, 20)
    assert edge_steps == [1, 2, 3, 4, 5, 6, 9, 12, 15, 18]
    assert cloud_steps == [2, 4, 6, 12, 18]  # asked for at 5, taken at 6
    assert n_rounds(STAGES, 20) == (11, 6)
    schedule = staged(STAGES)
    assert [pair(schedule(at(step))) for step in (0, 2, 4, 6, 12, 18)] == [(1, 2)] * 3 + [(3, 2)] * 3


def test_a_stage_begins_with_the_cloud_round_that_starts_at_its_very_step():
    assert aggregation_steps([(0, 1, 2), (4, 3, 1)], 10) == ([1, 2, 3, 4, 7, 10], [2, 4, 7, 10])


def test_a_stage_that_no_cloud_round_starts_in_is_passed_over():
    assert aggregation_steps([(0, 5, 2), (3, 1, 1), (7, 4, 1)], 18) == ([5, 10, 14, 18], [10, 14, 18])


@given(all_stages(), st.integers(0, 200))
def test_steps_match_counters(stages, total_steps):
    assert aggregation_steps(stages, total_steps) == by_counters(stages, total_steps)


@given(st.integers(0, 300), st.integers(1, 20), st.integers(1, 10))
def test_with_one_stage_the_counts_are_those_of_the_time_formula(total_steps, e, g):
    assert n_rounds([(0, e, g)], total_steps) == (math.ceil(total_steps / e), math.ceil(total_steps / (e * g)))


@given(all_stages(), st.integers(1, 200))
def test_cloud_rounds_of_the_schedule_follow_each_other(stages, total_steps):
    schedule, step, cloud_steps = staged(stages), 0, []
    while step < total_steps:
        step += math.prod(pair(schedule(at(step))))
        cloud_steps.append(step)
    assert [t for t in cloud_steps if t <= total_steps] == aggregation_steps(stages, total_steps)[1]


def test_ladder_by_hand():
    # kappa = 3 lr_0: E G - 1 = 0, 3, 9, 24, 49, 99 need lr / lr_0 <= any, 1, 1/3, 1/8, 3/49, 1/33
    ladder = lr_ladder()
    expected = {1.0: (2, 2), 0.34: (2, 2), 0.33: (5, 2), 0.125: (5, 5), 3 / 49: (10, 5), 0.031: (10, 5), 0.03: (10, 10)}
    assert {ratio: pair(ladder(at(7, lr=0.1 * ratio))) for ratio in expected} == expected
    assert pair(ladder(at(0, lr=0.1 / 3))) == (5, 2)  # a limit met exactly, whatever the rounding
    assert pair(ladder(at(0, lr=0.0))) == (10, 10)


@given(st.lists(st.floats(1e-9, 1.0), min_size=1, max_size=30), st.floats(1e-3, 10), st.sampled_from(LADDER[1:]))
def test_a_ladder_starts_at_its_start_and_never_steps_down(ratios, first_lr, start):
    ladder = lr_ladder(start=start)
    rates = [first_lr, *(first_lr * r for r in sorted(ratios, reverse=True))]
    rungs = [LADDER.index(pair(ladder(at(t, lr, first_lr)))) for t, lr in enumerate(rates)]
    assert rungs[0] == LADDER.index(start)
    assert rungs == sorted(rungs)


def test_a_ladder_does_not_go_below_its_start_while_the_rate_warms_up():
    assert pair(lr_ladder()(at(0, lr=5.0, first_lr=0.1))) == (2, 2)


@pytest.mark.parametrize(
    ("stages", "message"),
    [
        ([], "stages must have at least one (start_step, E, G), got none"),
        ([(3, 1, 1)], "the first stage must start at step 0, got 3"),
        ([(0, 1, 1), (5, 2, 2), (5, 3, 3)], "stages must start one after the other, got start steps [0, 5, 5]"),
        ([(0, 1, 1), (9, 2, 2), (5, 3, 3)], "stages must start one after the other, got start steps [0, 9, 5]"),
        ([(0, 0, 1)], "E of stage 0 must be a whole number of at least 1, got 0"),
        ([(0, 1, 1), (4, 2, 1.5)], "G of stage 1 must be a whole number of at least 1, got 1.5"),
        ([(0.5, 1, 1)], "start step of stage 0 must be a whole number of at least 0, got 0.5"),
        ([(0, 5)], "stage 0 must be (start_step, E, G), got (0, 5)"),
    ],
    ids=lambda x: None,
)
def test_wrong_stages_say_what_is_wrong(stages, message):
    for function in (staged, lambda s: aggregation_steps(s, 10), lambda s: n_rounds(s, 10)):
        with pytest.raises(ValueError, match=re.escape(message)):
            function(stages)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"start": (3, 3)}, "start must be one of the rungs [(1, 1), (2, 2)"),
        ({"start": (1, 1)}, "from start (1, 1) the ladder never rises"),
        ({"rungs": [(5, 5), (2, 2)]}, "the rungs must not shrink: local steps per cloud round (E G) are [25, 4]"),
        ({"rungs": [(2, 2), (3, 0)]}, "edge_rounds (G) must be a whole number of at least 1, got 0"),
    ],
)
def test_wrong_ladders_say_what_is_wrong(arguments, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        lr_ladder(**({"rungs": LADDER} | arguments))


def test_wrong_numbers_say_what_is_wrong():
    with pytest.raises(ValueError, match="total_steps must be a whole number of at least 0, got -1"):
        n_rounds(STAGES, -1)
    with pytest.raises(ValueError, match=re.escape("local_steps (E) must be a whole number of at least 1, got 0")):
        Periods(local_steps=0, edge_rounds=1)
    with pytest.raises(ValueError, match="first_lr must be above 0, got 0"):
        lr_ladder()(at(0, lr=0.1, first_lr=0.0))

"""What is remarked upon before a run: ladders that never rise, time boxes that hold far too much or nothing."""

import math

import pytest

from fedloom.methods.by_name import make_method
from fedloom.pacing import box_note, ladder_note, lr_ladder, rounds_in_box, staged


def test_a_ladder_under_a_constant_learning_rate_never_rises_and_that_is_said():
    note = ladder_note(make_method("hhfl:grow=true").edge.rounds, lambda step: 0.05, 20)
    assert note is not None and "does not fall in 20 cloud rounds" in note
    assert "stay at 2 local steps and 2 edge rounds; set training.lr_decay" in note


@pytest.mark.parametrize("cloud_rounds", [5, 200])
def test_a_ladder_that_rises_too_late_is_remarked_upon(cloud_rounds):
    note = ladder_note(lr_ladder(), lambda step: 0.1 * 0.99 ** (step / 4), cloud_rounds)
    assert (note is None) == (cloud_rounds == 200)  # from 2 x 2 to 5 x 2 steps lr must fall to a third: 110 rounds
    if note:
        assert "falls only from 0.1 to 0.095" in note


def test_other_schedules_need_no_remark():
    for periods in (None, staged([(0, 5, 5)]), make_method("hhfl").edge.rounds):
        assert ladder_note(periods, lambda step: 0.1, 20) is None


def test_a_box_is_remarked_upon_when_it_holds_many_times_the_rounds_of_the_scenario():
    assert box_note(120, [4, 9, 50], 5) is None
    note = box_note(120, [4, 358], 5)
    assert (
        note is not None
        and "of 120 s holds up to 358 edge rounds of a cluster, 71.6 times the 5 of the scenario" in note
    )


def test_a_box_in_which_nobody_finishes_is_remarked_upon_and_one_with_some_idle_clusters_is_not():
    assert box_note(10, [0, 0], 5) == (
        "no cluster finishes an edge round in the time box of 10 s, so that nothing is learnt; lengthen box_s"
    )
    assert box_note(10, [0, 3], 5) is None and box_note(10, [], 5) is None


@pytest.mark.parametrize(
    ("box_s", "round_s", "message"),
    [
        (math.inf, 1.0, "a time box must end, got inf s"),
        (
            1e8,
            0.5,
            "a time box of 1e[+]08 s holds 2e[+]08 edge rounds of 0.5 s, and at most 100,000 are run in a cloud round",
        ),
        (1e300, 1e-300, "holds inf edge rounds"),
    ],
)
def test_a_box_that_would_not_end_is_refused(box_s, round_s, message):
    with pytest.raises(ValueError, match=message):
        rounds_in_box(box_s, round_s)

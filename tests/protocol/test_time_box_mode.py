"""TimeBox: as many edge rounds as fit into a box, as predicted; the report goes out when it is over."""

import pytest
from machines import World

from fedloom.protocol import TimeBox
from fedloom.protocol.messages import Begin, Due


def boxed(seconds, *groups, work_s, **options):
    return World(*groups, n_samples=[1] * len(work_s), edge=TimeBox(seconds=seconds), work_s=work_s, **options)


def test_as_many_rounds_as_the_slowest_allows_and_the_report_waits_for_the_end():
    world = boxed(10.0, [0, 1], work_s=[1.0, 4.0])
    assert world.begin() == [("Send", [(0, 0), (1, 0)], [1, 1]), ("Wake", 10.0, 0)]
    assert world.came(4.0, (0, 0), (1, 0))[1:] == [
        ("RoundOver", 1),
        ("Send", [(0, 1), (1, 1)], [1, 1]),
        ("Wake", 10.0, 1),
    ]
    assert world.came(8.0, (0, 1), (1, 1))[1:] == [("RoundOver", 2), ("Report", 0, 10.0, [0])]


def test_a_round_that_is_open_when_the_box_ends_is_closed_and_who_is_missing_is_late():
    world = boxed(10.0, [0, 1], work_s=[1.0, 4.0])
    world.begin()
    world.came(1.0, (0, 0))
    assert world.told(Due(10.0, 0)) == [
        ("Merge", (0, [(0, 0)], [0])),
        ("RoundOver", 1),
        ("Report", 0, 10.0, [0]),
    ]
    assert world.federation.roster.late[0].names == [(1, 0)]
    world.begin(11.0)
    world.came(12.0, (1, 0))
    assert world.came(13.0, (0, 1))[0] == ("Merge", (0, [(0, 1), (1, 0)], [0, 1]))


def test_a_round_that_does_not_fit_is_not_opened():
    assert boxed(3.0, [0], work_s=[4.0]).begin(2.0) == [("Report", 0, 5.0, [0])]


def test_the_box_begins_when_the_model_is_there():
    world = boxed(10.0, [0], work_s=[4.0])
    assert world.told(Begin(100.0, 1, 2)) == [("Send", [(0, 0)], [2]), ("Wake", 110.0, 0)]
    assert world.came(109.0, (0, 0))[-1] == ("Report", 0, 110.0, [0])


def test_with_everybody_busy_it_still_reports_at_the_end_of_the_box():
    world = boxed(10.0, [0], work_s=[4.0])
    world.begin()
    world.told(Due(10.0, 0))
    assert world.begin(20.0) == [("Wake", 30.0, 1)]
    assert world.told(Due(30.0, 1)) == [("RoundOver", 2), ("Report", 0, 30.0, [0])]


def test_a_box_must_end():
    with pytest.raises(ValueError, match="finite"):
        TimeBox(seconds=float("inf"))

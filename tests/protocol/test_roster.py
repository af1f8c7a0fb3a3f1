"""The roster: who is where and at work, what is under way, and what moves with its client."""

import numpy as np
import pytest
from machines import attendance, ids, topology

from fedloom.protocol import Roster


@pytest.fixture
def roster():
    found = Roster(4)
    found.see(attendance(topology([0, 1], [2, 3], n_clients=4)))
    return found


def at(*groups, n=4):
    return attendance(topology(*groups, n_clients=n))


def leave(roster, *clients, left_at=0, arrives_s=np.inf):
    flight = roster.leave(ids(*clients), left_at, ids(*[0] * len(clients)), ids(*[1] * len(clients)))
    flight.arrives_s = np.full(len(clients), arrives_s)
    return flight


def test_who_is_sent_is_busy_and_every_job_has_a_name_of_its_own(roster):
    assert leave(roster, 0, 2).names == [(0, 0), (2, 0)]
    assert roster.idle(ids(0, 1, 2, 3), 5.0).tolist() == [1, 3]
    roster.busy_until[0] = 5.0
    assert roster.idle(ids(0, 1), 5.0).tolist() == [0, 1]
    assert leave(roster, 0).names == [(0, 1)]


def test_late_updates_are_taken_once_where_their_clients_are_if_they_are_here(roster):
    roster.late = [leave(roster, 0, 2, arrives_s=3.0), leave(roster, 1)]
    assert [f.names for f in roster.take_late(0, at([0, 1], [2, 3]), 1, 2.0)] == []
    assert [f.names for f in roster.take_late(0, at([0, 1], [2, 3]), 1, 3.0)] == [[(0, 0)]]
    assert [f.names for f in roster.take_late(0, at([0, 1, 2], [3]), 1, 3.0)] == [[(2, 0)]]
    assert [f.names for f in roster.late] == [[(1, 0)]]


def test_where_clients_wander_no_update_is_merged_in_a_round_before_it_was_sent():
    roster = Roster(4, wander=True)
    roster.late = [leave(roster, 0, left_at=3, arrives_s=1.0)]
    assert roster.take_late(1, at([1], [0]), 3, 2.0) == []
    assert [f.names for f in roster.take_late(1, at([1], [0]), 4, 2.0)] == [[(0, 0)]]


def test_what_is_under_way_keeps_its_age(roster):
    late, working, waited = leave(roster, 0), leave(roster, 1, left_at=2), leave(roster, 2, left_at=5)
    roster.late, roster.working = [late], {1: working}
    roster.keep_age([waited], ids(10, 20, 30, 40))
    assert [f.left_at.tolist() for f in (late, working, waited)] == [[10], [22], [35]]


def test_a_flight_that_is_back_is_parted_by_where_its_clients_are(roster):
    roster.working = {0: leave(roster, 0, 1, 2)}
    assert [(i, f.names, largest) for i, f, largest in roster.parted(0)] == [
        (0, [(0, 0), (1, 0)], True),
        (1, [(2, 0)], False),
    ]
    assert roster.working == {}


def test_who_has_left_takes_its_update_along(roster):
    roster.see(at([0], [2, 3]))
    roster.working = {1: leave(roster, 1)}
    assert [i for i, _, _ in roster.parted(1)] == [-1]
    assert roster.n_working(0) == roster.n_working(1) == 0


def test_what_waited_is_at_work_again_when_released(roster):
    roster.late = [leave(roster, 2), leave(roster, 0), leave(roster, 3)]
    assert roster.release(1) == [2, 3]
    assert [f.names for f in roster.late] == [[(0, 0)]] and sorted(roster.working) == [2, 3]


def test_what_will_not_come_is_forgotten_and_its_client_is_free(roster):
    here, away = leave(roster, 0, arrives_s=1.0), leave(roster, 1)
    roster.late, roster.working = [here, away], {2: leave(roster, 2, 3)}
    roster.working[2].arrives_s = np.array([np.inf, 2.0])
    assert roster.forget(ids(0, 1, 2), 4.0) == [3]  # with 2 gone, the flight is complete and 3 leads it
    assert [f.names for f in roster.late] == [[(0, 0)]] and roster.working[3].names == [(3, 0)]
    assert roster.idle(ids(0, 1, 2, 3), 4.0).tolist() == [1, 2]  # 0 waits with its update
    assert roster.forget(ids(0, 3), 5.0, lost=True) == [] and roster.late == [] and roster.working == {}


def test_a_round_that_opened_before_a_client_moved_does_not_take_what_it_did_since():
    roster = Roster(4, foreseen=False)
    opened, now = at([0, 1], [2]), at([1], [0, 2])
    roster.see(now)
    roster.late = [leave(roster, 0, arrives_s=1.0)]  # sent by group 1, where client 0 is now
    assert roster.take_late(0, opened, 5, 2.0) == []
    assert [f.names for f in roster.take_late(1, now, 5, 2.0)] == [[(0, 0)]]


def test_who_has_brought_an_update_that_waits_waits_with_it_though_it_has_gone(roster):
    roster.late = [leave(roster, 0, arrives_s=1.0)]
    assert roster.forget(ids(0), 4.0) == []
    assert roster.idle(ids(0), 4.0).tolist() == [] and roster.late[0].names == [(0, 0)]


def test_whose_last_job_is_forgotten_is_free_though_an_older_update_of_it_waits(roster):
    roster.late = [leave(roster, 0, arrives_s=1.0)]
    roster.busy_until[0] = 1.0
    roster.late.append(leave(roster, 0))  # sent again before the round closes that merges the first
    assert roster.forget(ids(0), 4.0) == [] and [f.names for f in roster.late] == [[(0, 0)]]
    assert roster.idle(ids(0), 4.0).tolist() == [0]

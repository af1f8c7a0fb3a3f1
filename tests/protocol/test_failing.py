"""Machines whose driver foresees when clients are back, and some never are: nobody waits for those, others are not cut off."""

import numpy as np
from machines import World, ids, plain

from fedloom.pacing import fixed_deadline
from fedloom.protocol import Async, Immediate, Rounds, TimeBox
from fedloom.protocol.messages import Begin, Due, Gone, OnTheWay, Open

NEVER = np.inf


def opened(world, takes_s, at_s=0.0, deadline_s=np.inf, group=0):
    """A round is open whose clients are back after so long each, as is foreseen; what the edge answers."""
    edge = world.edge(group)
    (send,) = edge.handle(Open(at_s, world.federation.next_index(group) - 1, world.now))
    flight, takes = send.parts[0], np.array(takes_s)
    flight.arrives_s = at_s + takes
    late = (takes > deadline_s) & np.isfinite(takes)
    return told(edge.handle(OnTheWay(at_s, flight, takes, late)))


def told(actions):
    return [plain(action) for action in actions]


def begun(*groups, **options):
    n = 1 + max(k for group in groups for k in group)
    world = World(*groups, n_samples=[10] * n, foreseen=True, failing=True, **options)
    for edge in world.federation.edges:
        edge.handle(Begin(0.0, world.rounds, 1))
    return world


def gone(world, at_s, *clients):
    events, actions = world.federation.gone(ids(*clients), at_s)
    return [*(line for edge, event in events for line in told(edge.handle(event))), *told(actions)]


def test_who_fails_is_waited_for_until_it_is_known_and_the_others_until_they_are_back():
    world = begun([0, 1, 2])
    assert opened(world, [5.0, NEVER, 2.0]) == []  # nobody knows when it closes
    assert gone(world, 3.0, 1) == [("Wake", 5.0, 0)]
    assert told(world.edge().handle(Due(5.0, 0))) == [
        ("Merge", (0, [(0, 0), (2, 0)], [0, 0])),
        ("RoundOver", 1),
        ("Report", 0, 5.0, [0]),
    ]


def test_if_the_others_are_back_it_closes_when_it_is_known():
    world = begun([0, 1])
    opened(world, [5.0, NEVER])
    assert gone(world, 9.0, 1)[0] == ("Merge", (0, [(0, 0)], [0]))


def test_if_all_fail_the_round_is_over_with_the_last():
    world = begun([0, 1])
    opened(world, [NEVER, NEVER])
    assert gone(world, 2.0, 0) == []
    assert gone(world, 4.0, 1) == [("RoundOver", 1), ("Report", 0, 4.0, [0])]


def test_a_deadline_is_kept_for_who_is_late_though_another_is_known_to_be_gone():
    world = begun([0, 1, 2], edge=Rounds(pace=fixed_deadline(4.0)))
    assert opened(world, [1.0, NEVER, 9.0], deadline_s=4.0) == [("Wake", 4.0, 0)]
    assert gone(world, 2.0, 1) == []
    assert told(world.edge().handle(Due(4.0, 0)))[0] == ("Merge", (0, [(0, 0)], [0]))


def test_before_its_deadline_a_round_closes_when_all_who_are_left_are_back():
    world = begun([0, 1], edge=Rounds(pace=fixed_deadline(4.0)))
    assert opened(world, [1.0, NEVER], deadline_s=4.0) == [("Wake", 4.0, 0)]
    assert gone(world, 2.0, 1)[0] == ("Merge", (0, [(0, 0)], [0]))
    assert told(world.edge().handle(Due(4.0, 0))) == []  # the alarm of a round that is over


def test_who_fails_is_not_sent_again_until_that_is_known():
    world = begun([0, 1], edge=Rounds(pace=fixed_deadline(4.0)), rounds=3)
    opened(world, [1.0, NEVER], deadline_s=4.0)
    world.edge().handle(Due(4.0, 0))
    (send,) = world.edge().handle(Open(4.0, 1, world.now))
    assert send.client.tolist() == [0]
    gone(world, 6.0, 1)
    assert world.federation.roster.idle(ids(0, 1), 6.0).tolist() == [1]
    assert world.federation.roster.late == []


def test_who_is_down_is_not_sent():
    world = begun([0, 1, 2])
    world.federation.see_absent(np.array([False, True, False]), -np.inf)
    (send,) = world.edge().handle(Open(0.0, 0, world.now))
    assert send.client.tolist() == [0, 2]


def test_with_all_members_down_the_round_is_over_at_once_if_others_are_there():
    world = begun([0, 1], [2])
    world.federation.see_absent(np.array([True, True, False]), -np.inf)
    assert told(world.edge().handle(Open(3.0, 0, world.now))) == [("Wake", 3.0, 0)]
    assert told(world.edge().handle(Due(3.0, 0))) == [("RoundOver", 1), ("Report", 0, 3.0, [0])]


def test_with_nobody_there_at_all_the_round_is_opened_again_when_somebody_may_be():
    for edge in (Rounds(), Async()):
        world = begun([0, 1], edge=edge)
        world.federation.see_absent(np.array([True, True]), 7.0)
        assert told(world.edge().handle(Open(3.0, 0, world.now))) == [("Ready", 7.0)]
        world.federation.see_absent(np.array([True, True]), np.inf)
        assert told(world.edge().handle(Open(7.0, 0, world.now))) == []  # nobody ever is
        world.federation.see_absent(np.array([False, True]), -np.inf)
        (send,) = world.edge().handle(Open(8.0, 0, world.now))
        assert send.client.tolist() == [0] and world.edge().n_rounds == 0


def test_a_time_box_ends_though_nobody_is_there():
    world = begun([0], edge=TimeBox(seconds=5.0))
    world.federation.see_absent(np.array([True]), 9.0)
    assert told(world.edge().handle(Open(1.0, 0, world.now))) == [("Ready", 5.0)]
    assert told(world.edge().handle(Open(5.0, 0, world.now))) == [("Report", 0, 5.0, [0])]


def test_with_a_cloud_that_does_not_wait_a_group_sleeps_until_a_member_is_up():
    for edge in (Rounds(), Async()):
        world = begun([0], [1], edge=edge, cloud=Immediate())
        world.federation.see_absent(np.array([True, False]), -np.inf)
        assert told(world.edge().handle(Open(0.0, 0, world.now))) == [("Asleep", 0)]
        assert world.federation.woken(world.now) == []
        world.federation.see_absent(np.array([False, False]), -np.inf)
        assert [edge.group for edge in world.federation.woken(world.now)] == [0]


def sent_alone(world, takes_s, at_s=0.0):
    """Clients of an asynchronous group are at work, each (or each squad) by itself; takes_s by client."""
    for send in world.edge().handle(Open(at_s, 0, world.now)):
        for part in send.parts:
            part.arrives_s = at_s + np.array([takes_s[k] for k in part.client.tolist()])


def arrived(world, lead, at_s):
    return [line for edge, event in world.federation.arrived(lead, at_s) for line in told(edge.handle(event))]


def test_without_anybody_left_an_asynchronous_round_ends_with_what_it_has():
    world = begun([0, 1], edge=Async(), rounds=1)
    sent_alone(world, {0: NEVER, 1: 2.0})
    world.federation.see_absent(np.array([True, False]), -np.inf)
    (merge, send) = arrived(world, 1, 2.0)
    assert merge == ("Merge", (0, [(1, 0)], [0])) and send[0] == "Send"
    world.federation.see_absent(np.array([True, True]), -np.inf)
    assert gone(world, 5.0, 0) == []  # 1 is still at work
    assert gone(world, 6.0, 1) == [("RoundOver", 1), ("Report", 0, 6.0, [0])]


def test_the_rest_of_a_squad_is_merged_when_it_is_here_not_when_another_is_known_to_be_gone():
    world = begun([0, 1, 2], edge=Async(), squad=ids(0, 0, 0))
    sent_alone(world, {0: NEVER, 1: 8.0, 2: 3.0})
    assert gone(world, 4.0, 0) == [("Again", 1)]
    assert world.federation.ready_s(1) == 8.0
    assert arrived(world, 1, 4.0) == [] and arrived(world, 0, 4.0) == []
    assert arrived(world, 1, 8.0)[0] == ("Merge", (0, [(1, 0), (2, 0)], [0, 0]))


def test_an_arrival_that_was_foreseen_for_an_earlier_job_does_not_bring_a_later_one():
    world = begun([0], edge=Async(), rounds=2)
    sent_alone(world, {0: 5.0})
    world.federation.roster.forget(ids(0), 1.0, lost=True)
    sent_alone(world, {0: 9.0}, at_s=1.0)
    assert arrived(world, 0, 5.0) == []
    assert arrived(world, 0, 10.0)[0] == ("Merge", (0, [(0, 1)], [0]))


def test_who_is_gone_elsewhere_does_not_close_a_round_that_waits_for_its_first_comer():
    world = begun([0], [1], edge=Rounds(pace=fixed_deadline(1.0)), rounds=2)
    opened(world, [NEVER], deadline_s=1.0)
    opened(world, [NEVER], deadline_s=1.0, group=1)
    world.edge().handle(Due(1.0, 0))
    assert told(world.edge().handle(Open(1.0, 1, world.now))) == []  # nobody is idle, nor known to be back
    assert told(world.edge().handle(Gone(2.0, ids(1)))) == []
    assert gone(world, 3.0, 0)[0] == ("RoundOver", 2)

"""Rounds: an edge that sends clients to work together and merges who is back when the round closes."""

import numpy as np
from machines import World, of_several

from fedloom.pacing import fixed_deadline
from fedloom.protocol import Barrier, Immediate, Rounds
from fedloom.protocol.messages import Begin, Due, Moved, OnTheWay, Open


def test_lockstep_waits_for_everybody():
    world = World([0, 1], n_samples=[10, 30], rounds=2)
    assert world.begin() == [("Send", [(0, 0), (1, 0)], [1, 1])]
    assert world.came(1.0, (1, 0)) == []
    assert world.came(9.0, (0, 0)) == [
        ("Merge", (0, [(0, 0), (1, 0)], [0, 0])),
        ("RoundOver", 1),
        ("Send", [(0, 1), (1, 1)], [1, 1]),
    ]
    assert world.came(12.0, (0, 1), (1, 1)) == [
        ("Merge", (0, [(0, 1), (1, 1)], [0, 0])),
        ("RoundOver", 2),
        ("Report", 0, 12.0, [0]),
    ]


def test_updates_are_merged_in_the_order_in_which_clients_were_sent_whoever_came_first():
    world = World([0, 1, 2], n_samples=[1, 2, 3])
    world.begin()
    world.came(1.0, (2, 0))
    world.came(2.0, (0, 0))
    assert world.came(3.0, (1, 0))[0] == ("Merge", (0, [(0, 0), (1, 0), (2, 0)], [0, 0, 0]))


def test_who_is_late_is_merged_in_the_next_round_with_its_age():
    world = World([0, 1, 2], n_samples=[1, 1, 1], edge=Rounds(pace=fixed_deadline(5.0)), rounds=2)
    assert world.begin() == [("Send", [(0, 0), (1, 0), (2, 0)], [1, 1, 1]), ("Wake", 5.0, 0)]
    assert world.came(1.0, (0, 0), (1, 0)) == []
    assert world.told(Due(5.0, 0)) == [
        ("Merge", (0, [(0, 0), (1, 0)], [0, 0])),
        ("RoundOver", 1),
        ("Send", [(0, 1), (1, 1)], [1, 1]),
        ("Wake", 10.0, 1),
    ]
    assert world.came(6.0, (2, 0)) == []
    assert world.came(7.0, (0, 1), (1, 1)) == [
        ("Merge", (0, [(0, 1), (1, 1), (2, 0)], [0, 0, 1])),
        ("RoundOver", 2),
        ("Report", 0, 7.0, [0]),
    ]


def test_a_deadline_that_is_not_to_be_cut_short_is_waited_for():
    world = World([0], n_samples=[1], edge=Rounds(pace=fixed_deadline(5.0, early_close=False)))
    world.begin()
    assert world.came(1.0, (0, 0)) == []
    assert world.told(Due(5.0, 0))[0] == ("Merge", (0, [(0, 0)], [0]))


def test_copies_and_late_alarms_change_nothing():
    world = World([0, 1], n_samples=[1, 1], edge=Rounds(pace=fixed_deadline(5.0)), rounds=2)
    world.begin()
    world.came(1.0, (0, 0))
    before = repr(world.edge())
    for answer in (world.came(2.0, (0, 0)), world.came(2.0, (1, 7)), world.told(Due(2.0, 3))):
        assert answer == [] and repr(world.edge()) == before
    world.came(3.0, (1, 0))
    for answer in (world.told(Due(5.0, 0)), world.came(5.5, (0, 0), (1, 0))):
        assert answer == []
    assert world.edge().n_rounds == 1


def test_a_copy_does_not_free_a_client_who_is_at_work_again():
    world = World([0, 1], n_samples=[1, 1], rounds=2)
    world.begin()
    world.came(1.0, (0, 0), (1, 0))
    assert world.told(of_several(world, 2.0, (0, 0))) == []  # straight to the edge, past whoever sorts out copies
    assert not len(world.federation.roster.idle(np.array([0, 1]), 3.0))


def test_an_order_of_the_cloud_that_comes_twice_begins_once():
    world = World([0], n_samples=[1], rounds=2)
    assert world.begin(0.0, ticket=4) == [("Send", [(0, 0)], [1])]
    assert world.begin(0.5, ticket=4) == [] and world.begin(0.6, ticket=3) == []
    world.came(1.0, (0, 0))
    assert world.came(2.0, (0, 1))[-1] == ("Report", 0, 2.0, [0])
    assert world.edge().ticket == 4
    assert world.begin(3.0, ticket=5) == [("Send", [(0, 2)], [1])]


def test_with_nobody_idle_the_first_who_comes_closes_the_round():
    world = World([0, 1], n_samples=[1, 1], edge=Rounds(pace=fixed_deadline(1.0)), rounds=2)
    world.begin()
    assert world.told(Due(1.0, 0)) == [("RoundOver", 1)]  # and waits
    assert world.came(4.0, (1, 0)) == [("Merge", (0, [(1, 0)], [1])), ("RoundOver", 2), ("Report", 0, 4.0, [0])]


def test_with_nobody_idle_and_their_return_foreseen_it_asks_to_be_woken_then():
    world = World([0], n_samples=[1], edge=Rounds(pace=fixed_deadline(1.0)), rounds=2)
    edge = world.edge()
    edge.handle(Begin(0.0, 2, 1))
    (send,) = edge.handle(Open(0.0, 0, world.now))
    send.parts[0].arrives_s = np.array([7.0])
    edge.handle(OnTheWay(0.0, send.parts[0], np.array([7.0]), np.array([True])))
    edge.handle(Due(1.0, 0))
    (wake,) = edge.handle(Open(1.0, 1, world.now))
    assert (wake.at_s, wake.edge_round) == (7.0, 1)


def test_nobody_there_and_a_cloud_that_waits_the_round_is_over_at_once():
    world = World([0], [], n_samples=[1], wander=True, follow=True)
    assert world.begin(group=1) == [("Wake", 0.0, 0)]
    assert world.told(Due(0.0, 0), 1) == [("RoundOver", 1), ("Report", 1, 0.0, [1])]


def test_nobody_there_and_a_cloud_that_does_not_wait_the_edge_sleeps_until_somebody_comes():
    world = World([0], [], n_samples=[1, 1], cloud=Immediate(), wander=True, follow=True)
    assert world.begin(group=1) == [("Asleep", 1)]
    world.federation.move(world.put([], [0]))
    assert [edge.group for edge in world.federation.woken(world.now)] == [1]
    assert world.federation.woken(world.now) == []


def test_who_has_gone_is_not_waited_for():
    world = World([0, 1, 2], n_samples=[1, 1, 1])
    world.begin()
    world.came(1.0, (0, 0), (1, 0))
    assert world.gone(2.0, 1, 2) == [
        ("Merge", (0, [(0, 0), (1, 0)], [0, 0])),  # what 1 had brought counts
        ("RoundOver", 1),
        ("Report", 0, 2.0, [0]),
    ]
    assert world.came(3.0, (2, 0)) == []


def test_if_all_have_gone_the_round_is_over_without_a_merge():
    world = World([0, 1], n_samples=[1, 1])
    world.begin()
    assert world.gone(2.0, 0, 1) == [("RoundOver", 1), ("Report", 0, 2.0, [0])]


def test_who_is_taken_from_a_round_that_waited_for_it_alone_closes_it():
    world = World([0, 1], [2], n_samples=[1, 1, 1], cloud=Immediate())
    world.begin()
    world.came(1.0, (0, 0))
    assert world.federation.regroup(world.put([0], [1, 2]).topology)  # the groups stay
    world.federation.enter(world.now)
    assert world.told(Moved(2.0, world.now))[0] == ("Merge", (0, [(0, 0)], [0]))
    world.begin(2.0, group=1)
    world.came(3.0, (1, 0))  # it arrives where its client is now
    assert world.came(4.0, (2, 0))[0] == ("Merge", (1, [(2, 0), (1, 0)], [0, 0]))


def test_sampled_are_as_many_as_agreed_and_the_same_whoever_asks():
    world = World([0, 1, 2, 3], n_samples=[1, 1, 1, 1], participation=0.5)
    ((_, names, steps),) = world.begin()
    assert len(names) == 2 and steps == [1, 1]
    again = World([0, 1, 2, 3], n_samples=[1, 1, 1, 1], participation=0.5, cloud=Barrier(drop_late=True))
    assert again.begin() == [("Send", names, steps)]


def test_a_hundred_thousand_clients_in_lockstep_cost_a_handful_of_calls_a_round(monkeypatch):
    n, rounds = 100_000, 3
    world = World(range(n), n_samples=np.ones(n, dtype=np.int64), rounds=rounds)
    edge, calls = world.edge(), []
    handle = edge.handle
    monkeypatch.setattr(edge, "handle", lambda event: calls.append(type(event).__name__) or handle(event))
    world.begin()
    for ticket in range(rounds):
        at_s, everybody = 1.0 + ticket, np.arange(n)
        ((_, event),) = world.federation.delivered(everybody, np.full(n, ticket), at_s)
        last = world.done(edge.handle(event), at_s)
    assert calls == ["Begin", *["Open", "OnTheWay", "Arrived"] * rounds]
    assert last[-1] == ("Report", 0, 3.0, [0]) and len(last[0][1][1]) == n


def test_who_comes_back_to_the_edge_that_sent_it_is_also_the_first_comer_where_it_is_now():
    world = World([0], [1], n_samples=[1, 1], wander=True, follow=True, edge=Rounds(pace=fixed_deadline(1.0)), rounds=2)
    world.begin()
    world.federation.move(world.put([], [0]))
    assert world.begin(0.5, group=1) == []  # its only member is still at work for group 0
    assert world.came(0.7, (0, 0)) == [
        ("Merge", (0, [(0, 0)], [0])),
        ("RoundOver", 1),
        ("Wake", 0.7, 1),
        ("RoundOver", 1),
        ("Send", [(0, 1)], [1]),
        ("Wake", 1.7, 1),
    ]


def test_what_a_round_has_is_late_if_another_order_overtakes_it():
    world = World([0, 1], n_samples=[1, 1])
    world.begin(0.0, ticket=1)
    world.came(1.0, (0, 0))
    assert world.begin(2.0, ticket=2) == [("Send", [(0, 1)], [1])]  # 1 is still at work
    assert world.came(3.0, (1, 0)) == []
    assert world.came(4.0, (0, 1))[0] == ("Merge", (0, [(0, 1), (0, 0), (1, 0)], [0, 0, 0]))

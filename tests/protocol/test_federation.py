"""The machines together: regrouping, counts that all groups share, updates that are routed to who waits for them."""

import copy

import numpy as np
import pytest
from machines import World, ids, topology

from fedloom.pacing import fixed_deadline
from fedloom.protocol import Immediate, Rounds
from fedloom.protocol.messages import Due


def test_aggregators_that_share_clients_or_a_host_are_one_group():
    world = World([0, 1], [1, 2], [3], [4], n_samples=[1] * 5, host=[0, 1, 2, 2])
    assert [edge.aggregators.tolist() for edge in world.federation.edges] == [[0, 1], [2, 3]]
    world.begin()
    merge = world.came(1.0, (0, 0), (1, 0), (2, 0))[0]
    assert merge == ("Merge", (0, [(0, 0), (1, 0)], [0, 0]), (1, [(1, 0), (2, 0)], [0, 0]))


def test_of_several_aggregators_on_a_host_those_with_news_report():
    world = World([0], [1], n_samples=[1, 1], host=[5, 5], participation=0.5)
    world.begin()
    (sent,) = [name for name in [(0, 0), (1, 0)] if np.isinf(world.federation.roster.busy_until[name[0]])]
    assert world.came(1.0, sent)[-1] == ("Report", 0, 1.0, [sent[0]])


def test_groups_without_clients_are_left_out_unless_some_may_come():
    assert len(World([0], [], n_samples=[1]).federation.edges) == 1
    assert len(World([0], [], n_samples=[1], wander=True, follow=True).federation.edges) == 2
    assert len(World([0], [], n_samples=[1], cloud=Immediate()).federation.edges) == 2


def test_counts_of_rounds_are_the_same_again_when_a_cloud_round_begins_and_ages_stay():
    world = World([0, 1], [2], n_samples=[1] * 3, edge=Rounds(pace=fixed_deadline(1.0)), rounds=1)
    federation = world.federation
    federation.begin(1)
    world.begin()
    world.came(0.5, (0, 0))
    world.told(Due(1.0, 0))  # 1 is late
    federation.edges[1].n_rounds = 5
    federation.begin(1)
    assert [edge.n_rounds for edge in federation.edges] == [5, 5]
    assert federation.roster.late[0].left_at.tolist() == [4]  # one round ago, as before
    assert federation.next_index() == federation.next_index(0) == 6


def test_new_groups_go_on_counting_and_what_is_late_is_merged_where_its_client_is():
    world = World([0, 1], [2], n_samples=[1] * 3, edge=Rounds(pace=fixed_deadline(1.0)))
    world.federation.begin(1)
    world.begin()
    world.came(0.5, (0, 0))
    world.told(Due(1.0, 0))
    assert not world.federation.regroup(world.put([0], [1, 2]).topology)
    world.federation.enter(world.now)
    world.federation.begin(1)
    world.begin(2.0, group=1)
    world.came(2.5, (1, 0))
    assert world.came(2.6, (2, 0))[0] == ("Merge", (1, [(2, 0), (1, 0)], [0, 1]))


def test_groups_that_do_not_wait_for_each_other_must_stay_the_same():
    world = World([0], [1], n_samples=[1, 1], cloud=Immediate())
    with pytest.raises(ValueError, match=r"they were \[\[0\], \[1\]\] and would now be \[\[0, 1\]\]"):
        world.federation.regroup(topology([0, 1], [1], n_clients=2))


def test_where_clients_wander_and_nobody_waits_rounds_are_counted_over_all_groups():
    world = World([0], [1], n_samples=[1, 1], cloud=Immediate(), wander=True, follow=True)
    world.edge(0).n_rounds = 5
    assert world.federation.next_index(0) == world.federation.next_index(1) == 3


def test_an_update_is_delivered_to_the_edge_that_waits_for_it_wherever_its_client_is():
    world = World([0], [1], n_samples=[1, 1], wander=True, follow=True)
    world.begin()
    world.federation.move(world.put([], [0, 1]))
    assert world.came(1.0, (0, 0))[0] == ("Merge", (0, [(0, 0)], [0]))


def test_a_late_update_of_a_client_who_is_nowhere_waits_for_it():
    world = World([0, 1], n_samples=[1, 1], edge=Rounds(pace=fixed_deadline(1.0)), wander=True, follow=True, rounds=4)
    world.begin()
    world.came(0.5, (0, 0))
    world.told(Due(1.0, 0))
    world.federation.move(world.put([0]))
    assert world.came(1.5, (1, 0)) == [] and not np.isinf(world.federation.roster.late[0].arrives_s).any()
    assert world.came(1.7, (0, 1))[0] == ("Merge", (0, [(0, 1)], [0]))
    world.federation.move(world.put([0, 1]))
    world.came(1.8, (0, 2))
    assert world.came(1.9, (0, 3), (1, 1))[0] == ("Merge", (0, [(0, 3), (1, 1), (1, 0)], [0, 0, 3]))


def test_an_edge_that_lost_its_state_knows_nothing_of_what_it_waited_for():
    world = World([0, 1], [2], n_samples=[1] * 3)
    world.federation.begin(1)
    world.begin(ticket=1)
    world.came(1.0, (0, 0))
    world.federation.restarted(0, 2.0)
    assert world.came(3.0, (1, 0)) == [] and world.edge().on_time is None
    assert world.begin(4.0, ticket=3) == [("Send", [(0, 1), (1, 1)], [1, 1])]
    assert world.came(5.0, (0, 0), (1, 0)) == []
    assert world.came(6.0, (0, 1), (1, 1))[0] == ("Merge", (0, [(0, 1), (1, 1)], [0, 0]))


def test_a_machine_can_be_copied_and_the_copy_goes_on():
    world = World([0, 1], n_samples=[1, 1])
    world.begin()
    world.came(1.0, (0, 0))
    world.federation = copy.deepcopy(world.federation)
    assert world.came(2.0, (1, 0))[0] == ("Merge", (0, [(0, 0), (1, 0)], [0, 0]))


def test_machines_print_where_they_are():
    world = World([0, 1], n_samples=[1, 1])
    world.federation.begin(1)
    world.begin()
    assert repr(world.federation) == (
        "Federation(Cloud(version=0, due=1, waiting=[], fetched=[0]), edges=[0: round 0, 1 left], "
        "Roster(group_of=[0, 0], away=[0, 1], late=[], working=[]))"
    )
    assert "group=0" in repr(world.edge()) and ids(0, 1).tolist() == world.edge().members.tolist()

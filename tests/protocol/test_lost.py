"""Aggregators that are silent for too long: nobody waits for them, and the federation goes on with who is there."""

import numpy as np
from machines import World, ids

from fedloom.mixing import by_reported
from fedloom.mixing.merges import CloudLinear
from fedloom.pacing import fixed_deadline
from fedloom.protocol import Async, Immediate, NoCloud, Rounds, TimeBox
from fedloom.protocol.messages import Due


def begun(*groups, **options):
    """All groups are at work, and the cloud waits for them."""
    n = 1 + max(k for group in groups for k in group)
    world = World(*groups, n_samples=options.pop("n_samples", [10] * n), **options)
    world.done(world.federation.begin(1), 0.0)
    for edge in world.federation.edges:
        world.begin(0.0, edge.group)
    return world


def test_a_group_whose_aggregator_is_lost_reports_at_once_that_nobody_has_contributed():
    world = begun([0, 1], [2], rounds=2, merge_cloud=CloudLinear(by_reported))
    assert world.came(1.0, (0, 0)) == []
    assert world.lost(5.0, 0) == [("Report", 0, 5.0, [])]
    assert world.came(6.0, (1, 0)) == []  # nobody waits for it any more
    world.came(6.0, (2, 0))
    world.came(7.0, (2, 1))
    cloud = world.cloud
    cloud.reported(0, 5.0)
    cloud.reported(1, 7.0)
    assert world.done(cloud.mode.finish(cloud), 7.0) == [("CloudMerge", 0.0, [0.0, 1.0])]


def test_what_it_had_merged_is_lost_with_it():
    world = begun([0], [1], rounds=2, merge_cloud=CloudLinear(by_reported))
    world.came(1.0, (0, 0))
    assert world.edge(0).contributed.any()
    world.lost(2.0, 0)
    assert not world.edge(0).contributed.any()


def test_a_report_that_is_here_already_counts():
    world = begun([0], [1], merge_cloud=CloudLinear(by_reported), n_samples=[10, 30])
    world.came(1.0, (0, 0))
    world.cloud.reported(0, 1.5)
    assert world.lost(2.0, 0) == []
    world.came(3.0, (1, 0))
    world.cloud.reported(1, 3.5)
    assert world.done(world.cloud.mode.finish(world.cloud), 4.0) == [("CloudMerge", 0.0, [0.25, 0.75])]


def test_a_report_that_is_on_its_way_is_given_up():
    world = begun([0], [1])
    assert world.came(1.0, (0, 0))[-1] == ("Report", 0, 1.0, [0])
    assert world.lost(9.0, 0) == [("Report", 0, 9.0, [])]
    assert world.cloud.due == 2  # it is the same report, in another form


def test_where_aggregators_share_clients_the_others_go_on_without_what_was_done_for_the_lost_one():
    world = begun([0, 1], [1, 2], rounds=2)
    assert len(world.federation.edges) == 1
    assert world.came(1.0, (1, 0), (2, 0)) == []
    assert world.lost(5.0, 1) == []  # client 0 is waited for; 1 has the other aggregator left, in the next round
    assert not world.edge().contributed.any()
    assert world.came(6.0, (0, 0))[0] == ("Merge", (0, [(0, 0)], [0]))


def test_a_round_closes_if_only_clients_of_the_lost_aggregator_were_missing():
    world = begun([0, 1], [1, 2], rounds=2)
    world.came(1.0, (0, 0))
    assert world.lost(5.0, 1) == [
        ("Merge", (0, [(0, 0)], [0])),
        ("RoundOver", 1),
        ("Send", [(0, 1), (1, 1)], [1, 1]),  # client 1 has the other aggregator left
    ]


def test_where_the_cloud_does_not_wait_a_lost_group_sleeps_until_it_is_back():
    world = begun([0], [1], cloud=Immediate(), merge_cloud=CloudLinear(by_reported))
    assert world.lost(3.0, 0) == [("Asleep", 0)]
    assert world.federation.woken(world.now) == []
    everybody = world.put([0], [1])
    assert [edge.group for edge in world.federation.woken(everybody)] == [0]
    assert world.done(world.cloud.down(0), 5.0) == [("Down", 0, 3)]
    assert world.begin(5.0, 0) == [("Send", [(0, 1)], [1])]


def test_an_asynchronous_group_forgets_who_works_for_it():
    world = begun([0, 1], [2], edge=Async(), cloud=Immediate())
    assert world.lost(3.0, 0) == [("Asleep", 0)]
    assert sorted(world.federation.roster.working) == [2]
    assert world.federation.roster.idle(ids(0, 1), 3.0).tolist() == [0, 1]


def test_without_a_cloud_a_lost_group_is_not_waited_for_either():
    world = begun([0], [1], cloud=NoCloud())
    assert world.lost(3.0, 1) == [("Report", 1, 3.0, [])]


def test_a_time_box_is_kept_by_a_lost_group_too():
    world = begun([0], [1], edge=TimeBox(seconds=20.0))
    assert world.lost(3.0, 0) == [("Report", 0, 20.0, [])]


def test_an_alarm_of_the_round_that_was_lost_does_not_close_a_later_one():
    world = begun([0], [1], edge=Rounds(pace=fixed_deadline(5.0)), cloud=Immediate())
    world.lost(3.0, 0)
    world.put([0], [1])
    world.federation.woken(world.now)
    world.done(world.cloud.down(0), 4.0)
    assert world.begin(4.0, 0)[0] == ("Send", [(0, 1)], [1])
    assert world.told(Due(5.0, 0), 0) == []


def test_clients_that_the_driver_names_are_withdrawn_wherever_they_are():
    """Jobs of clients that report to several stations of which one is lost: they cannot be done without it."""
    world = begun([0, 1], [2, 3])
    world.came(1.0, (2, 0))
    assert world.lost(2.0, 0, clients=[3])[-1] == ("Report", 1, 2.0, [1])


def test_late_updates_that_were_sent_from_a_lost_aggregator_are_forgotten():
    world = begun([0, 1], [2])
    late = world.federation.roster.leave(ids(0), 0, np.array([0]), ids(1))
    world.federation.roster.late = [late]
    world.lost(2.0, 0)
    assert world.federation.roster.late == []

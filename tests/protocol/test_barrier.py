"""Barrier: a cloud that waits for all aggregators before it merges."""

import copy

import pytest
from machines import World, ids, recovered

from fedloom.mixing import by_reported
from fedloom.mixing.merges import CloudLinear
from fedloom.protocol import Barrier
from fedloom.protocol.cloud import Said


def two_groups(**options):
    world = World([0], [1, 2], n_samples=[10, 10, 20], **options)
    return world, world.done(world.federation.begin(1), 0.0)


def trained(world, at_s=1.0):
    """All groups do a round."""
    world.begin(at_s, 0)
    world.begin(at_s, 1)
    ticket = int(world.federation.roster._tickets[0]) - 1
    world.came(at_s, (0, ticket), (1, ticket), (2, ticket))


def test_a_cloud_round_is_a_model_down_reports_and_a_merge_by_samples():
    world, begun = two_groups()
    assert begun == [("Down", 0, 1), ("Down", 1, 2)]
    trained(world)
    cloud = world.cloud
    assert world.done(cloud.reported(0, 2.0, 1), 2.0) == [] and cloud.due == 1
    assert world.done(cloud.reported(1, 3.0, 2), 3.0) == [] and cloud.due == 0
    assert world.done(cloud.mode.finish(cloud), 3.0) == [("CloudMerge", 0.0, [0.25, 0.75])]
    assert cloud.version == 1 and not world.edge(0).contributed.any()
    assert world.done(world.federation.begin(1), 3.0) == [("Down", 0, 3), ("Down", 1, 4)]


def test_a_report_that_comes_twice_counts_once():
    world, _ = two_groups()
    trained(world)
    cloud = world.cloud
    cloud.reported(0, 2.0, 1)
    for ticket in (1, 7):
        assert cloud.reported(0, 2.5, ticket) == [] and cloud.due == 1 and cloud.n_reports.tolist() == [1, 0]
    cloud.reported(1, 3.0, 2)
    cloud.mode.finish(cloud)
    world.federation.begin(1)
    assert cloud.reported(0, 4.0, 1) == [] and cloud.due == 2  # of the cloud round before


def test_who_did_not_contribute_does_not_count_where_contributions_do():
    world, _ = two_groups(merge_cloud=CloudLinear(by_reported))
    world.begin(1.0, 0)
    world.came(1.0, (0, 0))
    cloud = world.cloud
    cloud.reported(0, 2.0)
    cloud.reported(1, 2.0)
    assert world.done(cloud.mode.finish(cloud), 2.0) == [("CloudMerge", 0.0, [1.0, 0.0])]


@pytest.mark.parametrize(("drop", "left"), [(True, []), (False, [[(0, 0)]])])
def test_late_updates_are_dropped_at_the_merge_if_it_says_so(drop, left):
    world, _ = two_groups(cloud=Barrier(drop_late=drop))
    world.federation.roster.late = [world.federation.roster.leave(ids(0), 0, ids(0), ids(1))]
    world.done(world.cloud.mode.finish(world.cloud), 2.0)
    assert [flight.names for flight in world.federation.roster.late] == left


def test_whose_late_update_is_dropped_is_free_though_nobody_knows_when_it_would_have_come():
    world, _ = two_groups(cloud=Barrier(drop_late=True))
    world.federation.roster.late = [world.federation.roster.leave(ids(0), 0, ids(0), ids(1))]
    world.done(world.cloud.mode.finish(world.cloud), 2.0)
    assert world.federation.roster.idle(ids(0), 2.0).tolist() == [0]


def test_an_edge_that_lost_its_state_is_sent_the_model_again_and_its_former_report_is_a_copy():
    world, _ = two_groups()
    trained(world)
    told, actions = world.federation.restarted(0, 2.0)
    assert told == [] and world.done(actions, 2.0) == [("Down", 0, 3)]
    assert world.cloud.reported(0, 3.0, 1) == [] and world.cloud.due == 2
    world.cloud.reported(0, 4.0, 3)
    assert world.cloud.due == 1


def test_an_edge_that_lost_its_state_after_its_report_was_taken_is_not_asked_for_another():
    world, _ = two_groups()
    trained(world)
    said = Said(world.edge(0).contributed.copy(), world.edge(0).contributed_last.copy())
    world.cloud.reported(0, 2.0, 1, said)
    assert world.federation.restarted(0, 2.5) == ([], [])
    assert not world.edge(0).contributed.any()
    world.cloud.reported(1, 3.0, 2)
    merge = world.cloud.mode.finish(world.cloud)[0]
    assert merge.reports.reported.tolist() == [10.0, 30.0]  # as the report said


def test_a_cloud_that_lost_its_state_takes_up_what_the_aggregators_know():
    world, _ = two_groups()
    cloud = world.cloud
    first = [cloud.memo(0), cloud.memo(1)]
    cloud.reported(0, 2.0, 1)
    cloud.reported(1, 3.0, 2)
    cloud.mode.finish(cloud)
    world.federation.begin(1)
    memos = [cloud.memo(0), first[1]]  # the second order has reached group 0 alone
    kept = copy.deepcopy((cloud.version, cloud.settled, cloud.n_reports.tolist()))
    actions = world.done(recovered(world, memos), 5.0)
    assert actions == [("Down", 1, 4)]  # group 1 waits for the model in which its report is
    assert (cloud.version, cloud.settled, cloud.n_reports.tolist()) == kept
    assert cloud.out == {0: 3, 1: 4} and cloud.due == 2


def test_a_cloud_that_lost_a_merge_that_nobody_has_asks_for_the_reports_again():
    world, _ = two_groups()
    cloud = world.cloud
    memos = [cloud.memo(0), cloud.memo(1)]
    cloud.reported(0, 2.0, 1)
    cloud.reported(1, 3.0, 2)
    cloud.mode.finish(cloud)
    assert recovered(world, memos) == [] and cloud.version == 0 and cloud.due == 2
    cloud.reported(0, 6.0, 1)
    cloud.reported(1, 6.0, 2)
    assert cloud.due == 0


def test_a_cloud_that_lost_its_state_and_nobody_knows_it_begins_anew():
    world, _ = two_groups()
    assert world.done(recovered(world, [None, None]), 1.0) == [("Down", 0, 1), ("Down", 1, 2)]
    assert world.cloud.version == 0 and world.cloud.due == 2


def test_shares_and_counts_are_checked():
    with pytest.raises(ValueError, match="cluster_share must be between 0 and 1, got 2"):
        Barrier(cluster_share=2.0)
    with pytest.raises(ValueError, match="warmup"):
        Barrier(warmup=-1)

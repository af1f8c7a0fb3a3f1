"""Immediate: a cloud that merges each report when it comes, within a bound on staleness."""

from machines import World, recovered

from fedloom.mixing.merges import CloudLinear
from fedloom.mixing.staleness import polynomial_cloud
from fedloom.pacing import StalenessBound
from fedloom.protocol import Immediate


def three_groups(**mode):
    world = World(
        [0],
        [1],
        [2],
        n_samples=[1, 1, 1],
        cloud=Immediate(**mode),
        merge_cloud=CloudLinear(polynomial_cloud(0.5, 1.0)),
    )
    assert world.done(world.federation.begin(1), 0.0) == [("Down", 0, 1), ("Down", 1, 2), ("Down", 2, 3)]
    return world


def reported(world, group, at_s=1.0, ticket=None):
    return world.done(world.cloud.reported(group, at_s, ticket), at_s)


def test_a_report_is_merged_by_its_staleness_and_its_sender_goes_on():
    world = three_groups()
    assert reported(world, 0) == [("CloudMerge", 0.5, [0.5, 0.0, 0.0]), ("Down", 0, 4)]
    assert reported(world, 1) == [("CloudMerge", 0.75, [0.0, 0.25, 0.0]), ("Down", 1, 5)]
    assert world.cloud.fetched.tolist() == [1, 2, 0] and world.cloud.due == 1


def test_a_second_cloud_round_does_not_interrupt_those_at_work():
    world = three_groups()
    assert world.federation.begin(1) == [] and world.cloud.due == 6


def test_a_copy_of_a_report_is_not_merged_again():
    world = three_groups()
    reported(world, 0, ticket=1)
    assert reported(world, 0, ticket=1) == [] and world.cloud.version == 1
    reported(world, 0, ticket=4)
    assert world.cloud.version == 2


def test_who_would_run_too_far_ahead_waits_for_those_at_work():
    world = three_groups(bound=StalenessBound(s_max=1))
    assert reported(world, 0)[1:] == [("Down", 0, 4)]
    assert reported(world, 0)[1:] == [] and world.cloud.waiting == [0]  # two ahead of 1 and 2
    assert reported(world, 1)[1:] == [] and world.cloud.waiting == [0, 1]
    assert reported(world, 2)[1:] == [("Down", 0, 5), ("Down", 1, 6), ("Down", 2, 7)]  # all had reported
    assert world.cloud.waiting == []


def test_nobody_waits_for_a_group_that_sleeps():
    world = three_groups(bound=StalenessBound(s_max=1))
    reported(world, 0)
    reported(world, 0)
    reported(world, 1)
    world.edge(2).asleep = True
    assert world.done(world.cloud.mode.fell_asleep(world.cloud), 2.0) == [("Down", 0, 5), ("Down", 1, 6)]


def asleep(world, group, at_s=1.0):
    """The group's clients have left when it opens its round."""
    world.edge(group).asleep = True
    return world.done(world.cloud.mode.fell_asleep(world.cloud), at_s)


def test_a_group_that_wakes_does_not_run_too_far_ahead_either():
    world = three_groups(bound=StalenessBound(s_max=1))
    assert asleep(world, 2) == []
    assert reported(world, 0)[1:] == [("Down", 0, 4)]  # version 1; group 1 works on version 0
    assert reported(world, 0)[1:] == [] and world.cloud.waiting == [0]  # version 2
    world.edge(2).asleep = False
    assert world.done(world.cloud.woken(2), 2.0) == [] and world.cloud.waiting == [0, 2]
    assert reported(world, 1)[1:] == [("Down", 0, 5), ("Down", 2, 6), ("Down", 1, 7)]
    assert world.cloud.fetched.tolist() == [3, 3, 3]


def test_a_group_that_wakes_within_the_bound_goes_on_at_once():
    world = three_groups(bound=StalenessBound(s_max=1))
    asleep(world, 2)
    reported(world, 0)
    world.edge(2).asleep = False
    assert world.done(world.cloud.woken(2), 2.0) == [("Down", 2, 5)] and world.cloud.waiting == []
    assert world.cloud.fetched.tolist() == [1, 0, 1]


def test_a_group_that_asks_twice_gets_one_order():
    world = three_groups(bound=StalenessBound(s_max=1))
    reported(world, 0)
    reported(world, 0)
    assert world.cloud.woken(2) == world.cloud.woken(2) == [] and world.cloud.waiting == [0, 2]


def test_a_group_that_has_lost_its_state_does_not_run_too_far_ahead_either():
    world = three_groups(bound=StalenessBound(s_max=1))
    reported(world, 0)
    assert reported(world, 0)[1:] == []  # version 2; groups 1 and 2 work on version 0
    assert world.done(world.cloud.restarted(1), 2.0) == [] and world.cloud.waiting == [0, 1]
    assert reported(world, 1, ticket=2) == []  # what it sent before is of an order that is void
    assert reported(world, 2)[1:] == [("Down", 0, 5), ("Down", 1, 6), ("Down", 2, 7)]


def test_nobody_waits_for_what_a_group_had_fetched_before_it_lost_its_state():
    world = three_groups(bound=StalenessBound(s_max=1))
    reported(world, 0)
    assert reported(world, 1)[1:] == []  # version 2; group 0 works on version 1, group 2 on version 0
    assert world.done(world.cloud.restarted(2), 2.0) == [("Down", 1, 5), ("Down", 2, 6)]
    assert world.cloud.fetched.tolist() == [1, 2, 2]


def test_without_a_bound_who_wakes_or_has_lost_its_state_gets_an_order_at_once():
    world = three_groups()
    reported(world, 0)
    assert world.done(world.cloud.woken(2), 2.0) == [("Down", 2, 5)]
    assert world.done(world.cloud.restarted(1), 2.0) == [("Down", 1, 6)]


def test_the_bound_moves_by_how_fast_accuracy_rises():
    world = three_groups(bound=StalenessBound(s_max=2, adapt_every=2))
    cloud = world.cloud
    assert reported(world, 0, 10.0)[1:] == [("Score", 0)]
    assert world.done(cloud.mode.scored(cloud, 0, 0.1, 10.0), 10.0) == [("Down", 0, 4)]
    assert reported(world, 1, 20.0)[1:] == [("Score", 2)]
    assert world.done(cloud.mode.scored(cloud, 2, 0.3, 20.0), 20.0) == [("Down", 1, 5)]
    assert cloud.bound.s_max == 3 and cloud.bound.rate == (0.3 - 0.1) / 20.0
    reported(world, 2, 25.0)
    assert reported(world, 0, 30.0)[1:] == [("Score", 4)]
    cloud.mode.scored(cloud, 4, 0.31, 30.0)
    assert cloud.bound.s_max == 2  # slower than before: back


def test_a_cloud_round_has_as_many_reports_as_make_the_edge_rounds():
    mode = Immediate()
    assert [mode.reports_of_each(rounds, 6) for rounds in (None, 1, 2, 4, 12)] == [1, 6, 3, 2, 1]


def test_a_lost_state_is_learnt_again_and_no_report_is_merged_twice():
    world = three_groups()
    memos = [world.cloud.memo(i) for i in range(3)]
    reported(world, 0, ticket=1)
    memos[0] = world.cloud.memo(0)
    reported(world, 1, ticket=2)
    reported(world, 2, ticket=3)
    memos[2] = world.cloud.memo(2)  # version 3; what was sent to 1, at version 2, is lost, but its report is in
    assert world.done(recovered(world, memos), 9.0) == [("Down", 1, 7)]
    assert world.cloud.version == 3 and world.cloud.fetched.tolist() == [1, 3, 3]
    assert reported(world, 1, ticket=2) == []
    assert reported(world, 0, ticket=4)[0][0] == "CloudMerge"


def test_a_group_that_was_woken_when_the_cloud_lost_its_state_is_sent_an_order():
    world = three_groups()
    memos = [world.cloud.memo(i) for i in range(3)]
    world.cloud.forget()
    assert world.done(world.cloud.recover(memos, woken={2}), 9.0) == [("Down", 2, 4)]

"""NoCloud: aggregators keep their own models; a cloud round is over when all have done its edge rounds."""

from machines import World, recovered

from fedloom.protocol import NoCloud


def test_everybody_goes_on_with_its_own_model_when_all_have_finished():
    world = World([0], [1], n_samples=[1, 3], cloud=NoCloud())
    cloud = world.cloud
    for number in range(2):
        tickets = (2 * number + 1, 2 * number + 2)
        assert world.done(world.federation.begin(1), 0.0) == [("Down", 0, tickets[0]), ("Down", 1, tickets[1])]
        assert cloud.reported(1, 1.0, tickets[1]) == [] and cloud.due == 1
        assert cloud.reported(1, 1.5, tickets[1]) == [] and cloud.due == 1
        assert cloud.reported(0, 2.0, tickets[0]) == [] and cloud.due == 0
        assert world.done(cloud.mode.finish(cloud), 2.0) == [("CloudMerge", 0.0, [0.25, 0.75])]  # for evaluation
    assert cloud.fetched.tolist() == [0, 0] and not cloud.mode.exists  # nobody fetches


def test_a_lost_state_is_learnt_again():
    world = World([0], [1], n_samples=[1, 3], cloud=NoCloud())
    cloud = world.cloud
    world.federation.begin(1)
    memos = [cloud.memo(0), cloud.memo(1)]
    cloud.reported(0, 1.0, 1)
    assert recovered(world, memos) == [] and cloud.due == 2
    assert cloud.reported(0, 2.0, 1) == [] and cloud.due == 1

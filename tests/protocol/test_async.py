"""Async: every arrival is merged at once, and somebody is sent in its place."""

from machines import World, ids

from fedloom.protocol import Async, Barrier, Immediate
from fedloom.protocol.messages import Moved


def at_once(*groups, n, **options):
    return World(*groups, n_samples=[1] * n, edge=options.pop("edge", Async()), **options)


def test_each_arrival_is_merged_with_its_age_and_its_client_sent_again():
    world = at_once([0, 1], n=2, rounds=2)
    assert world.begin() == [("Send", [(0, 0), (1, 0)], [1, 1])]
    assert world.came(1.0, (0, 0)) == [("Merge", (0, [(0, 0)], [0])), ("Send", [(0, 1)], [1])]
    assert world.came(2.0, (0, 1)) == [  # two merges make a round of two clients
        ("Merge", (0, [(0, 1)], [0])),
        ("RoundOver", 1),
        ("Send", [(0, 2)], [1]),
    ]
    assert world.came(3.0, (1, 0))[0] == ("Merge", (0, [(1, 0)], [2]))


def test_copies_and_unknown_updates_change_nothing():
    world = at_once([0, 1], n=2)
    world.begin()
    world.came(1.0, (0, 0))
    for answer in (world.came(2.0, (0, 0)), world.came(2.0, (1, 9)), world.came(2.0, (0, 5))):
        assert answer == []
    assert world.edge().n_merges == 1


def test_what_comes_when_no_round_is_open_waits_for_the_next_and_so_does_its_client():
    world = at_once([0, 1], n=2)
    world.begin()
    world.came(1.0, (0, 0))
    world.came(2.0, (0, 1))  # the round is over, 1 is still at work
    assert world.came(3.0, (1, 0)) == []
    assert world.federation.roster.late[0].names == [(1, 0)]
    assert world.begin(4.0) == [
        ("Again", 1),
        ("Merge", (0, [(1, 0)], [2])),
        ("Send", [(1, 1)], [1]),
        ("Send", [(0, 2)], [1]),
    ]


def test_who_has_gone_is_replaced():
    world = at_once([0, 1, 2], n=3, participation=0.34)
    world.begin()
    (sent,) = world.federation.roster.working
    rest = [k for k in range(3) if k != sent]
    world.federation.move(world.put(rest))
    ((_, ((other, ticket),), _),) = world.gone(1.0, sent)
    assert other in rest and ticket == 0


def test_if_all_have_gone_the_round_ends_with_what_it_has():
    world = at_once([0], [1], n=2, rounds=2)
    world.begin()
    world.federation.move(world.put([], [1]))
    assert world.gone(1.0, 0) == [("RoundOver", 1), ("RoundOver", 2), ("Report", 0, 1.0, [0])]


def test_a_squad_is_merged_together_when_the_last_of_it_is_back():
    world = at_once([0, 1, 2], n=3, squad=ids(0, 0, 1))
    assert world.begin() == [("Send", [(0, 0), (1, 0)], [1, 1]), ("Send", [(2, 0)], [1])]
    assert world.came(1.0, (1, 0)) == [] and world.came(1.5, (1, 0)) == []
    assert world.came(2.0, (0, 0)) == [
        ("Merge", (0, [(0, 0), (1, 0)], [0, 0])),
        ("Send", [(0, 1), (1, 1)], [1, 1]),
    ]
    assert world.came(3.0, (2, 0)) == [  # two squads make a round
        ("Merge", (0, [(2, 0)], [1])),
        ("RoundOver", 1),
        ("Report", 0, 3.0, [0]),
    ]


def test_a_squad_does_not_wait_for_who_has_gone():
    world = at_once([0, 1], n=2, squad=ids(0, 0))
    world.begin()
    world.came(1.0, (1, 0))
    assert world.gone(2.0, 0)[:2] == [("Again", 1), ("Merge", (0, [(1, 0)], [0]))]


def test_a_squad_that_has_parted_is_merged_in_parts_and_counts_where_most_are():
    world = at_once([0, 1, 2], [3], n=4, squad=ids(0, 0, 0, 1), wander=True, cloud=Immediate())
    world.begin()
    world.begin(group=1)
    world.federation.move(world.put([0, 1], [2, 3]))
    answers = world.came(5.0, (0, 0), (1, 0), (2, 0))
    assert [line for line in answers if line[0] == "Merge"] == [
        ("Merge", (0, [(0, 0), (1, 0)], [0, 0])),
        ("Merge", (1, [(2, 0)], [0])),
    ]
    assert world.edge(0).n_rounds == 1 and world.edge(1).merges_left == 1


def test_a_group_that_all_have_left_sleeps_and_wakes_when_somebody_comes():
    world = at_once([0], [1], n=2, wander=True, cloud=Immediate())
    world.begin()
    world.federation.move(world.put([], [0, 1]))
    assert world.told(Moved(1.0, world.now)) == [("Asleep", 0)]
    world.federation.move(world.put([0], [1]))
    assert [edge.group for edge in world.federation.woken(world.now)] == [0]


def test_a_group_that_all_have_left_goes_on_without_if_the_cloud_waits():
    world = at_once([0], [1], n=2, wander=True, follow=True, cloud=Barrier())
    world.begin()
    world.federation.move(world.put([], [0, 1]))
    assert world.told(Moved(1.0, world.now)) == [("RoundOver", 1), ("Report", 0, 1.0, [0])]


def test_an_update_moves_with_its_client_and_keeps_its_age():
    world = at_once([0], [1, 2], n=3, wander=True, cloud=Immediate(), rounds=5)
    world.begin()
    world.begin(group=1)
    world.came(1.0, (1, 0))
    world.came(2.0, (1, 1))  # group 1 has merged twice, group 0 never
    world.federation.move(world.put([2], [0, 1]))
    assert world.came(3.0, (2, 0))[0] == ("Merge", (0, [(2, 0)], [2]))
    assert world.came(4.0, (0, 0))[0] == ("Merge", (1, [(0, 0)], [0]))


def test_an_update_is_lost_on_a_move_if_the_edge_says_so():
    world = at_once([0], [1], n=2, edge=Async(lost_on_move=True), wander=True, cloud=Immediate(), rounds=3)
    world.begin()
    world.begin(group=1)
    world.federation.move(world.put([1], [0]))
    answers = world.came(3.0, (0, 0))
    assert "Merge" not in [line[0] for line in answers] and ("Send", [(0, 1)], [1]) in answers

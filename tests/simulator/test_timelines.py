"""Timelines worked out by hand: exact event times and exact models."""

import numpy as np
import pytest
from worlds import adding, fixed_topology, quadratic, snapshot, world

from fedloom.grouping import all_cells, home_cells, one_cloud
from fedloom.methods import Grouping, Method
from fedloom.methods.fedavg import method as fedavg
from fedloom.methods.hierfedavg import method as hierfedavg
from fedloom.mixing import (
    CloudLinear,
    EdgeWeights,
    Linear,
    by_reported,
    by_size,
    by_split_size,
    polynomial_cloud,
    polynomial_edge,
)
from fedloom.pacing import fixed_deadline, median_iqr
from fedloom.protocol import Async, Immediate, Rounds, TimeBox
from fedloom.simulator.book import Model, settle
from fedloom.simulator.driver import Driver


def play(method, world_, engine, n_rounds, first=0.0):
    """(time, model) after every cloud round, and the federation."""
    federation = Driver(method, world_, Model(np.array([first], dtype=np.float32)))
    seen = []
    for state in federation.cloud_rounds(n_rounds):
        row = settle(state.model, engine)
        seen.append((state.time_s, float(row[0])))
    return seen, federation


def discounted_updates(arrivals):
    """w + sum tau_i n_i (w_i - s_i) / sum n_i with tau = 1 / (1 + staleness): CSAHFL, eq. 10 read for updates."""
    weight = arrivals.n_samples / (1.0 + arrivals.staleness) / arrivals.n_samples.sum()
    return EdgeWeights(own=1.0, model=weight, start=-weight)


def test_lockstep_waits_for_the_slowest_link_and_the_slowest_client():
    # cell 0: client 0 needs 2 + 3 steps of 1 s + 4 = 9 s, client 1: 2 + 3 * 5 + 4 = 21 s; cell 1: client 2: 2 + 3 * 2 + 4 = 12 s
    place = snapshot([1, 5, 2], [[1, 1, 0], [0, 0, 1]], down_s=2, up_s=4, backhaul_down_s=0.5, backhaul_up_s=1.5)
    seen, _ = play(hierfedavg(), world(place, local_steps=3, edge_rounds=2), adding(1, 2, 7), 2)
    # a cloud round: 0.5 + max(2 * 21, 2 * 12) + 1.5 = 44 s; per edge round +3 * mean(1, 2) = 4.5 and +21; mean by size
    assert [t for t, _ in seen] == [44.0, 88.0]
    per_round = (2 * 2 * 4.5 + 2 * 21.0) / 3  # edges weigh 200 and 100 samples
    assert [w for _, w in seen] == pytest.approx([per_round, 2 * per_round])


def test_edges_keep_their_own_clocks_between_cloud_rounds():
    place = snapshot([1, 10], [[1, 0], [0, 1]], backhaul_up_s=[100, 0])
    seen, _ = play(hierfedavg(), world(place, edge_rounds=3), adding(1, 1), 1)
    assert seen[0][0] == 103.0  # edge 0: 3 * 1 + 100, edge 1: 3 * 10


def test_deadline_with_late_arrivals():
    # session times 10, 20, 30 s; deadline median + IQR / 2; training adds 1, 2, 5
    place = snapshot([1.0, 2.0, 3.0], [[1, 1, 1]])
    method = hierfedavg().with_(edge=Rounds(pace=median_iqr(alpha=0.5)), merge_edge=Linear(discounted_updates))
    w = world(place, local_epochs=1, n_samples=[100] * 3)
    steps = 10  # of one epoch
    seen, federation = play(method, w, adding(1 / steps, 2 / steps, 5 / steps), 3)
    # round 1 closes at 25, client 2 is late; round 2 at 42.5, client 1 is late; round 3 at 67.5
    assert [t for t, _ in seen] == [25.0, 42.5, 67.5]
    assert [m for _, m in seen] == pytest.approx([1.5, 3.25, 4.25], abs=1e-6)
    assert federation.errands.n_late == 3  # client 2 in round 1, client 1 in round 2, client 2 in round 3
    assert federation.errands.n_updates == 2 + 2 + 2


def test_late_updates_cross_cloud_rounds_and_are_used_once():
    place = snapshot([1.0, 100.0], [[1, 1]])
    method = hierfedavg().with_(edge=Rounds(pace=fixed_deadline(10.0)), merge_edge=Linear(discounted_updates))
    seen, federation = play(method, world(place), adding(1, 64), 12)
    # client 1 is sent at 0 and arrives at 100; until then rounds hold client 0 only and last 1 s (after the first: 10 s)
    times = [t for t, _ in seen]
    assert times[0] == 10.0 and times[1] == 11.0
    assert federation.errands.n_updates == 12  # client 0 twelve times, client 1 not yet: 10 + 11 s < 100 s
    models = [m for _, m in seen]
    assert models == pytest.approx(list(range(1, 13)))
    seen, federation = play(method, world(place), adding(1, 64), 92)
    assert federation.errands.n_updates == 93 and seen[90][0] == 100.0
    # merged at 100 s with staleness 90: 1 / 2 + 64 / 2 / 91 on top of client 0's 90
    assert seen[90][1] == pytest.approx(90 + 1 / 2 + 64 / 2 / 91, rel=1e-6)


def test_when_everybody_is_late_the_round_closes_with_the_first_arrival():
    place = snapshot([30.0, 40.0], [[1, 1]])
    method = hierfedavg().with_(edge=Rounds(pace=fixed_deadline(10.0)))
    seen, _ = play(method, world(place, edge_rounds=2), adding(1, 2), 1)
    # round 1 closes at 10 with nothing; round 2 has nobody idle: it closes at 30 with client 0's update
    assert seen == [(30.0, 1.0)]


def test_asynchronous_edge_merges_every_arrival():
    # client 0 takes 2 s, client 1 takes 3 s; w <- (1 - a) w + a w_new, a = (1 + s)^-1
    place = snapshot([2.0, 3.0], [[1, 1]])
    method = hierfedavg().with_(edge=Async(), merge_edge=Linear(polynomial_edge(1.0, 1.0)))
    seen, _ = play(method, world(place, edge_rounds=2), adding(1, 10), 1)
    # t=2: client 0, s=0: w = 1.            t=3: client 1 (from 0), s=1: w = (1 + 10) / 2 = 5.5  [edge round 1: 2 merges]
    # t=4: client 0 (from 1), s=1: w = (5.5 + 2) / 2 = 3.75
    # t=6: client 1 (from 5.5, sent at 3 when 2 merges were done; now 3 are): s=1: w = (3.75 + 15.5) / 2 = 9.625
    # (client 0, sent at 4, arrives at 6 too; client 1 was sent first and is merged first)
    assert seen == [(6.0, pytest.approx(9.625))]


def test_updates_that_reach_an_asynchronous_edge_while_it_waits_for_the_cloud_are_not_lost():
    place = snapshot([1.0, 5.0], [[1, 1]], backhaul_up_s=10)
    method = hierfedavg().with_(edge=Async(), merge_edge=Linear(polynomial_edge(1.0, 1.0)))
    seen, federation = play(method, world(place), adding(1, 100), 2)
    # round 1: merges at 1 and 2 (client 0 twice): w = 2; reports, arrives at 12. Client 1 arrives at 5 and waits.
    assert seen[0] == (12.0, 2.0)
    # round 2 starts at 12: client 1's update (from 0, sent before 2 merges) comes first: w = 2 * 2/3 + 100 / 3
    after_first = 2 * 2 / 3 + 100 / 3
    # client 0 and 1 are sent from there; client 0 is back at 13: it was sent at 12 from w = 2 ... see below
    assert seen[1][0] == 23.0
    assert federation.errands.n_updates == 4
    # client 0 was sent when the round opened (from 2, 2 merges done); one merge later: s = 1
    assert seen[1][1] == pytest.approx(after_first / 2 + 3 / 2)


def test_immediate_cloud_merges_each_report_when_it_comes():
    # edge 0 reports every 2 s, edge 1 every 3 s; cloud w <- (1 - a) w + a v, a = (1 + s)^-1
    place = snapshot([2.0, 3.0], [[1, 0], [0, 1]])
    method = hierfedavg().with_(cloud=Immediate(), merge_cloud=CloudLinear(polynomial_cloud(1.0, 1.0)))
    seen, _ = play(method, world(place), adding(1, 10), 2)
    # t=2: edge 0 (s=0): w = 1.   t=3: edge 1 from 0 (s=1): w = (1 + 10) / 2 = 5.5     -> two reports: round 1
    # t=4: edge 0 from 1 (s=1): w = (5.5 + 2) / 2 = 3.75
    # t=6: edge 1 from 5.5 (fetched after 2 merges, now 3: s=1): w = (3.75 + 15.5) / 2 = 9.625 -> round 2
    assert seen == [(3.0, pytest.approx(5.5)), (6.0, pytest.approx(9.625))]


def test_time_box_runs_the_rounds_that_fit_and_lasts_exactly_as_long():
    # exact gradients on (w - c)^2 / 2; heads are devices 0 and 2; one epoch = 1, 3, 2, 4 steps
    c = [1, 2, -1, 4]
    place = snapshot([1.0] * 4, np.ones((1, 4)))
    w = world(place, n_samples=[10, 30, 20, 40], local_epochs=1)
    group = fixed_topology([[1, 1, 0, 0], [0, 0, 1, 1]], kind="head", host=[0, 2])
    method = Method(name="boxed", summary="", group=Grouping(group), edge=TimeBox(seconds=12.5))
    # epochs take 1, 3 | 2, 4 s: rounds of 3 and 4 s: 4 and 3 of them fit into 12.5 s
    seen, _ = play(method, w, quadratic([1] * 4, c), 2)
    assert [t for t, _ in seen] == [12.5, 25.0]

    def cluster(x, members, rounds):
        for _ in range(rounds):
            ends = {k: c[k] + (x - c[k]) * 0.9 ** {0: 1, 1: 3, 2: 2, 3: 4}[k] for k in members}
            n = {0: 10, 1: 30, 2: 20, 3: 40}
            x = sum(n[k] * ends[k] for k in members) / sum(n[k] for k in members)
        return x

    assert seen[0][1] == pytest.approx(0.4 * cluster(0, [0, 1], 4) + 0.6 * cluster(0, [2, 3], 3), rel=1e-6)
    # the published case has 2 and 3 rounds: 0.4 * 0.76451 + 0.6 * 1.884885
    assert 0.4 * cluster(0, [0, 1], 2) + 0.6 * cluster(0, [2, 3], 3) == pytest.approx(1.436735083, rel=1e-8)


def test_a_cluster_whose_round_does_not_fit_keeps_its_model():
    place = snapshot([1.0, 100.0], [[1, 0], [0, 1]])
    method = hierfedavg().with_(edge=TimeBox(seconds=10.0))
    seen, _ = play(method, world(place), adding(1, 5), 1)
    assert seen == [(10.0, pytest.approx(10 / 2))]  # cell 0 fits 10 rounds, cell 1 none


@pytest.mark.parametrize(
    ("method", "at_2", "at_4"),
    [
        (
            Method(name="hhfl", summary="", group=Grouping(all_cells), merge_edge=Linear(by_split_size)),
            1.10425,
            1.2008921875,
        ),
        (hierfedavg(), 1.10425, 1.205076625),
        (fedavg(), 1.10425, 1.1899695625),
    ],
)
def test_trajectories_with_overlapping_cells(method, at_2, at_4):
    # two cells, three clients, the middle one in both (home 0); F_k = a (w - c)^2 / 2, lr 0.1, two local steps
    place = snapshot([0.1] * 3, [[1, 1, 0], [0, 1, 1]], home=[0, 0, 1])
    engine = quadratic([1, 2, 0.5], [-1, 2, 4])
    one = world(place, n_samples=[30, 20, 50], local_steps=2, edge_rounds=1)
    two = world(place, n_samples=[30, 20, 50], local_steps=2, edge_rounds=2)
    assert play(method, one, engine, 1, first=1.0)[0][0][1] == pytest.approx(at_2, rel=1e-6)
    assert play(method, two, engine, 1, first=1.0)[0][0][1] == pytest.approx(at_4, rel=1e-6)


def test_two_tiers_with_different_periods():
    # DDC's case: gradient steps of 0.5 on h (w - theta)^2 / 2, averaged in clusters every step, globally every second
    h, theta = [1, 2, 1, 0.5], [0, 2, 4, 10]
    place = snapshot([1.0] * 4, np.ones((1, 4)))
    group = fixed_topology([[1, 1, 0, 0], [0, 0, 1, 1]], kind="head", host=[0, 2])
    method = Method(name="clusters", summary="", group=Grouping(group))
    seen, _ = play(method, world(place, n_samples=[1, 1, 2, 1], edge_rounds=2), quadratic(h, theta, lr=0.5), 2)
    assert [w for _, w in seen] == pytest.approx([2.558333333, 3.144618056], rel=1e-6)


def test_edge_rounds_of_one_wave_train_together():
    place = snapshot([1.0] * 4, [[1, 1, 0, 0], [0, 0, 1, 1]])
    engine = adding(1, 1, 1, 1)
    play(hierfedavg(), world(place, edge_rounds=3), engine, 1)
    assert engine.batches == [4, 4, 4]  # all clients of both edges at once, three times


def test_moving_clients_change_their_edge():
    before = snapshot([1.0] * 3, [[1, 1, 1], [1, 1, 1]], home=[0, 0, 1])
    after = snapshot([1.0] * 3, [[1, 1, 1], [1, 1, 1]], home=[0, 1, 1])
    federation = Driver(hierfedavg(), world(before, after), Model(np.zeros(1, np.float32)))
    covers = [state.topology.cover.astype(int).tolist() for state in federation.cloud_rounds(3)]
    assert covers == [[[1, 1, 0], [0, 0, 1]], [[1, 0, 0], [0, 1, 1]], [[1, 0, 0], [0, 1, 1]]]


def test_moving_clients_deliver_where_they_are_now_with_an_immediate_cloud():
    # client 1 works for 6 s; it starts at edge 0 and belongs to edge 1 from the second cloud round on
    before = snapshot([1.0, 6.0, 2.0], [[1, 1, 1], [1, 1, 1]], home=[0, 0, 1])
    after = snapshot([1.0, 6.0, 2.0], [[1, 1, 1], [1, 1, 1]], home=[0, 1, 1])
    merged = []

    def weigh(arrivals):
        merged.extend(zip(arrivals.client.tolist(), arrivals.staleness.tolist()))
        return discounted_updates(arrivals)

    method = hierfedavg().with_(
        cloud=Immediate(),
        merge_cloud=CloudLinear(polynomial_cloud(1.0, 0.0)),
        edge=Rounds(pace=fixed_deadline(2.5)),
        merge_edge=Linear(weigh),
    )
    seen, _ = play(method, world(before, after), adding(1, 100, 1), 4)
    # edge 0 closes at 2.5 (client 1 late), 3.5, 4.5, 5.5; edge 1 at 2, 4 and 6, the last time with client 1's update
    assert [t for t, _ in seen] == [2.5, 4.0, 5.5, 6.5]
    assert [m for m in merged if m[0] == 1] == [(1, 2)]  # sent in round 0, merged in round 2 of its new edge


def test_an_update_keeps_its_age_when_its_client_moves_to_a_group_with_another_count():
    # edge 0 has run many rounds when client 1's update, under way since its first round, comes to edge 1
    before = snapshot([1.0, 9.0, 9.0], [[1, 1, 1], [1, 1, 1]], home=[0, 0, 1])
    after = snapshot([1.0, 9.0, 9.0], [[1, 1, 1], [1, 1, 1]], home=[0, 1, 1])
    seen = []

    def weigh(arrivals):
        seen.extend(arrivals.staleness.tolist())
        return discounted_updates(arrivals)

    method = hierfedavg().with_(
        cloud=Immediate(),
        merge_cloud=CloudLinear(polynomial_cloud()),
        edge=Rounds(pace=fixed_deadline(1.0)),
        merge_edge=Linear(weigh),
    )
    play(method, world(before, after), adding(1, 1, 1), 30)
    assert min(seen) >= 0


def test_asynchronous_arrivals_at_the_same_moment():
    place = snapshot([1.0] * 4, np.ones((1, 4)))
    method = hierfedavg().with_(edge=Async(), merge_edge=Linear(polynomial_edge()))
    seen, federation = play(method, world(place, edge_rounds=3), adding(1, 1, 1, 1), 2)
    # three rounds of four merges: all four arrive at 1, 2 and 3 s
    assert [t for t, _ in seen] == [3.0, 6.0] and federation.errands.n_updates == 24


def test_asynchronous_rounds_have_all_their_merges_on_ties_and_behind_a_slow_backhaul():
    place = snapshot([2.0, 3.0], [[1, 1]])
    method = hierfedavg().with_(edge=Async(), merge_edge=Linear(polynomial_edge()))
    seen, federation = play(method, world(place, edge_rounds=3), adding(1, 1), 1)
    # merges at 2, 3 | 4, 6 | 6, 8: both clients arrive at 6, the first of them ends round 2
    assert seen[0][0] == 8.0 and federation.errands.n_updates == 6
    place = snapshot([2.0, 3.0], [[1, 1]], backhaul_down_s=10)
    _, federation = play(method, world(place, edge_rounds=2), adding(1, 1), 3)
    assert federation.errands.n_updates == 3 * 2 * 2


def test_cells_without_clients_do_not_count():
    place = snapshot([1.0, 1.0], [[1, 1], [0, 0]])
    method = hierfedavg().with_(merge_cloud=CloudLinear(polynomial_cloud(1.0, 0.0)))
    seen, _ = play(method, world(place), adding(1, 1), 4)
    assert [w for _, w in seen] == [1.0, 2.0, 3.0, 4.0]


def test_a_cell_that_empties_sleeps_and_wakes_up_with_an_immediate_cloud():
    both = snapshot([1.0, 2.0], [[1, 1], [1, 1]], home=[0, 1])
    one = snapshot([1.0, 2.0], [[1, 1], [1, 1]], home=[0, 0])
    for edge, weigh in ((Rounds(), by_size), (Async(), polynomial_edge())):
        method = hierfedavg().with_(
            cloud=Immediate(), merge_cloud=CloudLinear(polynomial_cloud()), edge=edge, merge_edge=Linear(weigh)
        )
        seen, federation = play(method, world(both, one, one, both, both, both), adding(1, 1), 6)
        times = [t for t, _ in seen]
        assert times == sorted(times) and federation.errands.n_updates >= 10
        assert not federation.machines.edges[1].asleep


def test_an_asynchronous_cell_whose_workers_leave_goes_on_with_the_others():
    both = snapshot([1.0] * 4, np.ones((2, 4)), home=[0, 0, 1, 1])
    gone = snapshot([1.0] * 4, np.ones((2, 4)), home=[0, 1, 1, 1])
    back = snapshot([1.0] * 4, np.ones((2, 4)), home=[0, 0, 1, 1])
    method = hierfedavg().with_(
        cloud=Immediate(),
        merge_cloud=CloudLinear(polynomial_cloud()),
        edge=Async(),
        merge_edge=Linear(polynomial_edge()),
    )
    federation = Driver(method, world(both, gone, back, participation=0.5), Model(np.zeros(1, np.float32)))
    for _ in federation.cloud_rounds(20):
        pass
    assert federation.machines.cloud.n_reports.min() >= 10


def test_a_dead_link_to_the_cloud_is_an_error():
    place = snapshot([1.0], [[1]], backhaul_up_s=np.inf)
    with pytest.raises(ValueError, match=r"aggregators \[0\] have no usable link to the cloud in cloud round 1"):
        play(hierfedavg(), world(place), adding(1), 1)


def test_reporting_edges_only_count_when_fresh():
    # edge 0 reports at 4 s; edge 1 has merged an update but not reported yet
    place = snapshot([4.0, 3.0], [[1, 0], [0, 1]], backhaul_up_s=[0, 100])
    method = hierfedavg().with_(cloud=Immediate(), merge_cloud=CloudLinear(by_reported))
    seen, _ = play(method, world(place), adding(4, 1), 1)
    assert seen == [(8.0, 8.0)]  # two reports, both of edge 0, at 4 and 8 s; edge 1's has not come


def test_sampling_takes_the_share_and_only_idle_clients():
    place = snapshot([1.0] * 10, np.ones((1, 10)))
    federation = Driver(hierfedavg(), world(place, participation=0.3, edge_rounds=4), Model(np.zeros(1, np.float32)))
    states = list(federation.cloud_rounds(5))
    assert states[-1].n_updates == 5 * 4 * 3
    assert np.count_nonzero(federation.machines.devices.steps) > 3  # not always the same ones


def test_fedavg_relayed_and_direct():
    relayed = snapshot([1.0] * 2, [[1, 0], [0, 1]], up_s=3, down_s=2, backhaul_up_s=[5, 7], backhaul_down_s=1)
    seen, federation = play(fedavg(), world(relayed, edge_rounds=2), adding(1, 2), 1)
    assert seen == [(2 * (2 + 1 + 1 + 3 + 7.0), pytest.approx(3.0))]
    hops = {(r["hop"], r["direction"]): r["bytes"] for r in federation.ledger.table()}
    assert hops[("device_edge", "up")] == hops[("edge_cloud", "up")] == 2 * 2 * 10
    direct = snapshot([1.0] * 2, [[1, 0], [0, 1]], cloud_s=[20, 30])
    seen, federation = play(fedavg(), world(direct), adding(1, 2), 1)
    assert seen[0][0] == 31.0
    assert {r["hop"] for r in federation.ledger.table()} == {"device_cloud", "computing"}


def test_ledger_of_a_hierarchical_round_by_hand():
    # 57 devices in three cells, 0.2 s a step, 10 s an exchange, 1 s to the cloud: 25 steps cost 56 s
    home = np.repeat([0, 1, 2], 19)
    reach = home[None, :] == np.arange(3)[:, None]
    place = snapshot([0.2] * 57, reach, up_s=10.0, backhaul_up_s=1.0, power_w=0.5, compute_power_w=2.0)
    w = world(place, local_steps=5, edge_rounds=5, model_bits=8000.0)
    seen, federation = play(hierfedavg(), w, adding(*[0] * 57), 1)
    assert seen[0][0] == pytest.approx(56.0)
    ledger = federation.ledger
    table = {(r["hop"], r["direction"]): r for r in ledger.table()}
    assert table[("device_edge", "up")]["bytes"] == table[("device_edge", "down")]["bytes"] == 57 * 5 * 1000
    assert table[("edge_cloud", "up")]["bytes"] == table[("edge_cloud", "down")]["bytes"] == 3 * 1000
    assert table[("device_edge", "up")]["airtime_s"] == pytest.approx(57 * 5 * 10.0)
    assert ledger.total_j == pytest.approx(57 * 5 * 10.0 * 0.5 + 57 * 25 * 0.2 * 2.0)
    assert ledger.total_bytes == sum(r["bytes"] for r in ledger.table()) == 2 * 57 * 5 * 1000 + 2 * 3 * 1000
    assert ledger.total_j == pytest.approx(sum(r["energy_j"] for r in ledger.table()))


def test_clients_in_overlaps_send_to_every_cell():
    place = snapshot([1.0] * 3, [[1, 1, 0], [0, 1, 1]], up_s=[[1, 2, 9], [9, 5, 1]])
    method = Method(name="m", summary="", group=Grouping(all_cells), merge_edge=Linear(by_split_size))
    seen, federation = play(method, world(place), adding(0, 0, 0), 1)
    table = {(r["hop"], r["direction"]): r for r in federation.ledger.table()}
    assert table[("device_edge", "up")]["bytes"] == 4 * 10
    assert table[("device_edge", "up")]["airtime_s"] == 1 + 2 + 5 + 1
    assert seen[0][0] == 1 + 5  # the middle client is done when its slower link is; both cells wait for it


def test_heads_send_nothing_to_themselves():
    place = snapshot([1.0] * 3, np.ones((1, 3)), d2d_s=2.0, up_s=1.0, down_s=1.0)
    method = Method(name="m", summary="", group=Grouping(fixed_topology([[1, 1, 1]], kind="head", host=[1])))
    seen, federation = play(method, world(place), adding(1, 2, 3), 1)
    table = {(r["hop"], r["direction"]): r for r in federation.ledger.table()}
    assert table[("device_head", "up")]["bytes"] == 2 * 10
    assert (
        table[("device_edge", "up")]["bytes"] == table[("edge_cloud", "up")]["bytes"] == 10
    )  # the head's report, relayed
    assert seen == [(1 + 2 + 1 + 2 + 1.0, 2.0)]


def test_dead_links_are_an_error_unless_boxed():
    place = snapshot([1.0] * 2, [[1, 1]], up_s=[[1.0, np.inf]])
    with pytest.raises(ValueError, match=r"clients \[1\] have no usable link .* cloud round 1"):
        play(hierfedavg(), world(place), adding(1, 1), 1)
    seen, _ = play(hierfedavg().with_(edge=TimeBox(seconds=5.0)), world(place), adding(1, 1), 1)
    assert seen == [(5.0, 0.0)]


def test_learning_rate_follows_the_models_history_not_the_clients():
    from fedloom.training.rule import InverseTime, LocalRule

    place = snapshot([1.0] * 4, np.ones((1, 4)))
    engine = quadratic([0] * 4, [0] * 4)
    engine.rule = LocalRule(lr=1.0, schedule=InverseTime(delay_steps=1.0))
    engine.step = lambda client, w, lr: w + lr
    seen, _ = play(hierfedavg(), world(place, participation=0.5, local_steps=2, edge_rounds=2), engine, 1)
    assert seen[0][1] == pytest.approx(1 + 1 / 2 + 1 / 3 + 1 / 4)


def test_jitter_makes_real_times_differ_from_predicted_ones_and_is_repeatable():
    place = snapshot([10.0] * 8, np.ones((1, 8)), jitter_sigma=0.3)
    method = hierfedavg().with_(edge=Rounds(pace=median_iqr(alpha=0.0)))
    runs = [play(method, world(place), adding(*[1] * 8), 5) for _ in range(2)]
    assert runs[0][0] == runs[1][0]
    assert runs[0][1].errands.n_late > 0  # without jitter all take 10 s and nobody is late


def test_everyone_at_the_cloud_equals_one_edge():
    place = snapshot([1.0] * 5, np.ones((1, 5)))
    engine = quadratic([1, 2, 3, 1, 2], [1, -1, 2, 0, 5])
    kinds = [one_cloud, home_cells, all_cells]
    results = [
        play(
            Method(name="m", summary="", group=Grouping(g), merge_edge=Linear(by_size)),
            world(place, edge_rounds=3),
            engine,
            4,
        )[0]
        for g in kinds
    ]
    assert results[0] == results[1] == results[2]

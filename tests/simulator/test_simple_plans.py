"""Simple plans: as many clusters as asked for, nobody sent far away for want of room, and the best k of all."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment

from fedloom.fleet.table import FleetTable
from fedloom.planning import Prices, Work, devices_of, heads_in_the_middle, k_means_sweep, make_plan
from fedloom.planning.simple_plans import GRID, STARTS, fewest_heads, numbers_of_clusters
from fedloom.radio import distances
from fedloom.simulator import make_method

WORK = Work(model_bytes=40_000, local_steps=3, edge_rounds=4)
METHOD = make_method("geographic").with_(name="k-means")


def rng(seed=0):
    return np.random.default_rng(seed)


def fleet(position_m, capacity=None, candidate=None, server=(0.0, 0.0), **columns):
    position_m = np.asarray(position_m, dtype=float)
    table = FleetTable(
        ids=tuple(map(str, range(len(position_m)))),
        position_m=position_m,
        capacity=None if capacity is None else np.asarray(capacity),
        candidate=None if candidate is None else np.asarray(candidate, dtype=bool),
        **columns,
    )
    return devices_of(table, np.array(server))


def towns(capacity):
    """Two towns of five, 3 km apart; in each the first stands in the middle. The first two of each may be heads."""
    around = np.array([[0, 0], [90, 0], [-90, 0], [0, 90], [0, -90]], dtype=float)
    return fleet(np.vstack([around, around + [3000, 0]]), capacity, [1, 1, 0, 0, 0] * 2)


def middle(devices, k, seed=0):
    return make_plan(devices, METHOD.with_(group=heads_in_the_middle(devices, k)), WORK, rng(seed))


def test_a_head_has_room_for_its_own_cluster_and_not_for_the_fleet():
    """In the middle of the first town is room for 2, of the second for 8: 10 in all, yet three would report over 3 km."""
    plan = middle(towns([2, 5, 1, 1, 1, 8, 5, 1, 1, 1]), 2)
    assert plan.topology.host.tolist() == [1, 5] and plan.distance_m.max() < 200


def test_there_are_no_more_clusters_than_asked_for_if_so_many_candidates_have_room():
    """Both in the middle have room for 2, 4 in all; those beside them for 5."""
    plan = middle(towns([2, 5, 1, 1, 1, 2, 5, 1, 1, 1]), 2)
    assert plan.n_clusters == 2 and plan.topology.host.tolist() == [1, 6] and plan.distance_m.max() < 200


def test_where_no_candidate_has_room_for_a_town_another_head_opens_there():
    """Four clusters: k-means gives each town two, but the first town needs three heads with room for 2 each."""
    around = np.array([[0, 0], [90, 0], [-90, 0], [0, 90], [0, -90], [60, 60]], dtype=float)
    devices = fleet(
        np.vstack([around, around + [3000, 0]]), [2, 2, 2, 1, 1, 1, 6, 6, 1, 1, 1, 1], [1, 1, 1, 0, 0, 0] * 2
    )
    devices = replace(devices, candidate=np.array([1, 1, 1, 0, 0, 0, 1, 1, 0, 0, 0, 0], dtype=bool))
    plan = middle(devices, 4)
    assert plan.n_clusters == 4 and plan.distance_m.max() < 250


def shortest_ways_m(devices, k):
    """Metres of all devices to k heads, the least of all heads and assignments with room."""
    away, allowed = distances(devices.position_m, devices.position_m), np.flatnonzero(devices.candidate)
    best = np.inf
    for heads in map(np.array, itertools.combinations(allowed, k)):
        members = np.setdiff1d(np.arange(devices.n), heads)
        places = np.repeat(heads, devices.capacity[heads] - 1)
        if len(places) >= len(members):
            cost = away[np.ix_(members, places)]
            best = min(best, cost[linear_sum_assignment(cost)].sum())
    return best


def test_ways_are_hardly_longer_than_the_shortest_of_all_heads_with_room():
    """Small fleets in three towns with a candidate each, some of them short of room for their town."""
    ratios = []
    for seed in range(30):
        random = rng(seed)
        n = int(random.integers(9, 12))
        town = np.arange(n) % 3
        position = random.uniform(-1500, 1500, (3, 2))[town] + random.normal(0, 150, (n, 2))
        devices = fleet(position, random.integers(2, 6, n), (random.random(n) < 0.4) | (np.arange(n) < 3))
        room = devices.capacity[devices.candidate]
        if room.sum() < n:
            continue
        k = min(max(fewest_heads(room, n), 3) + int(random.integers(2)), len(room))
        plan = middle(devices, k, seed)
        assert plan.n_clusters == k and (plan.size <= devices.capacity[plan.topology.host]).all()
        assert devices.candidate[plan.topology.host].all()
        ratios.append(plan.distance_m.sum() / shortest_ways_m(devices, k))
    assert len(ratios) > 20 and np.mean(ratios) < 1.1 and max(ratios) < 1.5, ratios


def test_there_are_more_clusters_only_where_capacities_need_them_and_fewer_for_want_of_candidates():
    position = rng(1).uniform(-300, 300, (12, 2))
    assert middle(fleet(position, np.full(12, 3)), 2).n_clusters == 4
    assert middle(fleet(position, candidate=np.arange(12) < 3), 6).n_clusters == 3
    assert middle(fleet(position[:1]), 1).size.tolist() == [1]


def test_every_k_and_start_is_counted_as_a_plan_is():
    devices = fleet(rng(3).uniform(-900, 900, (14, 2)), server=(2000.0, 0.0), power_w=rng(4).choice([0.01, 0.1], 14))
    found = k_means_sweep(Prices(devices=devices, work=WORK), rng(5))
    numbers = list(range(2, 8))  # a capacity of 10, and no more than half
    assert [g.figures.clusters for g in found] == [k for k in numbers for _ in range(STARTS)]
    random = rng(5)
    for k, grouped in zip(np.repeat(numbers, STARTS).tolist(), found):
        plan = make_plan(devices, METHOD.with_(group=heads_in_the_middle(devices, k, n_starts=1)), WORK, random)
        assert grouped.figures.seconds == plan.time_s and grouped.figures.worst_j == plan.joules.max()
        assert grouped.figures.joules == pytest.approx(plan.ledger.total_j, rel=1e-12)
        assert grouped.figures.bytes == plan.ledger.total_bytes


def test_many_candidates_are_tried_on_a_grid():
    devices = fleet(rng().uniform(size=(2500, 2)), np.full(2500, 100))
    tried = numbers_of_clusters(devices)
    assert tried[0] == 25 and tried[-1] == 1000 and len(tried) == GRID
    ratio = np.array(tried[1:]) / tried[:-1]
    assert ratio.max() < 1.25
    some = replace(devices, candidate=np.arange(2500) < 90)
    assert numbers_of_clusters(some) == list(range(25, 91))
    assert numbers_of_clusters(fleet(rng().uniform(size=(9, 2)))) == [1, 2, 3, 4]  # no more than half

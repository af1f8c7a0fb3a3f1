"""Plans for what they report: never worse than k-means, and as good as the best of all groupings of a few devices."""

import itertools

import numpy as np
import pytest

from fedloom.fleet.table import FleetTable
from fedloom.planning import OBJECTIVES, Prices, Work, devices_of, figures_of, optimise, predict, topology_of
from fedloom.planning.open_heads import MISSING, Limits, assign, search_heads, terms_within
from fedloom.planning.partitions import most_alike
from fedloom.planning.reach import reach_of
from fedloom.planning.simple_plans import most_clusters
from fedloom.simulator import make_method

WORK = Work(model_bytes=100_000, edge_rounds=3)


def fleet(n, seed, capacity=None):
    rng = np.random.default_rng(seed)
    labels = np.stack([rng.multinomial(60, rng.dirichlet(np.full(4, 0.4))) for _ in range(n)])
    position = rng.uniform(-900, 900, (2, 2))[rng.integers(2, size=n)] + rng.normal(0, 200, (n, 2))
    table = FleetTable(
        ids=tuple(map(str, range(n))),
        position_m=position,
        power_w=rng.choice([0.01, 0.05], n),
        steps_per_s=rng.uniform(5, 60, n),
        n_samples=labels.sum(axis=1),
        label_counts=labels,
        labels=tuple("abcd"),
        battery_j=rng.uniform(100, 1000, n),
        capacity=None if capacity is None else rng.integers(*capacity, n),
        candidate=(rng.random(n) < 0.8) | (np.arange(n) < 2),
    )
    return Prices(devices=devices_of(table, rng.uniform(-900, 900, 2)), work=WORK)


def all_groupings(devices):
    """Heads (K,) of every grouping with room and at most half as many heads as devices."""
    allowed = np.flatnonzero(devices.candidate).tolist()
    for k in range(1, most_clusters(devices) + 1):
        for hosts in map(np.array, itertools.combinations(allowed, k)):
            members = np.setdiff1d(np.arange(devices.n), hosts)
            for choice in itertools.product(hosts, repeat=len(members)):
                head = np.arange(devices.n)
                head[members] = choice
                if (np.bincount(head, minlength=devices.n) <= np.maximum(devices.capacity, 1)).all():
                    yield head


@pytest.mark.parametrize("seed", range(2))
def test_a_few_devices_get_the_best_of_all_groupings(seed):
    prices = fleet(6, seed, capacity=(2, 5) if seed else None)
    every = [figures_of(prices, head) for head in all_groupings(prices.devices)]
    for name in OBJECTIVES:
        found = optimise(prices, name, np.random.default_rng(seed), ladder=False)
        least = min(map(found.objective.value, every))
        assert found.objective.value(found.best.figures) <= least * 1.02 + 1e-9, name


@pytest.mark.parametrize("seed", range(6))
def test_of_a_few_devices_labels_are_the_most_alike_of_all_groupings(seed):
    prices = fleet(5 + seed % 2, seed, capacity=(2, 4) if seed % 3 else None)
    devices = prices.devices
    least = min(figures_of(prices, head).balance for head in all_groupings(devices))
    head = most_alike(prices, 1, min(most_clusters(devices), int(devices.candidate.sum())))
    assert head is not None
    hosts, size = np.unique(head, return_counts=True)
    assert (head[hosts] == hosts).all() and devices.candidate[hosts].all() and (size <= devices.capacity[hosts]).all()
    assert figures_of(prices, head).balance == pytest.approx(least, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("name", OBJECTIVES)
def test_a_plan_is_never_worse_than_k_means_and_keeps_to_the_fleet(name):
    prices = fleet(40, 3, capacity=(2, 12))
    found = optimise(prices, name, np.random.default_rng(0))
    devices, head, key = prices.devices, found.best.head, found.objective.key
    assert all(key(found.best.figures) <= key(g.figures) for g in found.sweep)
    hosts, size = np.unique(head, return_counts=True)
    assert (head[hosts] == hosts).all() and devices.candidate[hosts].all() and (size <= devices.capacity[hosts]).all()
    numbers = [g.figures.clusters for g in found.by_number]
    assert numbers == sorted(set(numbers)) and found.best.figures.clusters in numbers
    for g in [found.best, *found.by_number]:  # what the search counts is what a plan reports
        plan = predict(devices, make_method("geographic"), topology_of(g.head, devices), WORK)
        assert plan.time_s == g.figures.seconds and plan.joules.max() == g.figures.worst_j
        assert plan.ledger.total_bytes == g.figures.bytes
        assert plan.ledger.total_j == pytest.approx(g.figures.joules, rel=1e-12)
        assert plan.mean_imbalance(devices.n_samples) == pytest.approx(g.figures.balance, abs=1e-12)
        assert (plan.joules / devices.battery_j).max() == g.figures.battery


def test_heads_keep_to_limits_or_say_who_has_none():
    prices = fleet(40, 5)
    reach = reach_of(prices, np.random.default_rng(0))
    wide = Limits(n_max=20)
    frugal = search_heads(reach, wide, np.arange(40) < 3)
    figures = figures_of(prices, frugal.head(reach))
    assert frugal.complete and frugal.total == pytest.approx(figures.joules, rel=1e-12)
    for which, least in (("seconds", figures.seconds), ("drain", figures.battery)):
        limits = Limits(n_max=20, **{which: 0.97 * least})
        found = search_heads(reach, limits, frugal.open)
        then = figures_of(prices, found.head(reach))
        if found.complete:
            assert (then.seconds if which == "seconds" else then.battery) <= 0.97 * least * (1 + 1e-9)
            assert then.joules >= figures.joules * (1 - 1e-9)
    nobody = Limits(n_max=20, seconds=1e-3)
    none = assign(reach, terms_within(reach, nobody), frugal.open)
    assert not none.complete and none.pays.max() == MISSING


def test_there_are_no_more_clusters_than_half_of_the_devices_or_what_capacities_need():
    table = FleetTable(
        ids=("a", "b", "c"), position_m=np.array([[0.0, 0], [10, 3], [30, 3]]), capacity=np.array([1, 1, 2])
    )
    prices = Prices(devices=devices_of(table, np.zeros(2)), work=WORK)
    for seed in range(3):
        assert optimise(prices, "seconds", np.random.default_rng(seed), ladder=False).best.figures.clusters == 2

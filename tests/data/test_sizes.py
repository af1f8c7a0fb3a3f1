"""Clients of different sizes."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from fedloom.data import by_sizes, by_sizes_and_classes, label_counts, target_sizes
from fedloom.data.sizes import _project

DIRECTION = [-2, -1, 0, 0.5, 2.5]


def rng(seed):
    return np.random.default_rng(seed)


@pytest.mark.parametrize(
    ("std", "expected"),
    [
        (60, [121, 160, 200, 220, 299]),
        (120, [80, 93, 185, 230, 412]),
        (240, [80, 80, 80, 80, 680]),
        (0, [200] * 5),
    ],
)
def test_golden_sizes(std, expected):
    assert target_sizes(1000, 5, std, direction=DIRECTION, least=80).tolist() == expected


@pytest.mark.parametrize(
    ("s", "expected"),
    [
        (39.562828, [120.874343, 160.437172, 200, 219.781414, 298.907071]),
        (91.146543, [80, 93.280185, 184.426728, 230, 412.293086]),
    ],
)
def test_golden_projection(s, expected):
    assert _project(200 + s * np.array(DIRECTION), 1000, 80) == pytest.approx(np.array(expected), abs=1e-5)


def test_projection_is_the_nearest_point():
    point = rng(3).normal(20, 30, size=6)
    found = minimize(
        lambda n: np.sum((n - point) ** 2) / 2,
        np.full(6, 20.0),
        bounds=[(5, None)] * 6,
        constraints={"type": "eq", "fun": lambda n: n.sum() - 120},
    )
    assert _project(point, 120, 5) == pytest.approx(found.x, abs=1e-3)


def test_the_largest_feasible_spread_is_named():
    with pytest.raises(ValueError, match="standard deviation of at most 240, got 241; ask for less or lower `least`"):
        target_sizes(1000, 5, 241, direction=DIRECTION, least=80)


def test_a_direction_without_one_largest_client_cannot_reach_every_spread():
    with pytest.raises(ValueError, match="its largest entries are equal; draw another direction"):
        target_sizes(1000, 4, 300, direction=[1, 1, -1, -1], least=10)
    with pytest.raises(ValueError, match="direction must not be the same for all clients"):
        target_sizes(1000, 4, 30, direction=[1, 1, 1, 1])
    with pytest.raises(ValueError, match="give rng, to draw the direction, or the direction itself"):
        target_sizes(1000, 4, 30)


@given(st.integers(0, 2**32 - 1), st.integers(2, 40), st.floats(0, 0.8))
def test_sizes_have_the_wanted_sum_spread_and_least(seed, n_clients, part):
    total, least = 50 * n_clients, 5
    std = part * (50 - least) * np.sqrt(n_clients - 1)
    sizes = target_sizes(total, n_clients, std, rng=rng(seed), least=least)
    assert sizes.sum() == total and sizes.min() >= least
    assert abs(sizes.std() - std) < 1
    assert np.array_equal(sizes, target_sizes(total, n_clients, std, rng=rng(seed), least=least))


def test_default_least_is_a_tenth_of_the_mean_and_never_empty():
    assert target_sizes(1000, 5, 180 * 2, direction=DIRECTION).tolist() == [20, 20, 20, 20, 920]
    assert target_sizes(20, 5, 3 * 2, direction=DIRECTION).tolist() == [1, 1, 1, 1, 16]


@given(st.integers(0, 2**32 - 1), st.lists(st.integers(1, 20), min_size=1, max_size=20), st.integers(0, 50))
def test_by_sizes_gives_the_sizes(seed, sizes, spare):
    parts = by_sizes(sum(sizes) + spare, sizes, rng(seed))
    assert [len(part) for part in parts] == sizes
    together = np.concatenate(parts)
    assert len(np.unique(together)) == sum(sizes) and together.max() < sum(sizes) + spare
    assert all((np.diff(part) > 0).all() for part in parts)


def test_sizes_that_cannot_be_are_refused():
    with pytest.raises(ValueError, match="sum to at most the 5 samples there are, got 6"):
        by_sizes(5, [3, 3], rng(0))
    with pytest.raises(ValueError, match="at least 1, got 0 for client 1"):
        by_sizes(5, [3, 0], rng(0))


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from([4, 7]))
def test_sizes_and_classes_are_both_met(seed, k):
    labels = np.repeat(np.arange(10), 500)
    sizes = target_sizes(5000, 20, 75, rng=rng(seed))
    parts = by_sizes_and_classes(labels, sizes, k, rng(seed))
    together = np.concatenate(parts)
    assert len(np.unique(together)) == len(together)
    counts = label_counts(labels, parts, 10)
    assert ((counts > 0).sum(axis=1) == k).all()
    assert np.array_equal(counts.sum(axis=1), sizes)
    assert all((row[row > 0] >= 0.2 * n / k - 1).all() for row, n in zip(counts, sizes))


def test_sizes_and_classes_split_evenly_where_they_can():
    # two clients, two classes each of two: 30 and 10 samples, so 15 + 15 and 5 + 5
    labels = np.repeat([0, 1], 40)
    counts = label_counts(labels, by_sizes_and_classes(labels, [30, 10], 2, rng(0)), 2)
    assert counts.tolist() == [[15, 15], [5, 5]]


def test_sizes_the_classes_cannot_give_are_missed_not_invented():
    # one client, one class of two: of 40 samples it can have 20
    labels = np.repeat([0, 1], 20)
    (part,) = by_sizes_and_classes(labels, [40], 1, rng(0), n_draws=3)
    assert len(part) == 20 and len(np.unique(labels[part])) == 1


def test_a_minimum_share_that_cannot_be_is_refused():
    with pytest.raises(ValueError, match=r"in 3 draws of 1 classes a client, .* lower min_share or the sizes"):
        by_sizes_and_classes(np.repeat([0, 1], 20), [40], 1, rng(0), min_share=1, n_draws=3)
    with pytest.raises(ValueError, match="at most the number of classes, 2, got 3"):
        by_sizes_and_classes(np.repeat([0, 1], 20), [40], 3, rng(0))

"""Clusters by position, by labels and by chance, with heads by chance."""

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedloom.grouping.geographic import geographic_clusters, random_headed_clusters, similarity_clusters

TOWNS = np.array([[0, 0], [1, 0], [0, 1], [100, 0], [101, 0], [100, 1], [0, 100], [1, 100]], dtype=float)


def rng(seed=0):
    return np.random.default_rng(seed)


def check(found, n, k, capacity=None):
    assert len(found.clusters) == len(found.heads) == k and all(len(c) for c in found.clusters)
    np.testing.assert_array_equal(np.sort(np.concatenate(found.clusters)), np.arange(n))
    assert [int(c[0]) for c in found.clusters] == sorted(int(c[0]) for c in found.clusters)
    for head, members in zip(found.heads, found.clusters):
        assert head in members and (np.diff(members) > 0).all()
        assert (found.assign[members] == head).all()
        assert capacity is None or len(members) <= capacity


def test_towns_are_clusters():
    found = geographic_clusters(TOWNS, n_clusters=3, rng=rng())
    check(found, 8, 3)
    assert [c.tolist() for c in found.clusters] == [[0, 1, 2], [3, 4, 5], [6, 7]]


def test_k_means_is_better_than_chance():
    position = rng(1).uniform(0, 100, (60, 2))

    def spread(clusters):
        return sum(((position[c] - position[c].mean(axis=0)) ** 2).sum() for c in clusters)

    near = spread(geographic_clusters(position, n_clusters=6, rng=rng()).clusters)
    assert near < 0.4 * spread(random_headed_clusters(60, n_clusters=6, rng=rng()).clusters)


@pytest.mark.parametrize("how", ["k_means", "linkage"])
def test_devices_of_like_labels_are_together_however_many_samples_they_have(how):
    kinds = np.array([[8, 1, 1], [1, 8, 1], [1, 1, 8]])
    kind = np.array([2, 0, 1, 1, 0, 2, 2, 0, 1])
    counts = kinds[kind] * np.array([1, 5, 2, 40, 3, 7, 1, 1, 9])[:, None]
    found = similarity_clusters(counts, n_clusters=3, how=how, rng=rng())
    check(found, 9, 3)
    assert [c.tolist() for c in found.clusters] == [[0, 5, 6], [1, 4, 7], [2, 3, 8]]


def test_linkage_is_by_the_mean_hellinger_distance():
    """By H, 0.9 is nearer to 0.75 than to 1; by plain differences it is the other way round."""
    share = np.array([[0.90, 0.10], [0.75, 0.25], [1.0, 0.0]])
    hellinger = np.sqrt(1 - np.sqrt(share[:, None] * share).sum(axis=2).clip(max=1))
    pair = min((hellinger[i, j], [i, j]) for i, j in ((0, 1), (0, 2), (1, 2)))[1]
    plain = min((np.abs(share[i] - share[j]).sum(), [i, j]) for i, j in ((0, 1), (0, 2), (1, 2)))[1]
    assert pair == [0, 1] and plain == [0, 2]
    found = similarity_clusters(100 * share, n_clusters=2, how="linkage", rng=rng())
    assert pair in [c.tolist() for c in found.clusters]


@given(st.integers(0, 2**32), st.integers(1, 12), st.integers(1, 12), st.integers(0, 3))
@settings(max_examples=10)
def test_capacities_are_kept_and_no_cluster_is_empty(seed, n, k, spare):
    k = min(n, k)
    random = rng(seed)
    capacity = -(-n // k) + spare
    position = random.integers(0, 3, (n, 2)).astype(float)  # many in one place
    counts = random.integers(0, 3, (n, 3)) + np.eye(3, dtype=int)[random.integers(3, size=n)]
    check(geographic_clusters(position, n_clusters=k, capacity=capacity, rng=random), n, k, capacity)
    check(geographic_clusters(position, n_clusters=k, rng=random), n, k)
    for how in ("k_means", "linkage"):
        check(similarity_clusters(counts, n_clusters=k, how=how, capacity=capacity, rng=random), n, k, capacity)
        check(similarity_clusters(counts, n_clusters=k, how=how, rng=random), n, k)
    check(random_headed_clusters(n, n_clusters=k, capacity=capacity, rng=random), n, k, capacity)


def test_a_full_cluster_gives_away_those_that_lose_least():
    """Four at 0, one at 40, two at 100: with room for 4, the one at 40 goes from the first cluster to the second."""
    position = np.array([[0, 0], [1, 0], [0, 1], [1, 1], [40, 0], [100, 0], [101, 0]], dtype=float)
    free = geographic_clusters(position, n_clusters=2, rng=rng())
    assert [c.tolist() for c in free.clusters] == [[0, 1, 2, 3, 4], [5, 6]]
    held = geographic_clusters(position, n_clusters=2, capacity=4, rng=rng())
    assert [c.tolist() for c in held.clusters] == [[0, 1, 2, 3], [4, 5, 6]]


def test_random_clusters_have_equal_sizes_and_every_member_may_be_head():
    found = random_headed_clusters(11, n_clusters=3, rng=rng())
    assert sorted(len(c) for c in found.clusters) == [3, 4, 4]
    heads = {int(random_headed_clusters(3, n_clusters=1, rng=rng(seed)).heads[0]) for seed in range(30)}
    assert heads == {0, 1, 2}


def test_the_same_seed_gives_the_same_clusters():
    counts = rng(1).integers(1, 9, (20, 4))
    for make in (
        lambda: geographic_clusters(rng(2).normal(size=(20, 2)), n_clusters=4, rng=rng(3)),
        lambda: similarity_clusters(counts, n_clusters=4, rng=rng(3)),
        lambda: random_headed_clusters(20, n_clusters=4, rng=rng(3)),
    ):
        np.testing.assert_array_equal(make().assign, make().assign)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: geographic_clusters(TOWNS, n_clusters=9, rng=rng()),
            "n_clusters must be at most the number of clients, 8",
        ),
        (
            lambda: geographic_clusters(TOWNS[0], n_clusters=1, rng=rng()),
            "position_m must have shape (any, any), got (2,)",
        ),
        (
            lambda: geographic_clusters(TOWNS, n_clusters=3, capacity=2, rng=rng()),
            "3 clusters of at most 2 devices have no room for 8; take more clusters or a capacity of at least 3",
        ),
        (lambda: random_headed_clusters(8, n_clusters=2, capacity=0, rng=rng()), "capacity must be a whole number"),
        (
            lambda: similarity_clusters([[1, 2]], n_clusters=1, how="ward", rng=rng()),
            "how must be one of k_means, linkage",
        ),
        (
            lambda: similarity_clusters([[1, 2], [0, 0]], n_clusters=1, rng=rng()),
            "compared by its labels; [1] have none",
        ),
        (lambda: similarity_clusters([[1, -2]], n_clusters=1, rng=rng()), "label_counts must be at least 0, got -2"),
    ],
)
def test_what_makes_no_sense_is_refused(call, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        call()

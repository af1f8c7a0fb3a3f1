"""Label swaps: a case by hand, sizes that stay, skew that never grows, and a loop written from the paper."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from naive_swap_search import exchange, skew_of

from fedloom.grouping import label_swap, random_clusters

G5_COUNTS = np.array([[30, 10, 0], [20, 20, 0], [0, 10, 30], [10, 0, 30]])
TOL = 1e-12


def rng(seed=0):
    return np.random.default_rng(seed)


def as_lists(clusters):
    return [c.tolist() for c in clusters]


def naive_label_swap(counts, clusters, n_trials, random, strict=False):
    """Clusters and swaps (trial, c1, c2, leaves, joins), every swap evaluated from scratch."""
    clusters, skew, accepted = [sorted(c) for c in clusters], skew_of(counts.astype(float)), []
    for trial in range(1, n_trials + 1):
        if len(clusters) == 1:
            break
        c1, c2 = random.choice(len(clusters), 2, replace=False).tolist()
        before = skew(clusters[c1]) + skew(clusters[c2])
        good = []
        for p in clusters[c1]:
            for q in clusters[c2]:
                added = skew(exchange(clusters[c1], p, q)) + skew(exchange(clusters[c2], q, p)) - before
                if added < -TOL or (not strict and added <= TOL):
                    good.append((p, q))
        if good:
            p, q = good[random.integers(len(good))]
            clusters[c1], clusters[c2] = exchange(clusters[c1], p, q), exchange(clusters[c2], q, p)
            accepted.append((trial, c1, c2, p, q))
    return clusters, accepted


@st.composite
def labels(draw):
    n, n_clusters = draw(st.integers(1, 12)), draw(st.integers(1, 4))
    random = rng(draw(st.integers(0, 2**32)))
    counts = random.integers(0, 6, (n, draw(st.integers(1, 5))))
    counts[random.uniform(size=n) < draw(st.sampled_from([0.0, 0.3]))] = 0
    return counts, min(n, n_clusters)


def test_g5():
    seen = set()
    for seed in range(20):
        found = label_swap(G5_COUNTS, n_clusters=2, start=[[1, 2], [0, 3]], n_trials=1, rng=rng(seed))
        (swap,) = found.accepted
        assert found.skew.tolist() == [0, 0]
        seen.add(frozenset((swap.leaves, swap.joins)))
    assert seen == {frozenset((1, 0)), frozenset((2, 3))}


@given(labels(), st.booleans(), st.integers(0, 2**32))
def test_the_search_takes_the_same_path_as_a_loop(case, strict, seed):
    counts, n_clusters = case
    start = as_lists(random_clusters(len(counts), n_clusters, rng(seed + 1)))
    fast, slow = rng(seed), rng(seed)
    found = label_swap(counts, n_clusters=n_clusters, start=start, strict=strict, n_trials=25, rng=fast)
    clusters, accepted = naive_label_swap(counts, start, 25, slow, strict)
    assert [(c.trial, c.first, c.second, c.leaves, c.joins) for c in found.accepted] == accepted
    assert as_lists(found.clusters) == clusters
    np.testing.assert_allclose(found.skew, [skew_of(counts.astype(float))(c) for c in clusters], rtol=0, atol=1e-12)
    assert fast.integers(2**62) == slow.integers(2**62)


@given(labels(), st.sampled_from(["random", "best"]), st.integers(0, 2**32))
def test_sizes_stay_and_the_sum_of_skews_never_grows(case, choice, seed):
    counts, n_clusters = case
    totals, skew = [], skew_of(counts.astype(float))
    found = label_swap(counts, n_clusters=n_clusters, choice=choice, n_trials=25, rng=rng(seed))
    clusters = as_lists(random_clusters(len(counts), n_clusters, rng(seed)))
    sizes = [len(c) for c in clusters]
    for swap in [None, *found.accepted]:
        if swap:
            one, two = clusters[swap.first], clusters[swap.second]
            clusters[swap.first] = exchange(one, swap.leaves, swap.joins)
            clusters[swap.second] = exchange(two, swap.joins, swap.leaves)
        totals.append(sum(skew(c) for c in clusters))
    assert (np.diff(totals) <= 1e-11).all()
    assert as_lists(found.clusters) == clusters and [len(c) for c in found.clusters] == sizes
    assert sorted(k for c in clusters for k in c) == list(range(len(counts)))


def test_labels_get_mixed():
    counts = np.repeat(np.eye(4, dtype=int) * 10, 8, axis=0)  # eight clients of each of four labels
    sorted_by_label = [list(range(8 * c, 8 * c + 8)) for c in range(4)]
    found = label_swap(counts, n_clusters=4, start=sorted_by_label, n_trials=500, rng=rng(0))
    assert found.skew.max() < 0.3  # from 1.5 each; 0 is two clients of each label
    best = label_swap(counts, n_clusters=4, start=sorted_by_label, n_trials=500, choice="best", strict=True, rng=rng(0))
    assert best.skew.sum() <= found.skew.sum() + 1 and len(best.accepted) < len(found.accepted)


def test_swaps_that_change_nothing_are_made_unless_strict():
    counts = np.ones((6, 2), dtype=int)
    assert len(label_swap(counts, n_clusters=2, n_trials=10, rng=rng()).accepted) == 10
    still = label_swap(counts, n_clusters=2, n_trials=10, strict=True, patience=3, rng=rng())
    assert still.accepted == [] and still.n_trials == 3


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"label_counts": [1, 2]}, "label counts must have shape (any, any), got (2,)"),
        ({"label_counts": [[1, -1], [1, 1]]}, "label counts must be at least 0, got -1"),
        ({"n_clusters": 5}, "n_clusters must be at most the number of clients, 4; got 5"),
        ({"start": [[0, 1, 2], [2]]}, "start must have every client from 0 to 3 in exactly one cluster"),
    ],
    ids=lambda x: None,
)
def test_wrong_arguments_say_what_is_wrong(change, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        label_swap(**{"label_counts": G5_COUNTS, "n_clusters": 2} | change, rng=rng())

"""Partitions: what each promises must hold for any seed and any sizes."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedloom.data import (
    by_classes,
    by_label_sets,
    by_user,
    deal_classes,
    dirichlet,
    iid,
    label_counts,
    largest_remainder,
    local_tests,
    wheel,
)

SEEDS = st.integers(0, 2**32 - 1)
MNIST_CLASS_SIZES = [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
FASHION = np.repeat(np.arange(10), 6000)


def rng(seed):
    return np.random.default_rng(seed)


def assert_is_partition(parts, n_samples):
    """Sorted int64 indices in range, and no sample twice."""
    together = np.concatenate(parts)
    assert all(part.dtype == np.int64 and (np.diff(part) > 0).all() for part in parts)
    assert len(np.unique(together)) == len(together)
    assert together.min() >= 0 and together.max() < n_samples


def assert_same(a, b):
    assert len(a) == len(b) and all(np.array_equal(x, y) for x, y in zip(a, b))


@given(SEEDS, st.integers(1, 40), st.integers(0, 200))
def test_iid_uses_every_sample_and_sizes_differ_by_at_most_one(seed, n_clients, more):
    n = n_clients + more
    parts = iid(n, n_clients, rng(seed))
    assert_is_partition(parts, n)
    sizes = [len(part) for part in parts]
    assert sum(sizes) == n and max(sizes) - min(sizes) <= 1
    assert_same(parts, iid(n, n_clients, rng(seed)))


def test_another_seed_gives_another_partition():
    assert not np.array_equal(iid(1000, 4, rng(1))[0], iid(1000, 4, rng(2))[0])


def test_iid_refuses_more_clients_than_samples():
    with pytest.raises(ValueError, match="5 clients with at least 1 samples each need 5 samples, got 4; use fewer"):
        iid(4, 5, rng(0))


@given(SEEDS, st.integers(1, 60), st.integers(1, 12), st.data())
def test_dealt_hands_are_distinct_and_class_counts_differ_by_at_most_one(seed, n_hands, n_classes, data):
    per_hand = data.draw(st.integers(1, n_classes))
    hands = deal_classes(range(n_classes), n_hands, per_hand, rng(seed))
    assert all(len(set(hand)) == per_hand for hand in hands)
    holders = np.bincount(np.concatenate(hands), minlength=n_classes)
    assert holders.max() - holders.min() <= 1


@settings(max_examples=50)
@given(SEEDS, st.integers(1, 30), st.integers(1, 10))
def test_every_client_holds_exactly_k_classes_in_equal_volume(seed, n_clients, k):
    labels = rng(seed).integers(0, 10, size=3000)
    parts = by_classes(labels, n_clients, k, rng(seed))
    assert_is_partition(parts, 3000)
    counts = label_counts(labels, parts, 10)
    holders = (counts > 0).sum(axis=0)
    q = min(n // d for n, d in zip(np.bincount(labels), holders) if d)
    assert ((counts > 0).sum(axis=1) == k).all()
    assert set(np.unique(counts)) <= {0, q}
    assert holders.max() - holders.min() <= 1
    assert_same(parts, by_classes(labels, n_clients, k, rng(seed)))


@given(SEEDS)
def test_all_volume_uses_every_sample_and_splits_classes_evenly(seed):
    labels = rng(seed).integers(0, 5, size=503)
    parts = by_classes(labels, 7, 2, rng(seed), volume="all")
    assert_is_partition(parts, 503)
    assert sum(len(part) for part in parts) == 503
    counts = label_counts(labels, parts, 5)
    for column in counts.T:
        shares = column[column > 0]
        assert shares.max() - shares.min() <= 1


def test_two_clients_by_hand():
    # class 0: samples 0, 1, 2, held by both -> 1 each; class 1: samples 3, 4, held by the second alone
    parts = by_label_sets([0, 0, 0, 1, 1], [[0], [0, 1]], rng(0))
    assert [len(part) for part in parts] == [1, 2]
    assert set(parts[0]) <= {0, 1, 2} and len(set(parts[1]) & {3, 4}) == 1
    everything = by_label_sets([0, 0, 0, 1, 1], [[0], [0, 1]], rng(0), volume="all")
    assert sum(len(part) for part in everything) == 5 and {3, 4} <= set(everything[1])


@pytest.mark.parametrize(
    ("m", "samples_per_client"),
    [(10, 950), (6, 984), (2, 902)],
    ids=["all classes: 10 floor(5421/57)", "six: 6 floor(5421/33)", "two: 2 floor(5421/12)"],
)
def test_wheel_over_three_servers_of_19_clients_on_mnist(m, samples_per_client):
    labels = np.repeat(np.arange(10), MNIST_CLASS_SIZES)
    parts = by_label_sets(labels, wheel(19, m, 10) * 3, rng(0))
    assert {len(part) for part in parts} == {samples_per_client}


def test_wheel_holders_by_hand():
    # 19 positions of two classes are 38 slots: three turns of 10, and 0..7 once more
    assert np.bincount(np.concatenate(wheel(19, 2, 10))).tolist() == [4] * 8 + [3] * 2
    assert np.bincount(np.concatenate(wheel(19, 6, 10))).tolist() == [12] * 4 + [11] * 6


def test_given_samples_per_class_is_kept_and_the_largest_feasible_is_named():
    pairs = list(combinations(range(10), 2))[:40] * 5  # 200 clients of two classes
    most = min(6000 // d for d in np.bincount(np.concatenate(pairs)))
    parts = by_label_sets(FASHION, pairs, rng(0), samples_per_class=100)
    assert {len(part) for part in parts} == {200}
    with pytest.raises(
        ValueError, match=rf"samples_per_class must be at most {most}, got {most + 1}: class \d has 6000"
    ):
        by_label_sets(FASHION, pairs, rng(0), samples_per_class=most + 1)


def test_classes_of_which_there_are_too_few_are_named():
    with pytest.raises(ValueError, match="class 1 has 1 samples for 2 holders; use fewer clients"):
        by_label_sets([0, 0, 0, 1], [[0, 1], [1]], rng(0))
    with pytest.raises(ValueError, match="at most the number of classes, 2, got 3"):
        by_classes([0, 1, 0, 1], 1, 3, rng(0))
    with pytest.raises(ValueError, match=r"client 1 must have one or more distinct classes, got \[0, 0\]"):
        by_label_sets([0, 0, 1], [[1], [0, 0]], rng(0))
    with pytest.raises(ValueError, match='samples_per_class goes with volume="equal"'):
        by_label_sets([0, 0, 1], [[1], [0]], rng(0), volume="all", samples_per_class=1)
    with pytest.raises(ValueError, match="labels must be at least 0, got -1 at sample 1"):
        by_classes([0, -1], 1, 1, rng(0))


@settings(max_examples=50, deadline=None)
@given(SEEDS, st.integers(1, 20), st.sampled_from([0.05, 0.5, 5.0, 1000.0]), st.integers(0, 5))
def test_dirichlet_uses_every_sample_and_keeps_the_least_size(seed, n_clients, concentration, min_samples):
    labels = rng(seed).integers(0, 4, size=300)
    parts = dirichlet(labels, n_clients, concentration, rng(seed), min_samples)
    assert_is_partition(parts, 300)
    sizes = np.array([len(part) for part in parts])
    assert sizes.sum() == 300 and sizes.min() >= min_samples
    assert_same(parts, dirichlet(labels, n_clients, concentration, rng(seed), min_samples))


def test_dirichlet_moves_samples_when_no_draw_can_do():
    # ten clients of exactly ten samples each: a draw that gives this has next to no chance
    parts = dirichlet(np.repeat([0, 1], 50), 10, 0.05, rng(0), min_samples=10)
    assert [len(part) for part in parts] == [10] * 10


def test_a_large_concentration_is_nearly_iid_and_a_small_one_is_not():
    even = label_counts(FASHION, dirichlet(FASHION, 10, 1e6, rng(0)), 10)
    assert np.abs(even - 600).max() <= 6  # one per cent
    uneven = label_counts(FASHION, dirichlet(FASHION, 10, 0.05, rng(0)), 10)
    assert (uneven.max(axis=0) > 3000).sum() >= 8  # most classes have a client with more than half of them


@pytest.mark.parametrize("cut", [lambda r: dirichlet(FASHION, 4, 100.0, r), lambda r: by_classes(FASHION, 4, 10, r)])
def test_which_samples_of_a_class_a_client_gets_is_random(cut):
    # about 1,500 of the samples 0..5999 of class 0: random ones have their mean near 3,000, standard error 45
    means = [part[part < 6000].mean() for part in cut(rng(5))]
    assert all(abs(mean - 3000) < 300 for mean in means)


def test_dirichlet_proportions_have_the_variance_of_the_distribution():
    # a share of Dir(a, ..., a) over K has mean 1/K and variance (K-1) / (K^2 (K a + 1)); here 4 / (25 * 6)
    labels = np.repeat(np.arange(500), 200)
    shares = label_counts(labels, dirichlet(labels, 5, 1.0, rng(3)), 500) / 200
    assert shares.var() == pytest.approx(4 / 150, rel=0.1)


def test_dirichlet_refuses_what_cannot_be():
    with pytest.raises(ValueError, match="3 clients with at least 2 samples each need 6 samples, got 5"):
        dirichlet([0] * 5, 3, 1.0, rng(0), min_samples=2)
    with pytest.raises(ValueError, match="concentration must be above 0, got 0"):
        dirichlet([0] * 5, 3, 0.0, rng(0))


def test_users_keep_their_samples():
    assert_same(by_user([7, 2, 7, 9]), [np.array([1]), np.array([0, 2]), np.array([3])])


@given(st.lists(st.integers(0, 10**6), min_size=1, max_size=30).filter(any), st.integers(0, 10**6))
def test_largest_remainder_is_within_one_of_the_exact_share(weights, total):
    shares = largest_remainder(np.array(weights), total)
    assert shares.sum() == total
    exact = [w * total / sum(weights) for w in weights]
    assert all(abs(s - e) < 1 + 1e-9 for s, e in zip(shares, exact))


@given(SEEDS, st.integers(1, 200))
def test_local_tests_have_the_clients_label_proportions(seed, n):
    y_test = rng(seed).integers(0, 4, size=400)
    counts = np.array([[30, 10, 0, 0], [1, 1, 1, 1], [0, 0, 0, 5]])
    tests = local_tests(y_test, counts, rng(seed), n)
    assert_same(tests, local_tests(y_test, counts, rng(seed), n))
    for row, test in zip(counts, tests):
        assert (np.diff(test) > 0).all()
        got = np.bincount(y_test[test], minlength=4)
        assert len(test) <= n and (np.abs(got - len(test) * row / row.sum()) < 1).all()
        available = np.bincount(y_test, minlength=4)
        fits = (n * row <= available * row.sum()).all()
        assert (len(test) == n) == fits


def test_a_scarce_test_class_shrinks_the_whole_set_in_proportion():
    # three quarters of class 1, of which there are 6: at most 6 / (3/4) = 8 samples, so 2 of class 0
    y_test = np.array([0] * 50 + [1] * 6)
    (test,) = local_tests(y_test, [[10, 30]], rng(0), 20)
    assert np.bincount(y_test[test]).tolist() == [2, 6]


def test_without_a_number_local_tests_are_all_samples_of_the_held_classes():
    assert_same(local_tests([0, 1, 2, 1], [[1, 0, 5], [0, 3, 0]], rng(0)), [np.array([0, 2]), np.array([1, 3])])


def test_clients_that_cannot_be_tested_are_named():
    with pytest.raises(ValueError, match="client 1 holds class 2, of which the test split has no samples"):
        local_tests([0, 1], [[1, 1, 0], [0, 1, 1]], rng(0), 2)
    with pytest.raises(ValueError, match=r"clients \[1\] hold no samples"):
        local_tests([0, 1], [[1, 1], [0, 0]], rng(0), 2)


def test_label_counts_refuses_labels_out_of_range():
    with pytest.raises(ValueError, match=r"labels must lie in 0..1, got 2"):
        label_counts([0, 2], [np.array([0])], 2)

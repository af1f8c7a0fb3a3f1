"""Cloud weights by label divergence: a case by hand, and what holds for any."""

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import rel_entr

from fedloom.mixing import closeness, cluster_weights, kl_cloud_weights, kl_divergence

COUNTS = np.array([[100, 100, 0, 0], [50, 50, 50, 50], [0, 0, 150, 450]])
POOLED = np.array([0.15, 0.15, 0.2, 0.5])
LAMBDA = [0.1282220, 0.2483477, 0.6234303]
MODELS = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])


def law(counts):
    return counts / counts.sum(axis=1, keepdims=True)


def test_g5_divergences_and_weights():
    np.testing.assert_allclose(kl_divergence(law(COUNTS), POOLED), [1.2039728, 0.1379119, 0.3598847], atol=1e-7)
    np.testing.assert_allclose(closeness(COUNTS), [0.4537261, 0.8788026, 0.7353565], atol=1e-7)
    weights = cluster_weights(COUNTS.sum(axis=1), COUNTS)
    np.testing.assert_allclose(weights, LAMBDA, atol=1e-7)
    np.testing.assert_allclose(weights @ MODELS, [0.7516523, 0.8717780], atol=1e-7)


def test_g5_a_cluster_split_over_two_edges_changes_nothing():
    # cluster 2: 200 samples at one edge, 400 at the other; (200 a + 400 b) / 600 = (1, 1)
    a = np.array([4.0, -2.0])
    b = (600 * MODELS[2] - 200 * a) / 400
    weights = kl_cloud_weights([200, 200, 200, 400], np.array([0, 1, 2, 2]), COUNTS)
    np.testing.assert_allclose(weights @ np.vstack([MODELS[:2], a, b]), [0.7516523, 0.8717780], atol=1e-7)


@st.composite
def federations(draw):
    """Label counts (K, C), the cluster (N,) of each aggregator and what it reported (N,)."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    n_clusters, n_classes, n = draw(st.integers(1, 6)), draw(st.integers(1, 6)), draw(st.integers(1, 15))
    counts = rng.integers(0, 50, (n_clusters, n_classes)) * rng.integers(0, 2, (n_clusters, n_classes))
    counts[:, rng.integers(n_classes)] += 1
    return counts, rng.integers(0, n_clusters, n), rng.integers(0, 4, n) * 10.0


@settings(deadline=None, max_examples=60)
@given(federations(), st.sampled_from(["pooled", "uniform"]))
def test_invariant_6_merging_clusters_first_equals_weighing_all_models(federation, p_global):
    counts, cluster, reported = federation
    rng = np.random.default_rng(0)
    models = rng.normal(size=(len(cluster), 3))
    total = np.bincount(cluster, weights=reported, minlength=len(counts))
    merged = np.zeros(3)
    for k, share in enumerate(cluster_weights(total, counts, p_global)):  # eq. (11), as published
        if total[k]:
            merged += share * (reported[cluster == k] @ models[cluster == k]) / total[k]
    weights = kl_cloud_weights(reported, cluster, counts, p_global)
    np.testing.assert_allclose(weights @ models, merged, atol=1e-12)
    direct = reported * closeness(counts, p_global)[cluster]  # as eq. (13) depends on the cluster alone
    np.testing.assert_allclose(weights, direct / (direct.sum() or 1), atol=1e-14)


@settings(deadline=None, max_examples=60)
@given(federations(), st.sampled_from(["pooled", "uniform"]))
def test_invariant_5_weights_are_a_mean(federation, p_global):
    counts, cluster, reported = federation
    total = np.bincount(cluster, weights=reported, minlength=len(counts))
    weights = cluster_weights(total, counts, p_global)
    np.testing.assert_array_equal(weights > 0, total > 0)
    assert (weights >= 0).all()
    assert weights.sum() == pytest.approx(1 if total.any() else 0, abs=1e-12)
    if total.any():  # everybody alike, and a single cluster
        alike = np.tile(counts[:1], (len(counts), 1))
        np.testing.assert_allclose(cluster_weights(total, alike), total / total.sum(), atol=1e-12)
        assert cluster_weights([3], counts[:1]).tolist() == [1.0]


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 2**32), st.integers(1, 8))
def test_divergence_is_that_of_scipy(seed, n_classes):
    rng = np.random.default_rng(seed)
    p, q = rng.dirichlet(np.ones(n_classes), size=2)
    p = np.where(rng.random(n_classes) < 0.3, 0, p)
    p = p / p.sum() if p.any() else q
    assert kl_divergence(p, q) == pytest.approx(rel_entr(p, q).sum(), abs=1e-12)


def test_a_class_that_only_a_cluster_has_diverges_without_end():
    assert kl_divergence([0.5, 0.5], [1.0, 0.0]) == np.inf


def test_a_given_law_is_smoothed_on_both_sides():
    eps = 1e-8
    p, q = (np.array([0.0, 1.0]) + eps) / (1 + 2 * eps), (np.array([1.0, 0.0]) + eps) / (1 + 2 * eps)
    want = 1 / (1 + (p * np.log(p / q)).sum())  # KL is about ln(1e8) = 18.4
    assert closeness([[0, 7]], [1.0, 0.0])[0] == pytest.approx(want, rel=1e-12)
    np.testing.assert_allclose(closeness(COUNTS, POOLED), closeness(COUNTS), atol=1e-6)


def test_uniform_is_pooled_when_classes_are_balanced():
    counts = np.array([[30, 10, 0], [0, 20, 30]])
    np.testing.assert_allclose(closeness(counts, "uniform"), closeness(counts), rtol=1e-12)


def test_a_cluster_without_members_takes_no_part():
    counts = np.vstack([COUNTS, np.zeros(4)])
    np.testing.assert_allclose(cluster_weights([200, 200, 600, 0], counts), [*LAMBDA, 0], atol=1e-7)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: kl_divergence([0.5, 0.6], [0.5, 0.5]), "p must sum to 1 over the classes, got sums [1.1]"),
        (lambda: kl_divergence([1.5, -0.5], [0.5, 0.5]), "p must be at least 0, got -0.5"),
        (lambda: closeness(COUNTS, "median"), "p_global must be one of pooled, uniform; got 'median'"),
        (lambda: closeness(COUNTS, [0.5, 0.5]), "p_global must have shape (4), got (2,)"),
        (lambda: closeness([[0, 0]]), "label_counts must count at least one sample"),
        (lambda: cluster_weights([1, 1], [[1, 1], [0, 0]]), "clusters [1] reported samples, but their label_counts"),
        (lambda: cluster_weights([1, -1], [[1], [1]]), "n_reported must be at least 0, got -1"),
        (lambda: kl_cloud_weights([1, 1], np.array([0, 3]), COUNTS), "one of the 3 clusters of label_counts"),
        (lambda: kl_cloud_weights([1, 1], np.array([0]), COUNTS), "for each of the 2 aggregators, got [0]"),
    ],
)
def test_bad_input_is_refused(call, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        call()

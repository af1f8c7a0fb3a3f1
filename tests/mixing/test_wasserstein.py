"""Weights by distance to everybody's labels: a case by hand, scipy's distance, and limits."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.stats import wasserstein_distance

from fedloom.mixing import contribution, contribution_weights, label_transport, log_contribution

CLUSTERS = np.array([[60, 30, 10, 0], [0, 20, 30, 50], [10, 40, 60, 90]])
COUNTS = arrays(np.int64, (5, 6), elements=st.integers(0, 50)).filter(lambda c: c.sum(axis=1).all())


@pytest.mark.parametrize(
    ("metric", "floor", "distance", "value", "weight"),
    [
        (
            "index",
            0.25,
            [1.275, 0.525, 0.375],
            [219.0902864, 671.7807959, 2878.3832190],
            [0.0581256315, 0.1782264454, 0.7636479231],
        ),
        (
            "discrete",
            0.15,
            [0.5, 0.2, 0.15],
            [738.9056099, 14841.3159103, 157154.3988455],
            [0.0042776926, 0.0859197530, 0.9098025544],
        ),
    ],
)
def test_g2(metric, floor, distance, value, weight):
    w = label_transport(CLUSTERS, metric=metric)
    np.testing.assert_allclose(w, distance, rtol=1e-12)
    logs = log_contribution(CLUSTERS.sum(axis=1), w, floor=floor)
    np.testing.assert_allclose(contribution(logs), value, rtol=1e-8)
    np.testing.assert_allclose(contribution_weights(logs), weight, rtol=1e-8)


def test_g2_with_the_floor():
    counts = np.array([[60, 30, 10, 0], [0, 20, 30, 50], [60, 50, 40, 50]])
    w = label_transport(counts)
    np.testing.assert_allclose(w, [0.9, 0.9, 0], rtol=1e-12, atol=1e-15)
    logs = log_contribution(counts.sum(axis=1), w)
    np.testing.assert_allclose(contribution(logs), [303.7731778, 303.7731778, 10919.6300066], rtol=1e-8)
    np.testing.assert_allclose(contribution_weights(logs), [0.0263527830, 0.0263527830, 0.9472944339], rtol=1e-8)


@given(COUNTS)
def test_the_distance_is_scipys(counts):
    everybody = counts.sum(axis=0)
    labels = np.arange(counts.shape[1])
    expected = [wasserstein_distance(labels, labels, c, everybody) for c in counts]
    np.testing.assert_allclose(label_transport(counts), expected, rtol=1e-9, atol=1e-12)


@given(COUNTS, st.permutations(range(6)))
def test_bounds_of_both_metrics_and_the_order_of_labels(counts, order):
    index, discrete = label_transport(counts), label_transport(counts, metric="discrete")
    eps = 1e-12
    assert (discrete >= 0).all() and (discrete <= 1 + eps).all() and (index <= 5 + eps).all()
    assert (discrete <= index + eps).all() and (index <= 5 * discrete + eps).all()
    np.testing.assert_allclose(label_transport(counts[:, order], metric="discrete"), discrete, atol=1e-12)


def test_the_order_of_labels_matters_to_the_index_metric():
    assert label_transport(CLUSTERS[:, [3, 0, 1, 2]])[0] != pytest.approx(label_transport(CLUSTERS)[0], rel=0.1)


@given(st.lists(st.floats(0, 9), min_size=1, max_size=12), st.floats(1e-6, 1.0), st.integers(0, 2**32))
def test_weights_are_finite_and_sum_to_one_however_small_the_distance(distance, floor, seed):
    size = np.random.default_rng(seed).integers(1, 10_000, len(distance))
    logs = log_contribution(size, distance, floor=floor)
    weight = contribution_weights(logs)
    assert np.isfinite(weight).all() and (weight >= 0).all() and np.isfinite(contribution(logs)).all()
    assert weight.sum() == pytest.approx(1, rel=1e-12)


def test_weights_are_shares_of_the_contributions_and_nearer_counts_more():
    logs = log_contribution([400, 400, 100], [1.0, 0.5, 0.5])
    weight, value = contribution_weights(logs), contribution(logs)
    np.testing.assert_allclose(weight, value / value.sum(), rtol=1e-12)
    assert weight[1] > weight[0]
    assert weight[1] == pytest.approx(4 * weight[2])


def test_equal_distances_and_distances_below_the_floor_are_weights_by_size():
    size = np.array([100, 300, 600])
    for distance in ([0.7, 0.7, 0.7], [0.0, 0.1, 0.2]):
        np.testing.assert_allclose(contribution_weights(log_contribution(size, distance)), size / 1000, rtol=1e-12)


def test_the_literal_floor_would_give_one_cluster_everything():
    logs = log_contribution([100, 100], [0.0, 0.04], floor=1e-3)
    np.testing.assert_allclose(contribution_weights(logs), [1, 0], atol=1e-12)
    assert contribution(logs)[0] == pytest.approx(np.finfo(np.float64).max)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: label_transport([[1, 2], [0, 0]]), "clusters [1] have no samples, so no labels to compare"),
        (lambda: label_transport([[1, -2]]), "label_counts must be at least 0, got -2"),
        (lambda: label_transport([[1, 2]], [1, 2, 3]), "everybody must have shape (2), got (3,)"),
        (lambda: label_transport([[1, 2]], metric="l2"), "metric must be one of index, discrete; got 'l2'"),
        (lambda: log_contribution([1, 0], [1, 1]), "n_samples must be above 0, got 0"),
        (lambda: log_contribution([1], [1], floor=0), "floor must be above 0, got 0"),
        (lambda: contribution_weights([]), "there are no clusters to weigh"),
    ],
)
def test_wrong_arguments_say_what_is_wrong(call, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        call()

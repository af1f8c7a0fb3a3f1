"""Stale updates merged with fresh ones: a case by hand, and modes that agree."""

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedloom.mixing import Arrivals, by_size, discounted, group_rate, polynomial_cloud, staleness_weight
from fedloom.mixing.weights import Reports

MODES = ["delta", "renorm", "literal"]


def arrivals(n_samples, staleness):
    n = np.array(n_samples, dtype=np.int64)
    age = np.array(staleness, dtype=np.int64)
    return Arrivals(client=np.arange(len(n)), n_samples=n, n_reached=np.ones_like(n), staleness=age)


def merge(weights, old, models, starts):
    merged = weights.own * old + weights.model @ models
    return merged if weights.start is None else merged + weights.start @ starts


THREE = arrivals([100, 300, 200], [0, 0, 1])
OLD = np.array([1.0, 1.0])


@pytest.mark.parametrize(
    ("mode", "want"), [("literal", [2.8333333, 1.8333333]), ("renorm", [3.4, 2.2]), ("delta", [3.0833333, 2.0833333])]
)
def test_g4_two_on_time_and_one_late(mode, want):
    models = np.array([[2.0, 0.0], [4.0, 4.0], [3.0, -1.0]])
    starts = np.array([OLD, OLD, [0.5, 0.5]])
    np.testing.assert_allclose(merge(discounted(mode)(THREE), OLD, models, starts), want, atol=1e-7)


@pytest.mark.parametrize(("mode", "want"), [("literal", 0.8333333), ("renorm", 1.0), ("delta", 1.0)])
def test_g4_models_that_have_not_changed(mode, want):
    same = np.ones((3, 2))
    np.testing.assert_allclose(merge(discounted(mode)(THREE), OLD, same, same), [want, want], atol=1e-7)


@given(st.lists(st.integers(1, 500), min_size=1, max_size=10))
def test_invariant_4_without_stale_updates_all_are_the_mean_by_size(n_samples):
    fresh = arrivals(n_samples, [0] * len(n_samples))
    rng = np.random.default_rng(len(n_samples))
    old, models = rng.normal(size=3), rng.normal(size=(len(n_samples), 3))
    mean = merge(by_size(fresh), old, models, None)
    for mode in MODES:
        starts = np.tile(old, (len(n_samples), 1))
        np.testing.assert_allclose(merge(discounted(mode)(fresh), old, models, starts), mean, atol=1e-12)
    np.testing.assert_array_equal(discounted("renorm")(fresh).model, by_size(fresh).model)  # bit for bit


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(1, 500), st.integers(0, 9)), min_size=1, max_size=10))
def test_all_modes_match_a_loop_over_eq_10(clients):
    n, age = [c[0] for c in clients], [c[1] for c in clients]
    rng = np.random.default_rng(sum(n))
    old, models, starts = rng.normal(size=2), rng.normal(size=(len(n), 2)), rng.normal(size=(len(n), 2))
    printed, changed, mass = np.zeros(2), np.zeros(2), 0.0
    for i in range(len(n)):
        tau = 1 / (1 + age[i])
        printed += tau * n[i] * models[i]
        changed += tau * n[i] * (models[i] - starts[i])
        mass += tau * n[i]
    want = {"literal": printed / sum(n), "renorm": printed / mass, "delta": old + changed / sum(n)}
    for mode in MODES:
        np.testing.assert_allclose(
            merge(discounted(mode)(arrivals(n, age)), old, models, starts), want[mode], atol=1e-12
        )


@pytest.mark.parametrize("mode", MODES)
def test_nobody_came_and_nothing_changes(mode):
    weights = discounted(mode)(arrivals([], []))
    assert weights.own == 1.0 and len(weights.model) == 0


def test_hiflash_and_feduc_weights_by_hand():
    np.testing.assert_allclose(staleness_weight([0, 3, 8]), [0.6, 0.3, 0.2], rtol=1e-15)  # .6 / sqrt(1, 4, 9)
    np.testing.assert_allclose(group_rate([10, 10], 40, [0, 3]), [0.25, 0.125], rtol=1e-15)
    reports = Reports(total=np.ones(1), reported=np.ones(1), staleness=np.array([3]), fresh=np.array([True]))
    assert polynomial_cloud()(reports).edge[0] == staleness_weight(3)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: discounted("mean"), "mode must be one of delta, renorm, literal; got 'mean'"),
        (lambda: staleness_weight([-1]), "staleness must be at least 0, got -1"),
        (lambda: staleness_weight(0, a0=1.5), "a0 must be at most 1, got 1.5"),
        (lambda: group_rate(50, 40, 0), "n_group must be at most n_edge, got shares of up to 1.25"),
        (lambda: group_rate(0, 40, 0), "n_group must be above 0, got 0"),
    ],
)
def test_bad_input_is_refused(call, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        call()

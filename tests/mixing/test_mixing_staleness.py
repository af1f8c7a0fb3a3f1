"""Staleness-discounted merges against merging one after the other."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedloom.mixing import Arrivals, Reports, polynomial_cloud, polynomial_edge

a0s = st.floats(0.01, 1.0)
powers = st.floats(0.0, 3.0)


def arrivals(staleness):
    ones = np.ones(len(staleness), dtype=np.int64)
    ages = np.array(staleness, dtype=np.int64)
    return Arrivals(client=np.arange(len(ages)), n_samples=ones, n_reached=ones, staleness=ages)


def reports(staleness, fresh):
    n = len(staleness)
    return Reports(
        total=np.ones(n), reported=np.ones(n), staleness=np.array(staleness, dtype=np.int64),
        fresh=np.array(fresh, dtype=bool),
    )  # fmt: skip


def test_one_arrival_by_hand():
    # a = 0.6 (1 + 3)^-0.5 = 0.3
    weights = polynomial_edge(a0=0.6, power=0.5)(arrivals([3]))
    assert weights.own == pytest.approx(0.7, rel=1e-15)
    np.testing.assert_allclose(weights.model, [0.3], rtol=1e-15)
    assert weights.start is None


def test_two_arrivals_by_hand():
    # a = 0.6 then 0.3: own .4 * .7, first .6 * .7, second .3
    weights = polynomial_edge(a0=0.6, power=0.5)(arrivals([0, 3]))
    assert weights.own == pytest.approx(0.28, rel=1e-14)
    np.testing.assert_allclose(weights.model, [0.42, 0.3], rtol=1e-14)


def test_aggregators_by_hand():
    # of three, the first and the last have reported, with a = 0.5 (1 + 1)^-1 = .25 and 0.5: own .75 * .5
    weights = polynomial_cloud(a0=0.5, power=1)(reports([1, 7, 0], [True, False, True]))
    assert weights.own == pytest.approx(0.375, rel=1e-15)
    np.testing.assert_allclose(weights.edge, [0.125, 0, 0.5], rtol=1e-15)


@given(st.lists(st.integers(0, 50), max_size=12), a0s, powers)
def test_an_edge_merge_equals_merging_one_after_the_other(staleness, a0, power):
    rng = np.random.default_rng(len(staleness))
    old, models = rng.normal(size=4), rng.normal(size=(len(staleness), 4))
    merged = old
    for s, w in zip(staleness, models):
        a = a0 * (1 + s) ** (-power)
        merged = (1 - a) * merged + a * w
    weights = polynomial_edge(a0, power)(arrivals(staleness))
    np.testing.assert_allclose(weights.own * old + weights.model @ models, merged, atol=1e-13)
    assert weights.own + weights.model.sum() == pytest.approx(1, rel=1e-12)


@given(st.lists(st.tuples(st.integers(0, 50), st.booleans()), min_size=1, max_size=8), a0s, powers)
def test_a_cloud_merge_equals_merging_one_after_the_other(edges, a0, power):
    rng = np.random.default_rng(len(edges))
    old, models = rng.normal(size=4), rng.normal(size=(len(edges), 4))
    merged = old
    for (s, fresh), v in zip(edges, models):
        if fresh:
            a = a0 * (1 + s) ** (-power)
            merged = (1 - a) * merged + a * v
    weights = polynomial_cloud(a0, power)(reports([s for s, _ in edges], [f for _, f in edges]))
    np.testing.assert_allclose(weights.own * old + weights.edge @ models, merged, atol=1e-13)
    assert weights.own + weights.edge.sum() == pytest.approx(1, rel=1e-12)


@given(st.integers(0, 100), st.integers(1, 100), a0s, powers)
def test_the_older_an_update_the_less_it_counts(s, more, a0, power):
    weigh = polynomial_edge(a0, power)
    assert weigh(arrivals([s + more])).model[0] <= weigh(arrivals([s])).model[0] <= a0


def test_a0_of_one_replaces_the_model_by_a_fresh_update_and_power_zero_forgives_age():
    weights = polynomial_edge(a0=1.0, power=0.5)(arrivals([2, 0]))
    assert weights.own == 0.0
    np.testing.assert_array_equal(weights.model, [0.0, 1.0])
    np.testing.assert_allclose(polynomial_edge(0.4, 0.0)(arrivals([99])).model, [0.4])


def test_without_arrivals_or_reports_nothing_changes():
    weights = polynomial_edge()(arrivals([]))
    assert weights.own == 1.0 and weights.model.shape == (0,)
    cloud = polynomial_cloud()(reports([0, 3], [False, False]))
    assert cloud.own == 1.0
    np.testing.assert_array_equal(cloud.edge, [0, 0])


@pytest.mark.parametrize("make", [polynomial_edge, polynomial_cloud])
@pytest.mark.parametrize(
    ("args", "message"),
    [
        ((0.0,), "a0 must be above 0, got 0"),
        ((1.2,), "a0 must be at most 1, got 1.2"),
        ((0.5, -1), "power must be at least 0, got -1"),
    ],
)
def test_constants_out_of_range_are_refused(make, args, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        make(*args)

"""Who votes with what, at aggregators and at the cloud, and what becomes of the rest of the weights."""

from dataclasses import replace

import numpy as np
import pytest
from merges_to_try import NEUTRAL, RULES, arrivals, models, reports

from fedloom._sums import block_size, weighted_sum
from fedloom.mixing import by_reported, by_split_size, by_total, discounted, polynomial_cloud, polynomial_edge, robust
from fedloom.mixing.weights import CloudWeights
from fedloom.training import sums

MEAN = robust.trimmed_mean(share=0.0)


def starts_of(old, m):
    return np.repeat(old[None], m, axis=0)


def linear(found, old, rows, starts):
    """What a linear merge makes of weights."""
    start = np.zeros(len(rows)) if found.start is None else found.start
    return (
        found.own * old.astype(np.float64) + found.model @ rows.astype(np.float64) + start @ starts.astype(np.float64)
    )


def test_a_late_update_votes_with_what_it_changed():
    old, rows = models(5)
    starts = starts_of(old, 5)
    starts[3] -= 20.0  # from long ago
    rows[3] -= 20.0
    facts = arrivals(5, staleness=np.array([0, 0, 0, 2, 0]))
    found = robust.at_edge(robust.coordinate_median()).rule(facts, old, rows, starts)
    there = rows.copy()
    there[3] = old + (rows[3].astype(np.float64) - starts[3])
    np.testing.assert_array_equal(found, np.median(there, axis=0))
    fresh = robust.at_edge(robust.coordinate_median()).rule(arrivals(5), old, rows, starts)
    np.testing.assert_array_equal(fresh, np.median(rows, axis=0))  # began between two aggregators' models: as it is


def test_a_late_update_that_began_with_the_old_model_is_taken_to_the_bit():
    old, rows = models(4)
    rows[2] *= 1e-20  # the old model plus the difference would lose it
    facts = arrivals(4, staleness=np.array([0, 0, 5, 0]))
    found = robust.at_edge(MEAN).rule(facts, old, rows, starts_of(old, 4))
    np.testing.assert_array_equal(found, weighted_sum(rows, np.full(4, 0.25)))


@pytest.mark.parametrize(
    "weigh", [polynomial_edge(a0=0.5), discounted("delta"), discounted("renorm"), discounted("literal")]
)
def test_weights_of_a_method_are_kept(weigh):
    old, rows = models(4)
    facts = arrivals(4, n_samples=np.array([3, 1, 4, 2]), staleness=np.array([0, 1, 0, 3]))
    starts = starts_of(old, 4)
    found = robust.at_edge(MEAN, weigh).rule(facts, old, rows, starts)
    np.testing.assert_allclose(found, linear(weigh(facts), old, rows, starts), rtol=1e-12)
    same = np.repeat(rows[:1], 4, axis=0)
    for name in (
        "coordinate_median",
        "krum",
        "geometric_median",
    ):  # agreement moves the old model as far as the mean would
        found = robust.at_edge(RULES[name], weigh).rule(facts, old, same, starts)
        np.testing.assert_allclose(found, linear(weigh(facts), old, same, starts), rtol=1e-6)


def test_changes_are_added_where_the_weights_say_so():
    old, rows = models(3)
    starts = rows - np.float32(0.5)  # everybody changed every value by about a half, from somewhere
    found = robust.at_edge(robust.coordinate_median(), discounted("delta")).rule(arrivals(3), old, rows, starts)
    np.testing.assert_allclose(found, old + 0.5, atol=1e-6)


def test_samples_of_a_client_in_several_cells_are_split():
    old, rows = models(3)
    facts = replace(arrivals(3, n_samples=np.array([10, 30, 20])), n_reached=np.array([1, 3, 1]))
    found = robust.at_edge(MEAN).rule(facts, old, rows, starts_of(old, 3))
    wanted = (rows[0] + rows[1].astype(np.float64) + 2 * rows[2].astype(np.float64)) / 4
    np.testing.assert_allclose(found, wanted, rtol=1e-6)
    np.testing.assert_array_equal(found, weighted_sum(rows, by_split_size(facts).model))


@pytest.mark.parametrize("m", [1, 2, 13, 64, 65, 200])
@pytest.mark.parametrize("name", NEUTRAL)
def test_a_rule_that_leaves_nobody_out_is_the_engines_sum_to_the_bit(name, m):
    old, rows = models(m)
    order = np.random.default_rng(m).permutation(m)
    n = np.arange(7, 7 + m)
    facts = arrivals(m, n_samples=n[order], client=order)
    found = robust.at_edge(NEUTRAL[name]).rule(facts, old, rows[order], starts_of(old, m))
    np.testing.assert_array_equal(found, weighted_sum(rows, n / n.sum()))


@pytest.mark.parametrize("name", NEUTRAL)
def test_at_the_cloud_it_is_the_clouds_sum_to_the_bit(name):
    old, rows = models(7)
    total = np.array([3.0, 0.0, 5.0, 7.0, 2.0, 11.0, 1.5])
    wanted = np.zeros(())
    for row, weight in zip(rows, total / total.sum()):
        if weight:
            wanted = wanted + weight * row.astype(np.float64)
    np.testing.assert_array_equal(robust.at_cloud(NEUTRAL[name]).rule(reports(total), old, rows), wanted)


def test_the_only_report_is_taken_to_the_sign_of_its_zeros():
    old, rows = models(2)
    rows[1, 3] = -0.0
    found = robust.at_cloud(MEAN).rule(reports([4.0, 5.0], fresh=[False, True]), old, rows)
    assert np.signbit(found[3]) and np.array_equal(found, rows[1])


@pytest.mark.parametrize("name", RULES)
def test_aggregators_without_news_do_not_vote(name):
    old, rows = models(9)
    facts = reports(np.arange(1.0, 10.0), fresh=np.arange(9) != 4)
    facts = replace(facts, reported=np.where(np.arange(9) == 6, 0.0, facts.reported))  # nobody came to it
    heard = np.delete(np.arange(9), [4, 6])
    wanted = robust.at_cloud(RULES[name]).rule(reports(facts.total[heard]), old, rows[heard])
    rows[[4, 6]] = 1e5
    np.testing.assert_array_equal(robust.at_cloud(RULES[name]).rule(facts, old, rows), wanted)


@pytest.mark.parametrize("name", RULES)
def test_a_sick_aggregator_does_not_vote_and_without_votes_the_old_model_stays(name):
    old, rows = models(4)
    rows[2] = np.nan
    assert np.isfinite(robust.at_cloud(RULES[name]).rule(reports(np.ones(4)), old, rows)).all()
    np.testing.assert_array_equal(robust.at_cloud(RULES[name]).rule(reports(np.ones(4)), old, rows * np.nan), old)
    silent = reports(np.ones(4), fresh=np.zeros(4, dtype=np.bool_))
    np.testing.assert_array_equal(robust.at_cloud(RULES[name]).rule(silent, old, rows), old)


def test_a_cloud_that_does_not_wait_steps_as_its_weights_say():
    old, rows = models(3)
    facts = replace(reports(np.ones(3), fresh=[False, True, False]), staleness=np.array([0, 3, 0]))
    found = robust.at_cloud(robust.coordinate_median(), polynomial_cloud()).rule(facts, old, rows)
    np.testing.assert_allclose(found, 0.7 * old.astype(np.float64) + 0.3 * rows[1], rtol=1e-6)


def test_what_weights_give_to_the_silent_falls_to_the_old_model():
    old, rows = models(2)
    tiers = lambda _: CloudWeights(own=0.0, edge=np.array([0.25, 0.75]))  # noqa: E731
    found = robust.at_cloud(MEAN, tiers).rule(reports(np.ones(2), fresh=[True, False]), old, rows)
    np.testing.assert_allclose(found, 0.75 * old.astype(np.float64) + 0.25 * rows[0], rtol=1e-6)


def test_clusters_are_made_by_the_same_weights():
    assert robust.at_cloud(MEAN, by_reported).weights(reports([1.0, 3.0])).edge.tolist() == [0.25, 0.75]
    assert robust.at_cloud(MEAN).shown is by_total


@pytest.mark.parametrize("m", [1, 3, 4, 5, 64, 65, 257])
def test_sums_are_those_of_the_engines(m, monkeypatch):
    _, rows = models(m, n_params=9)
    weights = np.random.default_rng(m).uniform(size=m)
    for size in (4, 64):
        monkeypatch.setattr("fedloom._sums.block_size", lambda n, size=size: size)
        tree = sums.Tree()
        for low in range(0, m, size):
            tree.push({0: weighted_sum(rows[low : low + size], weights[low : low + size])})
        np.testing.assert_array_equal(weighted_sum(rows, weights), tree.total(1, 9)[0])
    np.testing.assert_allclose(weighted_sum(rows, weights), weights @ rows.astype(np.float64), rtol=1e-12)


def test_blocks_are_those_of_the_engines():
    for n_params in (1, 62_006, 10**6, 10**6 + 1, 11 * 10**6):
        assert block_size(n_params) == sums.block_size(n_params)

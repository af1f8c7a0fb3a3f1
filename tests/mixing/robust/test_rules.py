"""Every rule is its published form, and does what it says with many, few, equal, sick and huge models."""

import numpy as np
import plain_rules as plain
import pytest
from hypothesis import given
from hypothesis import strategies as st
from merges_to_try import RULES, arrivals, at_edge, models

from fedloom.mixing import robust
from fedloom.mixing.robust.bulyan import around_median
from fedloom.mixing.robust.geometric_median import weiszfeld
from fedloom.mixing.robust.krum import by_score, squared_distances
from fedloom.mixing.robust.norm_clipping import clipped_step
from fedloom.mixing.robust.trimmed_mean import n_trimmed, trimmed

PLAIN = [
    (robust.coordinate_median(), plain.coordinate_median, {}),
    (robust.trimmed_mean(share=0.2), plain.trimmed_mean, {"share": 0.2}),
    (robust.geometric_median(), plain.geometric_median, {}),
    (robust.krum(f=3), plain.multi_krum, {"f": 3, "keep": 1}),
    (robust.multi_krum(f=2), plain.multi_krum, {"f": 2, "keep": 11}),
    (robust.multi_krum(f=2, keep=4), plain.multi_krum, {"f": 2, "keep": 4}),
    (robust.bulyan(f=1), plain.bulyan, {"f": 1}),
    (robust.bulyan(f=2), plain.bulyan, {"f": 2}),
    (robust.centred_clipping(radius=0.8, steps=4), plain.centred_clipping, {"radius": 0.8, "steps": 4}),
    (robust.norm_clipping(norm=1.1), plain.norm_clipping, {"norm": 1.1}),
]


@pytest.mark.parametrize(("rule", "published", "options"), PLAIN)
def test_a_rule_is_its_published_form_over_twenty_rounds(rule, published, options):
    old, _ = models(13, n_params=12)
    old_plain = old.tolist()
    for number in range(20):
        begun, changed = models(13, n_params=12, seed=number)
        changes = changed - begun
        changes[number % 13] *= 3
        old = at_edge(rule, old, (old + changes).astype(np.float32)).astype(np.float32)
        rows = np.array([np.float32(x) for x in old_plain]) + changes
        old_plain = published([[float(x) for x in row] for row in rows], old_plain, **options)
    tolerance = 1e-3 if published is plain.geometric_median else 1e-5  # its steps end when they gain a millionth
    np.testing.assert_allclose(old, old_plain, rtol=0, atol=tolerance)


@pytest.mark.parametrize("name", RULES)
def test_the_order_of_clients_does_not_matter(name):
    old, rows = models(13)
    rows[4, :7], rows[9, :7] = rows[2, :7], rows[2, :7]  # ties
    n = np.arange(1, 14)
    wanted = at_edge(RULES[name], old, rows, n_samples=n)
    for seed in range(5):
        order = np.random.default_rng(seed).permutation(13)
        found = at_edge(RULES[name], old, rows[order], n_samples=n[order], client=np.arange(13)[order])
        np.testing.assert_array_equal(found, wanted)  # also to the bit: they are put into the order of their numbers
        renamed = at_edge(RULES[name], old, rows[order], n_samples=n[order])
        np.testing.assert_allclose(renamed, wanted, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("m", [1, 2, 3, 4, 6, 7, 13])
@pytest.mark.parametrize("name", RULES)
def test_clients_that_agree_are_followed_however_few_they_are(name, m):
    old, rows = models(1)
    same = np.repeat(rows, m, axis=0)
    rule = robust.centred_clipping(radius=5.0) if name == "centred_clipping" else RULES[name]
    rule = robust.norm_clipping(norm=5.0) if name == "norm_clipping" else rule
    found = at_edge(rule, old, same, n_samples=np.arange(1, m + 1)).astype(np.float32)
    np.testing.assert_array_equal(found, rows[0])


@pytest.mark.parametrize("name", RULES)
def test_a_rule_moves_along_with_the_models(name):
    old, rows = models(13)
    by = np.linspace(-2, 2, len(old)).astype(np.float32)
    moved = at_edge(RULES[name], old + by, rows + by)
    np.testing.assert_allclose(moved, at_edge(RULES[name], old, rows) + by, rtol=0, atol=1e-5)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("m", [2, 4, 13])
@pytest.mark.parametrize("name", RULES)
def test_a_model_that_is_not_finite_counts_as_if_it_had_not_come(name, m, value):
    old, rows = models(m)
    rows[1, 5] = value
    found = at_edge(RULES[name], old, rows)
    assert np.isfinite(found).all()
    healthy = np.delete(np.arange(m), 1)
    if name not in ("krum", "multi_krum", "bulyan"):  # for those it was one of the f
        np.testing.assert_array_equal(found, at_edge(RULES[name], old, rows[healthy]))


def test_a_sick_model_is_one_of_those_that_krum_and_bulyan_are_to_withstand():
    old, rows = models(13)
    rows[3] = np.nan
    healthy = np.delete(rows, 3, axis=0)
    for make in (robust.krum, robust.multi_krum, robust.bulyan):
        np.testing.assert_array_equal(at_edge(make(f=2), old, rows), at_edge(make(f=1), old, healthy))


@pytest.mark.parametrize("name", RULES)
def test_if_all_are_sick_the_old_model_stays(name):
    old, rows = models(5)
    np.testing.assert_array_equal(at_edge(RULES[name], old, np.full_like(rows, np.nan)), old)


@pytest.mark.parametrize("m", [4, 5, 6, 9, 13])
@pytest.mark.parametrize("name", RULES)
def test_one_huge_model_moves_the_result_less_than_the_mean(name, m):
    old, rows = models(m)
    without = at_edge(RULES[name], old, rows)
    rows[2] += 1e6
    moved = np.linalg.norm(at_edge(RULES[name], old, rows) - without)
    assert moved < 10 < np.linalg.norm(rows.mean(axis=0) - without)


def test_a_trimmed_mean_by_hand():
    rows = np.array([[1, 5], [2, 5], [4, 5], [9, 8]], dtype=np.float32)
    # first column: (2 * 2 + 4 * 3) / 5; second: three 5s of which one is cut, the 8 is cut
    np.testing.assert_allclose(trimmed(rows, np.array([1.0, 2.0, 3.0, 4.0]), 1), [16 / 5, 5])
    # the cut falls among equal values at either end: each of the three 5s keeps two thirds of its weight (1 + 2 + 3), 8s one half
    rows = np.array([[5], [5], [5], [6], [8], [8]], dtype=np.float32)
    weights = np.array([1.0, 2.0, 3.0, 1.0, 5.0, 1.0])
    np.testing.assert_allclose(trimmed(rows, weights, 1), [(5 * 4 + 6 * 1 + 8 * 3) / 8])


@given(st.integers(1, 60), st.floats(0, 0.4999))
def test_something_is_left_of_any_trimmed_mean(m, share):
    b = n_trimmed(m, share)
    assert b >= 0 and 2 * b < m and abs(b - share * m) <= 1.0


def test_shares_that_are_whole_numbers_of_models_are_cut_whole():
    assert [n_trimmed(100, share) for share in (0.29, 0.07, 0.1, 0.0)] == [29, 7, 10, 0]


def test_the_geometric_median_of_a_line_is_where_half_of_the_weight_lies():
    rows = np.array([[0, 0], [1, 1], [9, 9]], dtype=np.float32)
    np.testing.assert_allclose(weiszfeld(rows, np.array([0.2, 0.2, 0.6])), [9, 9], atol=0.01)
    np.testing.assert_allclose(weiszfeld(rows, np.array([0.3, 0.4, 0.3])), [1, 1], atol=0.01)


def test_distances_are_exact_beside_a_huge_model():
    _, rows = models(6, n_params=300)
    rows[0] = 1e8
    squares = squared_distances(rows)
    naive = [[float(((a.astype(np.float64) - b) ** 2).sum()) for b in rows] for a in rows]
    np.testing.assert_allclose(squares, naive, rtol=1e-9)


def test_krum_says_what_it_needs():
    _, rows = models(6)
    squares = squared_distances(rows)
    assert len(by_score(squares, 1)) == 6
    with pytest.raises(ValueError, match="Krum withstands 2 hostile models among at least 7, got 6; use a smaller f"):
        by_score(squares, 2)
    with pytest.raises(ValueError, match="Bulyan withstands 1 hostile models among at least 7, got 6; use a smaller f"):
        around_median(rows, np.full(6, 1 / 6), 1)


def test_with_too_few_models_krum_and_bulyan_go_on():
    old, rows = models(6)
    for f in (2, 3, 50):  # six can withstand one
        np.testing.assert_array_equal(at_edge(robust.krum(f=f), old, rows), at_edge(robust.krum(f=1), old, rows))
        np.testing.assert_array_equal(at_edge(robust.bulyan(f=f), old, rows), np.median(rows, axis=0))
    two = rows[:2]
    np.testing.assert_allclose(at_edge(robust.krum(f=1), old, two), two.mean(axis=0, dtype=np.float64))


def test_multi_krum_leaves_out_the_outlier_of_four():
    old, rows = models(4)
    rows[1] += 50
    wanted = np.delete(rows, 1, axis=0).mean(axis=0, dtype=np.float64)
    np.testing.assert_allclose(at_edge(robust.multi_krum(f=1), old, rows), wanted)


def test_weights_count_in_the_mean_of_what_is_left():
    old, rows = models(9)
    n = np.arange(1, 10) ** 2
    rows[8] += 50
    wanted = (n[:8, None] * rows[:8].astype(np.float64)).sum(axis=0) / n[:8].sum()
    np.testing.assert_allclose(at_edge(robust.multi_krum(f=1), old, rows, n_samples=n), wanted)


def test_clipping_by_hand():
    rows = np.array([[3, 4], [0, 50]], dtype=np.float32)
    # from (1, 0): the first lies at sqrt(20) and stays, the second at sqrt(2501) and is cut to 10
    part = 10 / np.sqrt(2501)
    wanted = [1 + 0.25 * 2 + 0.75 * part * -1, 0.25 * 4 + 0.75 * part * 50]
    np.testing.assert_allclose(clipped_step(rows, np.array([0.25, 0.75]), np.array([1.0, 0.0]), 10.0), wanted)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: robust.trimmed_mean(share=0.5), "share is cut at either end and must be from 0 to below 0.5, got 0.5"),
        (lambda: robust.trimmed_mean(share=float("nan")), "share is cut at either end"),
        (lambda: robust.krum(f=-1), "f must be a whole number of at least 0, got -1"),
        (lambda: robust.multi_krum(keep=0), "keep must be a whole number of at least 1, got 0"),
        (lambda: robust.bulyan(f=1.5), "f must be a whole number"),
        (lambda: robust.geometric_median(smoothing=0.0), "smoothing must be above 0, got 0"),
        (lambda: robust.norm_clipping(norm=-1.0), "norm must be above 0, got -1"),
        (lambda: robust.centred_clipping(radius=0.0), "radius must be above 0, got 0"),
    ],
)
def test_options_that_make_no_sense_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_rules_are_functions_of_what_they_are_given():
    old, rows = models(13)
    before = old.copy(), rows.copy()
    for rule in RULES.values():
        first = at_edge(rule, old, rows)
        np.testing.assert_array_equal(at_edge(rule, old, rows), first)
    np.testing.assert_array_equal(old, before[0])
    np.testing.assert_array_equal(rows, before[1])
    assert arrivals(3).client.tolist() == [0, 1, 2]

"""Weights by samples: a case by hand, conservation of weight, limits, errors."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedloom.grouping import Topology
from fedloom.mixing import Arrivals, Reports, by_reported, by_size, by_split_size, by_total, mean_of_aggregators

GC1_COVER = np.array([[1, 1, 0], [0, 1, 1]], dtype=bool)
GC1_SIZES = np.array([30, 20, 50])


def arrivals(clients, n_samples, n_reached, staleness=None):
    clients = np.asarray(clients)
    return Arrivals(
        client=clients,
        n_samples=np.asarray(n_samples)[clients],
        n_reached=np.asarray(n_reached)[clients],
        staleness=np.zeros(len(clients), dtype=np.int64) if staleness is None else np.asarray(staleness),
    )


def reports(total, reported=None):
    n = len(total)
    return Reports(
        total=np.asarray(total, dtype=float),
        reported=np.asarray(total if reported is None else reported, dtype=float),
        staleness=np.zeros(n, dtype=np.int64), fresh=np.ones(n, dtype=bool),
    )  # fmt: skip


def edge_matrix(cover, n_samples, weigh):
    """A (N, K), row by row from the weighing function."""
    matrix = np.zeros(cover.shape)
    for n, row in enumerate(cover):
        clients = np.flatnonzero(row)
        if len(clients):
            weights = weigh(arrivals(clients, n_samples, cover.sum(axis=0)))
            assert weights.own == 0.0 and weights.start is None
            matrix[n, clients] = weights.model
    return matrix


def split_totals(cover, n_samples):
    """Samples of each aggregator, those of a client in several cells split evenly, by a loop."""
    total = [0.0] * len(cover)
    for k, n in enumerate(n_samples):
        mine = [c for c in range(len(cover)) if cover[c, k]]
        for c in mine:
            total[c] += n / len(mine)
    return np.array(total)


@st.composite
def covers(draw):
    """A cover in which every client and every aggregator has somebody, and sizes."""
    n_aggregators, n_clients = draw(st.integers(1, 6)), draw(st.integers(6, 25))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    cover = rng.uniform(size=(n_aggregators, n_clients)) < draw(st.floats(0.0, 1.0))
    cover[rng.integers(n_aggregators, size=n_clients), np.arange(n_clients)] = True
    cover[np.arange(n_aggregators), rng.permutation(n_clients)[:n_aggregators]] = True
    return cover, rng.integers(1, 1000, n_clients)


def test_gc1_of_hhfl():
    # p_i/|S_i| = .3, .1, .5: rows (.3, .1)/.4 and (.1, .5)/.6; o = .4, .6
    a = edge_matrix(GC1_COVER, GC1_SIZES, by_split_size)
    np.testing.assert_allclose(a, [[3 / 4, 1 / 4, 0], [0, 1 / 6, 5 / 6]], rtol=1e-14)
    o = by_total(reports(split_totals(GC1_COVER, GC1_SIZES)))
    assert o.own == 0.0
    np.testing.assert_allclose(o.edge, [0.4, 0.6], rtol=1e-14)
    b = mean_of_aggregators(Topology(cover=GC1_COVER, kind="edge", host=np.arange(2)))
    np.testing.assert_allclose(b, [[1, 0], [1 / 2, 1 / 2], [0, 1]], rtol=1e-15)
    np.testing.assert_allclose(b @ a, [[3 / 4, 1 / 4, 0], [3 / 8, 5 / 24, 5 / 12], [0, 1 / 6, 5 / 6]], rtol=1e-14)
    np.testing.assert_allclose(a @ b, [[7 / 8, 1 / 8], [1 / 12, 11 / 12]], rtol=1e-14)
    assert sorted(np.linalg.eigvals(a @ b).real)[0] == pytest.approx(19 / 24, abs=1e-14)


def test_gc1_with_a_link_disabled():
    cover = np.array([[1, 1, 0], [0, 0, 1]], dtype=bool)
    a = edge_matrix(cover, GC1_SIZES, by_split_size)
    np.testing.assert_allclose(a, [[3 / 5, 2 / 5, 0], [0, 0, 1]], rtol=1e-14)
    np.testing.assert_allclose(by_total(reports(split_totals(cover, GC1_SIZES))).edge, [0.5, 0.5], rtol=1e-14)


def test_plain_weights_count_an_overlap_client_in_full_at_each_edge():
    # 30, 20 at the first and 20, 50 at the second: FedMes at t = 2 of a trajectory by hand, edge models .916 and 1.3117857143
    a = edge_matrix(GC1_COVER, GC1_SIZES, by_size)
    np.testing.assert_allclose(a, [[3 / 5, 2 / 5, 0], [0, 2 / 7, 5 / 7]], rtol=1e-14)
    np.testing.assert_allclose(a @ [0.62, 1.36, 1.2925], [0.916, 1.3117857143], rtol=1e-9)


def test_stale_updates_count_like_fresh_ones_by_size():
    fresh = by_size(arrivals([0, 1, 2], GC1_SIZES, [1, 1, 1]))
    stale = by_size(arrivals([0, 1, 2], GC1_SIZES, [1, 1, 1], staleness=[0, 4, 9]))
    np.testing.assert_array_equal(fresh.model, stale.model)
    np.testing.assert_allclose(fresh.model, [0.3, 0.2, 0.5], rtol=1e-15)


@given(covers())
@settings(deadline=None)
def test_weight_is_conserved(case):
    cover, n_samples = case
    p = n_samples / n_samples.sum()
    a = edge_matrix(cover, n_samples, by_split_size)
    o = by_total(reports(split_totals(cover, n_samples))).edge
    b = mean_of_aggregators(Topology(cover=cover, kind="edge", host=np.arange(len(cover))))
    np.testing.assert_allclose(a.sum(axis=1), 1, rtol=1e-12)
    np.testing.assert_allclose(b.sum(axis=1), 1, rtol=1e-12)
    assert o.sum() == pytest.approx(1, rel=1e-12)
    np.testing.assert_allclose(o @ a, p, rtol=1e-12)
    np.testing.assert_allclose(p @ b, o, rtol=1e-12)
    m = b @ a
    np.testing.assert_allclose(p[:, None] * m, (p[:, None] * m).T, atol=1e-15, rtol=1e-10)  # reversible


@given(covers(), st.integers(2, 50))
@settings(deadline=None)
def test_scaling_all_sizes_changes_nothing(case, factor):
    cover, n_samples = case
    for weigh in (by_size, by_split_size):
        np.testing.assert_allclose(
            edge_matrix(cover, factor * n_samples, weigh), edge_matrix(cover, n_samples, weigh), rtol=1e-12
        )


@given(covers())
@settings(deadline=None)
def test_with_one_cell_per_client_splitting_is_plain_weighting(case):
    cover, n_samples = case
    home = cover.argmax(axis=0)
    disjoint = np.arange(len(cover))[:, None] == home[None, :]
    np.testing.assert_array_equal(
        edge_matrix(disjoint, n_samples, by_size), edge_matrix(disjoint, n_samples, by_split_size)
    )


def test_cloud_weights_by_all_samples_and_by_those_of_reporters():
    given_reports = reports(total=[300, 100, 0], reported=[50, 150, 0])
    np.testing.assert_allclose(by_total(given_reports).edge, [0.75, 0.25, 0])
    np.testing.assert_allclose(by_reported(given_reports).edge, [0.25, 0.75, 0])
    assert by_total(given_reports).own == by_reported(given_reports).own == 0.0


def test_when_nobody_reported_the_cloud_keeps_its_model():
    weights = by_reported(reports(total=[10, 20], reported=[0, 0]))
    assert weights.own == 1.0
    np.testing.assert_array_equal(weights.edge, [0, 0])


def test_when_everybody_reported_both_cloud_weights_agree():
    np.testing.assert_array_equal(by_total(reports([3, 4, 5])).edge, by_reported(reports([3, 4, 5])).edge)


def test_nothing_to_weigh_is_refused():
    nobody = arrivals(np.array([], dtype=np.int64), [1], [1])
    for weigh in (by_size, by_split_size):
        with pytest.raises(ValueError, match=r"weights must have a positive sum, got \[\]"):
            weigh(nobody)
    with pytest.raises(ValueError, match=r"weights must have a positive sum, got \[0\.0, 0\.0\]"):
        by_total(reports([0, 0]))


def test_a_client_that_reports_to_nobody_has_a_row_of_zeros():
    cover = np.array([[1, 0, 1], [1, 0, 0]], dtype=bool)
    b = mean_of_aggregators(Topology(cover=cover, kind="edge", host=np.arange(2)))
    np.testing.assert_array_equal(b, [[0.5, 0.5], [0, 0], [1, 0]])

"""Bounds and costs of HHFL: cases by hand, the theorem on quadratics, divergence measures, errors."""

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedloom.bounds import (
    drift,
    drift_term,
    heterogeneity,
    label_distance,
    models_sent,
    overall_time,
    resource_factor,
    theorem_1,
)
from fedloom.grouping import edge_matrix, edge_shares, start_matrix
from fedloom.pacing import n_rounds

BOUND = {
    "smoothness": 2.0, "convexity": 0.5, "beta": 4.0, "alpha": 40.0, "local_steps": 2, "edge_rounds": 3,
    "p": [0.3, 0.2, 0.5], "sigma2": [1.0, 4.0, 2.0], "h2": 10.0, "gamma": 0.79, "delta0": 5.0,
}  # fmt: skip
COVER = np.array([[1, 1, 0], [0, 1, 1]], dtype=bool)


def time_and_rounds(total_steps, e=5, g=5, stages=None):
    n_edge, n_cloud = n_rounds(stages or [(0, e, g)], total_steps)
    return overall_time(total_steps, n_edge, n_cloud, step_s=0.2, edge_trip_s=10, cloud_trip_s=1), n_edge, n_cloud


def test_gc4_time_and_data():
    assert time_and_rounds(63) == (pytest.approx(145.6, rel=1e-14), 13, 3)  # 12.6 + 130 + 3
    assert models_sent(13, n_links=57, n_clients=57) == 1482
    assert models_sent(13, n_links=75, n_clients=57) == 1950
    assert models_sent(13, n_links=75, n_clients=57, uplink="once") == 1716
    assert time_and_rounds(100, e=10, g=3)[0] == pytest.approx(124, rel=1e-14)  # 20 + 100 + 4
    assert time_and_rounds(25)[0] == pytest.approx(56, rel=1e-14)  # a full cloud round
    assert time_and_rounds(20, stages=[(0, 1, 2), (5, 3, 2)]) == (pytest.approx(120, rel=1e-14), 11, 6)


def test_gc4_gain_in_time_is_the_gain_in_steps():
    slow, fast = time_and_rounds(925)[0], time_and_rounds(550)[0]
    assert (slow, fast) == (pytest.approx(2072, rel=1e-14), pytest.approx(1232, rel=1e-14))
    assert slow / fast == pytest.approx(925 / 550, rel=1e-14) == pytest.approx(1.681818, abs=5e-7)


def test_models_of_the_base_topology_per_edge_round():
    assert models_sent(1, 57, 57) == models_sent(1, 57, 57, uplink="once") == 114
    assert (models_sent(1, 75, 57), models_sent(1, 75, 57, uplink="once")) == (150, 132)
    assert models_sent(0, 75, 57) == 0


def test_resource_factors_of_the_overlap_sweep():
    assert resource_factor(75, 57) == pytest.approx(25 / 19, rel=1e-15)
    assert resource_factor(75, 57, uplink="once") == pytest.approx(22 / 19, rel=1e-15)
    assert [resource_factor(n, 57) * 19 for n in (57, 63, 72, 81, 117)] == pytest.approx(
        [19, 21, 24, 27, 39], rel=1e-14
    )
    assert resource_factor(57, 57, uplink="once") == 1.0


def test_gc5():
    p = np.array(BOUND["p"])
    assert p**2 @ BOUND["sigma2"] == pytest.approx(0.75, rel=1e-14)
    assert heterogeneity(p, 1.0, [0.2, 0.5, 0.1]) == pytest.approx(0.79, rel=1e-14)  # 1 - .06 - .1 - .05
    assert drift_term(2, 3, 10.0) == 116480  # 2^7 10 (7) (5 + 8)
    theorem = theorem_1(**BOUND)
    assert theorem.x == pytest.approx(116490.23, rel=1e-14)
    assert theorem.z == pytest.approx(1863843.68, rel=1e-14)  # 16 X / (2 - 1)
    np.testing.assert_allclose(theorem.bound([0, 100, 10000]), [46596.092, 13313.169142857, 185.641800797], rtol=1e-11)
    assert theorem.bound(0).shape == () and float(theorem.bound(100)) == theorem.bound([0, 100])[1]
    sharp = theorem_1(**BOUND, drift="sharp")
    assert drift_term(2, 3, 10.0, drift="sharp") == 32000
    assert (sharp.x, sharp.z) == (pytest.approx(32010.23, rel=1e-14), pytest.approx(512163.68, rel=1e-14))


def test_gc5_polynomials():
    periods = [(1, 1), (5, 1), (1, 5), (5, 5)]
    published = [drift_term(e, g, 1.0) / 2 ** (2 * g + 1) for e, g in periods]
    sharp = [drift_term(e, g, 1.0, drift="sharp") / 2 ** (2 * g + 1) for e, g in periods]
    assert published == [0, 16, 64, 3472]
    assert sharp == [0, 16, 16, 576]


def test_a_far_start_dominates_the_bound():
    assert theorem_1(**BOUND | {"delta0": 1e6}).z == 40 * 1e6


@given(st.integers(1, 60), st.integers(1, 60), st.floats(0, 1e6))
def test_the_sharp_drift_is_never_larger_and_fedavg_has_the_usual_one(e, g, h2):
    assert 0 <= drift_term(e, g, h2, drift="sharp") <= drift_term(e, g, h2)
    for kind in ("published", "sharp"):
        assert drift_term(1, 1, h2, drift=kind) == 0
        assert drift_term(e, 1, h2, drift=kind) == pytest.approx(8 * h2 * (e - 1) ** 2, rel=1e-14)


def test_a_drift_beyond_floats_is_infinite():
    assert drift_term(2, 1000, 1.0) == np.inf
    assert drift_term(2, 1000, 0.0) == 0.0


def quadratics(random, n_clients, n_parameters, mu, smooth, spread):
    """Minima c (K, P) and Hessians (K, P, P) with eigenvalues from mu to `smooth`, both taken."""
    bases = np.linalg.qr(random.normal(size=(n_clients, n_parameters, n_parameters)))[0]
    values = random.uniform(mu, smooth, size=(n_clients, n_parameters))
    values[:, 0], values[:, -1] = mu, smooth
    hessians = (bases * values[:, None, :]) @ bases.transpose(0, 2, 1)
    return spread * random.normal(size=(n_clients, n_parameters)), hessians


def hhfl(cover, n_samples, gradient, start, lr, total_steps, e, g):
    """Step by step (HHFL, section III-B): client models (T+1, ..., K, P) from one start (..., K, P)."""
    a, b, o = edge_matrix(cover, n_samples), start_matrix(cover), edge_shares(cover, n_samples)
    models = start
    history = [models]
    for t in range(total_steps):
        models = models - lr(t) * gradient(models)
        if (t + 1) % e == 0:
            edges = a @ models
            if (t + 1) % (e * g) == 0:
                edges = np.broadcast_to((o @ edges)[..., None, :], edges.shape)
            models = b @ edges
        history.append(models)
    return np.array(history)


def random_cover(random, n_aggregators, n_clients):
    cover = random.uniform(size=(n_aggregators, n_clients)) < 0.3
    cover[random.integers(n_aggregators, size=n_clients), np.arange(n_clients)] = True
    return cover


def test_the_reference_loop_is_right_on_gc2():
    slope, minimum = np.array([1, 2, 0.5])[:, None], np.array([-1.0, 2, 4])[:, None]
    models = hhfl(COVER, [30, 20, 50], lambda w: slope * (w - minimum), np.ones((3, 1)), lambda t: 0.1, 4, e=2, g=2)
    np.testing.assert_allclose(models[1, :, 0], [0.8, 1.2, 1.15], rtol=1e-14)
    np.testing.assert_allclose(models[2, :, 0], [0.805, 1.054375, 1.30375], rtol=1e-14)
    np.testing.assert_allclose(models[3, :, 0], [0.6245, 1.2435, 1.4385625], rtol=1e-14)
    np.testing.assert_allclose(models[4, :, 0], np.full(3, 1.2008921875), rtol=1e-14)


@given(
    st.integers(0, 2**32), st.integers(1, 5), st.integers(1, 4), st.sampled_from([0.0, 0.3]),
    st.sampled_from([0.0, 1.0, 5.0]), st.sampled_from(["published", "sharp"]),
)  # fmt: skip
@settings(max_examples=50)
def test_the_bound_holds_on_quadratics(seed, e, g, noise, spread, kind):
    """The bound is above the gap, with the mean over 200 noisy runs for the expectation, and so is Lemma 3."""
    random = np.random.default_rng(seed)
    n_clients, n_parameters, n_runs, total_steps = 7, 3, 200 if noise else 1, 60
    mu, smooth = 0.5, float(random.uniform(0.6, 3.0))
    minima, hessians = quadratics(random, n_clients, n_parameters, mu, smooth, spread)
    n_samples = random.integers(1, 100, n_clients)
    p = n_samples / n_samples.sum()
    best = np.linalg.solve(np.einsum("k,kij->ij", p, hessians), np.einsum("k,kij,kj->i", p, hessians, minima))

    def losses(w):
        return np.einsum("...ki,kij,...kj->...k", w - minima, hessians, w - minima) / 2

    squares = []

    def gradient(w):
        step = np.einsum("kij,...kj->...ki", hessians, w - minima) + noise * random.normal(size=w.shape)
        squares.append((step**2).sum(axis=-1).mean(axis=0).max())
        return step

    beta = float(random.uniform(1.05, 3.0)) / mu
    alpha = max(4 * smooth * beta, e + 1.0)
    start = np.broadcast_to(random.normal(size=n_parameters), (n_runs, n_clients, n_parameters))
    cover = random_cover(random, 3, n_clients)
    models = hhfl(cover, n_samples, gradient, start, lambda t: beta / (t + alpha), total_steps, e, g)

    f_min = float(p @ losses(np.broadcast_to(best, (n_clients, n_parameters))))
    mean = np.einsum("k,trkp->trp", p, models)
    gap = (losses(np.broadcast_to(mean[:, :, None, :], models.shape)) @ p - f_min).mean(axis=1)  # (T+1,)
    theorem = theorem_1(
        smoothness=smooth, convexity=mu, beta=beta, alpha=alpha, local_steps=e, edge_rounds=g, p=p,
        sigma2=np.full(n_clients, n_parameters * noise**2), h2=max(squares),
        gamma=heterogeneity(p, f_min, np.zeros(n_clients)), delta0=((start[0, 0] - best) ** 2).sum(), drift=kind,
    )  # fmt: skip
    assert (gap <= theorem.bound(np.arange(total_steps + 1)) * (1 + 1e-12)).all()
    for t in range(total_steps):
        measured = np.mean([drift(rows, n_samples) for rows in models[t, :3]]) if not noise else 0.0
        limit = (beta / (t + alpha)) ** 2 * drift_term(e, g, max(squares), drift=kind) / 2
        assert measured <= limit * (1 + 1e-9) + 1e-24


def test_the_bound_is_met_with_equality_at_the_start_by_equal_round_bowls():
    # One loss L |w|^2 / 2, no noise, E = G = 1: X = 0, bound(0) = (L / 2) Delta_0 = the gap itself
    theorem = theorem_1(
        smoothness=2.0, convexity=2.0, beta=1.0, alpha=8.0, local_steps=1, edge_rounds=1, p=[1.0], sigma2=[0.0],
        h2=100.0, gamma=0.0, delta0=9.0,
    )  # fmt: skip
    assert theorem.x == 0.0
    steps = np.arange(30)
    squared = np.array([9.0 * np.prod([(1 - 2 * 1.0 / (t + 8)) ** 2 for t in range(n)]) for n in steps])
    assert theorem.bound(0) == pytest.approx(squared[0], rel=1e-15)
    assert (squared <= theorem.bound(steps) * (1 + 1e-14)).all()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"beta": 2.0}, "beta must be above 1/mu = 2, got 2"),
        ({"alpha": 2.0, "beta": 2.1}, "alpha must be above the local steps E = 2, got 2"),
        ({"alpha": 31.0}, "must be at most min(1/mu, 1/(4 L)) = 0.125, got 0.129032; take alpha >= 32"),
        ({"convexity": 3.0}, "mu cannot be above L: got convexity 3 and smoothness 2"),
        ({"p": [0.3, 0.2, 0.6]}, "p must sum to 1, got 1.1"),
        ({"sigma2": [1.0, 2.0]}, "sigma2 must have shape (3), got (2,)"),
        ({"sigma2": [1.0, -2.0, 1.0]}, "sigma2 must be at least 0, got -2"),
        ({"h2": -1.0}, "h2 must be at least 0, got -1"),
        ({"gamma": -1.0}, "gamma must be at least 0, got -1"),
        ({"delta0": -1.0}, "delta0 must be at least 0, got -1"),
        ({"smoothness": 0.0}, "smoothness (L) must be above 0, got 0"),
        ({"edge_rounds": 0}, "edge_rounds (G) must be a whole number of at least 1, got 0"),
        ({"drift": "tight"}, "drift must be one of published, sharp; got 'tight'"),
    ],
    ids=lambda x: None,
)
def test_what_the_theorem_does_not_cover_is_refused(change, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        theorem_1(**BOUND | change)


def test_a_first_learning_rate_at_its_very_limit_is_taken():
    for beta in np.linspace(2.1, 9.3, 50):
        theorem_1(**BOUND | {"beta": beta, "alpha": 8 * beta})


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: heterogeneity([0.5, 0.5], 0.1, [0.2, 0.4]), "got f_min 0.1 and a mean of 0.3"),
        (lambda: models_sent(1, 50, 57), "every client has a link, got 50 links of 57 clients"),
        (lambda: resource_factor(57, 57, uplink="twice"), "uplink must be one of unicast, once; got 'twice'"),
        (lambda: models_sent(-1, 57, 57), "n_edge_rounds must be a whole number of at least 0, got -1"),
        (lambda: overall_time(10, 2, 1, -1, 1, 1), "step_s must be at least 0, got -1"),
        (lambda: overall_time(10, 2.5, 1, 1, 1, 1), "n_edge must be a whole number of at least 0, got 2.5"),
        (lambda: theorem_1(**BOUND).bound([0, -1]), "t must be at least 0, got -1"),
        (lambda: label_distance(COVER, np.zeros((3, 2))), "there are no labels to compare"),
        (lambda: label_distance(COVER, np.ones((2, 2))), "label_counts must have shape (3, any), got (2, 2)"),
        (lambda: drift(np.ones((2, 3)), [0, 0]), "weights must have a positive sum, got zeros only"),
        (lambda: drift(np.ones(3), [1, 1, 1]), "rows must have shape (K, P), got (3,)"),
    ],
    ids=lambda x: None,
)
def test_wrong_numbers_say_what_is_wrong(call, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        call()


def test_equal_minima_are_no_heterogeneity_whatever_the_rounding():
    for seed in range(50):  # the mean of equal minima may round to above or below them, Gamma is never negative
        share = np.random.default_rng(seed).dirichlet(np.ones(7))
        assert 0 <= heterogeneity(share, 0.3, np.full(7, 0.3)) < 1e-15


def test_label_distance_by_hand():
    counts = np.array([[8, 0], [4, 4], [0, 4]])  # all: 12 and 8 of 20
    # split: 8 + 2, 2 of 12 and 2, 2 + 4 of 8; |10/12 - .6| = 7/30 and |2/8 - .6| = .35
    np.testing.assert_allclose(label_distance(COVER, counts), [7 / 30, 0.35], rtol=1e-14)
    # in full: 12, 4 of 16 and 4, 8 of 12
    np.testing.assert_allclose(label_distance(COVER, counts, split=False), [0.15, 0.6 - 1 / 3], rtol=1e-14)


def test_label_distance_leaves_out_who_takes_no_part():
    wide = np.zeros((3, 4), dtype=bool)
    wide[np.ix_([0, 2], [0, 1, 3])] = COVER
    distance = label_distance(wide, [[8, 0], [4, 4], [1000, 0], [0, 4]])
    np.testing.assert_allclose(distance, [7 / 30, np.nan, 0.35], rtol=1e-14)


def test_aggregators_with_everybody_or_the_same_mix_are_at_no_distance():
    counts = np.random.default_rng(0).integers(0, 9, size=(6, 5))
    np.testing.assert_allclose(label_distance(np.ones((3, 6), dtype=bool), counts), np.zeros(3), atol=1e-15)
    one_class_each = label_distance(np.eye(4, dtype=bool), 5 * np.eye(4))
    np.testing.assert_allclose(one_class_each, np.full(4, 0.75), rtol=1e-15)


def test_drift_by_hand():
    # p = 1/4, 3/4; mean (3, 0): 1/4 (9 + 16) + 3/4 (1 + 16/9)
    rows = np.array([[0.0, 4.0], [4.0, -4 / 3]])
    assert drift(rows, [1, 3]) == pytest.approx(25 / 4 + 3 / 4 * (1 + 16 / 9), rel=1e-14)
    assert drift(np.full((3, 5), 0.1, dtype=np.float32), [1, 2, 4]) == pytest.approx(0, abs=1e-30)


def test_drift_of_wide_rows_is_the_sum_over_its_blocks():
    rows = np.random.default_rng(1).normal(size=(3, 70_001)).astype(np.float32)
    weights = np.array([0.2, 0.3, 0.5])
    wide = rows.astype(np.float64)
    assert drift(rows, weights) == pytest.approx(weights @ ((wide - weights @ wide) ** 2).sum(axis=1), rel=1e-12)

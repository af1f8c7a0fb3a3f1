"""Bounds of LTC: cases by hand, LTC's Table 9, closed forms against loops, mismatch properties, errors."""

import math
import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedloom import bounds
from fedloom.bounds import (
    LtcConstants,
    client_mismatch,
    cluster_mismatch,
    gradient_bound,
    gradient_bound_of_rate,
    gradient_floor,
    learning_rate_limits,
    loss_gap,
    mismatch_term,
    round_sum,
    step_bound,
    step_bound_sum,
    step_mass,
    step_sum,
)

LOSSES, MASSES = [2.3, 2.1, 1.95, 1.8, 1.7], [2, 2.5, 3.2, 2.4]
CONSTANTS = LtcConstants(lr=0.004, smoothness=2, g_max=2, eta=0.2, eps_ic=1.5, eps_cg=0.8)
PAIRS = np.array([[1, 1, 0, 0], [0, 0, 1, 1]], dtype=bool)


def clusters(cluster, n=None):
    """cover (N, K) from each client's cluster."""
    cluster = np.asarray(cluster)
    return cluster == np.arange(n or cluster.max() + 1)[:, None]


def some_world(seed):
    """A partition into clusters, rounds, steps, samples and gradients."""
    rng = np.random.default_rng(seed)
    n_clusters, n_clients = int(rng.integers(1, 5)), int(rng.integers(5, 12))
    cluster = rng.permutation(np.arange(n_clients) % n_clusters)
    return {
        "cover": clusters(cluster),
        "n_rounds": rng.integers(1, 7, n_clusters),
        "n_steps": rng.integers(1, 40, n_clients),
        "n_samples": rng.integers(1, 100, n_clients),
    }, rng.normal(size=(n_clients, 30))


def test_g7_step_mass():
    # 0.1 (10 2 1 + 30 2 3 + 20 3 2 + 40 3 4) / 100
    work = (PAIRS, [2, 3], [1, 3, 2, 4], [10, 30, 20, 40])
    assert step_mass(*work, lr=0.1) == pytest.approx(0.8, rel=1e-14)
    assert step_mass(*work) == pytest.approx(8.0, rel=1e-14)


def test_g8_loss_gap():
    assert loss_gap(LOSSES, MASSES) == pytest.approx(0.124270833, abs=1e-9)
    by_hand = (0.2 * 2 / 2 + 0.15 * 2 / 2.5 + 0.15 * 2 / 3.2 + 0.1 * 2 / 2.4) / 4
    assert loss_gap(LOSSES, MASSES) == pytest.approx(by_hand, rel=1e-12)


def test_g8_eq_11():
    # 2 0.6 / (4 2) + 3.2 / 2 (16/3 + 2.29 / 0.016 + 6 0.64 / 0.032)
    assert gradient_bound_of_rate(CONSTANTS, LOSSES, MASSES, r_max=5) == pytest.approx(429.683333, abs=1e-6)


def test_eq_10_by_hand():
    # h_max 11: 0.124270833 + 16/3 + 6 16/4 0.64 + 8 2.29
    wanted = 0.124270833 + 16 / 3 + 15.36 + 18.32
    assert gradient_bound(CONSTANTS, LOSSES, MASSES, r_max=5, h_max=11) == pytest.approx(wanted, abs=1e-8)
    assert gradient_floor(CONSTANTS, 5, 11) == pytest.approx(16 / 3 + 15.36 + 18.32, rel=1e-14)


def test_eq_9_by_hand():
    # t = 2, s = 3, h2 = 10: drift = (0.1 2 3)^2 = 0.36; 5 (0.72 + 4 + 1) + 5 4 (3 10 0.36 + 0.25)
    constants = LtcConstants(lr=0.1, smoothness=2, g_max=3, eta=1, eps_ic=2, eps_cg=0.5)
    assert step_bound(constants, 2, 3, 10) == pytest.approx(5 * 5.72 + 20 * 11.05, rel=1e-14)
    assert step_bound(constants, 0, 0, 10) == pytest.approx(3 * (4 + 1) + 3 * 0.25, rel=1e-14)


TABLE_9 = {  # cluster-global then client-cluster, of A, A+, 1.1, 1.2
    "750, 4": ((7.63, 4.25, 3.92, 4.02), (8.34, 11.78, 12.18, 12.07)),
    "750, 7": ((3.84, 2.36, 2.06, 2.30), (4.69, 6.12, 6.36, 6.26)),
    "1250, 4": ((7.81, 4.48, 5.13, 4.98), (8.08, 11.76, 11.84, 11.78)),
    "1250, 7": ((3.92, 2.54, 2.66, 2.69), (4.57, 6.05, 6.20, 6.14)),
    "Dir(0.1)": ((9.67, 5.78, 5.81, 5.98), (10.75, 14.97, 15.43, 15.36)),
    "Dir(0.5)": ((4.16, 2.72, 2.09, 2.26), (5.63, 7.03, 7.28, 7.23)),
}


def test_g8_mismatch_term():
    assert mismatch_term(*TABLE_9["750, 4"], r_max=4) == pytest.approx([107.5, 92.0, 93.4, 93.0], abs=0.1)


@pytest.mark.parametrize("row", TABLE_9)
def test_from_four_rounds_on_the_mismatch_term_is_lowest_for_mixed_clusters(row):
    for r_max in (4, 5, 10):
        similar, *mixed = mismatch_term(*TABLE_9[row], r_max=r_max)
        assert (np.array(mixed) < similar).all()


def test_at_three_rounds_that_fails_where_sizes_differ_most():
    fails = set()
    for row, columns in TABLE_9.items():
        similar, *mixed = mismatch_term(*columns, r_max=3)
        fails |= {(row, name) for name, term in zip(("A+", "1.1", "1.2"), mixed) if term > similar}
    assert fails == {(row, name) for row in ("1250, 4", "1250, 7", "Dir(0.1)") for name in ("1.1", "1.2")}


@pytest.mark.parametrize("n", range(30))
def test_the_sums_of_the_proof(n):
    assert step_sum(n) == sum(t + 3 for t in range(n))
    assert step_sum(n, weighted=True) == sum((t + 3) * t for t in range(n))
    assert round_sum(n) == sum(s + 1 for s in range(n))
    assert round_sum(n, weighted=True) == sum((s + 1) * s for s in range(n))


@pytest.mark.parametrize("h", [0, 1, 4, 17])
@pytest.mark.parametrize("r", [0, 1, 2, 6])
def test_the_sum_of_eq_9_is_that_of_a_loop(h, r):
    loop = sum(float(step_bound(CONSTANTS, t, s, 37.5)) for t in range(h) for s in range(r))
    assert step_bound_sum(CONSTANTS, h, r, 37.5) == pytest.approx(loop, rel=1e-12)


@given(st.integers(0, 99), st.floats(0.5, 8), st.floats(0.01, 1))
def test_eq_10_is_above_the_mean_of_eq_9_and_eq_11_above_eq_10(seed, smoothness, part):
    world, _ = some_world(seed)
    lr = part * learning_rate_limits(smoothness, **world).largest
    constants = replace(CONSTANTS, lr=lr, smoothness=smoothness)
    cover, n_rounds, n_steps, n_samples = world.values()
    cluster = cover.argmax(axis=0)
    share = n_samples / n_samples.sum()
    h2 = [np.average(n_steps[c] ** 2, weights=n_samples[c]) for c in cover]
    sums = [step_bound_sum(constants, int(h), int(n_rounds[c]), h2[c]) for h, c in zip(n_steps, cluster)]
    mean = share @ sums / step_mass(**world)
    r_max, h_max = int(n_rounds.max()), int(n_steps.max())
    assert mean <= gradient_floor(constants, r_max, h_max) * (1 + 1e-12)
    ten = gradient_bound(constants, LOSSES, MASSES, r_max, h_max)
    assert ten <= gradient_bound_of_rate(constants, LOSSES, MASSES, r_max) * (1 + 1e-12)


def test_learning_rate_limits_by_hand():
    # cluster 0: r 2, h 1 and 3, h2 = (10 1 + 30 9) / 40 = 7; cluster 1: r 3, h 2 and 4, h2 = (20 4 + 40 16) / 60 = 12
    found = learning_rate_limits(2.0, PAIRS, [2, 3], [1, 3, 2, 4], [10, 30, 20, 40])
    assert found.by_work == pytest.approx(1 / (2 * 12), rel=1e-14)
    assert found.by_steps == pytest.approx(1 / (2 * 9), rel=1e-14)
    assert found.by_rounds == pytest.approx(math.sqrt(6) / (2 * 3 * math.sqrt(12 * 9)), rel=1e-14)
    assert found.largest == min(found.by_work, found.by_steps, found.by_rounds)


def test_clusters_that_do_no_round_limit_nothing_but_by_their_steps():
    found = learning_rate_limits(1.0, PAIRS, [0, 0], [1, 3, 2, 4], [10, 30, 20, 40])
    assert found.by_work == found.by_rounds == math.inf and found.largest == found.by_steps == pytest.approx(1 / 9)


def test_mismatch_by_hand():
    # weights 1, 3 and 2, 2: cluster means (3/4, 3/2) and (2, 0); overall (11/8, 3/4)
    gradients = np.array([[3.0, 0.0], [0.0, 2.0], [0.0, 0.0], [4.0, 0.0]])
    n_samples = [1, 3, 2, 2]
    assert cluster_mismatch(gradients, PAIRS, n_samples) == pytest.approx([math.hypot(5 / 8, 3 / 4)] * 2)
    assert client_mismatch(gradients, PAIRS, n_samples) == pytest.approx([
        *(math.hypot(9 / 4, 3 / 2), math.hypot(3 / 4, 1 / 2)),
        *(2, 2),
    ])  # fmt: skip


@given(st.integers(0, 99))
def test_mismatch_is_that_of_a_loop_and_adds_up_to_the_spread_of_the_clients(seed):
    world, gradients = some_world(seed)
    cover, n = world["cover"], world["n_samples"]
    overall = np.average(gradients, axis=0, weights=n)
    means = [np.average(gradients[c], axis=0, weights=n[c]) for c in cover]
    between, within = (f(gradients, cover, n) for f in (cluster_mismatch, client_mismatch))
    assert between == pytest.approx([np.linalg.norm(m - overall) for m in means], abs=1e-12)
    assert within == pytest.approx(
        [np.linalg.norm(g - means[c]) for g, c in zip(gradients, cover.argmax(axis=0))], abs=1e-12
    )
    spread = n @ ((gradients - overall) ** 2).sum(axis=1)
    assert (cover @ n) @ between**2 + n @ within**2 == pytest.approx(spread, rel=1e-10)


def test_one_cluster_of_all_is_the_whole_and_single_clients_are_their_clusters():
    _, gradients = some_world(0)
    n = np.arange(1, len(gradients) + 1)
    assert cluster_mismatch(gradients, np.ones((1, len(n)), dtype=bool), n) == pytest.approx(0, abs=1e-12)
    alone = np.eye(len(n), dtype=bool)
    assert client_mismatch(gradients, alone, n) == pytest.approx(0, abs=1e-12)
    assert cluster_mismatch(gradients, alone, n) == pytest.approx(
        client_mismatch(gradients, np.ones((1, len(n)), dtype=bool), n)
    )


def test_wide_gradients_are_compared_in_pieces(monkeypatch):
    world, gradients = some_world(3)
    whole = [f(gradients, world["cover"], world["n_samples"]) for f in (cluster_mismatch, client_mismatch)]
    monkeypatch.setattr("fedloom.bounds.ltc.COLUMNS_AT_ONCE", 7)
    pieces = [f(gradients, world["cover"], world["n_samples"]) for f in (cluster_mismatch, client_mismatch)]
    for a, b in zip(whole, pieces):
        np.testing.assert_allclose(a, b, rtol=1e-12)


def test_float32_gradients_are_averaged_in_float64():
    gradients = np.full((4, 1), 1e8, dtype=np.float32)
    gradients[0] += 8  # a step of float32 at 1e8
    found = cluster_mismatch(gradients, PAIRS, [1, 1, 1, 1])
    assert found == pytest.approx([2, 2], rel=1e-9)  # means 4 above and 0 above; overall 2


@pytest.mark.parametrize(
    ("cover", "message"),
    [
        (np.array([[1, 1, 0, 0], [0, 1, 1, 1]], bool), "exactly one cluster; clients [1] are in none or in several"),
        (np.array([[1, 0, 0, 0], [0, 1, 1, 0]], bool), "exactly one cluster; clients [3] are in none or in several"),
        (clusters([0, 0, 2, 2]), "clusters [1] have no clients; leave them out"),
        (PAIRS.astype(int), "cover must be a bool array of shape (N, K), got int64 (2, 4)"),
        (PAIRS[0], "cover must be a bool array of shape (N, K), got bool (4,)"),
    ],
)
def test_clusters_that_are_none_are_refused(cover, message):
    work = (cover, np.ones(len(cover)), np.ones(4), np.ones(4))
    for call in (
        lambda: step_mass(*work),
        lambda: learning_rate_limits(1.0, *work),
        lambda: cluster_mismatch(np.zeros((4, 2)), cover, np.ones(4)),
        lambda: client_mismatch(np.zeros((4, 2)), cover, np.ones(4)),
    ):
        with pytest.raises(ValueError, match=re.escape(message)):
            call()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: step_mass(PAIRS, [1, 1, 1], [1] * 4, [1] * 4), "n_rounds must have shape (2), got (3,)"),
        (lambda: step_mass(PAIRS, [1, -1], [1] * 4, [1] * 4), "n_rounds must be at least 0, got -1"),
        (lambda: step_mass(PAIRS, [1, 1], [1] * 4, [1, 1, 0, 1]), "n_samples must be above 0, got 0"),
        (lambda: step_mass(PAIRS, [1, 1], [1] * 4, [1] * 4, lr=0), "lr must be above 0, got 0"),
        (lambda: loss_gap([1, 2], [1, 2]), "losses must have shape (3), got (2,)"),
        (lambda: loss_gap([1, 2], [0]), "step_masses must be above 0, got 0"),
        (lambda: loss_gap([1], []), "step_masses must be of at least one cloud round, got none"),
        (lambda: cluster_mismatch(np.zeros((3, 2)), PAIRS, [1] * 4), "a row for each of the 4 clients, got 3"),
        (lambda: cluster_mismatch(np.zeros(4), PAIRS, [1] * 4), "gradients must have shape (K, P), got (4,)"),
        (lambda: mismatch_term(-1, 1, 4), "cluster_global must be at least 0, got -1"),
        (lambda: mismatch_term(1, 1, 1.5), "r_max must be a whole number of at least 0, got 1.5"),
        (lambda: step_bound(CONSTANTS, -1, 0, 1), "step must be at least 0, got -1"),
        (lambda: step_sum(-1), "n_steps must be a whole number of at least 0, got -1"),
        (lambda: round_sum(0.5), "n_rounds must be a whole number of at least 0, got 0.5"),
        (lambda: gradient_floor(CONSTANTS, 1, 0), "h_max must be a whole number of at least 1, got 0"),
        (lambda: replace(CONSTANTS, lr=0), "lr must be above 0, got 0"),
        (lambda: replace(CONSTANTS, eta=-1), "eta must be at least 0, got -1"),
        (lambda: replace(CONSTANTS, eps_cg=math.nan), "eps_cg must be at least 0, got nan"),
    ],
)
def test_what_makes_no_sense_is_refused(call, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        call()


def test_constants_may_be_zero_where_there_is_no_noise_and_no_difference():
    still = replace(CONSTANTS, eta=0, eps_ic=0, eps_cg=0)
    assert gradient_floor(still, 5, 11) == pytest.approx(16 / 3)


def test_all_is_exported():
    assert {"step_mass", "loss_gap", "gradient_bound", "LtcConstants", "LearningRateLimits"} <= set(bounds.__all__)
    assert all(hasattr(bounds, name) for name in bounds.__all__)

"""DDC's bound: a case by hand, the law of divergence, limits."""

import math
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedloom import bounds
from fedloom.bounds import ddc_bound, ddc_divergence, ddc_lr_max

PAIRS = np.array([[True, True, False, False], [False, False, True, True]])
BOUND = {
    "gap": 2.0, "lr": 0.01, "smoothness": 2.0, "tau1": 1, "tau2": 2, "rounds": 200, "eps2": 0.5, "eps2_local": [0.3, 0.4],
    "sigma2": 1.2, "cover": PAIRS, "n_samples": [100, 100, 200, 100],
}  # fmt: skip


def terms(found):
    return [found.b1, found.b2, found.b3, found.b4, found.b5, found.b6]


def test_g5():
    found = ddc_bound(**BOUND)
    assert terms(found) == pytest.approx([2, 0.0288, 1.008, 0.006912, 0.0058368, 0.000839111111], rel=1e-9)
    assert found.total == pytest.approx(3.050387911111, rel=1e-12)
    assert found.lr_max == pytest.approx(0.051031036308, rel=1e-10) and found.lr_ok and found.periods_ok


def test_g5_without_the_square():
    found = ddc_bound(**BOUND, b6="variance")
    assert found.b6 == pytest.approx(0.003584, rel=1e-12) and found.total == pytest.approx(3.0531328, rel=1e-12)


def test_terms_match_loops_over_clusters_and_devices():
    random = np.random.default_rng(1)
    cover = np.arange(3)[:, None] == np.array([0, 1, 2, 0, 1, 1, 2])
    n = random.integers(1, 50, 7)
    eps, sigma2, lr, smoothness, tau1, tau2 = random.uniform(size=3), 0.7, 0.02, 3.0, 2, 6
    found = ddc_bound(
        gap=1.5, lr=lr, smoothness=smoothness, tau1=tau1, tau2=tau2, rounds=60, eps2=0.2, eps2_local=eps, sigma2=sigma2,
        cover=cover, n_samples=n,
    )  # fmt: skip
    b3 = b4 = b5 = b6 = 0.0
    for c in range(3):
        members = [u for u in range(7) if cover[c, u]]
        held = sum(n[u] for u in members)
        share = held / n.sum()
        for u in members:
            p = n[u] / held
            b3 += 3 * share**2 * p**2 * sigma2
            b5 += 24 * lr**2 * smoothness**2 * tau2 * share * (1 - share) * p**2 * sigma2
            b6 += 16 * lr**2 * smoothness**2 * tau1 * share * (p * (1 - p)) ** 2 * sigma2
        b4 += 48 * lr**2 * smoothness**2 * tau1**2 * share * eps[c]
    expected = [2 * 1.5 / (lr * 60), 36 * lr**2 * smoothness**2 * tau2**2 * 0.2, b3, b4, b5, b6]
    assert terms(found) == pytest.approx(expected, rel=1e-12)


@given(st.integers(0, 2**32))
@settings(max_examples=50)
def test_the_sum_of_divergences_is_the_same_for_all_clusterings(seed):
    random = np.random.default_rng(seed)
    n = int(random.integers(2, 12))
    gradients, samples = random.normal(size=(n, 5)), random.integers(1, 30, n)
    share = samples / samples.sum()
    spread = share @ ((gradients - share @ gradients) ** 2).sum(axis=1)
    k = int(random.integers(1, n + 1))
    label = random.permutation(np.concatenate([np.arange(k), random.integers(k, size=n - k)]))
    cover = np.arange(k)[:, None] == label
    found = ddc_divergence(gradients, cover, samples)
    held = np.array([samples[label == c].sum() for c in range(k)]) / samples.sum()
    assert found.total == pytest.approx(spread, rel=1e-9)
    assert found.eps2 + held @ found.eps2_local == pytest.approx(spread, rel=1e-9)
    means = np.stack([np.average(gradients[label == c], axis=0, weights=samples[label == c]) for c in range(k)])
    assert found.eps2 == pytest.approx(held @ ((means - held @ means) ** 2).sum(axis=1), rel=1e-9, abs=1e-12)


def test_one_cluster_has_no_divergence_from_the_whole_and_single_devices_none_from_their_cluster():
    gradients = np.random.default_rng(2).normal(size=(5, 3))
    whole = ddc_divergence(gradients, np.ones((1, 5), dtype=bool), np.arange(1, 6))
    alone = ddc_divergence(gradients, np.eye(5, dtype=bool), np.arange(1, 6))
    assert whole.eps2 == pytest.approx(0, abs=1e-12) and alone.eps2_local == pytest.approx(0, abs=1e-12)
    assert whole.eps2_local[0] == pytest.approx(alone.eps2)


def test_without_noise_and_divergence_only_the_gap_is_left():
    found = ddc_bound(**BOUND | {"eps2": 0.0, "eps2_local": [0.0, 0.0], "sigma2": 0.0})
    assert found.total == found.b1 == 2


@pytest.mark.parametrize("ratio", [1, 2, 5])
def test_moving_divergence_into_clusters_pays_if_the_server_is_seldom_enough(ratio):
    """36 tau2^2 against 48 tau1^2: worth it from a ratio of 1.155 on."""
    options = BOUND | {"tau2": ratio, "n_samples": [1, 1, 1, 1]}
    between = ddc_bound(**options | {"eps2": 1.0, "eps2_local": [0.0, 0.0]})
    within = ddc_bound(**options | {"eps2": 0.0, "eps2_local": [1.0, 1.0]})
    assert (between.total > within.total) == (ratio > math.sqrt(48 / 36))
    assert between.b2 / within.b4 == pytest.approx(ratio**2 * 36 / 48)


def test_the_limit_of_the_learning_rate_and_of_the_periods_is_said():
    limit = ddc_lr_max(2.0, 2)
    assert ddc_bound(**BOUND | {"lr": limit}).lr_ok and not ddc_bound(**BOUND | {"lr": 1.001 * limit}).lr_ok
    assert limit**2 * 2.0**2 * 2**2 == pytest.approx(1 / 24)
    assert not ddc_bound(**BOUND | {"tau1": 2}).periods_ok


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"tau1": 2, "tau2": 3}, "tau2 must be a multiple of tau1, got 3 and 2"),
        ({"tau1": 0}, "tau1 must be a whole number of at least 1, got 0"),
        ({"lr": 0}, "lr must be above 0, got 0"),
        ({"gap": -1}, "gap must be at least 0, got -1"),
        ({"sigma2": -1}, "sigma2 must be at least 0, got -1"),
        ({"eps2_local": [1.0]}, "eps2_local must have shape (2), got (1,)"),
        ({"eps2_local": [1.0, -1.0]}, "eps2_local must be at least 0, got -1"),
        ({"rounds": 0}, "rounds must be a whole number of at least 1, got 0"),
        ({"smoothness": 0}, "smoothness must be above 0, got 0"),
        ({"b6": "square"}, "b6 must be one of literal, variance; got 'square'"),
        ({"n_samples": [1, 1, 0, 1]}, "n_samples must be above 0, got 0"),
        ({"cover": PAIRS.astype(int)}, "cover must be a bool array of shape (N, K), got int64 (2, 4)"),
        ({"cover": PAIRS[:1]}, "every device must be in exactly one cluster; devices [2, 3] are in none or in several"),
        ({"cover": np.vstack([PAIRS, [False] * 4])}, "clusters [2] have no devices; leave them out"),
    ],
)
def test_what_makes_no_sense_is_refused(change, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        ddc_bound(**BOUND | change)


def test_all_is_exported():
    assert {"DdcBound", "DdcDivergence", "ddc_bound", "ddc_divergence", "ddc_lr_max"} <= set(bounds.__all__)

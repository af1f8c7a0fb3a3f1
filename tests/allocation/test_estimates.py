"""Constants of the bound measured on gradients: a case by hand, quadratics whose constants are known."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedloom.allocation import convexity, dissimilarities, dissimilarity, smoothness, smoothness_along

GRADIENTS = np.array([[3.0, 0.0], [1.0, 2.0], [-1.0, 4.0]])
COVER = np.array([[True, True, False], [False, False, True]])


def rng(seed=0):
    return np.random.default_rng(seed)


def test_g7():
    assert dissimilarity(GRADIENTS[:2], [0.5, 0.5]) == pytest.approx(1.1832159566, rel=1e-9)
    delta, delta_c = dissimilarities([GRADIENTS], COVER, [10, 10, 7], [0.75, 0.25])
    assert delta == pytest.approx(1.3151918984, rel=1e-9)
    np.testing.assert_allclose(delta_c, [1.1832159566, 1.0], rtol=1e-9)


@given(st.integers(0, 2**32))
def test_it_is_at_least_one_and_one_if_all_agree(seed):
    random = rng(seed)
    rows, weights = random.normal(1, 1, (4, 6)), random.uniform(0.1, 1, 4)
    value = dissimilarity(rows, weights)
    mean = weights @ rows / weights.sum()
    square = sum(w * (row @ row) for w, row in zip(weights / weights.sum(), rows))
    assert value == pytest.approx(np.sqrt(square / (mean @ mean)), rel=1e-9)
    assert value >= 1
    assert dissimilarity(np.tile(rows[0], (4, 1)), weights) == pytest.approx(1, rel=1e-9)


def test_probes_near_a_stationary_point_are_left_out_and_the_median_counts():
    probes = [GRADIENTS, 2 * GRADIENTS, GRADIENTS[[0, 0, 0]], 0.001 * rng(0).normal(size=(3, 2))]
    delta, delta_c = dissimilarities(probes, COVER, [10, 10, 7], [0.75, 0.25])
    assert delta == pytest.approx(1.3151918984, rel=1e-9)  # of 1.315, 1.315 and 1
    assert delta_c[0] == pytest.approx(1.1832159566, rel=1e-9)
    clipped, _ = dissimilarities([np.array([[1.0, 9.0], [1.0, 9.0], [-0.99, -9.0]])], COVER, [1, 1, 1], [0.5, 0.5])
    assert clipped == 10


def test_smoothness_of_a_quadratic_is_its_largest_eigenvalue():
    basis = np.linalg.qr(rng(1).normal(size=(6, 6)))[0]
    hessian = basis @ np.diag([5.0, 2.0, 1.0, 0.5, 0.2, 0.1]) @ basis.T
    found = smoothness(lambda w: hessian @ w, rng(2).normal(size=6), rng=rng(3))
    assert found == pytest.approx(5, rel=1e-6)
    assert smoothness(lambda w: np.ones(3), np.zeros(3), rng=rng(3)) == 0


def test_smoothness_along_a_run():
    models = np.array([[0.0], [1.0], [3.0], [3.0]])
    assert smoothness_along(models, 2.5 * models) == pytest.approx(2.5)


def test_convexity_of_a_quadratic_and_its_limits():
    w = np.array([4.0, 2.0, 1.0])  # F = 3 w^2 / 2 + 1, gradient 3 w
    loss, norm = 1.5 * w**2 + 1, 3 * w
    lowest = 0.9 * loss.min()
    assert convexity(norm, loss, 10.0) == pytest.approx(min(norm**2 / (2 * (loss - lowest))), rel=1e-12)
    assert convexity(norm, loss, 0.5) == 0.5
    assert convexity(1e-6 * norm, loss, 10.0) == 1e-4


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: dissimilarity([[1.0], [-1.0]], [1, 1]), "the mean gradient is 0: this is a stationary point"),
        (lambda: dissimilarity([[1.0], [-1.0]], [0, 0]), "weights must have a positive sum, got zeros only"),
        (lambda: dissimilarities([], COVER, [1, 1, 1], [0.5, 0.5]), "at least one probe is needed"),
        (lambda: smoothness_along(np.ones((3, 2)), np.ones((3, 2))), "models must differ to compare their gradients"),
        (lambda: convexity([1.0], [0.0], 1.0), "losses must be above 0, got 0"),
    ],
)
def test_wrong_arguments_say_what_is_wrong(call, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        call()

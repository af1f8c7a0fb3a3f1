"""Weights by direction and mixed starts (MACFL as reconstructed for CSAHFL)."""

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedloom.mixing import similarity_weights, start_share


def test_two_clients_by_hand():
    # mean of (1, 0) and (0, 1) by samples 3 : 1 is (.75, .25), of length sqrt(.625); cosines .75 and .25 over it
    cosine = np.array([0.75, 0.25]) / np.sqrt(0.625)
    want = np.array([3, 1]) * np.exp(2 * cosine)
    np.testing.assert_allclose(similarity_weights(np.eye(2), [3, 1], kappa=2), want / want.sum(), rtol=1e-12)


@settings(deadline=None, max_examples=50)
@given(st.integers(0, 2**32), st.integers(1, 8), st.floats(0, 5))
def test_weights_match_a_loop(seed, m, kappa):
    rng = np.random.default_rng(seed)
    updates, n = rng.normal(size=(m, 6)).astype(np.float32), rng.integers(1, 100, m)
    mean = sum(n[i] * updates[i].astype(float) for i in range(m)) / n.sum()
    raw = []
    for i in range(m):
        u = updates[i].astype(float)
        raw.append(n[i] * np.exp(kappa * (u @ mean) / np.linalg.norm(u) / np.linalg.norm(mean)))
    got = similarity_weights(updates, n, kappa)
    np.testing.assert_allclose(got, np.array(raw) / sum(raw), rtol=1e-6)
    assert got.sum() == pytest.approx(1)


def test_kappa_zero_is_the_mean_by_samples_and_zero_updates_do_no_harm():
    np.testing.assert_allclose(similarity_weights(np.eye(3), [1, 2, 5], kappa=0), [0.125, 0.25, 0.625], rtol=1e-15)
    np.testing.assert_allclose(similarity_weights(np.zeros((2, 3)), [1, 3]), [0.25, 0.75], rtol=1e-15)


def test_starts_by_hand():
    # cosines 1, .6, 0, -1: (1 + cos) / 2 = 1, .8, .5, 0, the last raised to .5
    own = np.array([[2.0, 0], [3, 4], [0, 1], [-1, 0]], dtype=np.float32)
    model = np.array([5.0, 0.0], dtype=np.float32)
    np.testing.assert_allclose(start_share(own, model), [1, 0.8, 0.5, 0.5], rtol=1e-7)
    np.testing.assert_allclose(start_share(own, np.tile(model, (4, 1)), least=0.0), [1, 0.8, 0.5, 0], atol=1e-7)
    np.testing.assert_array_equal(start_share(own, model, least=1.0), 1)  # plain: the aggregator's model


def test_a_model_of_zeros_counts_as_unrelated():
    assert start_share(np.zeros((1, 2)), np.ones(2), least=0.2).tolist() == [0.5]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: similarity_weights(np.eye(2), [1, 0]), "n_samples must be above 0, got 0"),
        (lambda: similarity_weights(np.eye(2), [1, 1], kappa=-1), "kappa must be at least 0, got -1"),
        (lambda: similarity_weights(np.eye(3), [1, 1]), "features must have shape (2, d), got (3, 3)"),
        (lambda: start_share(np.ones((2, 3)), np.ones(2)), "aggregator (P,) or (m, P), got (2, 3), (2,)"),
        (lambda: start_share(np.ones((2, 3)), np.ones(3), least=2), "least must be between 0 and 1, got 2"),
    ],
)
def test_bad_input_is_refused(call, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        call()

"""Tiers at their own speeds (FedAT): cases by hand."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedloom.mixing import tier_weights


def test_g8_counts_are_reversed():
    np.testing.assert_allclose(tier_weights([10, 5, 2]), [0.1176471, 0.2941176, 0.5882353], atol=1e-7)


def test_at_the_start_only_tiers_that_have_updated_count():
    assert tier_weights([1, 0, 0]).tolist() == [1, 0, 0]
    assert tier_weights([3, 0, 1]).tolist() == [0.25, 0, 0.75]
    assert tier_weights([0, 0, 0]).tolist() == [0, 0, 0]


def test_counts_that_start_at_one():
    # (3, 1, 2) reversed over 6
    np.testing.assert_allclose(tier_weights([2, 0, 1], start="one"), [2 / 6, 1 / 6, 3 / 6], rtol=1e-15)
    np.testing.assert_allclose(tier_weights([0, 0, 0], start="one"), [1 / 3] * 3, rtol=1e-15)


@given(st.lists(st.integers(0, 100), min_size=1, max_size=8))
def test_weights_are_a_mean_of_the_tiers_that_have_updated(counts):
    weights = tier_weights(counts)
    np.testing.assert_array_equal(weights > 0, np.array(counts) > 0)
    assert weights.sum() == pytest.approx(1 if any(counts) else 0)
    np.testing.assert_allclose(np.sort(weights) * max(sum(counts), 1), np.sort(counts), atol=1e-12)
    np.testing.assert_allclose(tier_weights(counts[::-1]), weights[::-1], rtol=1e-15)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: tier_weights([1, -1]), "n_updates must be at least 0, got -1"),
        (lambda: tier_weights([1], start="zero"), "start must be one of active, one; got 'zero'"),
    ],
)
def test_bad_input_is_refused(call, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        call()

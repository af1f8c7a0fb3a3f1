"""CAMU's bound: a case by hand, rounds one by one, limits, and what is refused."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedloom.bounds import camu_bound


def test_by_hand():
    """A = 1 - (2 x 0.1 + 1 x 0.3) = 0.5; 4 x 0.5^3 + (1 + 0.5 + 0.25) 0.2."""
    assert camu_bound(4.0, [0.1, 0.3], [2, 1], rounds=3, noise=0.2) == pytest.approx(0.85)
    assert camu_bound(4.0, [0.1, 0.3], [2, 1], rounds=None, noise=0.2) == pytest.approx(0.4)
    assert camu_bound(4.0, [0.5, 0.7], [1, 1], rounds=3, noise=0.2) == pytest.approx(0.2)  # A below 0 is taken for 0


@given(st.integers(1, 50), st.floats(0, 0.3), st.floats(0, 1))
def test_a_round_after_the_other_leaves_the_same(rounds, b, noise):
    error = 2.0
    for _ in range(rounds):
        error = (1 - 3 * b) * error + noise
    assert camu_bound(2.0, [b], [3], rounds=rounds, noise=noise) == pytest.approx(error, rel=1e-9)


def test_where_updates_do_harm_it_grows():
    assert camu_bound(1.0, [-0.5], [1], rounds=2) == pytest.approx(2.25)
    with pytest.raises(ValueError, match=r"for ever the contraction must be below 1, got 1\.5"):
        camu_bound(1.0, [-0.5], [1], rounds=None)


@pytest.mark.parametrize("wrong", [{"first_error": -1.0}, {"noise": np.nan}, {"rounds": 0}, {"n_updates": [1, 1]}])
def test_wrong_input_is_refused(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        camu_bound(**{"first_error": 1.0, "progress": [0.1], "n_updates": [1], "rounds": 2} | wrong)

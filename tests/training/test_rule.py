"""Learning rates by hand, and refused constants."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedloom.training.rule import Constant, Exponential, InverseTime, LocalRule

schedules = st.one_of(
    st.just(Constant()),
    st.builds(Exponential, ratio=st.floats(0.5, 1.0), every_steps=st.integers(1, 20)),
    st.builds(InverseTime, delay_steps=st.floats(0.5, 1e4)),
)


def test_a_constant_rate():
    np.testing.assert_array_equal(LocalRule(lr=0.3).rates(7, 4), [0.3] * 4)


def test_an_exponential_rate_falls_once_per_epoch():
    # 0.2 * 0.5^floor(t / 3), t = 1..7: floors 0 0 1 1 1 2 2
    rule = LocalRule(lr=0.2, schedule=Exponential(ratio=0.5, every_steps=3))
    np.testing.assert_allclose(rule.rates(1, 7), [0.2, 0.2, 0.1, 0.1, 0.1, 0.05, 0.05], rtol=1e-15)


def test_the_decay_of_hhfl():
    rule = LocalRule(lr=0.1, schedule=Exponential(ratio=0.992, every_steps=25))
    assert rule.rates(250, 1)[0] == pytest.approx(0.1 * 0.992**10, rel=1e-14)


def test_an_inverse_time_rate_is_beta_over_t_plus_alpha():
    # lr_0 = beta / alpha with alpha = 40, beta = 4: 4/40, 4/41, 4/42, ... and half of lr_0 at t = alpha
    rule = LocalRule(lr=0.1, schedule=InverseTime(delay_steps=40))
    np.testing.assert_allclose(rule.rates(0, 3), [4 / 40, 4 / 41, 4 / 42], rtol=1e-14)
    assert rule.rates(40, 1)[0] == pytest.approx(0.05, rel=1e-14)


@given(schedules, st.integers(0, 10_000), st.integers(0, 30), st.integers(0, 30))
def test_rates_of_a_stretch_are_those_of_its_parts_and_never_rise(schedule, first, n, m):
    rule = LocalRule(lr=0.1, schedule=schedule)
    whole = rule.rates(first, n + m)
    assert whole.shape == (n + m,)
    np.testing.assert_array_equal(whole, np.concatenate([rule.rates(first, n), rule.rates(first + n, m)]))
    assert (np.diff(whole) <= 0).all() and (whole <= 0.1).all() and (whole >= 0).all()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: LocalRule(lr=0.0), "lr must be above 0, got 0"),
        (lambda: LocalRule(lr=float("nan")), "lr must be above 0, got nan"),
        (lambda: LocalRule(momentum=-0.1), "momentum must be at least 0, got -0.1"),
        (lambda: LocalRule(weight_decay=-1), "weight_decay must be at least 0, got -1"),
        (lambda: LocalRule(proximal=-2), "proximal must be at least 0, got -2"),
        (lambda: Exponential(ratio=0, every_steps=1), "ratio of the learning-rate decay must be above 0, got 0"),
        (
            lambda: Exponential(ratio=0.9, every_steps=0),
            "every_steps of the learning-rate decay must be a whole number of at least 1, got 0",
        ),
        (lambda: InverseTime(delay_steps=0), "delay_steps of the learning-rate decay must be above 0, got 0"),
    ],
)
def test_constants_out_of_range_are_refused(make, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        make()

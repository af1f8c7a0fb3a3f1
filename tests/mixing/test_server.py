"""Server optimisers against loops written from their published form, value by value."""

import math

import numpy as np
import pytest

from fedloom.mixing.server import Adagrad, Adam, Momentum, Yogi, stepped

OPTIMISERS = {
    "momentum": Momentum(lr=0.7, beta=0.8),
    "adagrad": Adagrad(lr=0.1, beta_1=0.5, tau=0.01),
    "adam": Adam(lr=0.1, beta_1=0.6, beta_2=0.9, tau=0.02),
    "yogi": Yogi(lr=0.2, beta_1=0.3, beta_2=0.8, tau=0.05),
}


def by_hand(name, then, x, steps):
    """One value through all steps, as published; a step is towards x + D."""
    m, v = 0.0, getattr(then, "tau", 0.0) ** 2
    for d in steps:
        if name == "momentum":
            m = then.beta * m + d
            x += then.lr * m
            continue
        m = then.beta_1 * m + (1 - then.beta_1) * d
        if name == "adagrad":
            v = v + d * d
        elif name == "adam":
            v = then.beta_2 * v + (1 - then.beta_2) * d * d
        else:
            v = v - (1 - then.beta_2) * d * d * math.copysign(1.0, v - d * d)
        x += then.lr * m / (math.sqrt(v) + then.tau)
    return x


@pytest.mark.parametrize("name", OPTIMISERS)
@pytest.mark.parametrize("seed", range(3))
def test_twenty_steps_are_those_of_the_published_form(name, seed):
    then, rng = OPTIMISERS[name], np.random.default_rng(seed)
    old, steps = rng.normal(size=7), rng.normal(scale=0.1, size=(20, 7))
    x, moments = old, [np.full(7, value) for value in then.begins]
    for step in steps:
        x, moments = stepped(then, x, x + step, moments), then.moments(step, moments)
    expected = [by_hand(name, then, old[i], steps[:, i]) for i in range(7)]
    np.testing.assert_allclose(x, expected, rtol=1e-12)


def test_without_memory_and_with_rate_one_the_step_is_taken_to_the_bit():
    rng = np.random.default_rng(0)
    old, merged = (rng.normal(size=1000).astype(np.float32).astype(np.float64) for _ in range(2))
    assert np.array_equal(stepped(Momentum(lr=1.0, beta=0.0), old, merged, [rng.normal(size=1000)]), merged)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Momentum(beta=1.0), "beta must be at least 0 and less than 1, got 1"),
        (lambda: Momentum(lr=0.0), "lr"),
        (lambda: Adam(tau=0.0), "tau"),
        (lambda: Yogi(tau=1e300), "tau must be at most 1e\\+06, as steps are small, got 1e\\+300"),
        (lambda: Yogi(beta_1=-0.1), "beta_1 must be at least 0 and less than 1"),
        (lambda: Adam(beta_2=1.5), "beta_2 must be at least 0 and less than 1"),
    ],
)
def test_what_cannot_be_says_why(make, message):
    with pytest.raises(ValueError, match=message):
        make()

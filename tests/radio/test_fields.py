"""Fields over the plane: variance and correlation are what they are said to be, over many fields and within one."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedloom import radio

D_M = 50.0


def many(points, n_fields=4000, correlation_m=D_M):
    rng = np.random.default_rng(7)
    return np.array([radio.field_at(radio.plane_waves(correlation_m, rng), points) for _ in range(n_fields)])


def test_over_many_fields_values_are_standard_normal_and_correlated_by_exp_of_the_distance():
    """The standard error of a mean of n products is about sqrt((1 + r^2) / n) = 0.022; four of them are allowed."""
    apart = np.array([0.0, 5.0, 25.0, 50.0, 100.0, 400.0])
    points = np.stack([300 + apart, 0 * apart - 200], axis=1)
    values = many(points)
    error = 4 * np.sqrt(2 / len(values))
    np.testing.assert_allclose(values.mean(axis=0), 0, atol=error)
    np.testing.assert_allclose(values.var(axis=0), 1, atol=error)
    np.testing.assert_allclose((values * values[:, :1]).mean(axis=0), np.exp(-apart / D_M), atol=error)
    within = np.abs(values[:, 0])
    np.testing.assert_allclose([(within < z).mean() for z in (1, 2)], [0.6827, 0.9545], atol=0.03)


def test_directions_are_alike():
    angle = np.linspace(0, np.pi, 5)
    around = np.concatenate([[[0, 0]], 25 * np.stack([np.cos(angle), np.sin(angle)], axis=1)])
    values = many(around, 2000)
    error = 4 * np.sqrt(2 / len(values))
    np.testing.assert_allclose((values[:, 1:] * values[:, :1]).mean(axis=0), np.exp(-0.5), atol=error)


def test_one_field_alone_has_about_this_variance_and_correlation():
    rng = np.random.default_rng(3)
    field, points = radio.plane_waves(D_M, rng), rng.uniform(0, 20_000, (4000, 2))
    here = radio.field_at(field, points)
    assert abs(here.mean()) < 0.1
    assert here.std() == pytest.approx(1, abs=0.1)
    for apart in (10.0, 50.0):
        there = radio.field_at(field, points + [apart, 0])
        assert (here * there).mean() == pytest.approx(np.exp(-apart / D_M), abs=0.1)


@given(st.integers(0, 2**32), st.integers(1, 40))
def test_a_place_has_one_value_whoever_else_is_asked_for(seed, n):
    rng = np.random.default_rng(seed)
    field, points = radio.plane_waves(D_M, rng), rng.uniform(-1e4, 1e4, (n, 2))
    alone = [radio.field_at(field, points[k : k + 1])[0] for k in range(n)]
    assert radio.field_at(field, points).tolist() == alone


def test_many_places_are_done_in_blocks():
    field = radio.plane_waves(D_M, np.random.default_rng(0))
    points = np.random.default_rng(1).uniform(0, 1000, (5000, 2))
    np.testing.assert_array_equal(radio.field_at(field, points)[4000:], radio.field_at(field, points[4000:]))


def pairs(points, rng, correlation_m=D_M):
    waves = [radio.plane_waves(correlation_m, rng) for _ in range(2)]
    return radio.pair_field(*waves, correlation_m, points, points, radio.distances(points, points))


def test_pairs_have_variance_one_and_the_correlation_of_both_ends():
    """Between 0 and 2, 500 m apart, and 1 and 3, each moved by 20 m: exp(-(20 + 20) / 50)."""
    points = np.array([[0.0, 0], [20, 0], [500, 0], [520, 0]])
    rng = np.random.default_rng(5)
    values = np.array([pairs(points, rng) for _ in range(1000)])
    error = 4 * np.sqrt(2 / len(values))
    np.testing.assert_allclose(values.var(axis=0), 1, atol=error)
    for other, correlation in (((1, 2), np.exp(-20 / D_M)), ((1, 3), np.exp(-40 / D_M)), ((2, 3), 0.0)):
        assert (values[:, 0, 2] * values[:, *other]).mean() == pytest.approx(correlation, abs=error)


@given(st.integers(0, 2**32), st.integers(1, 30))
def test_pairs_are_the_same_in_both_directions_to_the_bit(seed, n):
    rng = np.random.default_rng(seed)
    values = pairs(rng.uniform(0, 1000, (n, 2)), rng)
    np.testing.assert_array_equal(values, values.T)


def test_pairs_are_what_the_sum_of_waves_says():
    rng = np.random.default_rng(2)
    first, second = radio.plane_waves(D_M, rng, 8), radio.plane_waves(D_M, rng, 8)
    a, b = np.array([3.0, 70.0]), np.array([-20.0, 5.0])
    apart = radio.distances([a], [b])
    both = 0.0
    for x, y in ((a, b), (b, a)):
        for m in range(8):
            both += np.cos(first.number_rad_m[m] @ x + second.number_rad_m[m] @ y + first.phase_rad[m])
    expected = np.sqrt(2 / 8) * both / np.sqrt(2 * (1 + np.exp(-2 * apart[0, 0] / D_M)))
    assert radio.pair_field(first, second, D_M, [a], [b], apart)[0, 0] == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda rng: radio.plane_waves(0.0, rng), "correlation_m must be above 0, got 0"),
        (lambda rng: radio.plane_waves(1.0, rng, 0), "n_waves must be a whole number of at least 1, got 0"),
        (
            lambda rng: radio.field_at(radio.plane_waves(1.0, rng), [[1.0]]),
            "point_m must have shape (any, 2), got (1, 1)",
        ),
    ],
)
def test_what_makes_no_sense_is_refused(call, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        call(np.random.default_rng(0))

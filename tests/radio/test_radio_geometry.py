"""Distances."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from fedloom.radio import distances

coordinates = st.floats(-1e6, 1e6)


def test_three_four_five():
    np.testing.assert_array_equal(distances([[0, 0], [3, 0]], [[0, 4], [3, 4], [3, 0]]), [[4, 5, 3], [5, 4, 0]])


def test_height_counts():
    assert distances([[-50, 0, 10]], [[-50, 0, 0]]) == pytest.approx(10)


@given(arrays(np.float64, st.tuples(st.integers(0, 8), st.integers(1, 3)), elements=coordinates))
def test_symmetric_zero_on_the_diagonal_and_as_a_loop(points):
    d = distances(points, points)
    np.testing.assert_array_equal(d, d.T)
    assert not d.diagonal().any()
    for i, a in enumerate(points):
        for j, b in enumerate(points):
            assert d[i, j] == pytest.approx(sum((x - y) ** 2 for x, y in zip(a, b)) ** 0.5)
            for k in range(len(points)):
                assert d[i, j] <= d[i, k] + d[k, j] + 1e-6


def test_points_of_different_dimension_are_refused():
    with pytest.raises(ValueError, match="same number of coordinates, got 2 and 3; add a height of 0"):
        distances([[0, 0]], [[0, 0, 0]])


def test_a_single_point_must_still_be_a_table():
    with pytest.raises(ValueError, match=r"a must have shape \(any, any\), got \(2,\)"):
        distances([0, 0], [[0, 0]])


def test_an_infinite_coordinate_is_named():
    with pytest.raises(ValueError, match=r"b must be finite, got inf at index \[1, 0\]"):
        distances([[0, 0]], [[0, 0], [np.inf, 0]])

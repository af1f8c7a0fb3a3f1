"""Rows and Flower's arrays."""

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord

from fedloom.flower.arrays import BadArrays, layout_of_arrays


def two():
    return ArrayRecord(
        {"a": Array(np.array([[1.5, 2.5]], np.float32)), "n": Array(np.array(7, np.int64)), "b": Array(np.zeros(3))}
    )


def test_a_row_is_the_arrays_one_after_the_other_and_back():
    layout = layout_of_arrays(two())
    assert layout.row(two()).tolist() == [1.5, 2.5, 7.0, 0.0, 0.0, 0.0]
    back = layout.arrays(np.array([1, 2, 3.6, 4, 5, 6], np.float32))
    assert back["a"].numpy().tolist() == [[1.0, 2.0]]
    assert back["n"].numpy() == 4 and back["n"].numpy().dtype == np.int64  # whole numbers are rounded
    assert back["b"].numpy().dtype == np.float64


def test_positions_are_those_of_the_named_arrays():
    layout = layout_of_arrays(two())
    assert layout.columns(("b", "a")).tolist() == [3, 4, 5, 0, 1]
    with pytest.raises(ValueError, match="the model has no tensors c; it has a, n, b"):
        layout.columns(("c",))


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"a": None}, "the arrays must be a, b, n, got b, n"),
        ({"c": np.zeros(1)}, "the arrays must be a, b, n, got a, b, c, n"),
        ({"a": np.zeros((2, 1))}, r"a must be numbers of shape \(1, 2\), got float64 of \(2, 1\)"),
        ({"b": np.array(["x", "y", "z"])}, r"b must be numbers of shape \(3,\)"),
        ({"b": np.array([0, np.inf, 0])}, "not finite"),
        ({"b": np.array([0, 1e300, 0])}, "not finite"),
    ],
)
def test_what_is_no_model_of_this_federation_is_refused(change, why):
    changed = {name: array for name, array in {**two(), **change}.items() if array is not None}
    made = {name: a if isinstance(a, Array) else Array(a) for name, a in changed.items()}
    with pytest.raises(BadArrays, match=why):
        layout_of_arrays(two()).row(made)

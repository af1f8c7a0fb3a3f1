"""Distances between points, in metres."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedloom import _check


def distances(a: ArrayLike, b: ArrayLike) -> NDArray[np.float64]:
    """Euclidean distance of every point of `a` (A, D) to every point of `b` (B, D): (A, B), all in metres.

    `distances(a, a)` is exactly symmetric with an exactly zero diagonal.

    >>> distances([[0, 0], [3, 0]], [[0, 4]])
    array([[4.],
           [5.]])
    """
    first = _check.array("a", a, (None, None))
    second = _check.array("b", b, (None, None))
    if first.shape[1] != second.shape[1]:
        raise ValueError(
            f"a and b must have the same number of coordinates, got {first.shape[1]} and {second.shape[1]}; "
            "add a height of 0 to the flat ones"
        )
    square = np.zeros((len(first), len(second)))
    for x, y in zip(first.T, second.T):  # one coordinate at a time: no (A, B, D) array
        square += np.subtract.outer(x, y) ** 2
    return np.sqrt(square)

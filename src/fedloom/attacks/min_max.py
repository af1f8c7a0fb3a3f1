"""Min-max: as far from the mean as possible without being farther from anybody than two honest ones are from each other.

    c = mean + gamma p,     gamma the largest with   max_i ||c - d_i|| <= max_ij ||d_i - d_j||
    p = -mean / ||mean||  (unit),   -std  (std),   or  -sign(mean)  (sign)

V. Shejwalkar, A. Houmansadr, "Manipulating the Byzantine: Optimizing Model Poisoning Attacks and Defenses for Federated
Learning", NDSS 2021 (Min-Max); it knows nothing of the rule that merges. gamma is not searched for by halving but solved:
||mean + gamma p - d_i||^2 is a parabola in gamma for each i, and the least of the roots is it.
"""

import numpy as np
from numpy.typing import NDArray

from fedloom import _check

Floats = NDArray[np.float64]
DIRECTIONS = ("unit", "std", "sign")


def min_max(changes: Floats, direction: str = "std") -> Floats:
    """c (P,) of known changes (k, P). Of one, or where all are the same, it is their mean.

    >>> min_max(np.array([[1.0], [3.0]]), "std").tolist()  # 2 - gamma, and from 3 to there at most 2
    [1.0]
    """
    _check.one_of("direction", direction, DIRECTIONS)
    mean = changes.mean(axis=0)
    length = float(np.linalg.norm(mean))
    p = {"unit": -mean / length if length else np.zeros_like(mean), "sign": -np.sign(mean)}.get(direction)
    if p is None:
        p = -changes.std(axis=0)
    away = mean - changes  # (k, P)
    inner, square = away @ p, float(p @ p)
    if square == 0:
        return np.asarray(mean)
    room = _largest_distance(changes) ** 2 - (away**2).sum(axis=1)  # at least 0: nobody is farther from the mean
    gamma = (np.sqrt(inner**2 + square * np.maximum(room, 0.0)) - inner) / square
    return np.asarray(mean + gamma.min() * p)


def _largest_distance(rows: Floats) -> float:
    return max(float(np.linalg.norm(rows - row, axis=1).max()) for row in rows)

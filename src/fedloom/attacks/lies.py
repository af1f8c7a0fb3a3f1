"""What hostile clients say of themselves, in place of what is true: to weigh more, to become heads, to be put elsewhere.

K clients, `liars` (K,) true for those who lie; what the others say is as it is.
"""

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.floating]
Mask = NDArray[np.bool_]


def sizes(n_samples: Ints, liars: Mask, factor: float) -> Ints:
    """(K,) samples: `factor` times as many, at least one.

    >>> sizes(np.array([10, 10]), np.array([True, False]), 5.0).tolist()
    [50, 10]
    """
    return np.where(liars, np.maximum(1, np.rint(n_samples * factor)), n_samples).astype(np.int64)


def labels(label_counts: Ints, liars: Mask, way: str) -> Ints:
    """(K, C) samples of each class. even: as many of each as of the mean class, to look like all others together; mirror: in the
    opposite order.

    >>> labels(np.array([[4, 0], [3, 1]]), np.array([True, False]), "even").tolist()
    [[2, 2], [3, 1]]
    """
    if way == "mirror":
        told = label_counts[:, ::-1]
    else:
        total, n = label_counts.sum(axis=1, keepdims=True), max(1, label_counts.shape[1])
        told = total // n + (np.arange(label_counts.shape[1]) < total % n)
    return np.where(liars[:, None], told, label_counts)


def seconds(step_s: NDArray[np.float64], liars: Mask, speed: float) -> NDArray[np.float64]:
    """(K,) seconds of a step: `speed` times as fast."""
    return np.where(liars, step_s / speed, step_s)


def positions(position_m: NDArray[np.float64], liars: Mask, way: str) -> NDArray[np.float64]:
    """(K, D) metres. centre: in the middle of all devices, where heads are chosen; mirror: on the other side of it."""
    middle = position_m.mean(axis=0)
    return np.where(liars[:, None], middle if way == "centre" else 2 * middle - position_m, position_m)


def features(values: Floats, liars: Mask, way: str) -> Floats:
    """(K, ...) gradients, predictions, signatures. flip: their negative; mean: the mean of the others, to look like them."""
    out = values.copy()
    if way == "flip":
        out[liars] = -values[liars]
    elif (~liars).any():
        out[liars] = values[~liars].mean(axis=0)
    return out

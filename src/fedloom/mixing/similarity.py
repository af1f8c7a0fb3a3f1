"""Weights by the direction of updates, and starts between two models.

Our reconstruction of what MACFL does for roaming clients, of whose paper we had the abstract alone: the rules are ours.

    a_i = n_i exp(kappa cos(D_i, D)) / sum_l n_l exp(kappa cos(D_l, D)),   D = sum_i n_i D_i / sum_i n_i
    start_i = phi_i w + (1 - phi_i) w_i,   phi_i = clip((1 + cos(w_i, w)) / 2, least, 1)

D_i is what client i changed, w the model of its aggregator, w_i its own last one. The more an update points where all
together go, the more it counts; the more alike the two models, the more a client starts from its aggregator's. kappa = 0
and least = 1 are plain averaging. m clients, P parameters. A zero vector has cosine 0 with anything.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedloom import _check
from fedloom.grouping.directions import gram_matrix
from fedloom.mixing.weights import Floats


def similarity_weights(updates: NDArray[np.floating], n_samples: ArrayLike, kappa: float = 1.0) -> Floats:
    """a (m,), sum 1, of updates (m, P) by clients with n_samples (m,).

    >>> similarity_weights(np.array([[1.0, 0.0], [1.0, 0.0]]), [1, 3]).tolist()
    [0.25, 0.75]
    """
    n = _check.array("n_samples", n_samples, (None,))
    _check.positive("n_samples", n)
    _check.positive("kappa", kappa, zero=True)
    gram = gram_matrix(updates, np.ones(len(n)))  # (m, m)
    share = n / n.sum()
    with_mean = gram @ share
    length = np.sqrt(gram.diagonal() * max(float(share @ with_mean), 0.0))
    cosine = np.divide(with_mean, length, out=np.zeros_like(length), where=length > 0).clip(-1, 1)
    weights = n * np.exp(kappa * cosine)
    return np.asarray(weights / weights.sum())


def start_share(own: NDArray[np.floating], aggregator: NDArray[np.floating], least: float = 0.5) -> Floats:
    """phi (m,) in [least, 1]: how much of the aggregator's model, (P,) or (m, P), goes into each start; own (m, P).

    >>> start_share(np.array([[2.0, 0.0], [0.0, 1.0], [-1.0, 0.0]]), np.array([1.0, 0.0])).tolist()
    [1.0, 0.5, 0.5]
    """
    if not 0 <= least <= 1:
        raise ValueError(f"least must be between 0 and 1, got {least:g}")
    if own.ndim != 2 or aggregator.shape not in (own.shape, own.shape[1:]):
        raise ValueError(
            f"own must have shape (m, P) and aggregator (P,) or (m, P), got {own.shape}, {aggregator.shape}"
        )
    other = np.broadcast_to(aggregator, own.shape)
    product, own_square, other_square = (
        np.einsum("mp,mp->m", a, b, dtype=np.float64) for a, b in ((own, other), (own, own), (other, other))
    )
    length = np.sqrt(own_square * other_square)
    cosine = np.divide(product, length, out=np.zeros_like(length), where=length > 0)
    return np.asarray(((1 + cosine) / 2).clip(least, 1.0))

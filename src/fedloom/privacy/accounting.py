"""How much a client has given away after many releases with Gaussian noise.

A release that moves by at most S with or without a client's change, and has noise of standard deviation z S, costs 1 / z^2. Costs
of releases add up: together they tell of the client what one release with noise z S does,

    z = (sum_j 1 / z_j^2)^(-1/2)                                                            (1)

whatever later ones do with earlier ones (J. Dong, A. Roth, W. Su: Gaussian Differential Privacy, 2022, corollary 2; exact for
Gaussian noise, so that nothing is lost by adding). Epsilon of that release for a given delta is the accountant's (dp-accounting).

Neighbours are federations with and without what one client changed: its update or nothing. Where it could be any other update
instead, noise counts half. Who is sampled is not taken for a secret, so that sampling does not lower the price.

    uploads   noise z at the client       each costs 1 / z^2                                 (2) to who sees them
    merges    noise z at clients          each costs a_k^2 / (z^2 sum_i a_i^2)               (3) to who sees merges alone
              noise z at the aggregator   each costs (a_k / max_i a_i)^2 / z^2               (4)

Eq. (3) counts on the noise of the other clients: who knows theirs learns up to (2). m updates with weights a_i in a merge; K
clients.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedloom import _check

Floats = NDArray[np.float64]
INSTALL = 'epsilon is computed by dp-accounting, which is not installed: pip install "fedloom[privacy]"'


def by_upload(noise: float) -> float:
    """Eq. (2).

    >>> by_upload(2.0)
    0.25
    """
    return 1.0 / noise**2


def by_noisy_clients(weights: Floats, noise: float) -> Floats:
    """Eq. (3): (m,) of weights (m,).

    >>> by_noisy_clients(np.array([0.5, 0.5]), 1.0).tolist()
    [0.5, 0.5]
    """
    squares = weights**2
    return np.asarray(squares / (noise**2 * squares.sum()))


def by_noisy_merge(weights: Floats, noise: float) -> Floats:
    """Eq. (4): (m,) of weights (m,).

    >>> by_noisy_merge(np.array([0.25, 0.75, 0.5]), 1.0).round(4).tolist()
    [0.1111, 1.0, 0.4444]
    """
    return np.asarray((weights / np.abs(weights).max() / noise) ** 2)


def epsilon(spent: ArrayLike, delta: float) -> Floats:
    """Of clients whose releases cost `spent` (K,) together, eq. (1); 0 for who released nothing, infinite if noise was 0."""
    try:
        from dp_accounting import get_epsilon_gaussian
    except ImportError:
        raise ValueError(INSTALL) from None
    cost = _check.array("spent", spent, (None,), finite=False)
    if not 0 < delta < 1:
        raise ValueError(f"delta must be between 0 and 1, got {delta:g}")
    values, which = np.unique(cost, return_inverse=True)
    found = [0.0 if v == 0 else np.inf if np.isinf(v) else float(get_epsilon_gaussian(v**-0.5, delta)) for v in values]
    return np.array(found)[which]

"""What an update of a cluster takes off the error, by the analysis of CAMU.

    A     = 1 - sum_c N_c b_c                                            of the error that a cloud round leaves (CAMU, eq. 46)
    b_c   = 2 mu lr delta G_c delta_c - mu L (lr delta G_c delta_c)^2 s_c
    b_c > 0 for lr < 2 / (L delta G_c delta_c s_c)                                                             (CAMU, eq. 18)
    c descends by itself for delta G_c < 1 and lr < 2 / (L delta_c s_c)                                        (CAMU, eq. 19)

N_c: updates of cluster c in a cloud round; G_c: its weight; s_c: sum of its members' squared weights; delta, delta_c: how much
gradients of clusters, and of the members of c, differ; mu, L: convexity and smoothness. C clusters.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]


def update_progress(
    *, weight: Floats, delta: float, delta_c: ArrayLike, concentration: Floats, lr: float, mu: float, smooth: float
) -> Floats:
    """b (C,). weight: G_c (C,); delta_c: (C,) or one for all; concentration: s_c (C,)."""
    step = lr * delta * weight * np.asarray(delta_c)
    return np.asarray(mu * step * (2 - smooth * step * concentration))


def rate_limits(
    *, weight: Floats, delta: float, delta_c: ArrayLike, concentration: Floats, smooth: float
) -> tuple[Floats, Floats]:
    """Learning rates (C,) below which each cluster helps (CAMU, eq. 18) and is a descent of its own (CAMU, eq. 19).

    The second holds only where delta G_c < 1; it is infinitely strict, 0, elsewhere. The two are not the same.
    """
    own = 2 / (smooth * np.asarray(delta_c) * concentration)
    share = delta * weight
    return own / share, np.where(share < 1, own, 0.0)

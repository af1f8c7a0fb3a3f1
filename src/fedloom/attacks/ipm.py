"""Inner product manipulation: send the negative of the mean, so that the merged step points away from what honest ones want.

    c = -(epsilon / k) sum_i d_i           over the k updates that are known

C. Xie, S. Koyejo, I. Gupta, "Fall of Empires: Breaking Byzantine-tolerant SGD by Inner Product Manipulation", UAI 2019.
A small epsilon hides among honest updates near convergence; a large one is a scaled sign flip of the mean.
"""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def inner_product(changes: Floats, epsilon: float) -> Floats:
    """c (P,) of known changes (k, P).

    >>> inner_product(np.array([[1.0, 4.0], [3.0, 0.0]]), 0.5).tolist()
    [-1.0, -1.0]
    """
    return np.asarray(-epsilon * changes.mean(axis=0))

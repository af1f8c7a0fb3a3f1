"""Labels that are turned round: what a client learns from is the opposite of what it sees.

    y -> C - 1 - y         mirror, all classes at once
    y -> (y + 1) mod C     next
    y -> target            all the same

V. Tolpegin, S. Truex, M. E. Gursoy, L. Liu, "Data Poisoning Attacks Against Federated Learning Systems", ESORICS 2020, flips one
class to another; the mirror is that of M. Fang et al., "Local Model Poisoning Attacks to Byzantine-Robust Federated Learning",
USENIX Security 2020.
"""

import numpy as np
from numpy.typing import NDArray

from fedloom import _check

Ints = NDArray[np.int64]
WAYS = ("mirror", "next")


def flipped(labels: Ints, n_classes: int, to: str | int = "mirror") -> Ints:
    """(n,) of labels (n,) out of C classes.

    >>> flipped(np.array([0, 1, 3]), 4).tolist(), flipped(np.array([0, 3]), 4, "next").tolist()
    ([3, 2, 0], [1, 0])
    """
    if isinstance(to, int):
        if not 0 <= to < n_classes:
            raise ValueError(f"labels can be flipped to a class in 0..{n_classes - 1}, got {to}")
        return np.full_like(labels, to)
    _check.one_of("to", to, WAYS)
    return np.asarray(n_classes - 1 - labels if to == "mirror" else (labels + 1) % n_classes)

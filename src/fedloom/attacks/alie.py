"""A little is enough: change every value by less than honest updates differ, so that nothing looks odd.

    c_j   = mean_j - z std_j                                       over the updates that are known, value by value
    z_max = Phi^-1( (n - m - s) / (n - m) ),   s = floor(n / 2 + 1) - m

M. Baruch, G. Baruch, Y. Goldberg, "A Little Is Enough: Circumventing Defenses For Distributed Learning", NeurIPS 2019:
of n clients m are corrupted, and with s honest ones beyond c they are a majority. All of them send c. std is that
of the values themselves (divided by their number). Where m is half or more, s is 0 or less and any z has its majority; the
share is kept below 1 by taking s of at least 1 (ours).
"""

import numpy as np
from numpy.typing import NDArray

from fedloom import _check

Floats = NDArray[np.float64]


def a_little(changes: Floats, z: float) -> Floats:
    """c (P,) of known changes (k, P).

    >>> a_little(np.array([[1.0, 4.0], [3.0, 4.0]]), 1.5).tolist()  # means 2 and 4, standard deviations 1 and 0
    [0.5, 4.0]
    """
    return np.asarray(changes.mean(axis=0) - z * changes.std(axis=0))


def supporters_z(n: int, m: int) -> float:
    """z_max of n clients of which m are corrupted; 0 if all are.

    >>> round(supporters_z(50, 24), 3)  # s = 2: Phi^-1(24 / 26), the paper's example with z about 1.43
    1.426
    """
    from scipy.special import ndtri

    _check.whole("n", n)
    honest = n - m
    if honest <= 0:
        return 0.0
    s = max(1, n // 2 + 1 - m)
    return max(0.0, float(ndtri((honest - s) / honest))) if honest > s else 0.0

"""The bound of CAMU on the error of the global model.

    F(w_T) - F* <= A^T (F(w_0) - F*) + (1 - A^T) / (1 - A) J                                                   (CAMU, eq. 17)

A: what a cloud round leaves of the error, `fedloom.allocation.contraction`; J: noise of the uplinks, 0 without. Below 0 A means
nothing; it is taken for 0, with which the bound says that the error is gone after one round. What else is wrong with it stands
in docs/methods/camu.md.
"""

import numpy as np
from numpy.typing import ArrayLike

from fedloom import _check


def camu_bound(
    first_error: float, progress: ArrayLike, n_updates: ArrayLike, *, rounds: int | None, noise: float = 0.0
) -> float:
    """first_error: F(w_0) - F*; progress, n_updates (C,): b and N of each cluster; rounds: T, None for ever; noise: J."""
    _check.positive("first_error", first_error, zero=True)
    _check.positive("noise", noise, zero=True)
    _check.wholes(rounds=rounds)
    b = _check.array("progress", progress, (None,))
    left = max(0.0, 1 - float(_check.array("n_updates", n_updates, b.shape) @ b))
    if rounds is None:
        if not left < 1:
            raise ValueError(f"for ever the contraction must be below 1, got {left:g}")
        return noise / (1 - left)
    return float(left**rounds * first_error + noise * np.sum(left ** np.arange(rounds)))

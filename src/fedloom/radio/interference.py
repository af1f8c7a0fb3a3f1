"""Power that arrives from neighbouring cells on the same band, on average over fading and over who sends.

    down   I_nk = load sum_{m != n} P g_mk                    at device k while it listens to cell n
    up     I_n  = load sum_{m != n} mean_{j in m} P_j g_nj    at cell n

Down: all other cells send, `load` of the time. Up: in every other cell one of its devices sends, any of them as often as the
others, `load` of the time.

g (N, K): power gains of paths between N cells and K devices, of one antenna. All cells use the same band all over, and powers
as they are set: there is neither power control nor coordination between cells, nor one's own cell's interference.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedloom import _check

Array = NDArray[np.float64]


def from_other_cells_w(power_w: float, gain: ArrayLike, load: float) -> Array:
    """(N, K): watt at device k while it listens to cell n.

    >>> from_other_cells_w(2.0, [[0.5], [0.25], [0.125]], 0.5).tolist()
    [[0.375], [0.625], [0.75]]
    """
    _check.positive("power_w", power_w, zero=True)
    received = power_w * _check.array("gain", gain, (None, None))
    nothing = np.zeros((1, received.shape[1]))
    before = np.cumsum(np.concatenate([nothing, received[:-1]]), axis=0)  # sums without one's own: a difference to
    after = np.cumsum(np.concatenate([nothing, received[:0:-1]]), axis=0)[::-1]  # the sum of all would cancel
    return np.asarray(_share(load) * (before + after))


def from_other_devices_w(power_w: ArrayLike, gain: ArrayLike, home: NDArray[np.int64], load: float) -> Array:
    """(N,): watt at each cell. power_w: of each device (K,) or of all; home (K,): its cell, below 0 if it takes no part.

    >>> from_other_devices_w(1.0, [[9.0, 0.5, 0.25], [0.125, 9.0, 9.0]], np.array([0, 1, 1]), 0.5).tolist()
    [0.1875, 0.0625]
    """
    _check.positive("power_w", power_w, zero=True)
    gains = _check.array("gain", gain, (None, len(home)))
    received = np.asarray(power_w, dtype=np.float64) * gains
    n_cells, takes_part = len(gains), home >= 0
    count = np.bincount(home[takes_part], minlength=n_cells)
    total = np.zeros((n_cells, n_cells))  # (at cell, of cell)
    for cell in range(n_cells):
        total[cell] = np.bincount(home[takes_part], weights=received[cell, takes_part], minlength=n_cells)
    mean = total / np.maximum(count, 1)
    np.fill_diagonal(mean, 0.0)
    return _share(load) * np.asarray(mean.sum(axis=1))


def _share(load: float) -> float:
    if not 0 <= load <= 1:
        raise ValueError(f"load must be a share in 0..1, got {load:g}")
    return load

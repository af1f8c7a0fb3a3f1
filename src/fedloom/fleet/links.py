"""Device-to-device rates: symmetric matrices (K, K) in bit/s; 0 is a link that is down.

The diagonal is infinite: a device needs no link to itself.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedloom import _check

Array = NDArray[np.float64]


def drawn(n: int, low: float, high: float, rng: np.random.Generator, integer: bool = True) -> Array:
    """One draw per pair of `n` devices, uniform on {low..high} or on [low, high).

    LTC (section 5.2, Table 4) gives low and high; the law is ours. The unit is the caller's.
    """
    _check.whole("n", n)
    _check.positive("low", low, zero=True)
    if low > high:
        raise ValueError(f"low must be at most high, got low {low:g} and high {high:g}")
    n_pairs = n * (n - 1) // 2
    if integer:
        if low != int(low) or high != int(high):
            raise ValueError(f"low and high must be whole unless integer is false, got {low:g}, {high:g}")
        values = rng.integers(int(low), int(high), n_pairs, endpoint=True).astype(np.float64)
    else:
        values = rng.uniform(low, high, n_pairs)
    return of_pairs(n, values)


def of_pairs(n: int, values: Array) -> Array:
    """Values of the pairs (0, 1), (0, 2), .., (1, 2), .. as a symmetric (n, n) with infinite diagonal."""
    rates = np.full((n, n), np.inf)
    upper = np.triu_indices(n, 1)
    rates[upper] = values
    rates.T[upper] = values
    return rates


def given(matrix_bit_s: ArrayLike) -> Array:
    """A copy of a user's matrix (K, K) after checking it: square, symmetric, non-negative, no NaN.

    What stands on the diagonal is ignored.
    """
    rates = np.array(matrix_bit_s, dtype=np.float64)
    if rates.ndim != 2 or rates.shape[0] != rates.shape[1]:
        raise ValueError(f"device-to-device rates must be a square matrix, got shape {rates.shape}")
    np.fill_diagonal(rates, np.inf)
    bad = ~(rates >= 0)
    if bad.any():
        i, j = np.argwhere(bad)[0].tolist()
        raise ValueError(f"the rate between devices {i} and {j} must be at least 0, got {rates[i, j]}")
    if (rates != rates.T).any():
        i, j = np.argwhere(rates != rates.T)[0].tolist()
        raise ValueError(
            f"device-to-device rates must be symmetric, got {rates[i, j]:g} from {i} to {j} "
            f"and {rates[j, i]:g} back; use the smaller of the two for both"
        )
    return rates

"""Small-scale fading: by what the gain of a path is multiplied, of mean 1, for a receiver that combines L antennas.

    |h|^2 / L,   h = sqrt(K / (K + 1)) 1 + sqrt(1 / (K + 1)) g,   g ~ CN(0, I)          Rician; K = 0 is Rayleigh

so 2 (K + 1) |h|^2 is chi-square with 2 L degrees of freedom and noncentrality 2 L K. K is the power of the direct ray over that
of all others. Flat over the band and drawn once for a link; no correlation between antennas.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedloom import _check

Array = NDArray[np.float64]


def rayleigh_gain(shape: tuple[int, ...], rng: np.random.Generator, antennas: int = 1) -> Array:
    """Gains of links without a direct ray."""
    _check.whole("antennas", antennas)
    return rng.standard_gamma(antennas, shape) / antennas


def rician_gain(k: ArrayLike, rng: np.random.Generator, antennas: int = 1) -> Array:
    """Gains of links of ratios K (not dB), in their shape; 0 for links without a direct ray.

    >>> print(f"{rician_gain(np.full(100_000, 8.0), np.random.default_rng(0)).mean():.2f}")
    1.00
    """
    _check.whole("antennas", antennas)
    _check.positive("k", k, zero=True)
    ratio = np.asarray(k, dtype=np.float64)
    return rng.noncentral_chisquare(2 * antennas, 2 * antennas * ratio) / (2 * antennas * (ratio + 1))

"""Walls between an outdoor site and a device in a building: 3GPP TR 38.901 (version 16.1), 7.4.3.1.

    PL      = PL_b + PL_tw + PL_in + N(0, sigma_p^2)                     dB; PL_b: over the whole way, as if there were no wall
    PL_tw   = 5 - 10 log10(sum over materials of share 10^(-L / 10))     through the wall
    PL_in   = 0.5 d_in                                                   d_in: metres behind the wall

    low     30 % glass, 70 % concrete, sigma_p 4.4 dB                    old buildings
    high    70 % coated glass, 30 % concrete, sigma_p 6.5 dB             new buildings
    L       glass 2 + 0.2 f, coated glass 23 + 0.3 f, concrete 5 + 4 f   (Table 7.4.3-1; f in GHz)

Later versions have another coated glass (19.2: 25.4 + 0.11 f). Left out: Table 7.4.3-3 (a fixed 20 dB, for comparison with
earlier studies below 6 GHz), wood, cars, and walls between rooms.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedloom import _check

Array = NDArray[np.float64]

STD_DB = {"low": 4.4, "high": 6.5}  # Table 7.4.3-2


def wall_loss_db(kind: str, carrier_hz: ArrayLike) -> Array:
    """PL_tw of an outer wall, "low" or "high", in dB.

    >>> print(f"{wall_loss_db('low', 3.5e9):.2f} {wall_loss_db('high', 3.5e9):.2f}")
    12.70 26.85
    """
    _check.one_of("kind", kind, tuple(STD_DB))
    _check.positive("carrier_hz", carrier_hz)
    f = np.asarray(carrier_hz, dtype=np.float64) / 1e9
    glass, concrete = (0.3, 2 + 0.2 * f) if kind == "low" else (0.7, 23 + 0.3 * f), 5 + 4 * f
    passed = glass[0] * 10 ** (-glass[1] / 10) + (1 - glass[0]) * 10 ** (-concrete / 10)
    return np.asarray(5 - 10 * np.log10(passed))[()]


def inside_m(most_m: float, uniform: ArrayLike, other: ArrayLike) -> Array:
    """d_in out of two numbers in (0, 1): the smaller of two lengths that are uniform up to `most_m`."""
    return np.asarray(most_m * np.minimum(uniform, other))[()]


def penetration_db(kind: str, carrier_hz: float, inside_m: ArrayLike, normal: ArrayLike) -> Array:
    """PL_tw + PL_in + sigma_p z of devices `inside_m` behind their wall; normal: their z."""
    _check.positive("inside_m", inside_m, zero=True)
    rest = 0.5 * np.asarray(inside_m, np.float64) + STD_DB[kind] * np.asarray(normal, np.float64)
    return np.asarray(wall_loss_db(kind, carrier_hz) + rest)[()]

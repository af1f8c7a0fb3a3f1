"""How much of the sent power arrives, and the units of power.

    loss(d) = intercept + slope log10(max(d, d_min) / d_ref)          dB, log-distance (DDC, section 5)
    gain(d) = G_tx G_rx (c / (4 pi f max(d, d_min)))^exponent         ratio, free-space form (CAMU, eq. 34)

A gain is a ratio of powers (below one for any real link), a loss is in dB and positive: gain = 10^(-loss/10).
No fading and no interference.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedloom import _check

Array = NDArray[np.float64]

LIGHT_M_S = 299_792_458.0


def log_distance_loss_db(
    distance_m: ArrayLike,
    intercept_db: float = 128.1,
    slope_db: float = 37.6,
    reference_m: float = 1000.0,
    floor_m: float = 1.0,
) -> Array:
    """Path loss in dB of links of `distance_m` (any shape, m); the same shape.

    `intercept_db` is the loss at `reference_m`, `slope_db` what a tenfold distance adds. Below `floor_m`
    the loss no longer falls: the formula is one of the far field and would turn into a gain.

    >>> log_distance_loss_db([100.0, 1000.0])
    array([ 90.5, 128.1])
    """
    _check.positive("reference_m", reference_m)
    return intercept_db + slope_db * np.log10(_floored(distance_m, floor_m) / reference_m)


def free_space_gain(
    distance_m: ArrayLike,
    carrier_hz: float = 915e6,
    exponent: float = 3.76,
    gain_tx: float = 10**0.5,
    gain_rx: float = 1.0,
    floor_m: float = 1.0,
) -> Array:
    """Power gain (ratio) of links of `distance_m` (any shape, m); the same shape.

    The exponent applies to the whole bracket, the antenna gains (ratios, not dBi) stay outside of it. The
    default gains are those of a base station of 5 dBi and a device of 0 dBi; for two devices use `gain_tx=1`.
    A receiver that combines n antennas has `gain_rx=n`.

    >>> print(f"{free_space_gain(50.0):.4e}")
    1.4347e-12
    """
    _check.positive("carrier_hz", carrier_hz)
    _check.positive("gain_tx and gain_rx", [gain_tx, gain_rx])
    bracket = LIGHT_M_S / (4 * np.pi * carrier_hz * _floored(distance_m, floor_m))
    return np.asarray(gain_tx * gain_rx * bracket**exponent)[()]


def db_to_ratio(db: ArrayLike) -> Array:
    """10^(dB/10): a ratio of powers."""
    return np.power(10.0, np.asarray(db, dtype=np.float64) / 10)


def ratio_to_db(ratio: ArrayLike) -> Array:
    """10 log10(ratio); a ratio of 0 is minus infinity dB."""
    _check.positive("ratio", ratio, zero=True)
    with np.errstate(divide="ignore"):
        return 10 * np.log10(np.asarray(ratio, dtype=np.float64))


def dbm_to_w(dbm: ArrayLike) -> Array:
    """Power in dBm to watt: 10^(dBm/10) / 1000.

    >>> print(dbm_to_w(10.0))
    0.01
    """
    return db_to_ratio(dbm) / 1000


def w_to_dbm(power_w: ArrayLike) -> Array:
    """Power in watt to dBm; 0 W is minus infinity dBm."""
    _check.positive("power_w", power_w, zero=True)
    return ratio_to_db(np.asarray(power_w, dtype=np.float64) * 1000)


def _floored(distance_m: ArrayLike, floor_m: float) -> Array:
    _check.positive("distance_m", distance_m, zero=True)
    _check.positive("floor_m", floor_m)
    return np.maximum(np.asarray(distance_m, dtype=np.float64), floor_m)

"""From received power to seconds and joules (DDC, section 5).

    noise  = N0 B                      W
    snr    = P gain / noise            ratio
    rate   = B log2(1 + snr)           bit/s
    time   = bits / rate               s
    energy = P time                    J

All functions take scalars or arrays that broadcast and return that shape.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedloom import _check
from fedloom.radio.path_loss import dbm_to_w

Array = NDArray[np.float64]


def noise_w(density_dbm_hz: ArrayLike, bandwidth_hz: ArrayLike) -> Array:
    """Noise power in watt in `bandwidth_hz` (Hz) at a density in dBm per Hz.

    >>> print(f"{noise_w(-173, 1e6):.4e}")
    5.0119e-15
    """
    _check.positive("bandwidth_hz", bandwidth_hz)
    return dbm_to_w(density_dbm_hz) * np.asarray(bandwidth_hz, dtype=np.float64)


def snr(power_w: ArrayLike, gain: ArrayLike, noise_w: ArrayLike) -> Array:
    """Signal-to-noise ratio (not dB) of a sender of `power_w` (W) over a link of power gain `gain`."""
    _check.positive("power_w", power_w, zero=True)
    _check.positive("gain", gain, zero=True)
    _check.positive("noise_w", noise_w)
    received_w = np.multiply(power_w, gain, dtype=np.float64)
    return np.divide(received_w, noise_w, dtype=np.float64)


def shannon_rate(bandwidth_hz: ArrayLike, snr: ArrayLike) -> Array:
    """Capacity B log2(1 + snr) in bit/s; exact also where the snr is far below one.

    >>> print(shannon_rate(1e6, 3.0))
    2000000.0
    """
    _check.positive("bandwidth_hz", bandwidth_hz)
    _check.positive("snr", snr, zero=True)
    nats_per_hz = np.log1p(snr, dtype=np.float64)
    rate: Array = np.asarray(bandwidth_hz, np.float64) / np.log(2) * nats_per_hz
    return rate


def airtime_s(bits: ArrayLike, rate_bit_s: ArrayLike) -> Array:
    """Seconds to send `bits` at `rate_bit_s`.

    An infinite rate takes no time. A rate of 0 is a link that is down: infinitely long, also for no bits.
    """
    _check.positive("bits", bits, zero=True)
    _check.positive("rate_bit_s", rate_bit_s, zero=True)
    if not np.isfinite(bits).all():
        raise ValueError(f"bits must be finite, got {bits!r}")
    size, rate = np.broadcast_arrays(np.asarray(bits, np.float64), np.asarray(rate_bit_s, np.float64))
    seconds = np.full(rate.shape, np.inf)
    np.divide(size, rate, out=seconds, where=rate > 0)
    return seconds[()]


def energy_j(power_w: ArrayLike, airtime_s: ArrayLike) -> Array:
    """Joules spent by a sender of `power_w` (W) that is on the air for `airtime_s`.

    Nothing where the power is 0, even if the link is down; infinite where it is not and the link is down.
    """
    _check.positive("power_w", power_w, zero=True)
    _check.positive("airtime_s", airtime_s, zero=True)
    power, seconds = np.broadcast_arrays(np.asarray(power_w, np.float64), np.asarray(airtime_s, np.float64))
    joules = np.zeros(power.shape)
    np.multiply(power, seconds, out=joules, where=power > 0)
    return joules[()]

"""Devices that hear each other and a base station of several antennas: gains, SNR matrix, noise of an analogue uplink.

    |h_k|^2  = N_a G_b (c / (4 pi f d_k))^p        device k to the base station, all antennas combined   (CAMU, eq. 34)
    |h_jk|^2 = (c / (4 pi f d_jk))^p               device to device, 0 dBi on both sides
    Gamma_jk = P_k |h_jk|^2 / sigma^2              and P_k |h_k|^2 / sigma^2 on the diagonal              (CAMU, eq. 7)
    w^       = w + nu z,  z ~ N(0, 1)              what the base station recovers of a model              (CAMU, eq. 35)
    nu       = sigma / (sqrt(P) |h|) = 1 / sqrt(snr), or as printed sigma / (p |h|)

With Rayleigh fading h = sqrt(gain) g, g ~ CN(0, I), drawn once, the same in both directions of a link between devices.
One sends at a time, so there is no interference. K devices.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedloom import _check
from fedloom.radio.geometry import distances
from fedloom.radio.link import snr
from fedloom.radio.path_loss import free_space_gain

Array = NDArray[np.float64]

FADINGS = ("none", "rayleigh")
READINGS = ("default", "literal")


@dataclass(frozen=True, kw_only=True, eq=False)
class ChannelGains:
    """Power gains: up (K,) from devices to all antennas of the base station; between (K, K) devices, symmetric, the
    diagonal 0."""

    up: Array
    between: Array


def channel_gains(
    position_m: ArrayLike,
    station_m: ArrayLike,
    *,
    n_antennas: int = 15,
    carrier_hz: float = 915e6,
    exponent: float = 3.76,
    station_gain: float = 10**0.5,
    floor_m: float = 1.0,
    fading: str = "none",
    rng: np.random.Generator | None = None,
) -> ChannelGains:
    """Gains of devices at position_m (K, D) and a base station at station_m (D,), in metres.

    station_gain: ratio, of each of its antennas. fading "rayleigh" draws from `rng`, which "none" does not need.

    >>> gains = channel_gains([[0, 0], [3, 4]], [50, 0])
    >>> print(f"{gains.up[0]:.4e}")
    2.1520e-11
    """
    _check.whole("n_antennas", n_antennas)
    _check.one_of("fading", fading, FADINGS)
    position = _check.array("position_m", position_m, (None, None))
    station = _check.array("station_m", station_m, (position.shape[1],))
    to_station = distances(position, station[None])[:, 0]
    up = n_antennas * free_space_gain(to_station, carrier_hz, exponent, station_gain, 1.0, floor_m)
    between = free_space_gain(distances(position, position), carrier_hz, exponent, 1.0, 1.0, floor_m)
    if fading == "rayleigh":
        if rng is None:
            raise ValueError('fading "rayleigh" draws the channel; pass a generator as rng')
        up = up * rng.standard_gamma(n_antennas, len(up)) / n_antennas  # |g|^2 of CN(0, I) is Gamma(N_a, 1)
        drawn = np.triu(rng.standard_exponential(between.shape), 1)
        between = between * (drawn + drawn.T)
    np.fill_diagonal(between, 0.0)
    return ChannelGains(up=up, between=between)


def snr_matrix(power_w: ArrayLike, gains: ChannelGains, noise_w: float) -> Array:
    """Gamma (K, K), ratios: at device j of a signal that device k sends with power_w[k]; at the base station on the
    diagonal.

    power_w: (K,) or one number, in watt. Symmetric if all powers are the same.
    """
    power = np.broadcast_to(np.asarray(power_w, dtype=np.float64), gains.up.shape)
    matrix = snr(power[None, :], gains.between, noise_w)
    np.fill_diagonal(matrix, snr(power, gains.up, noise_w))
    return matrix


def noise_std(power_w: ArrayLike, gain: ArrayLike, noise_w: ArrayLike, reading: str = "default") -> Array:
    """nu: standard deviation of the noise on every number of a model sent without rescaling; any shape.

    reading "default": the sender's power in watt counts, nu = 1/sqrt(snr). "literal": power_w is the printed scalar p,
    by which the noise is divided. Infinite if nothing is sent or nothing arrives.

    >>> print(f"{noise_std(0.5, 2.1519762964e-11, 1e-14):.6f} {noise_std(0.5, 2.1519762964e-11, 1e-14, 'literal'):.6f}")
    0.030486 0.043113
    """
    _check.one_of("reading", reading, READINGS)
    _check.positive("power_w", power_w, zero=True)
    _check.positive("gain", gain, zero=True)
    _check.positive("noise_w", noise_w, zero=True)
    power = np.asarray(power_w, dtype=np.float64)
    heard = (power**2 if reading == "literal" else power) * np.asarray(gain, dtype=np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(heard > 0, np.asarray(noise_w, dtype=np.float64) / heard, np.inf)
    return np.asarray(np.sqrt(ratio))[()]


def noisy(
    row: NDArray[np.floating], std: float, trainable: NDArray[np.bool_], rng: np.random.Generator
) -> NDArray[np.floating]:
    """A model (P,) as it arrives: noise of `std` on what is trainable (P,), buffers unharmed, in the type of `row`.

    Statistics such as a running variance are no part of the analogue signal: a negative variance would be no model.
    """
    _check.positive("std", std, zero=True)
    if row.ndim != 1 or trainable.shape != row.shape:
        raise ValueError(f"row and trainable must have the same shape (P,), got {row.shape} and {trainable.shape}")
    out = row.copy()
    out[trainable] += (std * rng.standard_normal(int(trainable.sum()))).astype(row.dtype)
    return out

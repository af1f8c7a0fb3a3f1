"""Links as they stand in the settings, turned into seconds and joules per message."""

from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from fedloom import radio
from fedloom.fleet import links
from fedloom.fleet.settings.links import (
    DrawnLinks,
    EdgeLink,
    FixedLink,
    GivenLinks,
    HopLink,
    LogDistanceLoss,
    PeerLink,
    RadioLink,
    RateLink,
)
from fedloom.fleet.snapshot import Link

Array = NDArray[np.float64]


def hop(
    settings: HopLink | EdgeLink,
    distance_m: Array,
    rng: np.random.Generator,
    power_w: Array | None = None,
    bit_s: Array | None = None,
) -> Link:
    """Links between senders and receivers that are `distance_m` apart, (N, K), (K,) or (N,); the same shape.

    A rate that varies gets one factor per index of the last axis: a device has one towards all cells. power_w, bit_s (K,): of
    each device, along the last axis, in place of the link's power and rate; bit_s may also be of each link, (N, K).
    """
    paid_w = settings.power_w if power_w is None else power_w
    if isinstance(settings, RadioLink) and settings.mains:
        paid_w = 0.0
    if bit_s is not None:
        return _link(paid_w, 0.0, bit_s, distance_m.shape)
    seconds: float | Array = 0.0
    rate: float | Array = np.inf
    if isinstance(settings, FixedLink):
        seconds = settings.seconds
    elif isinstance(settings, RateLink):
        rate = _rates(settings, distance_m.shape[-1], rng)
    elif isinstance(settings, RadioLink):
        fade = _fade(settings, distance_m.shape, rng)
        link = _link(paid_w, 0.0, radio_rate(settings, distance_m, fade, power_w), distance_m.shape)
        per_w = np.broadcast_to(snr_per_w(settings, distance_m, fade), distance_m.shape)
        return replace(link, snr_per_w=per_w, bandwidth_hz=settings.bandwidth_hz)
    return _link(paid_w, seconds, rate, distance_m.shape)


def peers(settings: PeerLink, positions_m: Array, rng: np.random.Generator, power_w: Array | None = None) -> Link:
    """Links between devices at `positions_m` (K, D): (K, K), sender first, free on the diagonal; symmetric, unless power_w (K,)
    of each device is given for radio links."""
    n = len(positions_m)
    seconds: float | Array = 0.0
    rate: float | Array = np.inf
    if isinstance(settings, FixedLink):
        seconds = np.where(np.eye(n, dtype=np.bool_), 0.0, settings.seconds)
    elif isinstance(settings, RateLink):
        rate = links.of_pairs(n, _rates(settings, n * (n - 1) // 2, rng))
    elif isinstance(settings, RadioLink):
        fade = _fade(settings, (n * (n - 1) // 2,), rng)
        both = fade if isinstance(fade, float) else links.of_pairs(n, fade)
        if power_w is None:
            rate = links.by_distance(positions_m, partial(radio_rate, settings, fade=both))
        else:
            rate = radio_rate(settings, radio.distances(positions_m, positions_m), both, power_w[:, None])
            np.fill_diagonal(rate, np.inf)
    elif isinstance(settings, DrawnLinks):
        rate = links.drawn(n, settings.low, settings.high, rng, settings.integer) * settings.unit_bit_s
    elif isinstance(settings, GivenLinks):
        rate = links.given(settings.matrix_bit_s)
    own_w = settings.power_w if power_w is None else np.broadcast_to(power_w[:, None], (n, n))
    return _link(own_w, seconds, rate, (n, n))


def none(n: int) -> Link:
    """Links that do not exist and cost nothing: all zero, (n,)."""
    return _link(0.0, 0.0, np.inf, (n,))


def only_in_reach(link: Link, in_reach: NDArray[np.bool_]) -> Link:
    """The same links (N, K), of rate 0 where out of reach."""
    if in_reach.all():
        return link
    rate = np.where(in_reach, link.rate_bit_s, 0.0)
    return _link(link.power_w, link.fixed_s, rate, in_reach.shape)


def radio_rate(
    settings: RadioLink, distance_m: Array, fade: float | Array = 1.0, power_w: Array | None = None
) -> Array:
    """Shannon rate in bit/s at `distance_m`, the same shape; `fade` multiplies the gain. power_w: instead of the link's."""
    noise_w = radio.noise_w(settings.noise_dbm_hz, settings.bandwidth_hz)
    gain = fade * path_gain(settings, distance_m)
    sent_w = settings.power_w if power_w is None else power_w
    return radio.shannon_rate(settings.bandwidth_hz, radio.snr(sent_w, gain, noise_w))


def snr_per_w(settings: RadioLink, distance_m: Array, fade: float | Array = 1.0) -> Array:
    """SNR at `distance_m` for each watt that is sent, the same shape; `fade` multiplies the gain."""
    noise_w = radio.noise_w(settings.noise_dbm_hz, settings.bandwidth_hz)
    return radio.snr(1.0, fade * path_gain(settings, distance_m), noise_w)


def _fade(settings: RadioLink, shape: tuple[int, ...], rng: np.random.Generator) -> float | Array:
    """|g|^2 / antennas of g ~ CN(0, I), which has a mean of 1; nothing is drawn without fading."""
    if settings.fading == "none":
        return 1.0
    return rng.standard_gamma(settings.antennas, shape) / settings.antennas


def path_gain(settings: RadioLink, distance_m: Array) -> Array:
    """Of the path and all antennas of the receiver."""
    loss = settings.path_loss
    if isinstance(loss, LogDistanceLoss):
        loss_db = radio.log_distance_loss_db(
            distance_m, loss.intercept_db, loss.slope_db, loss.reference_m, loss.floor_m
        )
        gain = radio.db_to_ratio(-loss_db)
    else:
        gain = radio.free_space_gain(
            distance_m, loss.carrier_hz, loss.exponent, loss.gain_tx, loss.gain_rx, loss.floor_m
        )
    return gain if settings.antennas == 1 else settings.antennas * gain


def _rates(settings: RateLink, n: int, rng: np.random.Generator) -> Array:
    if settings.sigma == 0:
        return np.full(n, settings.bit_s)
    return settings.bit_s * np.exp(settings.sigma * rng.normal(size=n))


def _link(power_w: float | Array, seconds: float | Array, rate: float | Array, shape: tuple[int, ...]) -> Link:
    # broadcast views are read-only, and take no memory where all links are the same
    fixed_s, rate_bit_s = np.broadcast_to(seconds, shape), np.broadcast_to(rate, shape)
    return Link(fixed_s=fixed_s, rate_bit_s=rate_bit_s, power_w=power_w)

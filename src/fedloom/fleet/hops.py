"""Links as they stand in the settings, turned into seconds and joules per message."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from fedloom import radio
from fedloom.fleet import links
from fedloom.fleet.propagation import Paths, distance_gain
from fedloom.fleet.settings.links import (
    DrawnLinks,
    EdgeLink,
    FixedLink,
    GivenLinks,
    HopLink,
    PeerLink,
    RadioLink,
    RateLink,
)
from fedloom.fleet.snapshot import Link

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]


def hop(
    settings: HopLink | EdgeLink,
    distance_m: Array,
    rng: np.random.Generator,
    power_w: Array | None = None,
    bit_s: Array | None = None,
    paths: Paths | None = None,
) -> Link:
    """Links between senders and receivers that are `distance_m` apart, (N, K), (K,) or (N,); the same shape.

    A rate that varies gets one factor per index of the last axis: a device has one towards all cells. power_w, bit_s (K,): of
    each device, along the last axis, in place of the link's power and rate; bit_s may also be of each link, (N, K). paths: of a
    radio link; by distance if there are none.
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
        paths = paths or Paths(gain=distance_gain(settings.path_loss, distance_m))
        fade = _fade(settings, distance_m.shape, rng, paths.line_of_sight)
        rate, per_w = _rate_and_snr(settings, paths, fade, settings.power_w if power_w is None else power_w)
        link = _link(paid_w, 0.0, rate, distance_m.shape)
        per_w = np.broadcast_to(per_w, distance_m.shape)
        return replace(link, snr_per_w=per_w, bandwidth_hz=settings.bandwidth_hz)
    return _link(paid_w, seconds, rate, distance_m.shape)


def peers(
    settings: PeerLink,
    positions_m: Array,
    rng: np.random.Generator,
    power_w: Array | None = None,
    paths: Paths | None = None,
) -> Link:
    """Links between devices at `positions_m` (K, D): (K, K), sender first, free on the diagonal; symmetric, unless power_w (K,)
    of each device is given for radio links. paths: of these; by distance if there are none."""
    n = len(positions_m)
    seconds: float | Array = 0.0
    rate: float | Array = np.inf
    if isinstance(settings, FixedLink):
        seconds = np.where(np.eye(n, dtype=np.bool_), 0.0, settings.seconds)
    elif isinstance(settings, RateLink):
        rate = links.of_pairs(n, _rates(settings, n * (n - 1) // 2, rng))
    elif isinstance(settings, RadioLink):
        rate = _peer_rates(settings, positions_m, rng, power_w, paths)
    elif isinstance(settings, DrawnLinks):
        rate = links.drawn(n, settings.low, settings.high, rng, settings.integer) * settings.unit_bit_s
    elif isinstance(settings, GivenLinks):
        rate = links.given(settings.matrix_bit_s)
    own_w = settings.power_w if power_w is None else np.broadcast_to(power_w[:, None], (n, n))
    return _link(own_w, seconds, rate, (n, n))


def _peer_rates(
    settings: RadioLink, positions_m: Array, rng: np.random.Generator, power_w: Array | None, paths: Paths | None
) -> Array:
    """(K, K), sender first, infinite on the diagonal."""
    n = len(positions_m)
    if paths is None:
        distance = radio.distances(positions_m, positions_m)
        paths = Paths(gain=distance_gain(settings.path_loss, distance))
    sees = None if paths.line_of_sight is None else paths.line_of_sight[np.triu_indices(n, 1)]
    fade = _fade(settings, (n * (n - 1) // 2,), rng, sees)
    both = fade if isinstance(fade, float) else links.of_pairs(n, fade)
    rate, _ = _rate_and_snr(settings, paths, both, settings.power_w if power_w is None else power_w[:, None])
    np.fill_diagonal(rate, np.inf)
    return rate


def none(n: int) -> Link:
    """Links that do not exist and cost nothing: all zero, (n,)."""
    return _link(0.0, 0.0, np.inf, (n,))


def only_in_reach(link: Link, in_reach: NDArray[np.bool_]) -> Link:
    """The same links (N, K), of rate 0 where out of reach."""
    if in_reach.all():
        return link
    rate = np.where(in_reach, link.rate_bit_s, 0.0)
    return _link(link.power_w, link.fixed_s, rate, in_reach.shape)


def path_gain(settings: RadioLink, distance_m: Array) -> Array:
    """Of the path and all antennas of the receiver, by distance, the same shape."""
    return _all_antennas(settings, distance_gain(settings.path_loss, distance_m))


def noise_w(settings: RadioLink) -> Array:
    """Of the band and the receiver, in watt."""
    figure = radio.db_to_ratio(settings.noise_figure_db)
    return radio.noise_w(settings.noise_dbm_hz, settings.bandwidth_hz) * figure


def _rate_and_snr(
    settings: RadioLink, paths: Paths, fade: float | Array, power_w: float | Array
) -> tuple[Array, Array]:
    """Shannon rate in bit/s at power_w, and SNR (with interference: SINR) for each watt, in the shape of the paths; `fade`
    multiplies the gain."""
    gain = fade * _all_antennas(settings, paths.gain)
    disturbed_w = noise_w(settings) + paths.interference_w
    rate = radio.shannon_rate(settings.bandwidth_hz, radio.snr(power_w, gain, disturbed_w))
    return rate, radio.snr(1.0, gain, disturbed_w)


def _all_antennas(settings: RadioLink, gain: Array) -> Array:
    return gain if settings.antennas == 1 else settings.antennas * gain


def _fade(
    settings: RadioLink, shape: tuple[int, ...], rng: np.random.Generator, line_of_sight: Mask | None
) -> float | Array:
    """What the gain is multiplied by, of a mean of 1; nothing is drawn without fading."""
    if settings.fading == "none":
        return 1.0
    if settings.fading == "rayleigh":
        return radio.rayleigh_gain(shape, rng, settings.antennas)
    k = radio.db_to_ratio(settings.resolved_k_db)
    ratio = np.full(shape, k) if line_of_sight is None else np.where(line_of_sight, k, 0.0)
    return radio.rician_gain(ratio, rng, settings.antennas)


def _rates(settings: RateLink, n: int, rng: np.random.Generator) -> Array:
    if settings.sigma == 0:
        return np.full(n, settings.bit_s)
    return settings.bit_s * np.exp(settings.sigma * rng.normal(size=n))


def _link(power_w: float | Array, seconds: float | Array, rate: float | Array, shape: tuple[int, ...]) -> Link:
    # broadcast views are read-only, and take no memory where all links are the same
    fixed_s, rate_bit_s = np.broadcast_to(seconds, shape), np.broadcast_to(rate, shape)
    sent_w = np.broadcast_to(power_w, shape) if isinstance(power_w, np.ndarray) else power_w
    return Link(fixed_s=fixed_s, rate_bit_s=rate_bit_s, power_w=sent_w)

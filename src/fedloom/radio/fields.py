"""Random fields over the plane: what is near has similar values, and a place keeps its value.

    f(x) = sqrt(2 / M) sum_m cos(k_m x + phi_m)            mean 0, variance 1, nearly Gaussian
    E f(x) f(y) = exp(-|x - y| / d)                        exactly, for any number M of waves (TR 38.901, 7.4.4)

because a plane wave whose number is drawn of the spectrum of exp(-r / d), P(|k| <= k) = 1 - 1 / sqrt(1 + k^2 d^2) in any
direction, has this correlation. The numbers are drawn one of each of M equally likely ranges, so that one field alone comes
close to it too.

Of pairs of places (devices that send to each other):

    f(x, y) = sqrt(2 / M) sum_m cos(k_m x + q_m y + phi_m)
    g(x, y) = (f(x, y) + f(y, x)) / sqrt(2 (1 + exp(-2 |x - y| / d)))

is the same in both directions, has variance 1, and a correlation of exp(-(|x - x'| + |y - y'|) / d) as long as x and y are far
apart.
A field is its waves: nothing is stored of the plane, and it has no end.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedloom import _check

Array = NDArray[np.float64]

N_WAVES = 128
_BLOCK = 2048  # places at a time: 2 MB of phases


@dataclass(frozen=True, kw_only=True, eq=False)
class Waves:
    """number_rad_m (M, 2): of each wave along x and y; phase_rad (M,)."""

    number_rad_m: Array
    phase_rad: Array


def plane_waves(correlation_m: float, rng: np.random.Generator, n_waves: int = N_WAVES) -> Waves:
    """The waves of a field that is correlated over `correlation_m`."""
    _check.positive("correlation_m", correlation_m)
    _check.whole("n_waves", n_waves)
    place, turn, phase = rng.random((3, n_waves))
    # one of each range, in any order: two sets of waves that are paired must not have long waves at the same places
    rest = 1 - (rng.permutation(n_waves) + place) / n_waves  # in (0, 1]
    length = np.sqrt(1 / rest**2 - 1) / correlation_m
    angle = 2 * np.pi * turn
    number = np.stack([length * np.cos(angle), length * np.sin(angle)], axis=1)
    return Waves(number_rad_m=number, phase_rad=2 * np.pi * phase)


def field_at(waves: Waves, point_m: ArrayLike) -> Array:
    """f (K,) at points (K, 2), metres.

    >>> field = plane_waves(50.0, np.random.default_rng(0))
    >>> here, near, far = field_at(field, [[0, 0], [0.01, 0], [500, 0]])
    >>> bool(abs(near - here) < 0.1 < abs(far - here))
    True
    """
    points = _check.array("point_m", point_m, (None, 2))
    values = np.empty(len(points))
    for begun in range(0, len(points), _BLOCK):
        some = slice(begun, begun + _BLOCK)
        values[some] = np.cos(_phases(waves, points[some]) + waves.phase_rad).sum(axis=1)
    return np.asarray(values * np.sqrt(2 / len(waves.phase_rad)))


def pair_field(
    first: Waves, second: Waves, correlation_m: float, point_m: ArrayLike, other_m: ArrayLike, apart_m: Array
) -> Array:
    """g (A, B) of points (A, 2) and others (B, 2), apart_m (A, B) metres from each other; of two sets of waves of the same
    correlation, of which the phases of the second play no part."""
    points, others = _check.array("point_m", point_m, (None, 2)), _check.array("other_m", other_m, (None, 2))
    ours = _turns(_phases(first, points) + first.phase_rad), _turns(_phases(second, points))
    theirs = _turns(_phases(second, others)), _turns(_phases(first, others) + first.phase_rad)
    left = np.concatenate([part for cos, sin in ours for part in (cos, -sin)], axis=1)
    right = np.concatenate([part for cos, sin in theirs for part in (cos, sin)], axis=1)
    total = left @ right.T  # cos(a + b) = cos a cos b - sin a sin b
    return np.asarray(total / np.sqrt(len(first.phase_rad) * (1 + np.exp(-2 * apart_m / correlation_m))))


def _turns(phase_rad: Array) -> tuple[Array, Array]:
    """Cosines and sines as multiples of 2^-20: sums of products of so few digits have no rounding errors, in whatever order a
    library for matrices forms them, on however many threads."""
    return np.rint(np.cos(phase_rad) * 2**20) / 2**20, np.rint(np.sin(phase_rad) * 2**20) / 2**20


def _phases(waves: Waves, points: Array) -> Array:
    """(K, M)."""
    return points[:, :1] * waves.number_rad_m[:, 0] + points[:, 1:] * waves.number_rad_m[:, 1]

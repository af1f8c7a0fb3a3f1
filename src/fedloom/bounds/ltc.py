"""LTC: its convergence bound on smooth losses, and how far gradients of clients, clusters and all data differ.

    w^p  = lr sum_i (|D_i| / |D|) r_c(i) h_i                                                         step mass of cloud round p
    gap  = (1/P) sum_p (2 / w^p) (F(x^{p-1}) - F(x^p))                                               loss-gap term
    |grad F_c - grad F|,   |grad F_i - grad F_c|                                                     mismatch
    |grad F(x^{p-1}) - g_i(x_c^{s,t})|^2 <= (t+3) (t L^2 lr^2 G^2 + eps_ic^2 + eta^2)
                                + (t+3) (s+1) (L^2 lr^2 s h2_c G^2 + eps_cg^2)                       (9)
    (1/P) sum_p |grad F(x^{p-1})|^2 <= gap + 4/3 G^2 + (r_max+1) (h_max+5) / 4 eps_cg^2
                                + (h_max+5) / 2 (eps_ic^2 + eta^2)                                   (10)
    ... <= 2 (F(x^0) - F(x^P)) / (P w_min) + (w_max / w_min) (4/3 G^2
                                + (eps_ic^2 + eta^2) / (2 lr L) + (r_max+1) / (4 lr L) eps_cg^2)     (11)

Cluster c does r_c edge rounds in a cloud round, client i h_i steps in each; s counts edge rounds and t steps, from 0. F_i, F_c
and F are the mean losses of a client's, a cluster's and all data, h2_c = sum_i (|D_i| / |D_c|) h_i^2. Assumed are: F_i and F_c
L-smooth, |g_i|^2 <= G^2, |g_i - grad F_i|^2 <= eta^2, |grad F_i - grad F_c| <= eps_ic, |grad F_c - grad F| <= eps_cg.

So the gradient falls as 1/P to a floor in which eps_cg counts more than eps_ic: clusters should each be like the whole, however
different their clients. (10) is (9) averaged over the steps of a cloud round; the terms with G^2 then add up to at most
4/3 G^2 if lr is at most `LearningRateLimits.largest`. In (11) these limits also put 1 / (lr L) for h_max + 5.

N clusters, K clients, P values in a gradient; `cover` (N, K) is true where a client is in a cluster.
"""

import math
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedloom import _check
from fedloom.bounds.partition import check_partition

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]

COLUMNS_AT_ONCE = 1 << 16  # wide gradients are compared in float64 piece by piece


@dataclass(frozen=True, kw_only=True)
class LtcConstants:
    """What the bounds assume: lr, smoothness L, g_max G, eta, eps_ic, eps_cg; see above. All but the first two may be 0."""

    lr: float
    smoothness: float
    g_max: float
    eta: float
    eps_ic: float
    eps_cg: float

    def __post_init__(self) -> None:
        for item in fields(self):
            _check.positive(item.name, getattr(self, item.name), zero=item.name not in ("lr", "smoothness"))


@dataclass(frozen=True, kw_only=True)
class LearningRateLimits:
    """Three limits of the learning rate, all of which the bounds need; infinite where no cluster does a round.

    by_work      1 / (L max r_c h_i)
    by_steps     1 / (L (h_max + 5))
    by_rounds    sqrt(6) / (L max(r_c sqrt(h2_c) sqrt(h_i + 5)))
    """

    by_work: float
    by_steps: float
    by_rounds: float

    @property
    def largest(self) -> float:
        """The largest learning rate within all limits."""
        return min(self.by_work, self.by_steps, self.by_rounds)


def step_mass(cover: Mask, n_rounds: ArrayLike, n_steps: ArrayLike, n_samples: ArrayLike, lr: float = 1.0) -> float:
    """w^p from edge rounds (N,) of the clusters, local steps (K,) per edge round and samples (K,) of the clients.

    Without `lr` it is the mean number of local steps of a sample's owner, the w^p / lr of the published Table 8.

    >>> clusters = np.array([[True, True, False, False], [False, False, True, True]])
    >>> round(step_mass(clusters, [2, 3], [1, 3, 2, 4], [10, 30, 20, 40], lr=0.1), 12)
    0.8
    """
    _check.positive("lr", lr)
    rounds, steps, samples, cluster = _work(cover, n_rounds, n_steps, n_samples)
    return float(lr * (samples @ (rounds[cluster] * steps)) / samples.sum())


def loss_gap(losses: ArrayLike, step_masses: ArrayLike) -> float:
    """The loss-gap term. losses (P+1,): F at x^0 to x^P, over all training data; step_masses (P,): w^1 to w^P."""
    mass = _masses(step_masses)
    loss = _check.array("losses", losses, (len(mass) + 1,))
    return float(np.mean(2 / mass * (loss[:-1] - loss[1:])))


def cluster_mismatch(gradients: NDArray[np.floating], cover: Mask, n_samples: ArrayLike) -> Floats:
    """|grad F_c - grad F| (N,) from the gradients (K, P) of the clients' mean losses at one model.

    The published Table 9 has the plain mean over clusters and cloud rounds.
    """
    return _mismatch(gradients, cover, n_samples)[0]


def client_mismatch(gradients: NDArray[np.floating], cover: Mask, n_samples: ArrayLike) -> Floats:
    """|grad F_i - grad F_c| (K,), c being the client's cluster; otherwise as `cluster_mismatch`."""
    return _mismatch(gradients, cover, n_samples)[1]


def mismatch_term(cluster_global: ArrayLike, client_cluster: ArrayLike, r_max: int) -> Floats:
    """(r_max + 1) / 4 |grad F_c - grad F|^2 + 1/2 |grad F_i - grad F_c|^2, the coefficients as in (11); any shapes that fit.

    >>> float(mismatch_term(7.63, 8.34, r_max=4).round(1))
    107.5
    """
    _check.whole("r_max", r_max, least=0)
    for name, value in (("cluster_global", cluster_global), ("client_cluster", client_cluster)):
        _check.positive(name, value, zero=True)
    a, b = np.asarray(cluster_global, dtype=np.float64), np.asarray(client_cluster, dtype=np.float64)
    return np.asarray((r_max + 1) / 4 * a**2 + b**2 / 2)


def step_bound(constants: LtcConstants, step: ArrayLike, edge_round: ArrayLike, h2_mean: ArrayLike) -> Floats:
    """(9): how far off a client's gradient can be at step t of edge round s, squared. h2_mean = h2_c; any shapes that fit."""
    for name, value in (("step", step), ("edge_round", edge_round), ("h2_mean", h2_mean)):
        _check.positive(name, value, zero=True)
    t, s, h2 = (np.asarray(value, dtype=np.float64) for value in (step, edge_round, h2_mean))
    drift = (constants.lr * constants.smoothness * constants.g_max) ** 2
    own = t * drift + constants.eps_ic**2 + constants.eta**2
    cluster = s * h2 * drift + constants.eps_cg**2
    return np.asarray((t + 3) * own + (t + 3) * (s + 1) * cluster)


def step_bound_sum(constants: LtcConstants, n_steps: int, n_rounds: int, h2_mean: float) -> float:
    """(9) summed over the h `n_steps` of each of r `n_rounds`: from it, divided by h r, comes (10)."""
    _check.positive("h2_mean", h2_mean, zero=True)
    drift = (constants.lr * constants.smoothness * constants.g_max) ** 2
    steps, rounds = step_sum(n_steps), round_sum(n_rounds)
    own = drift * step_sum(n_steps, weighted=True) + (constants.eps_ic**2 + constants.eta**2) * steps
    cluster = h2_mean * drift * round_sum(n_rounds, weighted=True) + constants.eps_cg**2 * rounds
    return float(n_rounds * own + steps * cluster)


def step_sum(n_steps: int, weighted: bool = False) -> int:
    """sum_{t<h} (t+3) = h (h+5) / 2, or weighted by t: h (h-1) (h+4) / 3."""
    _check.whole("n_steps", n_steps, least=0)
    h = int(n_steps)
    return h * (h - 1) * (h + 4) // 3 if weighted else h * (h + 5) // 2


def round_sum(n_rounds: int, weighted: bool = False) -> int:
    """sum_{s<r} (s+1) = r (r+1) / 2, or weighted by s: r (r-1) (r+1) / 3."""
    _check.whole("n_rounds", n_rounds, least=0)
    r = int(n_rounds)
    return r * (r - 1) * (r + 1) // 3 if weighted else r * (r + 1) // 2


def gradient_floor(constants: LtcConstants, r_max: int, h_max: int) -> float:
    """(10) without the loss-gap term: what the bound tends to as P grows."""
    _check.whole("r_max", r_max, least=0)
    _check.whole("h_max", h_max)
    return _floor(constants, r_max, h_max + 5)


def gradient_bound(constants: LtcConstants, losses: ArrayLike, step_masses: ArrayLike, r_max: int, h_max: int) -> float:
    """(10): mean over P cloud rounds of |grad F|^2. losses (P+1,), step_masses (P,) as for `loss_gap`.

    It holds if lr is within `learning_rate_limits`, which is not checked here.
    """
    return loss_gap(losses, step_masses) + gradient_floor(constants, r_max, h_max)


def gradient_bound_of_rate(constants: LtcConstants, losses: ArrayLike, step_masses: ArrayLike, r_max: int) -> float:
    """(11): as (10), without the numbers of steps; never below it if lr is within the limits and no round raises the loss."""
    _check.whole("r_max", r_max, least=0)
    mass = _masses(step_masses)
    loss = _check.array("losses", losses, (len(mass) + 1,))
    low, high = float(mass.min()), float(mass.max())
    floor = _floor(constants, r_max, 1 / (constants.lr * constants.smoothness))
    return 2 / (len(mass) * low) * float(loss[0] - loss[-1]) + high / low * floor


def learning_rate_limits(
    smoothness: float, cover: Mask, n_rounds: ArrayLike, n_steps: ArrayLike, n_samples: ArrayLike
) -> LearningRateLimits:
    """The conditions on lr for L `smoothness`, edge rounds (N,), local steps (K,) per edge round, samples (K,)."""
    _check.positive("smoothness", smoothness)
    rounds, steps, samples, cluster = _work(cover, n_rounds, n_steps, n_samples)
    h2 = (cover @ (samples * steps**2)) / (cover @ samples)  # (N,)
    r = rounds[cluster]

    def limit(numerator: float, most: float) -> float:
        return numerator / (smoothness * most) if most > 0 else math.inf

    return LearningRateLimits(
        by_work=limit(1, float((r * steps).max())),
        by_steps=limit(1, float(steps.max()) + 5),
        by_rounds=limit(math.sqrt(6), float((r * np.sqrt(h2[cluster] * (steps + 5))).max())),
    )


def _floor(constants: LtcConstants, r_max: int, steps: float) -> float:
    """4/3 G^2 + ((r_max+1)/4 eps_cg^2 + (eps_ic^2 + eta^2)/2) steps; steps is h_max + 5 or 1 / (lr L)."""
    own = (constants.eps_ic**2 + constants.eta**2) / 2
    return 4 / 3 * constants.g_max**2 + ((r_max + 1) / 4 * constants.eps_cg**2 + own) * steps


def _mismatch(gradients: NDArray[np.floating], cover: Mask, n_samples: ArrayLike) -> tuple[Floats, Floats]:
    """|grad F_c - grad F| (N,) and |grad F_i - grad F_c| (K,)."""
    if gradients.ndim != 2:
        raise ValueError(f"gradients must have shape (K, P), got {gradients.shape}")
    cluster = _cluster_of(cover)
    samples = _samples(n_samples, len(cluster))
    if len(gradients) != len(cluster):
        raise ValueError(f"gradients must have a row for each of the {len(cluster)} clients, got {len(gradients)}")
    held = cover @ samples
    share = cover * samples / held[:, None]  # (N, K)
    between, within = np.zeros(len(cover)), np.zeros(len(cluster))
    for first in range(0, gradients.shape[1], COLUMNS_AT_ONCE):
        own = gradients[:, first : first + COLUMNS_AT_ONCE].astype(np.float64)
        mean = share @ own  # (N, columns)
        between += ((mean - held @ mean / held.sum()) ** 2).sum(axis=1)
        within += ((own - mean[cluster]) ** 2).sum(axis=1)
    return np.sqrt(between), np.sqrt(within)


def _work(
    cover: Mask, n_rounds: ArrayLike, n_steps: ArrayLike, n_samples: ArrayLike
) -> tuple[Floats, Floats, Floats, NDArray[np.int64]]:
    """Edge rounds (N,), local steps (K,), samples (K,) and each client's cluster (K,), checked."""
    cluster = _cluster_of(cover)
    rounds = _check.array("n_rounds", n_rounds, (len(cover),))
    steps = _check.array("n_steps", n_steps, cluster.shape)
    _check.positive("n_rounds", rounds, zero=True)
    _check.positive("n_steps", steps, zero=True)
    return rounds, steps, _samples(n_samples, len(cluster)), cluster


def _samples(n_samples: ArrayLike, n_clients: int) -> Floats:
    samples = _check.array("n_samples", n_samples, (n_clients,))
    _check.positive("n_samples", samples)
    return samples


def _masses(step_masses: ArrayLike) -> Floats:
    mass = _check.array("step_masses", step_masses, (None,))
    if not len(mass):
        raise ValueError("step_masses must be of at least one cloud round, got none")
    _check.positive("step_masses", mass)
    return mass


def _cluster_of(cover: Mask) -> NDArray[np.int64]:
    """Each client's cluster (K,); every client must be in one, and every cluster must have clients."""
    check_partition(cover, "client")
    return np.asarray(cover.argmax(axis=0), dtype=np.int64)

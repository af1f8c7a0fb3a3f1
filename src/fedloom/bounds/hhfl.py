"""HHFL: its convergence bound on strongly convex losses, and its time, traffic and resources.

Theorem 1, with learning rate lr_t = beta / (t + alpha), beta > 1/mu, alpha > E, lr_0 <= min(1/mu, 1/(4 L)):

    E[F(mean model at t)] - F* <= (L / 2) Z / (t + alpha)
    Z = max(beta^2 X / (beta mu - 1), alpha Delta_0)
    X = sum_i p_i^2 sigma_i^2 + 6 L Gamma + drift
    drift = 2^(2 G + 1) H^2 (G E + G - 2) ((G E - 1) + E^2 (G - 1))       "published"
          = 2^(2 G + 1) H^2 (G E - 1)^2                                  "sharp", ours: all mixing is by row-stochastic
            matrices, so no client is further from the last cloud model than G E - 1 gradient steps; never larger
    Gamma = F* - sum_i p_i F_i*

The topology does not occur: the bound cannot tell HHFL from HierFAVG. Use the measured drift and the mixing factor.

Costs, eqs (28) to (30): computing and sending do not overlap, all clients are alike, averaging takes no time, only
traffic between clients and edges counts; an overlap client's links work at the same time.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedloom import _check

Floats = NDArray[np.float64]

DRIFTS = ("published", "sharp")
UPLINKS = ("unicast", "once")
ROUNDING = 1e-9  # relative; conditions may be met exactly


@dataclass(frozen=True, kw_only=True)
class Theorem1:
    """The constants of the bound: X, Z, and L and alpha as given."""

    x: float
    z: float
    smoothness: float
    alpha: float

    def bound(self, t: ArrayLike) -> Floats:
        """Bound on E[F] - F* after t steps, in the shape of t."""
        _check.positive("t", t, zero=True)
        return np.asarray(self.smoothness / 2 * self.z / (np.asarray(t, dtype=np.float64) + self.alpha))


def heterogeneity(p: ArrayLike, f_min: float, f_i_min: ArrayLike) -> float:
    """Gamma = F* - sum_i p_i F_i* >= 0. p (K,) sums to 1, f_min = F*, f_i_min (K,): the minima of the clients' losses."""
    share = _shares(p)
    mean = float(share @ _check.array("f_i_min", f_i_min, share.shape))
    gamma = f_min - mean
    if not gamma >= -ROUNDING * max(1.0, abs(f_min), abs(mean)):
        raise ValueError(
            f"the minimum of the mean loss cannot be below the mean of the clients' minima, got f_min {f_min:g} "
            f"and a mean of {mean:g}"
        )
    return max(gamma, 0.0)


def drift_term(local_steps: int, edge_rounds: int, h2: float, drift: str = "published") -> float:
    """The last term of X for E `local_steps`, G `edge_rounds` and h2 = H^2, which bounds E|stochastic gradient|^2.

    Infinite where it is too large for a float.

    >>> drift_term(2, 3, 10.0), drift_term(2, 3, 10.0, drift="sharp")
    (116480.0, 32000.0)
    """
    _check.whole("local_steps (E)", local_steps)
    _check.whole("edge_rounds (G)", edge_rounds)
    _check.positive("h2", h2, zero=True)
    _check.one_of("drift", drift, DRIFTS)
    e, g = int(local_steps), int(edge_rounds)
    if drift == "published":
        polynomial = (g * e + g - 2) * ((g * e - 1) + e**2 * (g - 1))
    else:
        polynomial = (g * e - 1) ** 2
    with np.errstate(over="ignore"):
        return float(np.ldexp(h2 * polynomial, 2 * g + 1))


def theorem_1(
    *,
    smoothness: float,
    convexity: float,
    beta: float,
    alpha: float,
    local_steps: int,
    edge_rounds: int,
    p: ArrayLike,
    sigma2: ArrayLike,
    h2: float,
    gamma: float,
    delta0: float,
    drift: str = "published",
) -> Theorem1:
    """Theorem 1. Refuses a learning rate that the theorem does not cover.

    smoothness L, convexity mu of the clients' losses; beta, alpha of the learning rate; E `local_steps`,
    G `edge_rounds`; p (K,) shares; sigma2 (K,) variances of the stochastic gradients; h2 = H^2; gamma = Gamma;
    delta0 = |w_0 - w*|^2.
    """
    for name, value in (("smoothness (L)", smoothness), ("convexity (mu)", convexity), ("alpha", alpha)):
        _check.positive(name, value)
    for name, value in (("gamma", gamma), ("delta0", delta0)):
        _check.positive(name, value, zero=True)
    share = _shares(p)
    variance = _check.array("sigma2", sigma2, share.shape)
    _check.positive("sigma2", variance, zero=True)
    if convexity > smoothness * (1 + ROUNDING):
        raise ValueError(f"mu cannot be above L: got convexity {convexity:g} and smoothness {smoothness:g}")
    if not beta > 1 / convexity:
        raise ValueError(f"beta must be above 1/mu = {1 / convexity:g}, got {beta:g}")
    if not alpha > local_steps:
        raise ValueError(f"alpha must be above the local steps E = {local_steps}, got {alpha:g}")
    limit = min(1 / convexity, 1 / (4 * smoothness))
    if not beta / alpha <= limit * (1 + ROUNDING):
        raise ValueError(
            f"the first learning rate beta / alpha must be at most min(1/mu, 1/(4 L)) = {limit:g}, got {beta / alpha:g}; "
            f"take alpha >= {beta / limit:g}"
        )
    x = float(share**2 @ variance) + 6 * smoothness * gamma + drift_term(local_steps, edge_rounds, h2, drift)
    z = max(beta**2 * x / (beta * convexity - 1), alpha * delta0)
    return Theorem1(x=x, z=z, smoothness=smoothness, alpha=alpha)


def overall_time(
    total_steps: int, n_edge: int, n_cloud: int, step_s: float, edge_trip_s: float, cloud_trip_s: float
) -> float:
    """Seconds of computing and sending, eqs (28) to (30): T steps, `n_edge` edge and `n_cloud` cloud round trips.

    A step takes `step_s` = c b0 / f. n_edge = ceil(T / E), n_cloud = ceil(T / (E G)), or as `pacing.n_rounds` counts
    them for a schedule; n_cloud = 0 without cloud. The same for HHFL and HierFAVG.
    """
    for name, count in (("total_steps", total_steps), ("n_edge", n_edge), ("n_cloud", n_cloud)):
        _check.whole(name, count, least=0)
    for label, seconds in (("step_s", step_s), ("edge_trip_s", edge_trip_s), ("cloud_trip_s", cloud_trip_s)):
        _check.positive(label, seconds, zero=True)
    return math.fsum((total_steps * step_s, n_edge * edge_trip_s, n_cloud * cloud_trip_s))


def models_sent(n_edge_rounds: int, n_links: int, n_clients: int, uplink: str = "unicast") -> int:
    """Models sent between clients and edges, both directions, over `n_links` = sum_i |S_i| (n_clients for HierFAVG).

    unicast: one up and one down per link. once: a client sends up once, whoever hears it.
    """
    _check.whole("n_edge_rounds", n_edge_rounds, least=0)
    _check_links(n_links, n_clients, uplink)
    return n_edge_rounds * (n_links + (n_links if uplink == "unicast" else n_clients))


def resource_factor(n_links: int, n_clients: int, uplink: str = "unicast") -> float:
    """R: what an edge round of HHFL costs between clients and edges, over one of HierFAVG. HHFL saves if gain > R.

    unicast: sum_i |S_i| / K, the upper bound (Appendix F); once: (sum_i |S_i| + K) / (2 K).
    """
    _check_links(n_links, n_clients, uplink)
    return models_sent(1, n_links, n_clients, uplink) / (2 * n_clients)


def _check_links(n_links: int, n_clients: int, uplink: str) -> None:
    _check.whole("n_clients", n_clients)
    _check.whole("n_links", n_links)
    if n_links < n_clients:
        raise ValueError(f"every client has a link, got {n_links} links of {n_clients} clients; count active ones only")
    _check.one_of("uplink", uplink, UPLINKS)


def _shares(p: ArrayLike) -> Floats:
    share = _check.array("p", p, (None,))
    _check.positive("p", share, zero=True)
    if not math.isclose(share.sum(), 1, rel_tol=ROUNDING):
        raise ValueError(f"p must sum to 1, got {share.sum():g}; divide the samples by their sum")
    return share

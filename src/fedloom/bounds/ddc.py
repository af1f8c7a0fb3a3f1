"""DDC: its convergence bound on smooth losses, and how far clusters' gradients are from everybody's.

    eps^2   = sum_n P_n |grad F_n - grad F|^2                         clusters against all              (10)
    eps_n^2 = sum_u p_un |grad F_u - grad F_n|^2                      devices against their cluster     (11)
    eps^2 + sum_n P_n eps_n^2 = sum_u (D_u / D) |grad F_u - grad F|^2                                   whatever the clusters

    (1/T) sum_t E|grad F(w^t)|^2 <= B1 + ... + B6                                                       (13)
    B1 = 2 (F(w^1) - F*) / (lr T)                     B2 = 36 lr^2 L^2 tau2^2 eps^2
    B3 = 3 sum_n P_n^2 sum_u p_un^2 sigma^2           B4 = 48 lr^2 L^2 tau1^2 sum_n P_n eps_n^2
    B5 = 24 lr^2 L^2 tau2 sum_n P_n (1 - P_n) sum_u p_un^2 sigma^2
    B6 = 16 lr^2 L^2 tau1 sum_n P_n sum_u [p_un (1 - p_un)]^2 sigma^2                                   "literal", as published
       = 16 lr^2 L^2 tau1 sum_n P_n sum_u p_un (1 - p_un) sigma^2                                       "variance"

P_n = D_n / D, p_un = D_u / D_n: shares of samples; heads average every tau1 steps, the server every tau2. Assumed are: F
L-smooth, E|g_u - grad F_u|^2 <= sigma^2, (10), (11), and lr <= 1 / (2 sqrt(6) tau2 L) with tau1 < tau2. Clusters that are each
like the whole move divergence from B2 to B4, which pays if 36 tau2^2 > 48 tau1^2: tau2 / tau1 > 1.155.

The published limit of lr has a G that is not explained; its companion conditions make it tau2. The published square in B6 looks
like a slip: sum_u p_u E|X_u - sum_v p_v X_v|^2 = sigma^2 sum_u p_u (1 - p_u) for independent noise, which is how B5 comes about.

N clusters, K devices, P values in a gradient; `cover` (N, K) is true where a device is in a cluster.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedloom import _check
from fedloom.bounds.ltc import client_mismatch, cluster_mismatch
from fedloom.bounds.partition import check_partition

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]

B6_FORMS = ("literal", "variance")


@dataclass(frozen=True, kw_only=True)
class DdcBound:
    """The terms of (13), and the largest learning rate it allows. lr_ok, periods_ok: whether it holds as computed."""

    b1: float
    b2: float
    b3: float
    b4: float
    b5: float
    b6: float
    lr_max: float
    lr_ok: bool
    periods_ok: bool

    @property
    def total(self) -> float:
        return self.b1 + self.b2 + self.b3 + self.b4 + self.b5 + self.b6


@dataclass(frozen=True, kw_only=True, eq=False)
class DdcDivergence:
    """eps2: eps^2 (10). eps2_local (N,): eps_n^2 (11). total: eps^2 + sum_n P_n eps_n^2, which no clustering changes."""

    eps2: float
    eps2_local: Floats
    total: float


def ddc_divergence(gradients: NDArray[np.floating], cover: Mask, n_samples: ArrayLike) -> DdcDivergence:
    """eps^2 and eps_n^2 of gradients (K, P) at a common model, clusters (N, K) and samples (K,).

    >>> halves = np.array([[True, True, False, False], [False, False, True, True]])
    >>> found = ddc_divergence(np.array([[0.0], [2.0], [4.0], [6.0]]), halves, [1, 1, 1, 1])
    >>> found.eps2, found.eps2_local.tolist(), found.total  # means 1 and 5, of all 3
    (4.0, [1.0, 1.0], 5.0)
    """
    share, own = _shares(cover, n_samples)
    between = cluster_mismatch(gradients, cover, n_samples) ** 2
    within = client_mismatch(gradients, cover, n_samples) ** 2
    eps2, eps2_local = float(share @ between), own @ within
    return DdcDivergence(eps2=eps2, eps2_local=eps2_local, total=eps2 + float(share @ eps2_local))


def ddc_lr_max(smoothness: float, tau2: int) -> float:
    """1 / (2 sqrt(6) tau2 L): the largest learning rate that (13) covers."""
    _check.positive("smoothness", smoothness)
    _check.whole("tau2", tau2)
    return 1 / (2 * math.sqrt(6) * tau2 * smoothness)


def ddc_bound(
    *,
    gap: float,
    lr: float,
    smoothness: float,
    tau1: int,
    tau2: int,
    rounds: int,
    eps2: float,
    eps2_local: ArrayLike,
    sigma2: float,
    cover: Mask,
    n_samples: ArrayLike,
    b6: str = "literal",
) -> DdcBound:
    """(13) for T `rounds` of one step each.

    gap: F(w^1) - F*. smoothness: L. tau1, tau2: steps between averages at heads and at the server, tau2 a multiple of tau1.
    eps2, eps2_local (N,), sigma2: squares, as in (10) to (12). cover (N, K), n_samples (K,). A learning rate or periods
    that (13) does not cover are not refused but said.
    """
    for name, value in (("gap", gap), ("eps2", eps2), ("sigma2", sigma2)):
        _check.positive(name, value, zero=True)
    _check.positive("lr", lr)
    _check.whole("tau1", tau1)
    _check.whole("rounds", rounds)
    lr_max = ddc_lr_max(smoothness, tau2)
    if tau2 % tau1:
        raise ValueError(f"tau2 must be a multiple of tau1, got {tau2} and {tau1}")
    _check.one_of("b6", b6, B6_FORMS)
    share, own = _shares(cover, n_samples)
    local = _check.array("eps2_local", eps2_local, share.shape)
    _check.positive("eps2_local", local, zero=True)
    square = (own**2).sum(axis=1)  # (N,)
    spread = ((own * (1 - own)) ** (2 if b6 == "literal" else 1)).sum(axis=1)
    step2 = (lr * smoothness) ** 2
    return DdcBound(
        b1=2 * gap / (lr * rounds),
        b2=36 * step2 * tau2**2 * eps2,
        b3=3 * float(share**2 @ square) * sigma2,
        b4=48 * step2 * tau1**2 * float(share @ local),
        b5=24 * step2 * tau2 * float((share * (1 - share)) @ square) * sigma2,
        b6=16 * step2 * tau1 * float(share @ spread) * sigma2,
        lr_max=lr_max,
        lr_ok=lr <= lr_max,
        periods_ok=tau1 < tau2,
    )


def _shares(cover: Mask, n_samples: ArrayLike) -> tuple[Floats, Floats]:
    """P (N,) and p (N, K). Every device must be in one cluster, with samples."""
    check_partition(cover, "device")
    samples = _check.array("n_samples", n_samples, (cover.shape[1],))
    _check.positive("n_samples", samples)
    held = cover @ samples
    return held / held.sum(), cover * samples / held[:, None]

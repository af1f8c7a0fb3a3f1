"""Deadlines: how long to wait, and how much a slow client can do by then.

    T   = median(t) + alpha IQR(t),  t = predicted seconds of the full work     (CSAHFL, eqs 7 and 8)
    E_i = max(1, min(E_max, floor((T - link_i) / (unit_i step_i))))             (CSAHFL, eq. 9)

E counts units: epochs, or single steps if the work is given in steps. IQR = q75 - q25 with linear interpolation; 0 for a
single client. With scope "edge" T is that of all sampled clients of the edge; with "cluster" work is fitted to the T of the
client's own cluster, and the round, which the clusters of an edge share, closes at the latest of them.
"""

from collections.abc import Callable
from typing import Literal

import numpy as np

from fedloom import _check
from fedloom.pacing.pace import Floats, Ints, Offer, Pace

GUARD = 1e-9  # exact ties such as 60 / (30 * 0.2) would otherwise lose a unit


def fit_units(offer: Offer, close_s: float | Floats) -> Ints:
    """Steps (m,) that fit before the deadline, one for all or (m,): whole units, at least one, at most the full work."""
    unit_s = offer.unit_steps * offer.step_s
    most = offer.full_steps // offer.unit_steps
    fits = np.floor((close_s - offer.link_s) / np.where(unit_s > 0, unit_s, 1) + GUARD)
    units = np.where(unit_s > 0, np.clip(fits, 1, most), most)
    return np.where(units >= most, offer.full_steps, units * offer.unit_steps).astype(np.int64)


def median_iqr(
    alpha: float = 1.5, early_close: bool = True, scope: Literal["edge", "cluster"] = "edge"
) -> Callable[[Offer], Pace]:
    """The adaptive waiting time above: slow clients get less work, and who is late all the same is merged later."""
    _check.positive("alpha", alpha, zero=True)
    _check.one_of("scope", scope, ("edge", "cluster"))

    def pace(offer: Offer) -> Pace:
        cluster = np.zeros(len(offer.client), dtype=np.int64) if scope == "edge" else offer.cluster
        if cluster is None:
            raise ValueError("scope cluster needs an offer that says in which cluster each client is, got none")
        close_s = np.zeros(len(cluster))  # of each client's cluster
        for c in np.unique(cluster):
            close_s[cluster == c] = interval_s(offer.full_s[cluster == c], alpha)
        return Pace(steps=fit_units(offer, close_s), close_s=float(close_s.max()), early_close=early_close)

    return pace


def interval_s(full_s: Floats, alpha: float = 1.5) -> float:
    """Eq. (8): T in seconds, from the predicted seconds of the full work of some clients, (m,)."""
    low, middle, high = np.quantile(full_s, [0.25, 0.5, 0.75])
    return float(middle + alpha * (high - low))


def fixed_deadline(seconds: float, early_close: bool = True) -> Callable[[Offer], Pace]:
    """Everybody gets the full work and the aggregator waits `seconds` at most."""
    _check.positive("deadline in seconds", seconds)
    return lambda offer: Pace(steps=offer.full_steps, close_s=seconds, early_close=early_close)

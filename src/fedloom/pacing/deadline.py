"""Deadlines: how long to wait, and how much a slow client can do by then.

    T   = median(t) + alpha IQR(t),  t = predicted seconds of the full work     (CSAHFL, eqs 7 and 8)
    E_i = max(1, min(E_max, floor((T - link_i) / (unit_i step_i))))             (CSAHFL, eq. 9)

E counts units: epochs, or single steps if the work is given in steps. IQR = q75 - q25 with linear interpolation.
"""

from collections.abc import Callable

import numpy as np

from fedloom import _check
from fedloom.pacing.pace import Ints, Offer, Pace

GUARD = 1e-9  # exact ties such as 60 / (30 * 0.2) would otherwise lose a unit


def fit_units(offer: Offer, close_s: float) -> Ints:
    """Steps (m,) that fit before the deadline: whole units, at least one, at most the full work."""
    unit_s = offer.unit_steps * offer.step_s
    most = offer.full_steps // offer.unit_steps
    fits = np.floor((close_s - offer.link_s) / np.where(unit_s > 0, unit_s, 1) + GUARD)
    units = np.where(unit_s > 0, np.clip(fits, 1, most), most)
    return np.where(units >= most, offer.full_steps, units * offer.unit_steps).astype(np.int64)


def median_iqr(alpha: float = 1.5, early_close: bool = True) -> Callable[[Offer], Pace]:
    """The adaptive waiting time above: slow clients get less work, and who is late all the same is merged later."""
    _check.positive("alpha", alpha, zero=True)

    def pace(offer: Offer) -> Pace:
        low, middle, high = np.quantile(offer.full_s, [0.25, 0.5, 0.75])
        close_s = float(middle + alpha * (high - low))
        return Pace(steps=fit_units(offer, close_s), close_s=close_s, early_close=early_close)

    return pace


def fixed_deadline(seconds: float, early_close: bool = True) -> Callable[[Offer], Pace]:
    """Everybody gets the full work and the aggregator waits `seconds` at most."""
    _check.positive("deadline in seconds", seconds)
    return lambda offer: Pace(steps=offer.full_steps, close_s=seconds, early_close=early_close)

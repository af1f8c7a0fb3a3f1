"""Auditing heads and edge servers: what shows that an average was altered, and what proves it.

Whoever merges is bound by what others hold of it: members have the updates that they sent and the models that they were shown,
the cloud has the report. Two ways to see that these do not fit, and one to prove it:

    sketch      A merge by weights is linear: R v = own R v_before + sum_k a_k R u_k + sum_k b_k R s_k for any R (n, P). Members
                send R u_k and R of what they were shown to the cloud, which compares. R is drawn by a key that nobody knows
                before the report is there, so that a lie cannot be fitted to it: with n random signs for every value, a lie d
                passes only if all n sums are within the tolerance, some (tolerance / |d|)^n of the time.
    recompute   By lot, for merges of any kind.
    proof       The aggregator hands over the updates of a merge, signed by who sent them, and the cloud does the merge again: the
                same numbers in the same order give the same bits.

What was decided and rejected: docs/design/012-auditing-heads.md. P values, m updates.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from fedloom import _check
from fedloom._random import bits_of

Floats = NDArray[np.float64]
Row = NDArray[np.float32]
SIGMAS = 6.0  # of the noise of a link, which nobody takes for a lie


@dataclass(frozen=True, kw_only=True)
class Sketch:
    """Every report is checked by `numbers` random projections of every update and every model that was shown. tolerance: how far
    they may be off, in lengths of the model: single precision is, by some 1e-7."""

    numbers: int = 4
    tolerance: float = 2e-6

    def __post_init__(self) -> None:
        _check.whole("numbers", self.numbers)
        _check.positive("tolerance", self.tolerance)


@dataclass(frozen=True, kw_only=True)
class Recompute:
    """A `share` of the reports, by lot, has its last merge done again, and one of those before it that members were shown."""

    share: float = 0.75

    def __post_init__(self) -> None:
        if not 0 < self.share <= 1:
            raise ValueError(f"share must be above 0 and at most 1, got {self.share:g}")


Audit = Sketch | Recompute
AUDITS: dict[str, Callable[..., Audit]] = {"sketch": Sketch, "recompute": Recompute}


def sketched(row: Row, key: int, numbers: int) -> Floats:
    """R row (n,): each of the numbers is the sum of all values (P,) with signs that the key draws.

    >>> row = np.array([3.0, 4.0], np.float32)
    >>> set(np.abs(sketched(row, 5, 20)).tolist())  # 3 + 4, or 4 - 3
    {1.0, 7.0}
    """
    wide = row.astype(np.float64)
    return np.array([np.where(signs, wide, -wide).sum() for signs in _signs(key, numbers, len(row))])


def fits(claimed: Floats, expected: Floats, allowed: float) -> bool:
    """Whether sketches (n,) of what was sent and of what should have been are the same, but for what is allowed."""
    return bool((np.abs(claimed - expected) <= allowed).all())


def differs(sent: Row, true: Row, noise_std: float = 0.0) -> bool:
    """Whether what was sent (P,) is not what it should have been (P,): by a bit, or, where the link adds noise of so much to
    every value, by more than that explains: the length of P such numbers is std sqrt(P), give or take std / sqrt(2).

    >>> differs(np.ones(2, np.float32), np.ones(2, np.float32)), differs(np.ones(2, np.float32), np.zeros(2, np.float32))
    (False, True)
    """
    if not noise_std:
        return not np.array_equal(sent, true)
    off = float(np.linalg.norm(sent.astype(np.float64) - true))
    return off > noise_std * (math.sqrt(len(sent)) + SIGMAS)


@lru_cache(maxsize=4)
def _signs(key: int, n: int, width: int) -> NDArray[np.bool_]:
    """(n, P)"""
    words = bits_of(key, (n * width + 31) // 32)
    return np.unpackbits(words.view(np.uint8), count=n * width).reshape(n, width).astype(np.bool_)

"""Weights of tiers of clients that update the global model at their own speeds, as in FedAT.

    w = sum_m (T_{M+1-m} / sum_l T_l) w_m,   tiers 1..M from fast to slow, T_m updates of tier m so far

The counts in reversed order: the fastest tier, which updates most often, counts as the slowest one has updated, so that
slow clients are not drowned. Our reconstruction of FedAT from public code and notes, without the text of its paper; the start is
ours.
"""

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from fedloom import _check
from fedloom.mixing.weights import Floats


def tier_weights(n_updates: ArrayLike, start: Literal["active", "one"] = "active") -> Floats:
    """Weights (M,) of the tiers' models from their numbers of updates (M,), fastest first; sum 1.

    At the start most counts are 0 and the rule would give the first updates no weight. start "active": the counts are
    reversed among the tiers that have updated, the others count nothing (all 0 before the first update). "one": all
    counts start at 1, and a tier that has not updated contributes the first model.

    >>> (17 * tier_weights([10, 5, 2])).tolist(), tier_weights([3, 0, 1]).tolist()
    ([2.0, 5.0, 10.0], [0.25, 0.0, 0.75])
    """
    counts = _check.array("n_updates", n_updates, (None,))
    _check.positive("n_updates", counts, zero=True)
    _check.one_of("start", start, ("active", "one"))
    if start == "one":
        counts = counts + 1
    active = np.flatnonzero(counts)
    weights = np.zeros(len(counts))
    weights[active] = counts[active[::-1]] / max(counts.sum(), 1)
    return weights

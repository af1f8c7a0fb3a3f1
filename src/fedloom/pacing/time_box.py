"""Time-boxed cloud rounds: every aggregator runs as many edge rounds as fit.

r_c = floor(T_g / T_c), 0 if one round does not fit or a link is down          (LTC, Algorithm 1)
"""

import math

import numpy as np
from numpy.typing import ArrayLike

from fedloom import _check

MOST_ROUNDS = 100_000
FAR = 10  # times the scenario's edge rounds: rounds that somebody has hardly wished for


def rounds_in_box(box_s: float, round_s: float) -> int:
    """Whole edge rounds of `round_s` seconds in a box of `box_s`; an endless round fits never, a free one is refused.

    >>> rounds_in_box(120, 15), rounds_in_box(120, 17), rounds_in_box(120, math.inf)
    (8, 7, 0)
    """
    _check.positive("box_s", box_s)
    if not box_s < math.inf:
        raise ValueError(f"a time box must end, got {box_s:g} s")
    if not round_s > 0:
        raise ValueError(f"an edge round must take some time for a time box to end, got {round_s:g} s")
    if box_s / round_s > MOST_ROUNDS:
        raise ValueError(
            f"a time box of {box_s:g} s holds {box_s / round_s:.3g} edge rounds of {round_s:g} s, and at most {MOST_ROUNDS:,} "
            f"are run in a cloud round; shorten the box (box_s), or make computing or links slower"
        )
    return math.floor(box_s / round_s + 1e-9)


def box_note(box_s: float, rounds: ArrayLike, edge_rounds: int) -> str | None:
    """A remark if a time box holds none of a cluster's rounds, or many times the scenario's number; None if it fits.

    rounds (N,): edge rounds of each cluster in the box; edge_rounds: those of a cloud round without a box.

    >>> box_note(120, [4, 9], 5) is None, (box_note(120, [358, 12], 5) or "")[:66]
    (True, 'the time box of 120 s holds up to 358 edge rounds of a cluster, 71')
    """
    counts = np.asarray(rounds)
    idle = int(np.count_nonzero(counts == 0))
    if counts.size and idle == counts.size:
        return f"no cluster finishes an edge round in the time box of {box_s:g} s, so that nothing is learnt; lengthen box_s"
    if counts.size and counts.max() > FAR * edge_rounds:
        times = counts.max() / edge_rounds
        return (
            f"the time box of {box_s:g} s holds up to {counts.max()} edge rounds of a cluster, {times:.3g} times the "
            f"{edge_rounds} of the scenario; shorten box_s, or give devices the speeds and links they have (fleet.compute)"
        )
    return None

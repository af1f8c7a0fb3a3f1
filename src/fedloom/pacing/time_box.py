"""Time-boxed cloud rounds: every aggregator runs as many edge rounds as fit.

r_c = floor(T_g / T_c), 0 if one round does not fit or a link is down          (LTC, stage 3)
"""

import math

from fedloom import _check


def rounds_in_box(box_s: float, round_s: float) -> int:
    """Whole edge rounds of `round_s` seconds in a box of `box_s`; an endless round fits never, a free one is refused.

    >>> rounds_in_box(120, 15), rounds_in_box(120, 17), rounds_in_box(120, math.inf)
    (8, 7, 0)
    """
    _check.positive("box_s", box_s)
    if not round_s > 0:
        raise ValueError(f"an edge round must take some time for a time box to end, got {round_s:g} s")
    return math.floor(box_s / round_s + 1e-9)

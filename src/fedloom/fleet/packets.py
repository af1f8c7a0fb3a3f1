"""Packets that are lost and sent again.

A message of n packets: each is lost with probability p, and those that were are sent again, up to so many times in all. What
is still missing then is lost, and the message with it. The number of packets missing after a try is binomial, so that a message
takes a draw a try and not a draw a packet; lots are those of a sender and an occasion.
"""

import numpy as np
from numpy.typing import NDArray

from fedloom._random import uniform_of

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def packets_of(n_bytes: int, packet_bytes: int) -> int:
    """How many packets a message is."""
    return -(-n_bytes // packet_bytes)


def transmissions(
    seed: int, purpose: str, who: Ints, occasion: tuple[int, ...], n_packets: int, p_lost: float, tries: int | None
) -> tuple[Ints, Bools]:
    """Packets (m,) that the messages of `who` (m,) take on air, n_packets at least, and whether each message is lost (m,) for
    want of a packet that was lost `tries` times. tries: None if they are repeated until all are there."""
    missing = np.full(len(who), n_packets)
    on_air, attempt = missing.copy(), 1
    while p_lost > 0 and missing.any() and (tries is None or attempt <= tries):
        some = np.flatnonzero(missing)
        lots = uniform_of(seed, purpose, who[some], *occasion, attempt)
        missing[some] = binomial(lots, missing[some], p_lost)
        if tries is None or attempt < tries:
            on_air = on_air + missing
        attempt += 1
    return on_air, (missing > 0) if p_lost > 0 else np.zeros(len(who), dtype=np.bool_)


def binomial(lots: Floats, n: Ints, p: float) -> Ints:
    """The least k (m,) whose distribution function, of n (m,) trials with probability p, is at least the lots (m,) in (0, 1)."""
    from scipy.special import bdtr, bdtrik

    with np.errstate(all="ignore"):  # 0 trials
        k = np.ceil(bdtrik(lots, n.astype(np.float64), p))
    k = np.clip(np.nan_to_num(k), 0, n)
    for _ in range(2):  # the inverse is of a continuous function, and off by one at most
        below = np.maximum(k - 1, 0)
        k = np.where((k > 0) & (bdtr(below, n, p) >= lots), below, k)
        k = np.where((k < n) & (bdtr(k, n, p) < lots), k + 1, k)
    return np.asarray(k, dtype=np.int64)

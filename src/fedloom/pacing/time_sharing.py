"""Uploads in a band that is shared: one after the other with all of it, or all at once.

    time_sharing    C_j = max(C_{j-1}, end_j) + upload_j,   clients in the order of the end of their computing
    equal_shares    everybody who is sending at t has 1 / n(t) of the bandwidth, n(t) of them: processor sharing

Both carry as much as the band can whenever somebody has something to send, so the last upload is over at the same time; first
come, first served is over sooner for those who are first. While somebody still computes others already send. `time_sharing` is
our reconstruction of FedUC's scheduling, of whose paper we had the title and a sentence alone. m clients.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedloom import _check

Floats = NDArray[np.float64]
Share = Callable[[Floats, Floats], Floats]
"""When each of m messages that share the air is there, from when it is ready (m,) and what it takes alone (m,)."""


def time_sharing(end_s: ArrayLike, upload_s: ArrayLike) -> Floats:
    """When each client's upload is over (m,), in the clients' order.

    end_s (m,): when its computing ends; upload_s: seconds of an upload with the whole bandwidth, one for all or (m,).
    Ties go to the lower index.

    >>> time_sharing([4, 1, 6, 6.5], 1.5).tolist()
    [5.5, 2.5, 7.5, 9.0]
    """
    end, upload = _times(end_s, upload_s)
    finish, free_s = np.zeros(len(end)), -np.inf
    for k in np.argsort(end, kind="stable"):
        finish[k] = free_s = max(free_s, end[k]) + upload[k]
    return finish


def equal_shares(end_s: ArrayLike, upload_s: ArrayLike) -> Floats:
    """The same if those who are sending share the bandwidth equally, more each as others are over and less as others begin.

    Exact, from one end of computing to the next: of those sending, with u_1 <= u_2 <= ... seconds of the whole bandwidth left,
    the i-th is over (u_i - u_{i-1}) (n - i + 1) seconds after the one before it, if nobody joins.

    >>> equal_shares([4, 1, 6, 6.5], 1.5).tolist()  # from 6.5 two share: 1 s and 1.5 s are left of them
    [5.5, 2.5, 8.5, 9.0]
    """
    end, upload = _times(end_s, upload_s)
    finish = np.zeros(len(end))
    begin, turn = np.unique(end, return_inverse=True)
    joining = np.split(np.argsort(turn, kind="stable"), np.cumsum(np.bincount(turn))[:-1])
    who, left_s = np.zeros(0, np.int64), np.zeros(0)  # who is sending, and what is left of it; rising
    for t_s, until_s, new in zip(begin, np.append(begin[1:], np.inf), joining):
        who, left_s = np.concatenate((who, new)), np.concatenate((left_s, upload[new]))
        order = np.argsort(left_s, kind="stable")
        who, left_s = who[order], left_s[order]
        more_s = np.where(np.isinf(left_s), np.inf, 0.0)  # who is never over keeps its share
        more_s[np.isfinite(left_s)] = np.diff(left_s[np.isfinite(left_s)], prepend=0.0)
        over_s = t_s + np.cumsum(more_s * np.arange(len(who), 0, -1))
        n = int(np.searchsorted(over_s, until_s, side="right"))  # are over before somebody joins
        finish[who[:n]] = over_s[:n]
        if n < len(who):
            sent_s, since_s = (left_s[n - 1], over_s[n - 1]) if n else (0.0, t_s)  # of each of the others
            sent_s += (until_s - since_s) / (len(who) - n)
            who, left_s = who[n:], np.maximum(left_s[n:] - sent_s, 0.0)
        else:
            who, left_s = who[:0], left_s[:0]
    return finish


def _times(end_s: ArrayLike, upload_s: ArrayLike) -> tuple[Floats, Floats]:
    end = _check.array("end_s", end_s, (None,))
    upload = np.asarray(upload_s, dtype=np.float64)
    if upload.shape not in ((), end.shape):
        raise ValueError(f"upload_s must be one number or one for each of {len(end)} clients, got shape {upload.shape}")
    _check.positive("upload_s", upload, zero=True)
    return end, np.broadcast_to(upload, end.shape)

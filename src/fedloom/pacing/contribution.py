"""Extra local updates for fast clusters, if what they contribute is worth it.

    t_c = max_{k in c} l_k |D_k| / f_k                 s, one local update: a cluster is as fast as its slowest member
    n_c = floor(t_max / t_c) - 1, at most the cap      extra updates that fit into the wait for the slowest cluster
    S_c = 1 if v_c >= threshold                        the gate (CAMU, eq. 16)
    N_c = 1 + S_c n_c                                  updates of a round (CAMU, eq. 15)

A higher threshold lets fewer clusters do more: 0 is no gate, infinity one update for everybody. With upload times u_c
the round lasts tau = max_c (t_c + u_c) and n_c = floor((tau - u_c) / t_c) - 1. N clusters, K clients.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedloom import _check

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]

GUARD = 1e-9  # 0.6 / 0.2 would otherwise lose an update
PUBLISHED_SAMPLES = 60_000


def client_update_s(cycles: ArrayLike, n_samples: ArrayLike, cpu_hz: ArrayLike) -> Floats:
    """Seconds (K,) of one pass of a client: `cycles` per sample, n_samples, at cpu_hz cycles per second."""
    for name, value in (("cycles", cycles), ("n_samples", n_samples), ("cpu_hz", cpu_hz)):
        _check.positive(name, value)
    return np.asarray(np.multiply(cycles, n_samples) / np.asarray(cpu_hz, dtype=np.float64))


def cluster_update_s(cover: Mask, client_s: ArrayLike) -> Floats:
    """t (N,): seconds of one update of each cluster, cover (N, K) bool, from those of clients, client_s (K,)."""
    seconds = _check.array("client_s", client_s, (cover.shape[1],))
    empty = np.flatnonzero(~cover.any(axis=1))
    if len(empty):
        raise ValueError(f"clusters {empty.tolist()} have no members; leave them out")
    return np.asarray(np.where(cover, seconds, -np.inf).max(axis=1))


def extra_updates(update_s: ArrayLike, *, upload_s: ArrayLike | None = None, cap: int = 9) -> Ints:
    """n (N,): whole updates beyond the first that fit while the slowest cluster does one; update_s (N,), at most `cap`.

    upload_s (N,): counts the time to upload too.

    >>> extra_updates([0.20, 0.10, 0.64]).tolist()
    [2, 5, 0]
    """
    _check.whole("cap", cap, least=0)
    t = _check.array("update_s", update_s, (None,))
    _check.positive("update_s", t)
    u = np.zeros(len(t)) if upload_s is None else _check.array("upload_s", upload_s, t.shape)
    _check.positive("upload_s", u, zero=True)
    fits = np.floor(((t + u).max() - u) / t + GUARD)
    return np.asarray(np.clip(fits - 1, 0, cap), dtype=np.int64)


def gate(log_contribution: ArrayLike, threshold: float) -> Mask:
    """S (N,): clusters whose contribution reaches the threshold; log_contribution (N,) is ln v."""
    _check.positive("threshold", threshold, zero=True)
    values = _check.array("log_contribution", log_contribution, (None,))
    with np.errstate(divide="ignore"):  # a threshold of 0 is minus infinity
        return np.asarray(values >= np.log(threshold))


def scaled_threshold(threshold: float, n_samples: int) -> float:
    """A threshold published for 60,000 samples in all, for `n_samples`: contributions grow with the data.

    >>> round(scaled_threshold(5000, 4000))
    333
    """
    _check.whole("n_samples", n_samples)
    return threshold * n_samples / PUBLISHED_SAMPLES


def local_updates(n_extra: ArrayLike, open_gate: Mask) -> Ints:
    """N (N,) >= 1 from extra updates n_extra (N,), rounded to whole ones, of clusters whose gate (N,) is open."""
    n = _check.array("n_extra", n_extra, open_gate.shape)
    _check.positive("n_extra", n, zero=True)
    return 1 + np.where(open_gate, np.rint(n), 0).astype(np.int64)


def idle_s(update_s: ArrayLike, n_local: ArrayLike) -> Floats:
    """Seconds (N,) that clusters wait for the last one: update_s (N,) of one update, n_local (N,) updates."""
    busy = np.multiply(update_s, n_local, dtype=np.float64)
    return np.asarray(busy.max() - busy)


def round_s(update_s: ArrayLike, n_local: ArrayLike, upload_s: ArrayLike) -> float:
    """Seconds of a round: clusters compute at the same time, then upload one after the other; all (N,)."""
    return float(np.max(np.multiply(update_s, n_local)) + np.sum(upload_s))

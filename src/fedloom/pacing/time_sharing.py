"""Uploads one after the other, each with the whole bandwidth (FedUC, in CSAHFL's appendix A).

    C_j = max(C_{j-1}, end_j) + upload_j,   clients in the order of the end of their computing

First come, first served is optimal for the last finish, and while somebody still computes others already send.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedloom import _check

Floats = NDArray[np.float64]


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
    """The same if each of the m clients keeps 1/m of the bandwidth for itself from the start: end + m upload.

    >>> equal_shares([4, 1, 6, 6.5], 1.5).tolist()
    [10.0, 7.0, 12.0, 12.5]
    """
    end, upload = _times(end_s, upload_s)
    return end + len(end) * upload


def _times(end_s: ArrayLike, upload_s: ArrayLike) -> tuple[Floats, Floats]:
    end = _check.array("end_s", end_s, (None,))
    upload = np.asarray(upload_s, dtype=np.float64)
    if upload.shape not in ((), end.shape):
        raise ValueError(f"upload_s must be one number or one for each of {len(end)} clients, got shape {upload.shape}")
    _check.positive("upload_s", upload, zero=True)
    return end, np.broadcast_to(upload, end.shape)

"""False reports about links between devices: what a server can tell from the two ends of a link (LTC, section 5.5.4).

A link has one throughput, so its ends must report the same. If they do not, at least one of them lies, and which one cannot
be told from the pair; a client that disagrees with more than half of the others is suspected. Two ends that lie in
concert are not found. Compare throughputs, never round times, which differ by the sender's speed.

Our choices: 5 % as tolerance, more than half as suspicion, and the lower of both reports as what is believed, for every
pair: then no link is believed to be better than either end says, and the matrix is symmetric. K clients.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedloom import _check

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True, eq=False)
class LinkCheck:
    """mismatch (K, K) bool, symmetric. n_mismatches (K,). suspects: sorted clients, to be left out from the next round on.
    believed (K, K): the throughputs to plan with."""

    mismatch: Mask
    n_mismatches: Ints
    suspects: Ints
    believed: Floats


def check_link_reports(reports: ArrayLike, rtol: float = 0.05) -> LinkCheck:
    """Compare reports (K, K) of throughputs: row i is what client i says, in any unit, 0 for a link that is down and
    infinite for one that takes no time.

    A mismatch is a difference of more than rtol times the larger report. The diagonal is ignored and believed as is.

    >>> check = check_link_reports([[0, 4, 4], [2, 0, 3], [4, 3, 0]])
    >>> np.argwhere(check.mismatch).tolist(), check.suspects.tolist(), check.believed[0].tolist()
    ([[0, 1], [1, 0]], [], [0.0, 2.0, 4.0])
    """
    said = _check.array("reports", reports, (None, None), finite=False).copy()
    n = len(said)
    if said.shape != (n, n):
        raise ValueError(f"reports must be a square matrix, got shape {said.shape}")
    if not 0 <= rtol < 1:
        raise ValueError(f"rtol must be at least 0 and below 1, got {rtol:g}")
    diagonal = said.diagonal().copy()
    np.fill_diagonal(said, 0.0)
    _check.positive("reports, but for the diagonal,", said, zero=True)
    lower, higher = np.minimum(said, said.T), np.maximum(said, said.T)
    mismatch = (lower < higher) & (lower < (1 - rtol) * higher)  # infinite is equal to itself
    counts = mismatch.sum(axis=1)
    believed = lower
    np.fill_diagonal(believed, diagonal)
    return LinkCheck(
        mismatch=mismatch, n_mismatches=counts, suspects=np.flatnonzero(counts > (n - 1) / 2), believed=believed
    )


def late_senders(observed_s: ArrayLike, promised_s: ArrayLike, slack: float = 1.1) -> Mask:
    """Who took longer to send than `slack` times the reported throughput promised; arrays of one shape, s.

    The head of a cluster checks this while rounds run; members that are late are left out from the next cloud round on.
    """
    _check.positive("slack", slack)
    observed, promised = np.asarray(observed_s, dtype=np.float64), np.asarray(promised_s, dtype=np.float64)
    if observed.shape != promised.shape:
        raise ValueError(f"observed_s and promised_s must have one shape, got {observed.shape} and {promised.shape}")
    _check.positive("observed_s", observed, zero=True)
    _check.positive("promised_s", promised, zero=True)
    return np.asarray(observed > slack * promised)

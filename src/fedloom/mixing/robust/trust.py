"""Models count by how far they point where trusted data point, and go no farther.

    TS_i = max(0, cos(v_i - w, r - w))                                 trust of a model, r: what the server learnt itself
    w   <- w + sum_i a_i TS_i (||r - w|| / ||v_i - w||) (v_i - w) / sum_i a_i TS_i

X. Cao, M. Fang, J. Liu, N. Z. Gong, "FLTrust: Byzantine-robust Federated Learning via Trust Bootstrapping", NDSS 2021
(ReLU-clipped cosine similarity, normalised magnitudes), with the weights of a merge in addition; with equal ones it is the
published form. The reference r is trained from w on root data, samples that no client has (`Root`), by as many steps as clients
do. Where nobody is trusted the old model stays. m models, P values.
"""

import numpy as np

from fedloom.mixing.order import Rows
from fedloom.mixing.robust.votes import Rule, Votes
from fedloom.mixing.weights import Floats


def trust() -> Rule:
    """Needs a reference: at_edge(trust(), root=Root()), at_cloud(trust(), root=Root())."""

    def rule(votes: Votes) -> Floats:
        if votes.reference is None:
            raise ValueError("trust needs a reference; write at_edge(trust(), root=Root()), and so at the cloud")
        return trusted_step(votes.rows, votes.weights, votes.old.astype(np.float64), votes.reference)

    return rule


def trusted_step(rows: Rows, weights: Floats, old: Floats, reference: Rows) -> Floats:
    """(P,) of rows (m, P) with weights (m,), sum 1; old, reference (P,).

    >>> rows = np.array([[2, 0], [0, 3], [-1, 0]], dtype=np.float32)  # along, across and against the reference
    >>> trusted_step(rows, np.full(3, 1 / 3), np.zeros(2), np.array([1, 0], dtype=np.float32)).tolist()
    [1.0, 0.0]
    """
    change, trusted = rows - old, reference - old
    length, own = np.linalg.norm(change, axis=1), float(np.linalg.norm(trusted))
    where = length > 0
    cosine = np.zeros(len(rows))
    if own > 0:
        cosine[where] = change[where] @ trusted / (length[where] * own)
    score = weights * np.maximum(0.0, cosine)
    if not score.any():
        return old
    part = score / score.sum() * own / np.where(where, length, 1.0)
    return np.asarray(old + part @ change)

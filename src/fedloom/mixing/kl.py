"""Cloud weights by the amount of data and by how close a cluster's labels are to those of all (CSAHFL, section 3.5).

    qua_k    = N_k / sum_l N_l                            (12) N_k: samples of those who reported in cluster k
    dis_k    = 1 / (1 + KL(P_k || P_g))                   (13) natural logarithm
    lambda_k = qua_k dis_k / sum_l qua_l dis_l            (14)
    w        = sum_k lambda_k w_k,   w_k = sum_j N_jk w_jk / N_k  over the edges j      (11)

P_k is the label histogram of all members of k, whoever reported; P_g is the pooled one of all clusters, uniform, or
given. As dis depends on the cluster only, (11) is also the mean of all models w_jk with weights in proportion to
N_jk dis_k: `kl_cloud_weights`. The label counts of every cluster are disclosed. K clusters, C classes, N aggregators.
"""

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedloom import _check
from fedloom.mixing.weights import Floats

EPSILON = 1e-8  # added to both laws where P_g is given: it may lack a class that a cluster has

PGlobal = Literal["pooled", "uniform"] | ArrayLike


def kl_divergence(p: ArrayLike, q: ArrayLike) -> Floats:
    """KL(p || q) = sum_c p_c ln(p_c / q_c), over the last axis; laws p (..., C), q (C,) or like p.

    Classes with p_c = 0 contribute nothing; infinite if q_c = 0 < p_c.

    >>> kl_divergence([0.5, 0.5, 0.0], [0.25, 0.25, 0.5]).round(9).tolist()  # ln 2
    0.693147181
    """
    a, b = np.broadcast_arrays(np.asarray(p, dtype=np.float64), np.asarray(q, dtype=np.float64))
    _check.positive("p", a, zero=True)
    _check.positive("q", b, zero=True)
    for name, law in (("p", a), ("q", b)):
        if not np.allclose(law.sum(axis=-1), 1, rtol=0, atol=1e-6):
            raise ValueError(
                f"{name} must sum to 1 over the classes, got sums {np.unique(law.sum(axis=-1))[:5].tolist()}"
            )
    held = a > 0
    ratio = np.divide(a, b, out=np.full(a.shape, np.inf), where=b > 0)
    terms = np.where(held, a * np.log(np.where(held, ratio, 1.0)), 0.0)
    return np.asarray(terms.sum(axis=-1))


def closeness(label_counts: ArrayLike, p_global: PGlobal = "pooled") -> Floats:
    """Eq. (13): dis (K,) in (0, 1], 1 where a cluster's labels are those of all; label_counts (K, C) samples.

    p_global: "pooled", the histogram of all clusters; "uniform"; or a law (C,) of one's own, in which case `EPSILON` is
    added to every class of both laws. A cluster without samples has no labels to compare: 1.
    """
    counts = _check.array("label_counts", label_counts, (None, None))
    _check.positive("label_counts", counts, zero=True)
    n_classes = counts.shape[1]
    total = counts.sum(axis=1, keepdims=True)
    if not total.any():
        raise ValueError("label_counts must count at least one sample, got zeros only")
    if isinstance(p_global, str):
        _check.one_of("p_global", p_global, ("pooled", "uniform"))
        law = counts.sum(axis=0) / counts.sum() if p_global == "pooled" else np.full(n_classes, 1 / n_classes)
        epsilon = 0.0
    else:
        law, epsilon = _check.array("p_global", p_global, (n_classes,)), EPSILON
    own = np.where(total > 0, counts / np.where(total > 0, total, 1), law)
    return 1 / (1 + kl_divergence(_smooth(own, epsilon), _smooth(law, epsilon)))


def cluster_weights(n_reported: ArrayLike, label_counts: ArrayLike, p_global: PGlobal = "pooled") -> Floats:
    """Eqs (12) to (14): lambda (K,), sum 1; 0 for clusters in which nobody reported, all 0 if nobody did anywhere.

    n_reported (K,): N_k, samples of the distinct clients that contributed; label_counts (K, C) of all members.
    """
    n = _check.array("n_reported", n_reported, (None,))
    _check.positive("n_reported", n, zero=True)
    counts = _check.array("label_counts", label_counts, (len(n), None))
    empty = np.flatnonzero((n > 0) & ~counts.any(axis=1)).tolist()
    if empty:
        raise ValueError(f"clusters {empty} reported samples, but their label_counts are zero; count all members")
    if not n.any():
        return np.zeros(len(n))
    weights = n / n.sum() * closeness(counts, p_global)
    return np.asarray(weights / weights.sum())


def kl_cloud_weights(
    reported: ArrayLike, cluster: NDArray[np.integer], label_counts: ArrayLike, p_global: PGlobal = "pooled"
) -> Floats:
    """The weights (N,) of the models of all aggregators, one for every edge and cluster: lambda_k N_jk / N_k.

    reported (N,): samples of the clients that contributed to the aggregator; cluster (N,): which of the K clusters it
    serves; label_counts (K, C) of all members of each cluster. All zero if nobody reported: keep the model.
    """
    n = _check.array("reported", reported, (None,))
    of = np.asarray(cluster)
    n_clusters = len(np.asarray(label_counts))
    if of.shape != n.shape or not np.issubdtype(of.dtype, np.integer) or ((of < 0) | (of >= n_clusters)).any():
        raise ValueError(
            f"cluster must name one of the {n_clusters} clusters of label_counts for each of the {len(n)} aggregators, "
            f"got {of.tolist()[:10]}"
        )
    total = np.bincount(of, weights=n, minlength=n_clusters)
    share = cluster_weights(total, label_counts, p_global) / np.where(total > 0, total, 1)
    return np.asarray(n * share[of])


def _smooth(law: Floats, epsilon: float) -> Floats:
    return np.asarray((law + epsilon) / (1 + epsilon * law.shape[-1]))

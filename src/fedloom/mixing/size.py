"""Weights by the number of samples.

edge:   v_c = sum_k n_k w_k / sum_k n_k          over the clients whose update arrived        (FedAvg, HierFAVG)
split:  n_k becomes n_k / |S_k|                  a client in several cells counts once        (HHFL, eq. 9)
cloud:  w   = sum_c N_c v_c / sum_c N_c          N_c of all clients of c, or of those who reported
"""

import numpy as np

from fedloom.mixing.weights import Arrivals, CloudWeights, EdgeWeights, Floats, Reports


def by_size(arrivals: Arrivals) -> EdgeWeights:
    """Mean of the arrived models by samples; stale ones count like fresh ones."""
    return EdgeWeights(own=0.0, model=_normalised(arrivals.n_samples.astype(np.float64)))


def by_split_size(arrivals: Arrivals) -> EdgeWeights:
    """As `by_size`, but a client's samples are shared out over the aggregators it reports to."""
    return EdgeWeights(own=0.0, model=_normalised(arrivals.n_samples / arrivals.n_reached))


def by_total(reports: Reports) -> CloudWeights:
    """Edges count by the samples of all their clients, whoever was sampled. An edge without clients counts nothing."""
    return CloudWeights(own=0.0, edge=_normalised(reports.total))


def by_reported(reports: Reports) -> CloudWeights:
    """Edges count by the samples of the distinct clients that contributed in this cloud round; nobody: no change."""
    if not reports.reported.any():
        return CloudWeights(own=1.0, edge=np.zeros(len(reports.reported)))
    return CloudWeights(own=0.0, edge=_normalised(reports.reported))


def _normalised(weights: Floats) -> Floats:
    total: float = weights.sum()
    if not total > 0:
        raise ValueError(f"weights must have a positive sum, got {weights.tolist()[:10]}")
    return weights / total

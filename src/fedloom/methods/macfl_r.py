"""MACFL, a reconstruction: for roaming clients, weights by the direction of updates and starts between edge and own model.

    start_i = phi w_edge + (1 - phi) w_i,   phi = clip((1 + cos(w_i, w_edge)) / 2, least, 1),   w_i: own last model
    w_edge <- w_edge + sum_i a_i D_i,       a_i ~ n_i exp(kappa cos(D_i, D)),   D = sum_i n_i D_i / sum_i n_i
    the same at the cloud, with the edges' changes and data

After C. Feng et al., "Mobility-Aware Cluster Federated Learning in Hierarchical Wireless Networks", 2022, of which only the
abstract was at hand: the rules are ours, not the authors'. A client uploads where it is attached; nothing
is lost by moving. kappa = 0 and least = 1 (phi = 1) are HierFedAVG.
"""

import numpy as np

from fedloom.grouping import home_cells
from fedloom.methods.parts import ByRows, CloudByRows, Grouping, Method, Rows, Start
from fedloom.mixing import Arrivals, CloudWeights, EdgeWeights, Reports, similarity_weights, start_share
from fedloom.mixing.merges import cloud_weighted, weighted

MOST_KAPPA = 100.0  # exp(kappa cos): more would leave one model alone


def method(kappa: float = 1.0, least: float = 0.5) -> Method:
    """kappa: how much direction counts; least: of the edge's model in a start, 0 to 1."""
    if not 0 <= kappa <= MOST_KAPPA:
        raise ValueError(f"kappa must be between 0 and {MOST_KAPPA:g}, got {kappa:g}")
    if not 0 <= least <= 1:
        raise ValueError(f"least must be between 0 and 1, got {least!r}")

    def weigh_edge(arrivals: Arrivals, old: Rows, models: Rows, starts: Rows) -> EdgeWeights:
        a = similarity_weights(models - starts, arrivals.n_samples, kappa)
        return EdgeWeights(own=1.0, model=a, start=-a)

    def weigh_cloud(reports: Reports, old: Rows, models: Rows) -> CloudWeights:
        edge = np.zeros(len(models))
        used = np.flatnonzero(reports.total > 0)
        edge[used] = similarity_weights(models[used] - old, reports.total[used], kappa)
        return CloudWeights(own=0.0, edge=edge)

    def start(edge: Rows, own: Rows) -> float:
        return float(start_share(own[None], edge, least)[0])

    return Method(
        name="macfl_r",
        summary="reconstruction of MACFL: weights by direction of updates, starts between the edge's and the own model",
        group=Grouping(home_cells),
        merge_edge=ByRows(weighted(weigh_edge)),
        merge_cloud=CloudByRows(cloud_weighted(weigh_cloud)),
        start=Start(share=start),
    )

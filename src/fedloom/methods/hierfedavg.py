"""HierFedAVG: clients average at the edge server of their home cell, the cloud averages the edges.

    v_c = sum_{k in c} n_k w_k / sum_{k in c} n_k          every edge round, over the clients that took part
    w   = sum_c N_c v_c / sum_c N_c                        after G edge rounds; then every v_c = w

L. Liu, J. Zhang, S. H. Song, K. B. Letaief, "Client-Edge-Cloud Hierarchical Federated Learning", ICC 2020
(arXiv:1905.06641). N_c is the data of all clients of the edge, also of those that were not sampled ("total", as the
authors do), or of the distinct clients that took part in this cloud round ("reported"). Sampling is uniform; the
authors' code samples by size and then weighs by size again, which counts large clients twice.
"""

from fedloom import _check
from fedloom.grouping import home_cells
from fedloom.methods.parts import CloudLinear, Grouping, Method
from fedloom.mixing import by_reported, by_total

CLOUD_WEIGHTS = {"total": by_total, "reported": by_reported}


def method(cloud_weights: str = "total") -> Method:
    """cloud_weights: whose data an edge counts for at the cloud, "total" or "reported"."""
    _check.one_of("cloud_weights", cloud_weights, tuple(CLOUD_WEIGHTS))
    return Method(
        name="hierfedavg",
        summary="clients average in their home cell, cells average at the cloud",
        group=Grouping(home_cells),
        merge_cloud=CloudLinear(CLOUD_WEIGHTS[cloud_weights]),
    )

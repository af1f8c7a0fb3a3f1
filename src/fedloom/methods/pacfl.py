"""PACFL: clusters of clients with similar data, each with a model of its own, at the cloud.

    theta_ij        smallest angle between singular vectors of two clients' data, of each of their classes
    w_k = sum_{i in k} n_i w_i / sum_{i in k} n_i        FedAvg inside each cluster; the clusters' models never meet

S. Vahidian, M. Morafah, W. Wang, V. Kungurtsev, C. Chen, M. Shah, B. Lin, "Efficient Distribution Similarity Identification in
Clustered Federated Learning via Principal Angles Between Client Data Subspaces", AAAI 2023. Edge servers only relay.
`accuracy` is that of the mean of the clusters' models, which nobody uses; what PACFL is for is `local_by_cluster`. Angles are
between lines (pairwise_abs); "pairwise" is what the authors' code computes and depends on the arbitrary signs of singular
vectors.
"""

from fedloom.grouping import Need
from fedloom.methods.csahfl import by_signature
from fedloom.methods.parts import Barrier, Grouping, Method


def method(
    beta: float = 4.9,
    p: int = 3,
    linkage: str = "average",
    signature: str = "per_class",
    metric: str = "pairwise_abs",
) -> Method:
    """beta: degrees up to which clusters merge; p: directions of a class; the rest as for csahfl."""
    return Method(
        name="pacfl",
        summary="clusters of similar data at the cloud, one model for each, without mixing",
        group=Grouping(by_signature(beta, p, linkage, signature, metric, place="cloud"), when="once"),
        needs=frozenset({Need.SIZES, Need.SIGNATURES}),
        cloud=Barrier(cluster_share=1.0),
    )

"""CSAHFL: clusters of clients with similar data across edge servers, deadlines that fit the clients, clusters weighed by labels.

    theta_ij                       smallest angle between the data signatures of two clients; clusters: theta <= beta
    T = median(t) + alpha IQR(t)   the time an edge server waits; slow clients get fewer epochs           (eqs 7 to 9)
    w <- w + sum_i n_i (w_i - start_i) / ((1 + s_i) sum_i n_i)     who is late by s_i rounds counts less   (eq. 10)
    w_g = sum_k lambda_k w_k,  lambda_k ~ N_k / (1 + KL(P_k || P_g))                                       (eqs 11 to 14)

A. Li, J. Du, D. Liu, Y. Shao, T. Zhao, G. Ye, "CSAHFL: Clustered Semi-Asynchronous Hierarchical Federated Learning for
Dual-layer Non-IID in Heterogeneous Edge Computing Networks". An edge server keeps one model for every cluster; those of one
cluster meet at the cloud. Clients reveal the first directions of their data and their label counts. The clusters are made once
and travel with the clients.

The three parts can be left out one by one: `csahfl_no_clusters` (w/o C), `csahfl_no_deadline` (w/o SA), `csahfl_no_kl`
(w/o D); each is an option of `method`.
"""

from collections.abc import Callable

import numpy as np

from fedloom import _check
from fedloom.grouping import Need, Topology, View, angle_clusters, home_cells, proximity
from fedloom.grouping.principal_angles import MOST_CLIENTS, check_directions
from fedloom.methods.parts import Barrier, CloudLinear, Group, Grouping, Linear, Method, Rounds, WeighCloud
from fedloom.mixing import CloudWeights, Reports, discounted, kl_cloud_weights
from fedloom.mixing.weights import Floats
from fedloom.pacing import lockstep, median_iqr

SIGNATURES = {"whole": "signature", "per_class": "class-signature"}
CLUSTERS = ("angles", "none", "random")
DOWN = {"global": 0.0, "cluster": 1.0}
CLOUD_WEIGHTS = ("kl", "quantity", "equal")
SCOPES = ("round_union", "last")


def method(
    alpha: float = 1.5,
    beta: float = 20.0,
    p: int = 3,
    linkage: str = "complete",
    signature: str = "whole",
    metric: str = "principal",
    clusters: str = "angles",
    wait: str = "deadline",
    interval_scope: str = "edge",
    early_close: bool = True,
    stale_mode: str = "delta",
    cloud_weights: str = "kl",
    quantity_scope: str = "round_union",
    p_global: str = "pooled",
    after_cloud: str | float = "global",
    drop_at_cloud: bool = False,
    lost_on_move: bool = False,
) -> Method:
    """alpha: interquartile ranges to wait beyond the median; inf: for all, as wait="all". beta: degrees up to which clusters
    merge. p: directions of a signature, at most 50 and as many as the data have. linkage: distance of clusters, complete,
    average or single. signature: of the whole data of a client, or per_class. metric: of angles, principal, pairwise or
    pairwise_abs. clusters: by angles, none, or random ones of the same sizes. wait: until a deadline, or for "all".
    interval_scope: the deadline of an edge or of each cluster. early_close: a round ends when all have arrived. stale_mode: late
    updates by delta, renorm or literal. cloud_weights: of clusters, kl, quantity or equal. quantity_scope: data of who reported
    in the whole cloud round (round_union) or its last edge round. p_global: labels of all, pooled or uniform. after_cloud:
    "global", "cluster", "mix" (half of each), or the share of the cluster's model. drop_at_cloud: updates that are late when
    the cloud merges are lost. lost_on_move: so are those of clients that moved meanwhile."""
    _check.one_of("signature", signature, tuple(SIGNATURES))
    _check.one_of("clusters", clusters, CLUSTERS)
    _check.one_of("wait", wait, ("deadline", "all"))
    _check.positive("alpha", alpha, zero=True)
    _check.one_of(
        "after_cloud", "number" if isinstance(after_cloud, float | int) else after_cloud, (*DOWN, "mix", "number")
    )
    share = float(after_cloud) if isinstance(after_cloud, float | int) else DOWN.get(after_cloud, 0.5)
    needs = {Need.SIZES, Need.SPEEDS} | ({Need.SIGNATURES} if clusters != "none" else set())
    rule = by_signature(beta, p, linkage, signature, metric, clusters == "random") if clusters != "none" else home_cells
    pace = lockstep if wait == "all" or alpha == np.inf else median_iqr(alpha, early_close, interval_scope)  # type: ignore[arg-type]
    return Method(
        name="csahfl",
        summary="clusters of similar data across edges, adaptive deadlines, clusters weighed by amount and labels",
        group=Grouping(rule, when="once"),
        needs=frozenset(needs | ({Need.LABELS} if cloud_weights == "kl" else set())),
        edge=Rounds(pace=pace, lost_on_move=lost_on_move),
        cloud=Barrier(cluster_share=share, drop_late=drop_at_cloud),
        merge_edge=Linear(discounted(stale_mode)),  # type: ignore[arg-type]
        merge_cloud=CloudLinear(weigh_clusters(cloud_weights, quantity_scope, p_global)),
    )


def no_clusters(alpha: float = 1.5, stale_mode: str = "delta") -> Method:
    """CSAHFL without C: one model for each edge server, which stands for its clients' labels at the cloud."""
    return method(alpha=alpha, stale_mode=stale_mode, clusters="none").with_(
        name="csahfl_no_clusters", summary="CSAHFL without clusters: one model for each edge"
    )


def no_deadline(beta: float = 20.0, p: int = 3, stale_mode: str = "delta") -> Method:
    """CSAHFL without SA: everybody does all the work, and edge servers wait for the slowest."""
    return method(beta=beta, p=p, stale_mode=stale_mode, wait="all").with_(
        name="csahfl_no_deadline", summary="CSAHFL without deadlines: edges wait for the slowest"
    )


def no_kl(alpha: float = 1.5, beta: float = 20.0, p: int = 3, cloud_weights: str = "equal") -> Method:
    """CSAHFL without D: all clusters that contributed count the same, or by their amount of data ("quantity")."""
    return method(alpha=alpha, beta=beta, p=p, cloud_weights=cloud_weights).with_(
        name="csahfl_no_kl", summary="CSAHFL without label distances: clusters count the same at the cloud"
    )


def by_signature(
    beta: float, p: int, linkage: str, signature: str, metric: str, at_random: bool = False, place: str = "edge"
) -> Group:
    """Clusters of clients whose data span nearly the same directions (CSAHFL, section 3.3).

    place "edge": an aggregator for every home cell and cluster; "cloud": one for every cluster, at the cloud.
    """
    check_directions("p", p)
    _check.positive("beta", beta, zero=True)
    _check.one_of("signature", signature, tuple(SIGNATURES))
    _check.one_of("linkage", linkage, ("complete", "average", "single"))
    _check.one_of("metric", metric, ("principal", "pairwise", "pairwise_abs"))

    def group(view: View, rng: np.random.Generator) -> Topology:
        who = np.flatnonzero(view.active)
        _check.few_enough("clustering by angles", len(who), MOST_CLIENTS[signature])
        _check_data(p, "samples of any client", int(view.n_samples[who].max()))
        found = view.features(SIGNATURES[signature], p)[who]
        _check_data(p, "inputs of a sample", found.shape[1])
        angles = proximity([u[:, u.any(axis=0)] for u in found], metric)  # type: ignore[arg-type]
        label = angle_clusters(angles, beta_deg=beta, linkage=linkage)  # type: ignore[arg-type]
        cluster = np.full(len(view.active), -1)
        cluster[who] = rng.permutation(label) if at_random else label
        n_clusters = int(label.max()) + 1
        notes = {"clusters": float(n_clusters)}
        numbers = np.arange(n_clusters)
        if place == "cloud":
            cover = cluster[None, :] == numbers[:, None]
            return Topology(
                cover=cover, kind="cloud", host=np.zeros(n_clusters, np.int64), cluster=numbers, notes=notes
            )
        n_cells = len(view.in_reach)
        host, number = np.repeat(np.arange(n_cells), n_clusters), np.tile(numbers, n_cells)
        cover = (view.home[None, :] == host[:, None]) & (cluster[None, :] == number[:, None])
        return Topology(cover=cover, kind="edge", host=host, cluster=number, follow=True, notes=notes)

    return group


def _check_data(p: int, what: str, most: int) -> None:
    """Data have no more directions than samples, nor than a sample has inputs."""
    if p > most:
        raise ValueError(
            f"p must be at most the number of {what}, {most}, because data have no more directions; got {p}"
        )


def weigh_clusters(by: str = "kl", quantity_scope: str = "round_union", p_global: str = "pooled") -> WeighCloud:
    """Clusters by amount of data and closeness of labels ("kl"), by amount, or all the same; inside a cluster aggregators count
    by the data of those who reported, in the whole cloud round or its last edge round. Nobody reported: no change."""
    _check.one_of("cloud_weights", by, CLOUD_WEIGHTS)
    _check.one_of("quantity_scope", quantity_scope, SCOPES)
    _check.one_of("p_global", p_global, ("pooled", "uniform"))

    def weigh(reports: Reports) -> CloudWeights:
        n = reports.reported_last if quantity_scope == "last" else reports.reported
        assert n is not None and reports.cluster is not None and reports.label_counts is not None
        if by == "kl" and not reports.label_counts.size:
            raise ValueError("weights by labels need data with classes; use cloud_weights=quantity or equal")
        edge = WEIGHTS[by](n, reports, p_global)
        return CloudWeights(own=0.0 if n.any() else 1.0, edge=edge)

    return weigh


def _kl(n: Floats, reports: Reports, p_global: str) -> Floats:
    assert reports.cluster is not None and reports.label_counts is not None
    return kl_cloud_weights(n, reports.cluster, reports.label_counts, p_global)


def _quantity(n: Floats, reports: Reports, p_global: str) -> Floats:
    return np.asarray(n / max(float(n.sum()), 1.0))


def _equal(n: Floats, reports: Reports, p_global: str) -> Floats:
    assert reports.cluster is not None
    total = np.bincount(reports.cluster, weights=n)
    share = n / np.where(total > 0, total, 1)[reports.cluster]
    return np.asarray(share / max(int(np.count_nonzero(total)), 1))


WEIGHTS: dict[str, Callable[[Floats, Reports, str], Floats]] = {"kl": _kl, "quantity": _quantity, "equal": _equal}

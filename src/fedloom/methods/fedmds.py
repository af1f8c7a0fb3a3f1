"""FedMDS: spectral clusters of devices with similar updates and round times (Benchmark A of LTC), and its opposite A+.

    A      G_ij = exp(-|(t_i, cos_i) - (t_j, cos_j)| / (2 sigma^2))
    A+     G_ij = exp(-|t_i - t_j| / (2 sigma_t^2)) + exp(+|cos_i - cos_j| / (2 sigma_ft^2))

As the authors of LTC describe the model-discrepancy-based clustering they compare with, on the same platform: heads and
time-boxed rounds as in LTC. A+ (`fedmds_plus`) groups devices with similar times and complementary directions.
"""

import numpy as np
from numpy.typing import NDArray

from fedloom import _check
from fedloom.grouping import Need, Topology, View, complementary_clusters, similar_clusters
from fedloom.grouping.spectral import MOST_CLIENTS
from fedloom.methods.ltc import clusters_for, d2d_method
from fedloom.methods.method import Method
from fedloom.methods.random_clusters import around_heads


def method(
    sigma: float = 0.5,
    n_clusters: int | None = None,
    box_s: float = 120.0,
    feature_s: float | None = None,
    keep_progress: bool = True,
) -> Method:
    """sigma: width of the kernel; n_clusters: by default one for five clients; times as for ltc."""

    def group(view: View, rng: np.random.Generator) -> Topology:
        who = _all_pairs(view)
        features, n = view.features("update")[who], clusters_for(len(who), n_clusters)
        return around_heads(view, who, similar_clusters(features, view.work_s[who], n_clusters=n, sigma=sigma, rng=rng))

    needs = {Need.SPEEDS, Need.LINKS, Need.UPDATES}
    summary = "device clusters of similar updates (spectral clustering), time-boxed"
    return d2d_method("fedmds", summary, group, needs, box_s, feature_s, keep_progress)


def plus(
    sigma_t: float = 0.5,
    sigma_ft: float = 0.8,
    n_clusters: int | None = None,
    box_s: float = 120.0,
    feature_s: float | None = None,
    keep_progress: bool = True,
) -> Method:
    """sigma_t, sigma_ft: widths of the kernels of time and direction; the rest as for fedmds."""

    def group(view: View, rng: np.random.Generator) -> Topology:
        who = _all_pairs(view)
        features, n = view.features("update")[who], clusters_for(len(who), n_clusters)
        return around_heads(
            view,
            who,
            complementary_clusters(
                features, view.work_s[who], n_clusters=n, sigma_t=sigma_t, sigma_ft=sigma_ft, rng=rng
            ),
        )

    needs = {Need.SPEEDS, Need.LINKS, Need.UPDATES}
    summary = "device clusters of complementary updates and similar speed (spectral clustering), time-boxed"
    return d2d_method("fedmds_plus", summary, group, needs, box_s, feature_s, keep_progress)


def _all_pairs(view: View) -> NDArray[np.int64]:
    """The clients to cluster, if they are not too many for it."""
    _check.few_enough("spectral clustering", int(view.active.sum()), MOST_CLIENTS)
    return np.flatnonzero(view.trusted)

"""FedMDS: spectral clusters of devices with similar updates and round times (Benchmark A of LTC), and its opposite A+.

    A      G_ij = exp(-|(t_i, cos_i) - (t_j, cos_j)| / (2 sigma^2))
    A+     G_ij = exp(-|t_i - t_j| / (2 sigma_t^2)) + exp(+|cos_i - cos_j| / (2 sigma_ft^2))

As the authors of LTC describe the clustering that they compare with (sections 5.4.1 and 5.4.2), on the same platform: heads and
time-boxed rounds as in LTC. A+ (`fedmds_plus`) groups devices with similar times and complementary directions. t_i, an estimate
of a device's round time, is with its links where all links are alike (Set 1a) and computing alone where they differ (Set 1b),
because FedMDS knows of no links between devices; `time` chooses one of the two.
"""

from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import NDArray

from fedloom import _check
from fedloom.grouping import Need, Topology, View, complementary_clusters, device_round_s, similar_clusters
from fedloom.grouping.spectral import MOST_CLIENTS, TIMES, check_width
from fedloom.methods.ltc import clusters_for, d2d_method
from fedloom.methods.parts import Group, Method
from fedloom.methods.random_clusters import around_heads

NEEDS = {Need.SPEEDS, Need.LINKS, Need.UPDATES}


def method(
    sigma: float = 0.5,
    time: str = "auto",
    n_clusters: int | None = None,
    box_s: float = 120.0,
    feature_s: float | None = None,
    keep_progress: bool = True,
) -> Method:
    """sigma: width of the kernel. time: t_i, "round" (with the device's median link), "computing", or "auto": with links if all
    are alike. n_clusters: by default one for five clients. box_s, feature_s, keep_progress as for ltc."""
    check_width("sigma", sigma)
    group = _by_updates(partial(similar_clusters, sigma=sigma), time, n_clusters)
    summary = "device clusters of similar updates (spectral clustering), time-boxed"
    return d2d_method("fedmds", summary, group, NEEDS, box_s, feature_s, keep_progress)


def plus(
    sigma_t: float = 0.5,
    sigma_ft: float = 0.8,
    time: str = "auto",
    n_clusters: int | None = None,
    box_s: float = 120.0,
    feature_s: float | None = None,
    keep_progress: bool = True,
) -> Method:
    """sigma_t, sigma_ft: widths of the kernels of time and direction; the rest as for fedmds."""
    check_width("sigma_t", sigma_t)
    check_width("sigma_ft", sigma_ft)
    group = _by_updates(partial(complementary_clusters, sigma_t=sigma_t, sigma_ft=sigma_ft), time, n_clusters)
    summary = "device clusters of complementary updates and similar speed (spectral clustering), time-boxed"
    return d2d_method("fedmds_plus", summary, group, NEEDS, box_s, feature_s, keep_progress)


def _by_updates(cluster: Callable[..., list[NDArray[np.int64]]], time: str, n_clusters: int | None) -> Group:
    """Heads with the clusters that `cluster` makes of updates (m, P) and times (m,), n_clusters of them."""
    _check.one_of("time", time, TIMES)
    _check.wholes(n_clusters=n_clusters)

    def group(view: View, rng: np.random.Generator) -> Topology:
        who = _all_pairs(view)
        features, n = view.features("update")[who], clusters_for(view, who, n_clusters)
        return around_heads(view, who, cluster(features, _times(view, who, time), n_clusters=n, rng=rng))

    return group


def _times(view: View, who: NDArray[np.int64], time: str) -> NDArray[np.float64]:
    """t (m,), s, of the clients `who` (m,)."""
    return device_round_s(view.work_s[who], view.exchange_s[np.ix_(who, who)], time)


def _all_pairs(view: View) -> NDArray[np.int64]:
    """The clients to cluster, if they are not too many for it."""
    _check.few_enough("spectral clustering", int(view.active.sum()), MOST_CLIENTS)
    return np.flatnonzero(view.trusted)

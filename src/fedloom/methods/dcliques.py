"""D-Cliques: device clusters whose labels are like those of all clients, by label swaps (Benchmark B of LTC).

    a swap is taken if  skew_1 + skew_2  does not grow,   skew_c = sum_k |p_c(k) - p(k)|

A. Bellet, A.-M. Kermarrec, E. Lavoie, "D-Cliques: Compensating for Data Heterogeneity with Topology in Decentralized
Federated Learning", SRDS 2022, as LTC's authors compare with it: clusters anew in every cloud round, heads and time-boxed
rounds as in LTC. Links and speeds play no part in who clusters with whom.
"""

import numpy as np

from fedloom import _check
from fedloom.grouping import Need, Topology, View, label_swap
from fedloom.grouping.local_search import check_trials
from fedloom.methods.ltc import clusters_for, d2d_method
from fedloom.methods.parts import Method
from fedloom.methods.random_clusters import around_heads


def method(
    n_clusters: int | None = None, n_trials: int | None = None, box_s: float = 120.0, feature_s: float | None = None
) -> Method:
    """n_clusters: by default one for five clients; n_trials: of the search, by default as for ltc; box_s,
    feature_s as for ltc."""

    _check.wholes(n_clusters=n_clusters)
    if n_trials is not None:
        check_trials(n_trials)

    def group(view: View, rng: np.random.Generator) -> Topology:
        who = np.flatnonzero(view.trusted)
        counts, n = view.features("labels")[who], clusters_for(view, who, n_clusters)
        return around_heads(view, who, label_swap(counts, n_clusters=n, n_trials=n_trials, rng=rng).clusters)

    needs = {Need.SPEEDS, Need.LINKS, Need.LABELS}
    summary = "device clusters with the labels of all (label swaps), time-boxed"
    return d2d_method("dcliques", summary, group, needs, box_s, feature_s, keep_progress=False)

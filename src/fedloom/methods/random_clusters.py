"""Device clusters by chance, made anew in every cloud round: what grouping with a plan has to beat.

Heads are the members with the shortest round, and clusters run the rounds that fit into the time box, as in LTC.
"""

import numpy as np

from fedloom import _check
from fedloom.grouping import Need, Topology, View, heads_and_times, random_clusters, round_matrix
from fedloom.methods.ltc import clusters_for, d2d_method
from fedloom.methods.parts import Method


def method(n_clusters: int | None = None, box_s: float = 120.0) -> Method:
    """n_clusters: by default one for five clients; box_s: seconds of a cloud round."""
    _check.wholes(n_clusters=n_clusters)

    def group(view: View, rng: np.random.Generator) -> Topology:
        who = np.flatnonzero(view.trusted)
        return around_heads(view, who, random_clusters(len(who), clusters_for(view, who, n_clusters), rng))

    return d2d_method(
        "random_clusters", "device clusters by chance, time-boxed", group, {Need.SPEEDS, Need.LINKS}, box_s
    )


def around_heads(view: View, who: np.ndarray, clusters: list[np.ndarray]) -> Topology:
    """Clusters of the clients `who` (m,), numbered within it, around the members with which a round is shortest.

    round_s is noted: the planned round of every cluster, s, infinite where no member hears all others. A time box holds
    floor(box_s / round_s) of them."""
    times = round_matrix(view.work_s[who], view.exchange_s[np.ix_(who, who)])
    heads, round_s = heads_and_times(times, clusters)
    return Topology.of_heads([who[c] for c in clusters], who[heads], len(view.active), {"round_s": round_s})

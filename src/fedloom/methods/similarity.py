"""Clusters of devices with similar labels around heads drawn by chance, wherever they are: compared with DDC.

k-means on label shares, or average linkage on the Hellinger distance of labels; then one member of each cluster as its head,
uniformly. Rounds as in DDC. As many clusters as DDC's capacity needs, if nothing else is asked for; capacity itself is
only kept if given. Clusters of similar devices are the opposite of what DDC looks for: each is far from the whole.
"""

import numpy as np

from fedloom import _check
from fedloom.grouping import Need, Topology, View, similarity_clusters
from fedloom.grouping.geographic import HOW
from fedloom.methods.ddc import heads_for
from fedloom.methods.geographic import around_drawn_heads, headed_method
from fedloom.methods.parts import Method


def method(
    n_clusters: int | None = None, how: str = "k_means", capacity: int | None = None, score: bool = False
) -> Method:
    """how: "k_means" on label shares or "linkage" on the Hellinger distance. The rest as for geographic."""
    _check.one_of("how", how, HOW)
    _check.wholes(n_clusters=n_clusters, capacity=capacity)

    def group(view: View, rng: np.random.Generator) -> Topology:
        who = np.flatnonzero(view.active)
        k = heads_for(len(who), n_clusters, capacity)
        found = similarity_clusters(view.label_counts[who], n_clusters=k, how=how, capacity=capacity, rng=rng)
        return around_drawn_heads(view, who, found, score)

    summary = "device clusters of similar labels, heads by chance, once"
    return headed_method("similarity", summary, group, Need.LABELS, score)

"""Clusters of neighbours around heads drawn by chance: what DDC is compared with under the name "random".

k-means on positions, then one member of each cluster as its head, uniformly; only heads are random. Rounds as in DDC. As
many clusters as DDC's capacity needs, if nothing else is asked for; capacity itself is only kept if given.
"""

import numpy as np

from fedloom import _check
from fedloom.grouping import HeadedClusters, Need, Topology, View, geographic_clusters, gradient_likeness
from fedloom.methods.ddc import heads_for
from fedloom.methods.parts import Group, Grouping, Method


def method(n_clusters: int | None = None, capacity: int | None = None, score: bool = False) -> Method:
    """n_clusters: by default as few as clusters of at most `capacity` (a fifth of all) devices need. capacity: no limit if
    not given. score: collect gradients only to note how alike those in a cluster are."""
    _check.wholes(n_clusters=n_clusters, capacity=capacity)

    def group(view: View, rng: np.random.Generator) -> Topology:
        who = np.flatnonzero(view.active)
        k = heads_for(len(who), n_clusters, capacity)
        found = geographic_clusters(view.position_m[who], n_clusters=k, capacity=capacity, rng=rng)
        return around_drawn_heads(view, who, found, score)

    summary = "device clusters of neighbours (k-means on positions), heads by chance, once"
    return headed_method("geographic", summary, group, Need.POSITIONS, score)


def headed_method(name: str, summary: str, group: Group, need: Need, score: bool) -> Method:
    """Clusters around devices that are made once, before training."""
    needs = {Need.SIZES, need} | ({Need.GRADIENTS} if score else set())
    return Method(name=name, summary=summary, group=Grouping(group, when="once"), needs=frozenset(needs))


def around_drawn_heads(view: View, who: np.ndarray, found: HeadedClusters, score: bool) -> Topology:
    """Clusters of the clients `who` (m,), numbered within it, around their heads; with `score` their likeness is noted."""
    notes: dict[str, float] = {}
    if score:
        cosine, by_size = gradient_likeness(view.features("gradient")[who], found.clusters)
        notes = {"cosine": cosine, "cosine_by_size": by_size}
    return Topology.of_heads([who[c] for c in found.clusters], who[found.heads], len(view.active), notes)

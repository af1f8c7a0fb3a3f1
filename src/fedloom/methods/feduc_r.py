"""FedUC, a reconstruction: groups of clients of similar speed in every edge, synchronous inside, asynchronous between.

    w_edge <- (1 - r) w_edge + r w_group,   r = (N_group / N_edge) (1 + s)^(-1/2),   s = merges by others since the pull
    C_j = max(C_{j-1}, end_j) + upload_j        uploads of a group one after the other, each with the whole bandwidth

After Q. Ma et al., "FedUC: a unified clustering approach for hierarchical federated learning", 2024, of which only the title
and a sentence were at hand: the rules are ours, not the authors'. An edge reports after as many merges
as it has groups, times the edge rounds; the cloud averages by data. A client that moves joins the group of the same rank.
"""

import numpy as np
from numpy.typing import NDArray

from fedloom import _check
from fedloom.grouping import Need, Topology, View
from fedloom.methods.parts import Async, Group, Grouping, Linear, Method
from fedloom.mixing import Arrivals, EdgeWeights, group_rate, kl_divergence
from fedloom.mixing.weights import Floats
from fedloom.pacing import time_sharing

MOST_SWAPPED = 300  # clients of an edge between whose groups swaps are looked for


def method(n_groups: int = 4, power: float = 0.5, swaps: bool = False, lost_on_move: bool = False) -> Method:
    """n_groups: groups by speed in each edge; power: of the staleness discount. swaps: clients change groups where that brings
    the groups' labels nearer to the edge's. lost_on_move: updates of clients that moved while they worked are lost."""
    _check.positive("power", power, zero=True)

    def weigh(arrivals: Arrivals) -> EdgeWeights:
        n = arrivals.n_samples
        rate = float(group_rate(n.sum(), arrivals.total, arrivals.staleness.max(), power))
        return EdgeWeights(own=1 - rate, model=rate * n / n.sum())

    return Method(
        name="feduc_r",
        summary="reconstruction of FedUC: groups by speed in an edge, asynchronous between groups, uploads in turn",
        group=Grouping(speed_groups(n_groups, swaps), when="once"),
        needs=frozenset({Need.SIZES, Need.SPEEDS} | ({Need.LABELS} if swaps else set())),
        edge=Async(uplink=time_sharing, lost_on_move=lost_on_move),
        merge_edge=Linear(weigh),
    )


def speed_groups(n_groups: int, swaps: bool = False) -> Group:
    """Home cells, and in each of them squads of equal numbers by the seconds of the local work, from fast to slow; then
    with `swaps` those exchanges of two clients that bring labels of squads nearer to their edge's."""
    _check.whole("n_groups", n_groups)

    def group(view: View, rng: np.random.Generator) -> Topology:
        squad = np.zeros(len(view.active), dtype=np.int64)
        n_cells = len(view.in_reach)
        for cell in range(n_cells):
            here = np.flatnonzero((view.home == cell) & view.active)
            for number, members in enumerate(
                np.array_split(here[np.argsort(view.work_s[here], kind="stable")], min(n_groups, max(1, len(here))))
            ):
                squad[members] = number
            if swaps and len(here):
                squad[here] = swapped_groups(squad[here], view.label_counts[here])
        cover = (np.arange(n_cells)[:, None] == view.home[None, :]) & view.active
        return Topology(cover=cover, kind="edge", host=np.arange(n_cells), follow=True, squad=squad)

    return group


def swapped_groups(group: NDArray[np.int64], label_counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Groups (m,) after the swaps of two clients that lower the sum of KL(group || all) most, as long as one does.

    label_counts (m, C). Sizes of groups stay as they are.
    """
    _check.few_enough("swaps between groups", len(group), MOST_SWAPPED)
    group, everybody = group.copy(), label_counts.sum(axis=0)
    if not everybody.all():  # classes that nobody has
        label_counts, everybody = label_counts[:, everybody > 0], everybody[everybody > 0]
    one, two = np.triu_indices(len(group), 1)
    while True:
        held = np.stack([label_counts[group == g].sum(axis=0) for g in range(int(group.max()) + 1)])  # (G, C)
        apart = _apart(held, everybody)
        a, b = (np.concatenate(pair) for pair in ((one, two), (two, one)))
        there = group[a] < group[b]
        a, b = a[there], b[there]
        change = label_counts[b] - label_counts[a]  # what the group of a gains
        after = _apart(held[group[a]] + change, everybody) + _apart(held[group[b]] - change, everybody)
        gain = apart[group[a]] + apart[group[b]] - after
        if not len(gain) or not gain.max() > 1e-12:
            return group
        best = int(gain.argmax())
        group[[a[best], b[best]]] = group[[b[best], a[best]]]


def _apart(held: NDArray[np.int64], everybody: NDArray[np.int64]) -> Floats:
    """KL of the labels of each group, counts (G, C), from those of all (C,); 0 for a group without samples."""
    total = held.sum(axis=1, keepdims=True)
    shares = np.where(total > 0, held / np.maximum(total, 1), everybody / everybody.sum())
    return kl_divergence(shares, everybody / everybody.sum())

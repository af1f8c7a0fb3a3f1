"""FedUC, a reconstruction: groups of clients of similar speed in every edge, synchronous inside, asynchronous between.

    w_edge <- (1 - r) w_edge + r w_group,   r = (N_group / N_edge) (1 + s)^(-1/2),   s = merges by others since the pull
    C_j = max(C_{j-1}, end_j) + upload_j        uploads of a group one after the other, each with the whole bandwidth

After Q. Ma et al., "FedUC: a unified clustering approach for hierarchical federated learning", 2024, of which only the title
and a sentence were at hand: the rules are ours (CSAHFL, appendix A), not the authors'. An edge reports after as many merges
as it has groups, times the edge rounds; the cloud averages by data. A client that moves joins the group of the same rank.
"""

import numpy as np

from fedloom import _check
from fedloom.grouping import Need, Topology, View
from fedloom.methods.method import Group, Method
from fedloom.mixing import Arrivals, EdgeWeights, group_rate
from fedloom.pacing import time_sharing


def method(n_groups: int = 4, power: float = 0.5) -> Method:
    """n_groups: groups by speed in each edge; power: of the staleness discount."""
    _check.positive("power", power, zero=True)

    def weigh(arrivals: Arrivals) -> EdgeWeights:
        n = arrivals.n_samples
        rate = float(group_rate(n.sum(), arrivals.total, arrivals.staleness.max(), power))
        return EdgeWeights(own=1 - rate, model=rate * n / n.sum())

    return Method(
        name="feduc_r",
        summary="reconstruction of FedUC: groups by speed in an edge, asynchronous between groups, uploads in turn",
        group=speed_groups(n_groups),
        needs=frozenset({Need.SIZES, Need.SPEEDS}),
        regroup="once",
        edge="async",
        uplink=time_sharing,
        weigh_edge=weigh,
    )


def speed_groups(n_groups: int) -> Group:
    """Home cells, and in each of them squads of equal numbers by the seconds of the local work, from fast to slow."""
    _check.whole("n_groups", n_groups)

    def group(view: View, rng: np.random.Generator) -> Topology:
        squad = np.zeros(len(view.active), dtype=np.int64)
        n_cells = len(view.in_reach)
        for cell in range(n_cells):
            here = np.flatnonzero((view.home == cell) & view.active)
            for number, members in enumerate(
                np.array_split(here[np.argsort(view.work_s[here], kind="stable")], n_groups)
            ):
                squad[members] = number
        cover = (np.arange(n_cells)[:, None] == view.home[None, :]) & view.active
        return Topology(cover=cover, kind="edge", host=np.arange(n_cells), follow=True, squad=squad)

    return group

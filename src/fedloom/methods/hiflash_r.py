"""HiFlash, a reconstruction: edges are synchronous inside and asynchronous at the cloud, within a bound on staleness.

    w <- (1 - a) w + a w_edge,   a = a_0 (1 + s)^(-1/2),   s = cloud merges since the edge pulled
    an edge starts again only if  version - (oldest version at work) <= S_max

After Q. Wu et al., "HiFlash: Communication-Efficient Hierarchical Federated Learning with Adaptive Staleness Control and
Heterogeneity-aware Client-Edge Association", 2023, of which only the abstract was at hand: the rules are ours, not
the authors'. Instead of a learned controller, S_max climbs: after every few pushes it goes on moving by one in
the same direction if accuracy rose faster per second than in the window before, else it turns. Accuracy is measured on
training samples that no client has, never on test samples. The association of clients with edges by data and speed is off by
default, as it would undo how data are placed: with `associate`, two clients of different edges that both reach change places
where the edges' labels come nearer to everybody's and their speeds do not spread more.
"""

import numpy as np
from numpy.typing import NDArray

from fedloom import _check
from fedloom.grouping import Need, Topology, View, home_cells
from fedloom.methods.parts import CloudLinear, Grouping, Immediate, Method
from fedloom.mixing import kl_divergence, polynomial_cloud
from fedloom.pacing import StalenessBound

MOST_SWAPPED = 300  # clients between which swaps are looked for


def method(
    a0: float = 0.6,
    power: float = 0.5,
    s_max: int = 2,
    adapt: bool = True,
    every: int = 5,
    least: int = 1,
    most: int = 10,
    associate: bool = False,
) -> Method:
    """a0, power: weight of a push; s_max: the bound to begin with; adapt: after every so many pushes, between least and most.
    associate: clients change edges before training, see above."""
    bound = StalenessBound(s_max=s_max, least=least, most=most, adapt_every=every if adapt else 0)
    return Method(
        name="hiflash_r",
        summary="reconstruction of HiFlash: edges asynchronous at the cloud, within an adapted bound on staleness",
        group=Grouping(associated_cells, when="once") if associate else Grouping(home_cells),
        needs=frozenset({Need.SIZES} | ({Need.LABELS, Need.SPEEDS} if associate else set())),
        cloud=Immediate(bound=bound),
        merge_cloud=CloudLinear(polynomial_cloud(a0, power)),
    )


def associated_cells(view: View, rng: np.random.Generator) -> Topology:
    """Home cells after swaps of two clients in reach of each other's cells: each lowers the sum over cells of KL(labels of the
    cell || of all) most of those that do not raise the sum of the standard deviations of their clients' seconds of work."""
    who = np.flatnonzero(view.active)
    _check.few_enough("association by swaps", len(who), MOST_SWAPPED)
    cell, counts, work_s = view.home[who].copy(), view.label_counts[who], view.work_s[who]
    counts = counts[:, counts.any(axis=0)]
    n_cells, pooled = len(view.in_reach), counts.sum(axis=0) / counts.sum()

    def apart(cell: NDArray[np.int64]) -> tuple[float, float]:
        held = np.stack([counts[cell == c].sum(axis=0) for c in range(n_cells)])
        held = held[held.any(axis=1)]
        spread = sum(float(work_s[cell == c].std()) for c in range(n_cells) if (cell == c).any())
        return float(kl_divergence(held / held.sum(axis=1, keepdims=True), pooled).sum()), spread

    now = apart(cell)
    while True:
        best = None
        for a in range(len(who)):
            for b in np.flatnonzero(view.in_reach[cell[a], who] & view.in_reach[cell, who[a]] & (cell > cell[a])):
                swapped = cell.copy()
                swapped[a], swapped[b] = cell[b], cell[a]
                found = apart(swapped)
                if found[0] < (best[0][0] if best else now[0]) - 1e-12 and found[1] <= now[1] + 1e-12:
                    best = found, swapped
        if best is None:
            break
        now, cell = best
    cover = np.zeros((n_cells, len(view.active)), dtype=np.bool_)
    cover[cell, who] = True
    return Topology(cover=cover, kind="edge", host=np.arange(n_cells), notes={"label_distance": now[0]})

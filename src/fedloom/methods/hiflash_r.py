"""HiFlash, a reconstruction: edges are synchronous inside and asynchronous at the cloud, within a bound on staleness.

    w <- (1 - a) w + a w_edge,   a = a_0 (1 + s)^(-1/2),   s = cloud merges since the edge pulled
    an edge starts again only if  version - (oldest version at work) <= S_max

After Q. Wu et al., "HiFlash: Communication-Efficient Hierarchical Federated Learning with Adaptive Staleness Control and
Heterogeneity-aware Client-Edge Association", 2023, of which only the abstract was at hand: the rules are ours (CSAHFL,
appendix A), not the authors'. Instead of a learned controller, S_max climbs: after every few pushes it goes on moving by one in
the same direction if accuracy rose faster per second than in the window before, else it turns. Accuracy is measured on
training samples that no client has, never on test samples. Left out: the association of clients with edges.
"""

from fedloom.grouping import home_cells
from fedloom.methods.method import Method
from fedloom.mixing import polynomial_cloud
from fedloom.pacing import StalenessBound


def method(
    a0: float = 0.6,
    power: float = 0.5,
    s_max: int = 2,
    adapt: bool = True,
    every: int = 5,
    least: int = 1,
    most: int = 10,
) -> Method:
    """a0, power: weight of a push; s_max: the bound to begin with; adapt: after every so many pushes, between least and most."""
    return Method(
        name="hiflash_r",
        summary="reconstruction of HiFlash: edges asynchronous at the cloud, within an adapted bound on staleness",
        group=home_cells,
        weigh_cloud=polynomial_cloud(a0, power),
        cloud="immediate",
        bound=StalenessBound(s_max=s_max, least=least, most=most),
        bound_every=every if adapt else 0,
    )

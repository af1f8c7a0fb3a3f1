"""Where a client starts: B (K, N) row-stochastic, client models = B @ aggregator models."""

from fedloom.grouping.bridging import start_matrix
from fedloom.grouping.topology import Topology
from fedloom.mixing.weights import Floats


def mean_of_aggregators(topology: Topology) -> Floats:
    """The plain mean of the models of all aggregators the client reports to (its own model if there is one only).

    B_kn = cover_nk / |S_k| (HHFL, eq. 7). Rows of clients that report to nobody are zero.
    """
    return start_matrix(topology.cover)

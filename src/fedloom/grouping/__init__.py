"""Who aggregates with whom: one file per algorithm, pure functions of what the server may know."""

from fedloom.grouping.bridging import edge_matrix, edge_shares, limit_links, mixing_factor, start_matrix
from fedloom.grouping.cells import all_cells, home_cells, one_cloud
from fedloom.grouping.topology import Topology
from fedloom.grouping.view import Need, View

__all__ = [
    "Need",
    "Topology",
    "View",
    "all_cells",
    "edge_matrix",
    "edge_shares",
    "home_cells",
    "limit_links",
    "mixing_factor",
    "one_cloud",
    "start_matrix",
]

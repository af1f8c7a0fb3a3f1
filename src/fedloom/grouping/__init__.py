"""Who aggregates with whom: one file per algorithm, pure functions of what the server may know."""

from fedloom.grouping.cells import all_cells, home_cells, one_cloud
from fedloom.grouping.topology import Topology
from fedloom.grouping.view import Need, View

__all__ = ["Need", "Topology", "View", "all_cells", "home_cells", "one_cloud"]

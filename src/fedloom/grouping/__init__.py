"""Who aggregates with whom: one file per algorithm, pure functions of what the server may know."""

from fedloom.grouping.bridging import edge_matrix, edge_shares, limit_links, mixing_factor, start_matrix
from fedloom.grouping.cells import all_cells, home_cells, one_cloud
from fedloom.grouping.label_swap import LabelSwapResult, label_swap
from fedloom.grouping.link_reports import LinkCheck, check_link_reports, late_senders
from fedloom.grouping.local_search import Change, random_clusters
from fedloom.grouping.round_time import heads_and_times, round_matrix
from fedloom.grouping.spectral import complementary_clusters, similar_clusters
from fedloom.grouping.swap_search import SwapResult, swap_search
from fedloom.grouping.topology import Topology
from fedloom.grouping.view import Need, View

__all__ = [
    "Change",
    "LabelSwapResult",
    "LinkCheck",
    "Need",
    "SwapResult",
    "Topology",
    "View",
    "all_cells",
    "check_link_reports",
    "complementary_clusters",
    "edge_matrix",
    "edge_shares",
    "heads_and_times",
    "home_cells",
    "label_swap",
    "late_senders",
    "limit_links",
    "mixing_factor",
    "one_cloud",
    "random_clusters",
    "round_matrix",
    "similar_clusters",
    "start_matrix",
    "swap_search",
]

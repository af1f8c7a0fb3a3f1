"""Who aggregates with whom: one file per algorithm, pure functions of what the server may know."""

from fedloom.grouping.affinity import DualSegment, affinity_propagation, dual_segment, label_information
from fedloom.grouping.association import Association, Effort, associate
from fedloom.grouping.bridging import edge_matrix, edge_shares, limit_links, mixing_factor, start_matrix
from fedloom.grouping.cells import all_cells, home_cells, one_cloud
from fedloom.grouping.exact import ExactAssociation, exact_association, exact_heads
from fedloom.grouping.geographic import (
    HeadedClusters,
    geographic_clusters,
    random_headed_clusters,
    similarity_clusters,
)
from fedloom.grouping.head_problem import HeadProblem, draw_candidates, head_problem
from fedloom.grouping.head_scores import HeadScores, gradient_likeness, head_scores
from fedloom.grouping.head_selection import HeadChange, HeadSelection, select_heads
from fedloom.grouping.label_swap import LabelSwapResult, label_swap
from fedloom.grouping.link_reports import LinkCheck, check_link_reports, late_senders
from fedloom.grouping.local_search import Change, random_clusters
from fedloom.grouping.principal_angles import (
    angle_clusters,
    cluster_counts,
    merge_tree,
    noisy_signatures,
    proximity,
    signature,
    signatures,
)
from fedloom.grouping.round_time import heads_and_times, round_matrix
from fedloom.grouping.spectral import complementary_clusters, device_round_s, similar_clusters
from fedloom.grouping.swap_search import SwapResult, swap_search
from fedloom.grouping.topology import Topology
from fedloom.grouping.unit_gradients import cosine_matrix
from fedloom.grouping.view import Need, View

__all__ = [
    "Association",
    "Change",
    "DualSegment",
    "Effort",
    "ExactAssociation",
    "HeadChange",
    "HeadProblem",
    "HeadScores",
    "HeadSelection",
    "HeadedClusters",
    "LabelSwapResult",
    "LinkCheck",
    "Need",
    "SwapResult",
    "Topology",
    "View",
    "affinity_propagation",
    "all_cells",
    "angle_clusters",
    "associate",
    "check_link_reports",
    "cluster_counts",
    "complementary_clusters",
    "device_round_s",
    "cosine_matrix",
    "draw_candidates",
    "dual_segment",
    "edge_matrix",
    "edge_shares",
    "exact_association",
    "exact_heads",
    "geographic_clusters",
    "gradient_likeness",
    "head_problem",
    "head_scores",
    "heads_and_times",
    "home_cells",
    "label_information",
    "label_swap",
    "late_senders",
    "limit_links",
    "merge_tree",
    "mixing_factor",
    "noisy_signatures",
    "one_cloud",
    "proximity",
    "random_clusters",
    "random_headed_clusters",
    "round_matrix",
    "select_heads",
    "signature",
    "signatures",
    "similar_clusters",
    "similarity_clusters",
    "start_matrix",
    "swap_search",
]

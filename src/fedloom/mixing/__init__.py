"""How models are merged: functions that return the coefficients of a merge, and rules that look at the models (`robust`)."""

from fedloom.mixing import robust as robust
from fedloom.mixing.kl import closeness, cluster_weights, kl_cloud_weights, kl_divergence
from fedloom.mixing.merges import ByRows, CloudByRows, CloudLinear, Linear
from fedloom.mixing.nova import by_steps, normalised
from fedloom.mixing.screen import Screen, cloud_screened, screened
from fedloom.mixing.similarity import similarity_weights, start_share
from fedloom.mixing.size import by_reported, by_size, by_split_size, by_total
from fedloom.mixing.staleness import discounted, group_rate, polynomial_cloud, polynomial_edge, staleness_weight
from fedloom.mixing.starts import mean_of_aggregators
from fedloom.mixing.tiers import tier_weights
from fedloom.mixing.wasserstein import contribution, contribution_weights, label_transport, log_contribution
from fedloom.mixing.weights import Arrivals, CloudWeights, EdgeWeights, Reports

__all__ = [
    "Arrivals",
    "ByRows",
    "CloudByRows",
    "CloudLinear",
    "CloudWeights",
    "EdgeWeights",
    "Linear",
    "Reports",
    "Screen",
    "by_reported",
    "by_size",
    "by_split_size",
    "by_steps",
    "by_total",
    "closeness",
    "cloud_screened",
    "cluster_weights",
    "contribution",
    "contribution_weights",
    "discounted",
    "group_rate",
    "kl_cloud_weights",
    "kl_divergence",
    "label_transport",
    "log_contribution",
    "mean_of_aggregators",
    "normalised",
    "polynomial_cloud",
    "polynomial_edge",
    "screened",
    "similarity_weights",
    "staleness_weight",
    "start_share",
    "tier_weights",
]

"""How much each model counts: pure functions that return the coefficients of a merge."""

from fedloom.mixing.size import by_reported, by_size, by_split_size, by_total
from fedloom.mixing.staleness import polynomial_cloud, polynomial_edge
from fedloom.mixing.starts import mean_of_aggregators
from fedloom.mixing.weights import Arrivals, CloudWeights, EdgeWeights, Reports

__all__ = [
    "Arrivals",
    "CloudWeights",
    "EdgeWeights",
    "Reports",
    "by_reported",
    "by_size",
    "by_split_size",
    "by_total",
    "mean_of_aggregators",
    "polynomial_cloud",
    "polynomial_edge",
]

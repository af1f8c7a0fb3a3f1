"""The papers' convergence bounds, predicted costs and divergence measures as functions."""

from fedloom.bounds.divergence import drift, label_distance
from fedloom.bounds.hhfl import (
    Theorem1,
    drift_term,
    heterogeneity,
    models_sent,
    overall_time,
    resource_factor,
    theorem_1,
)

__all__ = [
    "Theorem1",
    "drift",
    "drift_term",
    "heterogeneity",
    "label_distance",
    "models_sent",
    "overall_time",
    "resource_factor",
    "theorem_1",
]

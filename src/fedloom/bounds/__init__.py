"""The papers' convergence bounds, predicted costs and divergence measures as functions."""

from fedloom.bounds.camu import camu_bound
from fedloom.bounds.ddc import DdcBound, DdcDivergence, ddc_bound, ddc_divergence, ddc_lr_max
from fedloom.bounds.ddc_energy import DdcEnergy, ddc_energy, upload_j
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
from fedloom.bounds.ltc import (
    LearningRateLimits,
    LtcConstants,
    client_mismatch,
    cluster_mismatch,
    gradient_bound,
    gradient_bound_of_rate,
    gradient_floor,
    learning_rate_limits,
    loss_gap,
    mismatch_term,
    round_sum,
    step_bound,
    step_bound_sum,
    step_mass,
    step_sum,
)

__all__ = [
    "DdcBound",
    "DdcDivergence",
    "DdcEnergy",
    "LearningRateLimits",
    "LtcConstants",
    "Theorem1",
    "camu_bound",
    "client_mismatch",
    "cluster_mismatch",
    "ddc_bound",
    "ddc_divergence",
    "ddc_energy",
    "ddc_lr_max",
    "drift",
    "drift_term",
    "gradient_bound",
    "gradient_bound_of_rate",
    "gradient_floor",
    "heterogeneity",
    "label_distance",
    "learning_rate_limits",
    "loss_gap",
    "mismatch_term",
    "models_sent",
    "overall_time",
    "resource_factor",
    "round_sum",
    "step_bound",
    "step_bound_sum",
    "step_mass",
    "step_sum",
    "theorem_1",
    "upload_j",
]

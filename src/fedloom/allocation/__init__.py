"""With what power to send and how much to compute: one problem, a direct solver and a learner."""

from fedloom.allocation.calibration import Calibration, aggregate_noise_std, calibrate_noise, noise_for_std
from fedloom.allocation.direct import allocate, least_noise
from fedloom.allocation.estimates import convexity, dissimilarities, dissimilarity, smoothness, smoothness_along
from fedloom.allocation.ppo import PpoResult, PpoSettings, learn_allocation, random_allocation
from fedloom.allocation.problem import Allocation, Problem, update_energy_j
from fedloom.allocation.projection import project, to_whole

__all__ = [
    "Allocation",
    "Calibration",
    "PpoResult",
    "PpoSettings",
    "Problem",
    "aggregate_noise_std",
    "allocate",
    "calibrate_noise",
    "convexity",
    "dissimilarities",
    "dissimilarity",
    "learn_allocation",
    "least_noise",
    "noise_for_std",
    "project",
    "random_allocation",
    "smoothness",
    "smoothness_along",
    "to_whole",
    "update_energy_j",
]

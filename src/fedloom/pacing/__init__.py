"""How much work, and when to stop waiting: pure functions of predicted times."""

from fedloom.pacing.deadline import fit_units, fixed_deadline, median_iqr
from fedloom.pacing.pace import Offer, Pace, lockstep
from fedloom.pacing.periods import (
    Periods,
    PeriodSchedule,
    Progress,
    aggregation_steps,
    lr_ladder,
    n_rounds,
    staged,
)
from fedloom.pacing.time_box import rounds_in_box

__all__ = [
    "Offer",
    "Pace",
    "PeriodSchedule",
    "Periods",
    "Progress",
    "aggregation_steps",
    "fit_units",
    "fixed_deadline",
    "lockstep",
    "lr_ladder",
    "median_iqr",
    "n_rounds",
    "rounds_in_box",
    "staged",
]

"""How much work, and when to stop waiting: pure functions of predicted times."""

from fedloom.pacing.contribution import (
    client_update_s,
    cluster_update_s,
    extra_updates,
    gate,
    idle_s,
    local_updates,
    round_s,
    scaled_threshold,
)
from fedloom.pacing.deadline import fit_units, fixed_deadline, interval_s, median_iqr
from fedloom.pacing.pace import Offer, Pace, lockstep
from fedloom.pacing.periods import (
    Periods,
    PeriodSchedule,
    Progress,
    aggregation_steps,
    ladder_note,
    lr_ladder,
    n_rounds,
    staged,
)
from fedloom.pacing.staleness_bound import StalenessBound, may_start, next_bound
from fedloom.pacing.time_box import box_note, rounds_in_box
from fedloom.pacing.time_sharing import equal_shares, time_sharing

__all__ = [
    "Offer",
    "Pace",
    "PeriodSchedule",
    "Periods",
    "Progress",
    "StalenessBound",
    "aggregation_steps",
    "box_note",
    "client_update_s",
    "cluster_update_s",
    "equal_shares",
    "extra_updates",
    "fit_units",
    "fixed_deadline",
    "gate",
    "idle_s",
    "interval_s",
    "local_updates",
    "ladder_note",
    "lockstep",
    "lr_ladder",
    "may_start",
    "median_iqr",
    "n_rounds",
    "next_bound",
    "round_s",
    "rounds_in_box",
    "scaled_threshold",
    "staged",
    "time_sharing",
]

"""How much work, and when to stop waiting: pure functions of predicted times."""

from fedloom.pacing.deadline import fit_units, fixed_deadline, median_iqr
from fedloom.pacing.pace import Offer, Pace, lockstep
from fedloom.pacing.time_box import rounds_in_box

__all__ = ["Offer", "Pace", "fit_units", "fixed_deadline", "lockstep", "median_iqr", "rounds_in_box"]

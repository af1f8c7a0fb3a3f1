"""Plans for fleets that exist: who reports to whom, and what one cloud round will take, without any training.

Grouping is a method's own; devices reveal what a table of them holds. What a round takes is counted with the ways, legs and
ledger of the simulator and the same radio. `simple_plans` are what anybody would try first, `link_budget` says which links are
too weak to be of use.
"""

from fedloom.planning.by_method import make_plan
from fedloom.planning.costs import Costs, Prices, Work, costs_of
from fedloom.planning.devices import Devices, devices_of, missing_columns
from fedloom.planning.head_search import heads_by_data_and_distance
from fedloom.planning.keeping import can_stay, kept_plan
from fedloom.planning.link_budget import WeakLink, lonely_devices, weak_links
from fedloom.planning.objectives import OBJECTIVES, Figures, Objective, figures_of
from fedloom.planning.optimise import Optimised, optimise
from fedloom.planning.prediction import Plan, predict
from fedloom.planning.running import scenario_of_plan, with_plan
from fedloom.planning.simple_plans import heads_in_the_middle, k_means_sweep, topology_of
from fedloom.planning.turns import Turns, most_drain, turns_of

__all__ = [
    "Devices",
    "devices_of",
    "missing_columns",
    "Work",
    "Prices",
    "Costs",
    "costs_of",
    "Plan",
    "make_plan",
    "predict",
    "heads_by_data_and_distance",
    "heads_in_the_middle",
    "k_means_sweep",
    "topology_of",
    "OBJECTIVES",
    "Objective",
    "Figures",
    "figures_of",
    "Optimised",
    "optimise",
    "kept_plan",
    "can_stay",
    "Turns",
    "turns_of",
    "most_drain",
    "scenario_of_plan",
    "with_plan",
    "WeakLink",
    "weak_links",
    "lonely_devices",
]

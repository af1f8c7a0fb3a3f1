"""The one loop on a virtual clock, and the ledger."""

from fedloom.simulator.scenarios import Scenario, ScenarioError, scenario
from fedloom.simulator.simulation import Checkpoint, Place, Result, Simulation, make_method, simulate

__all__ = [
    "Checkpoint",
    "Place",
    "Result",
    "Scenario",
    "ScenarioError",
    "Simulation",
    "make_method",
    "scenario",
    "simulate",
]

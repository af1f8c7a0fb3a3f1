"""The one loop on a virtual clock, and the ledger."""

from fedloom.methods.by_name import make_method
from fedloom.simulator.scenarios import Scenario, ScenarioError, scenario
from fedloom.simulator.simulation import Checkpoint, Place, Result, Simulation, simulate
from fedloom.simulator.world import Decision

__all__ = [
    "Checkpoint",
    "Decision",
    "Place",
    "Result",
    "Scenario",
    "ScenarioError",
    "Simulation",
    "make_method",
    "scenario",
    "simulate",
]

"""The protocol in a simulated world: virtual time, costs, and training when somebody looks."""

from fedloom.methods.by_name import make_method
from fedloom.simulator.result import Checkpoint, Place, Result
from fedloom.simulator.scenarios import Scenario, ScenarioError, scenario
from fedloom.simulator.simulation import Simulation, simulate
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

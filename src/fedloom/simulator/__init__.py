"""The protocol in a simulated world: virtual time, costs, and training when somebody looks.

What stands in __all__ is imported when it is first used: listing the scenarios needs none of the machinery.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
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

_HOMES = {
    "make_method": "fedloom.methods.by_name",
    **dict.fromkeys(("Checkpoint", "Place", "Result"), "fedloom.simulator.result"),
    **dict.fromkeys(("Scenario", "ScenarioError", "scenario"), "fedloom.simulator.scenarios"),
    **dict.fromkeys(("Simulation", "simulate"), "fedloom.simulator.simulation"),
    "Decision": "fedloom.simulator.world",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"fedloom.simulator has no {name!r}")


def __dir__() -> list[str]:
    return __all__

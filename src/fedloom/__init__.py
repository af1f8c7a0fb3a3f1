"""FedLoom: hierarchical and clustered federated learning over wireless networks, in seconds, joules and bytes.

    import fedloom as fl
    result = fl.simulate(fl.scenario("cells-overlap"), method="hierfedavg", seed=1)
    result.metrics

What stands in __all__ is public; it is imported when first used.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fedloom import bounds, coding, data, fleet, grouping, methods, mixing, pacing, protocol, radio, training
    from fedloom.coding import Coding
    from fedloom.methods import Allotment, Allotting, Grouping, Local, Method, Start, Waiting
    from fedloom.mixing import ByRows, CloudByRows, CloudLinear, Linear
    from fedloom.protocol import Async, Barrier, Immediate, NoCloud, Rounds, TimeBox
    from fedloom.record.model import load_model
    from fedloom.simulator import Result, Scenario, Simulation, make_method, scenario, simulate
    from fedloom.training.state import State

__all__ = [
    "Allotment",
    "Allotting",
    "Async",
    "Barrier",
    "ByRows",
    "CloudByRows",
    "CloudLinear",
    "Coding",
    "Grouping",
    "Immediate",
    "Linear",
    "Local",
    "Method",
    "NoCloud",
    "Rounds",
    "Start",
    "State",
    "TimeBox",
    "Waiting",
    "Result",
    "Scenario",
    "Simulation",
    "load_model",
    "make_method",
    "scenario",
    "simulate",
    "bounds",
    "coding",
    "data",
    "fleet",
    "grouping",
    "methods",
    "mixing",
    "pacing",
    "protocol",
    "radio",
    "training",
]

_HOMES = {
    **dict.fromkeys(("Allotment", "Allotting", "Grouping", "Local", "Method", "Start", "Waiting"), "fedloom.methods"),
    **dict.fromkeys(("ByRows", "CloudByRows", "CloudLinear", "Linear"), "fedloom.mixing"),
    **dict.fromkeys(("Async", "Barrier", "Immediate", "NoCloud", "Rounds", "TimeBox"), "fedloom.protocol"),
    "Coding": "fedloom.coding",
    "State": "fedloom.training.state",
    "load_model": "fedloom.record.model",
    **dict.fromkeys(("Result", "Scenario", "Simulation", "make_method", "scenario", "simulate"), "fedloom.simulator"),
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    if name in __all__:
        return importlib.import_module(f"fedloom.{name}")
    raise AttributeError(f"fedloom has no {name!r}")


def __dir__() -> list[str]:
    return __all__

"""Any method as a strategy for an existing Flower fleet: `fedloom.flower.strategy` in a ServerApp, a ClientApp on the devices.

The ServerApp runs the simulator's own driver on a clock of the wall, as the cloud of a deployment does. Edges and heads live in
it: what they would merge is merged there, by the same recipes in the same order. Devices get Flower messages: `train` with a
model, `query.device` to say who they are, and `query.feature` if the method wants to know more before it groups them.
"""

import importlib
from typing import TYPE_CHECKING, Any

try:
    import flwr  # noqa: F401
except ImportError:
    raise ImportError("fedloom.flower needs Flower; install it with: pip install 'fedloom[flower]'") from None

if TYPE_CHECKING:
    from fedloom.flower.client import client_app
    from fedloom.flower.server import FedLoom, strategy

__all__ = ["FedLoom", "client_app", "strategy"]

_HOMES = {"FedLoom": "server", "client_app": "client", "strategy": "server"}


def __getattr__(name: str) -> Any:
    """Imported when first used: a device, which may be a new process for every message, does not load what only servers need."""
    if name in _HOMES:
        return getattr(importlib.import_module(f"fedloom.flower.{_HOMES[name]}"), name)
    raise AttributeError(f"fedloom.flower has no {name!r}")

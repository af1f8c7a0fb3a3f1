"""Own data and model on nodes: a function of the user's own code, named in the bundle, never sent over the wire.

`module:function` is called with the name of the node and gives what `fedloom.Simulation` takes: `dataset`, `model`, `parts`,
`loss`. On device-3 only the samples of client 3 need be real, as others are never looked at there. At the cloud the test samples
are needed, and how many samples (and labels) each client has.
"""

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

KNOWN = {"dataset", "model", "parts", "loss"}


def own_task(name: str | None, node: str) -> dict[str, Any]:
    """What the user's function gives on a node; nothing if there is none."""
    if name is None:
        return {}
    given = imported(name, node, "own data and model")(node)
    if not isinstance(given, dict) or not set(given) <= KNOWN:
        raise ValueError(
            f"{name} must give a mapping with {', '.join(sorted(KNOWN))} (any of them), got {given!r:.200}"
        )
    return given


def imported(name: str, node: str, what: str) -> Callable[[str], Any]:
    """A function of the user's own code, by MODULE:FUNCTION; `what`: it is for."""
    module, _, function = name.partition(":")
    if not module or not function.isidentifier():
        raise ValueError(f"{what}: named MODULE:FUNCTION, such as my_task:task, got {name!r}")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        found: Callable[[str], Any] = getattr(importlib.import_module(module), function)
    except (ImportError, AttributeError) as error:
        raise ValueError(f"{name} is not to be found on {node}: {error}; start the node where {module}.py is") from None
    return found

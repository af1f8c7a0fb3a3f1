"""Whose record it is: what decides the results of a run, and a hash of it, the run's identity.

The identity stands in run.json, manifest.json, every checkpoint and model.safetensors. Two runs have the same one only
if the same bits come out: scenario, method, seed, all data with their inputs, partition, placement, the first model, engine,
the version of fedloom's numbers and the libraries that draw or train.
"""

import hashlib
import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from fedloom._versions import version_of
from fedloom.numbers import NUMBERS

if TYPE_CHECKING:
    from fedloom.data import Dataset
    from fedloom.simulator import Simulation

HASHES = ("placement", "samples", "inputs", "first_model")
KEYS = ("scenario", "method", "seed", "data", "loss", "n_params", "engine", "numbers", *HASHES)
"""Of run.json: what the identity is made of."""


def settings_of(simulation: "Simulation", method: str) -> dict[str, Any]:
    """What decides the results of a run, by the names in KEYS."""
    from fedloom.training import rows
    from fedloom.training.choose import kind_of

    data, model = simulation.dataset, simulation.setting.model
    names = [[part.name, list(part.shape)] for part in rows.layout(model)]
    first = rows.to_row(model)
    users = [a for a in (data.user, data.user_test, data.label_train) if a is not None]
    found: dict[str, Any] = {
        "scenario": simulation.scenario.model_dump(mode="json"),
        "method": method,
        "seed": simulation.seed,
        "data": data.name,
        "loss": _loss(simulation.setting.loss) or data.loss,
        "n_params": simulation.n_params,
        "engine": kind_of(simulation.engine_name),  # engines and devices agree up to rounding, not to the bit
        "numbers": {"fedloom": NUMBERS, "numpy": _minor(np.__version__), "torch": _minor(version_of("torch"))},
        "placement": digest_of(simulation.world.fleet.snapshot(0).position_m),
        "samples": digest_of(data.y_train, *simulation.parts),
        "inputs": digest_of(*_samples(data), data.y_test, np.array(data.scale), *users, text=data.published),
        "first_model": digest_of(first, text=json.dumps(names)),
    }
    plain: dict[str, Any] = json.loads(json.dumps(found))
    return plain


def identity_of(settings: dict[str, Any]) -> str:
    """A hash of settings, of which only KEYS count; KeyError if one is missing."""
    content = json.dumps({key: settings[key] for key in KEYS}, sort_keys=True)
    return hashlib.sha256(content.encode()).hexdigest()[:32]


def digest_of(*arrays: np.ndarray[Any, Any], text: str = "") -> str:
    """A short hash of arrays with their types and shapes: files that are named in a scenario may have changed since."""
    digest = hashlib.sha256(text.encode())
    for array in arrays:
        digest.update(f"{array.dtype.str}{array.shape}".encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()[:16]


def _samples(data: "Dataset") -> tuple[np.ndarray[Any, Any], ...]:
    """Those whose content is not known otherwise: of published files the hashes were compared when they were read."""
    return () if data.published else (data.x_train, data.x_test)


def _loss(own: Callable[..., Any] | None) -> str | None:
    """What tells a loss of one's own from others: its name and a hash of its code; None if there is none."""
    if own is None:
        return None
    code = getattr(own, "__code__", None)
    content = b"" if code is None else code.co_code + repr(code.co_consts).encode()
    name = f"{getattr(own, '__module__', '')}.{getattr(own, '__qualname__', type(own).__qualname__)}"
    return f"{name} {hashlib.sha256(content).hexdigest()[:16]}"


def _minor(version: str) -> str:
    """ "2.4.6" -> "2.4": what is mended in a third number does not change results."""
    return ".".join(version.split(".")[:2])

"""The final model of a run as a file of its own, with the names of the module's parameters and buffers."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fedloom.record.files import FolderError, read_json
from fedloom.record.verify import RUN, check_files

if TYPE_CHECKING:  # reading records needs no torch
    from torch import nn

    from fedloom.simulator import Simulation
    from fedloom.training.layers import Network

MODEL = "model.safetensors"


def model_bytes(simulation: "Simulation", identity: str) -> bytes:
    """The global model as safetensors, by the names of `module.state_dict()`."""
    from safetensors.numpy import save

    from fedloom.training.layers import Network

    row = simulation.result().row
    assert row is not None
    model = simulation.setting.model
    arrays = _of_network(model, row) if isinstance(model, Network) else _of_module(model, row)
    about = {"identity": identity, "cloud_round": simulation.cloud_rounds_done}
    return bytes(save(arrays, metadata={"fedloom": json.dumps(about)}))


def _of_network(network: "Network", row: NDArray[np.float32]) -> dict[str, NDArray[Any]]:
    """By the names that its module would have; BatchNorm's counters, which are not part of a row, stay 0."""
    from fedloom.training import rows

    parts, start = {}, 0
    for part in rows.layout(network):
        parts[part.name] = row[start : start + part.n_values].reshape(part.shape)
        start += part.n_values
    return {t.name: np.array(parts.get(t.name, np.zeros((), np.int64)), order="C") for t in network.tensors()}


def _of_module(module: "nn.Module", row: NDArray[np.float32]) -> dict[str, NDArray[Any]]:
    from fedloom.training import rows

    parts, start = {}, 0  # by address: tied tensors have several names
    for _, tensor in rows.tensors(module):
        parts[tensor.data_ptr()] = row[start : start + tensor.numel()].reshape(tuple(tensor.shape))
        start += tensor.numel()
    return {
        name: np.array(parts.get(tensor.data_ptr(), tensor.cpu().numpy()), order="C")
        for name, tensor in module.state_dict().items()
    }


def model_facts(simulation: "Simulation") -> dict[str, Any]:
    """What it takes to build the module again: for run.json."""
    data = simulation.dataset
    kind = type(simulation.setting.model)
    return {
        "shape": list(data.shape),
        "n_outputs": data.n_outputs,
        "n_tokens": data.n_tokens,
        "per_token": data.loss == "tokens",
        "own": f"{kind.__module__}.{kind.__qualname__}" if simulation.own_model else None,
    }


def load_model(run: Path | str, model: "nn.Module | None" = None) -> "nn.Module":
    """The module with the values it had at the end of the run in folder `run`, ready for evaluation.

    model: a module of the same layers, whose values are replaced; by default the scenario's is built. A run of a module of
    your own needs that. FolderError if the run is not finished, the file is damaged or of another run, or does not fit.

        fl.load_model("runs/cells-overlap-hierfedavg-s0")
    """
    import torch
    from safetensors import SafetensorError, safe_open

    folder = Path(run)
    about = read_json(folder / RUN)
    path = folder / MODEL
    if not path.exists():
        raise FolderError(f"{folder} has no {MODEL}: the run is not finished; go on with --resume")
    check_files(folder, [RUN, MODEL])
    try:
        with safe_open(path, framework="numpy") as file:
            whose = json.loads((file.metadata() or {})["fedloom"])["identity"]
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a mapping
    except (SafetensorError, KeyError, TypeError, ValueError) as error:
        raise FolderError(f"{path} is damaged ({error}); repeat the run with --resume, which makes it again") from None
    if whose != about.get("identity"):
        raise FolderError(f"{path} is the model of another run ({whose}, here {about.get('identity')}); put it back")
    module = _build(folder, about) if model is None else model
    try:
        module.load_state_dict({name: torch.from_numpy(array) for name, array in arrays.items()})
    except RuntimeError as error:  # a heading, then a line for every tensor
        first = str(error).splitlines()[1:2] or [str(error)]
        raise FolderError(
            f"the model of {folder} does not fit the module {type(module).__name__}: {first[0].strip()}; give one that is made "
            f"like the run's"
        ) from None
    return module.eval()


def _build(folder: Path, about: dict[str, Any]) -> "nn.Module":
    from fedloom.simulator import Scenario
    from fedloom.training import models

    facts = about["model"]
    if facts["own"] is not None:
        raise FolderError(
            f"{folder} is a run of a module of your own ({facts['own']}), which cannot be built from its record; make one and "
            f"give it: load_model({str(folder)!r}, model=...)"
        )
    chosen = Scenario.model_validate(about["scenario"]).task.model
    options = chosen.model_dump(exclude={"kind"}, exclude_none=True)
    options |= {"n_tokens": facts["n_tokens"], "per_token": facts["per_token"]}
    return models.build(chosen.kind, tuple(facts["shape"]), facts["n_outputs"], about["seed"], **options)

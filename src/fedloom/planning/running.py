"""The scenario in which a plan runs: the devices, links, speeds and periods that it was made with.

A cloud round of it takes the seconds, joules and bytes that the plan has predicted. Data, model and learning are a scenario's,
its own or another one's: a plan knows nothing of them but the bytes of a model.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from fedloom.gate.names import folder_name
from fedloom.planning.costs import SERVER_W, Work
from fedloom.planning.devices import BATCH_SIZE, Devices

SHORTEST_S = 1e-15  # of a step, of a device without samples


def scenario_of_plan(title: str, devices: Devices, work: Work) -> dict[str, Any]:
    """As it would stand in a file."""
    link = devices.link.model_dump(mode="json", exclude={"power_w", "kind"})
    radio = {"kind": "radio", **link}
    known = {"up_bit_s": devices.up_bit_s, "down_bit_s": devices.down_bit_s}
    own = {
        "power_w": devices.power_w.tolist(),
        "steps_per_s": (1 / np.maximum(devices.step_s, SHORTEST_S)).tolist(),
        **{name: value.tolist() for name, value in known.items() if value is not None},
    }
    name = folder_name(title)
    return {
        "name": name,
        "description": f"the plan {name}",
        "fleet": {
            "n_devices": devices.n,
            "placement": {"kind": "coordinates", "positions_m": devices.position_m.tolist()},
            "server_m": devices.server_m.tolist(),
            "device_device": radio,
            "device_cloud": {
                "via": "direct",
                "up": radio,
                "down": {**radio, "power_w": SERVER_W, "mains": True},
            },
            "devices": own,
            **({"air": devices.air.model_dump(mode="json", exclude_defaults=True)} if devices.air.is_shared else {}),
            **({"compute": {"power_w": devices.compute_w}} if devices.compute_w else {}),
        },
        "training": {
            "batch_size": BATCH_SIZE,
            "local_steps": work.local_steps,
            "edge_rounds": work.edge_rounds,
        },
        "model_bits": 8.0 * work.model_bytes,
    }


def with_plan(content: Mapping[str, Any], planned: Mapping[str, Any]) -> dict[str, Any]:
    """A scenario's data, model and learning with the fleet, periods and size of a model of a plan's scenario."""
    training = {
        key: value
        for key, value in dict(content.get("training") or {}).items()
        if key not in ("local_epochs", "total_steps")
    }
    own = planned.get("training")
    if not isinstance(own, Mapping) or not {"local_steps", "edge_rounds"} <= set(own) or "model_bits" not in planned:
        raise ValueError(
            "the plan's scenario must have training.local_steps, training.edge_rounds and model_bits, as `fedloom plan` writes "
            "them; make the plan again"
        )
    periods = {key: own[key] for key in ("local_steps", "edge_rounds")}
    return {
        **content,
        "fleet": planned["fleet"],
        "training": {**training, **periods},
        "model_bits": planned["model_bits"],
    }

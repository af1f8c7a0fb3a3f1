"""Which Flower node is which device: node ids are drawn by the SuperLink, devices are numbered by the fleet.

Every node is asked with the message `query.device`. A ClientApp answers with a MetricRecord called `fedloom`:

    device         its number, from 0: `partition-id` in the SuperNode's --node-config
    num-examples   training samples it has
    labels         samples of each class, if the method needs them
    run            of fedloom's own client app: what it was made for, so that it fits the strategy
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from flwr.app import Message, MetricRecord
from numpy.typing import NDArray

from fedloom.methods import Method
from fedloom.simulator.scenarios import Scenario

Ints = NDArray[np.int64]
ASK = "query.device"
RECORD = "fedloom"
HOW = (
    "add a function @app.query('device') to the ClientApp that replies with a MetricRecord called 'fedloom' holding 'device' "
    "(its number, from 0) and 'num-examples'"
)


@dataclass(frozen=True)
class Introduction:
    """What a device says of itself. run: 0 unless it is fedloom's own client app."""

    device: int
    n_samples: int
    labels: tuple[int, ...] = ()
    run: int = 0


def read(reply: Message, n_devices: int) -> Introduction:
    """What a node answers; ValueError if it cannot take part."""
    node = reply.metadata.src_node_id
    if reply.has_error():
        raise ValueError(f"node {node} does not say which device it is ({reply.error.reason}); {HOW}")
    record = reply.content.get(RECORD)
    if not isinstance(record, MetricRecord):
        raise ValueError(f"node {node} answers without a MetricRecord called '{RECORD}'; {HOW}")
    device, n_samples = _whole(record, "device", node), _whole(record, "num-examples", node)
    if not 0 <= device < n_devices:
        raise ValueError(
            f"node {node} says that it is device {device}, and the fleet has devices 0 to {n_devices - 1}; set partition-id in "
            "--node-config of the SuperNode, or n_devices of the fleet"
        )
    if n_samples < 1:
        raise ValueError(f"device {device} has {n_samples} samples, and needs at least one to take part")
    found = record.get("labels", [])
    labels = tuple(n for n in found if isinstance(n, int) and n >= 0) if isinstance(found, list) else ()
    if not isinstance(found, list) or len(labels) != len(found):
        raise ValueError(f"'labels' of device {device} must be counts of samples, one a class, got {found!r:.100}")
    return Introduction(device, n_samples, labels, _whole(record, "run", node) if "run" in record else 0)


def label_counts(introduced: Sequence[Introduction], needed: bool) -> Ints:
    """(K, C) samples of each class; (K, 0) if the devices do not tell and nobody needs them."""
    lengths = {len(one.labels) for one in introduced}
    if len(lengths) > 1 or (needed and lengths == {0}):
        said = {one.device: len(one.labels) for one in introduced}
        raise ValueError(
            f"the method needs the same classes from all devices: 'labels' must have one count a class everywhere; got by device "
            f"so many: {said}"
        )
    return np.array([one.labels for one in introduced], dtype=np.int64).reshape(len(introduced), -1)


def check_run(introduced: Mapping[int, Introduction], run: int) -> None:
    """Refuse fedloom's client apps that were made for something else."""
    wrong = sorted(k for k, one in introduced.items() if one.run != run)
    if wrong:
        raise ValueError(
            f"devices {wrong} do not run fedloom.flower.client_app with the scenario, method and seed of the strategy; give both "
            "the same, or give initial_arrays to the strategy if the ClientApp is your own"
        )


def identity(scenario: Scenario, method: Method, seed: int) -> int:
    """A number of what devices go by: two that differ would train something else."""
    told = scenario.model_dump(mode="json", include={"fleet", "task", "training"})
    for key in ("cloud_rounds", "edge_rounds", "total_steps", "participation", "clients_per_round"):
        told["training"].pop(key, None)
    content = json.dumps([told, method.local.proximal, seed], sort_keys=True)
    return int.from_bytes(hashlib.sha256(content.encode()).digest()[:7]) + 1


def _whole(record: MetricRecord, key: str, node: int) -> int:
    value = record.get(key)
    if not isinstance(value, int) or isinstance(value, bool):
        raise ValueError(f"'{key}' that node {node} answers must be a whole number, got {value!r:.100}; {HOW}")
    return value

"""A plan by a method: it groups the devices of a table as it would those of a simulated fleet, and a cloud round is predicted."""

import numpy as np
from numpy.typing import NDArray

from fedloom.grouping import Need, View
from fedloom.methods import Method
from fedloom.methods.method import Allotment
from fedloom.planning.costs import Work
from fedloom.planning.devices import Devices
from fedloom.planning.prediction import Plan, predict

MOST_PAIRED = 3000  # devices up to which methods may look at all pairs of them


def make_plan(devices: Devices, method: Method, work: Work, rng: np.random.Generator) -> Plan:
    """Ask the method who aggregates with whom, and predict a cloud round. What the method codes is counted coded; one that codes
    nothing is counted as the work says, so that it can be compared with one that does."""
    unknown = sorted(method.needs & {Need.PREDICTIONS, Need.SIGNATURES})
    if unknown:
        raise ValueError(f"{method.name} groups by {' and '.join(unknown)}, which a table of devices does not have")
    if Need.LABELS in method.needs and not devices.label_counts.shape[1]:
        raise ValueError(f"{method.name} groups by samples per class; add columns label_<name>, one per class")
    if Need.LINKS in method.needs and devices.n > MOST_PAIRED:
        raise ValueError(
            f"{method.name} compares all pairs of devices and plans at most {MOST_PAIRED:,} of them, got {devices.n:,}; "
            "use a method that needs no link rates, or plan parts of the fleet"
        )
    work = work.by(method)
    view = View(
        needs=method.needs,
        _snapshot=devices.snapshot(8.0 * work.up_bytes, 8.0 * work.down_bytes),
        cloud_round=0,
        all_n_samples=devices.n_samples,
        all_label_counts=devices.label_counts,
        all_step_s=devices.step_s * work.trainings,
        all_work_s=work.local_steps * devices.step_s * work.trainings,
        model_bits=8.0 * work.model_bytes,
        up_bits=8.0 * work.up_bytes,
        down_bits=8.0 * work.down_bytes,
        collect=lambda kind, layers: _feature(devices, kind),
        edge_rounds=work.edge_rounds,
    )
    topology = method.group.rule(view, rng)
    allotment = Allotment() if method.allot is None else method.allot(view, topology, rng)
    return predict(devices, method, topology, work, allotment)


def _feature(devices: Devices, kind: str) -> NDArray[np.floating]:
    """What a method asks for, as far as it is known, else zero: gradients stand for updates, of which they are the direction."""
    if kind == "labels":
        return devices.label_counts.astype(np.float64)
    directions = devices.directions
    return np.zeros((devices.n, 1)) if directions is None else directions

"""The summary of a run, and what else one wants to know of it."""

import math
import os
import platform
import time
from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np

from fedloom._versions import version_of

if TYPE_CHECKING:  # reading records needs no torch
    from fedloom.simulator import Place, Simulation
    from fedloom.simulator.sick import Sick

MOST_SENDERS = 5  # of rejected updates, that are named
PACKAGES = ("fedloom", "torch", "numpy", "scipy", "polars", "safetensors", "pydantic")


def summarise(simulation: "Simulation", wall_s: float, resumed: bool) -> dict[str, Any]:
    """Final and best measures, totals by hop, and how long it took."""
    measures = simulation.measures
    best = max(measures, key=lambda m: m.get("accuracy", -m.get("loss", math.inf)))
    ledger, sick = simulation.federation.ledger, simulation.federation.held.sick
    left_out: dict[str, Any] = {} if not sick else {"rejected": sick.counts}
    if simulation.method.audit is not None:
        left_out["found"] = [f"{kind} {host}" for kind, host in simulation.federation.auditing.found]
    return {
        "final": measures[-1],
        "best": best,
        "ledger": ledger.table(),
        "setup_energy_j": ledger.feature_j,
        "topologies": [_topology(simulation, place) for place in simulation.places],
        "wall_s": wall_s,
        "engine_s": simulation.engine_s,
        "jobs_per_batch": float(np.mean(simulation.batches)) if simulation.batches else None,
        "resumed": resumed,
        "warnings": [*simulation.warnings, *rejections(sick), *convictions(simulation)],
        **_privacy(simulation),
    } | left_out


def _privacy(simulation: "Simulation") -> dict[str, Any]:
    """Of every client what it has given away, if noise protects it, and what its method reveals beside."""
    found = simulation.epsilons()
    if not found:
        return {}
    return {
        "privacy": {
            "delta": simulation.scenario.evaluation.delta,
            "epsilon": {whom: values.tolist() for whom, values in found.items()},
            "revealed_beside": sorted(simulation.method.needs),
        }
    }


def rejections(sick: "Sick | None") -> list[str]:
    """A sentence on updates that were left out, if any were."""
    if not sick:
        return []
    senders = Counter(f"{who} {k}" for who, k, *_ in sick.table)
    shown = ", ".join(f"{name} ({n})" for name, n in senders.most_common(MOST_SENDERS))
    more = f" and {len(senders) - MOST_SENDERS} more" if len(senders) > MOST_SENDERS else ""
    causes = ", ".join(f"{n} {cause}" for cause, n in sick.counts.items())
    return [f"{len(sick)} updates were left out ({causes}), sent by {shown}{more}"]


def convictions(simulation: "Simulation") -> list[str]:
    """A sentence on aggregators that were found to lie, if any were."""
    found = [f"{kind} {host}" for kind, host in simulation.federation.auditing.found]
    if not found:
        return []
    return [f"audits found that {len(found)} sent what they had not merged, and left them out: {', '.join(found)}"]


def _topology(simulation: "Simulation", place: "Place") -> dict[str, Any]:
    """A topology in figures, from the cloud round in which it came up.

    links: between clients and aggregators; resource_factor: links for each client; mixing_factor: how slowly aggregators
    agree by themselves, 1 without overlaps; label_distance: from the labels of an aggregator to all, mean and largest.
    """
    from fedloom.bounds import label_distance
    from fedloom.grouping import mixing_factor

    cover = place.topology.cover
    bridged = bool((place.topology.n_reached > 1).any())
    figures: dict[str, Any] = {
        "cloud_round": place.cloud_round,
        "aggregators": int(cover.any(axis=1).sum()),
        "links": int(cover.sum()),
        "resource_factor": float(cover.sum() / cover.any(axis=0).sum()),
    }
    figures["mixing_factor"] = (
        mixing_factor(cover, simulation.world.n_samples) if bridged else float(figures["aggregators"] > 1)
    )
    if simulation.label_counts.any():
        distance = label_distance(cover[cover.any(axis=1)], simulation.label_counts)
        figures["label_distance"] = {"mean": float(distance.mean()), "most": float(distance.max())}
    return figures


def circumstances(simulation: "Simulation") -> dict[str, Any]:
    """What else one wants to know of a run."""
    snapshot = simulation.world.fleet.snapshot(0)
    return {
        "clients": {
            "n_samples": simulation.world.n_samples.tolist(),
            "label_counts": simulation.label_counts.tolist(),
        },
        "cells": {
            "centre_m": snapshot.cell_m.tolist(),
            "radius_m": [r if math.isfinite(r) else None for r in snapshot.radius_m.tolist()],
            "server_m": snapshot.server_m.tolist(),
        },
        "trained_by": simulation.engine_name,
        "versions": {name: version_of(name) for name in PACKAGES},
        "machine": {
            "system": platform.system(),
            "processor": platform.machine(),
            "cores": os.cpu_count(),
            "python": platform.python_version(),
        },
        "started": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
    }

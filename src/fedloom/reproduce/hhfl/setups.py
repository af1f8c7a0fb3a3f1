"""The experiments of HHFL: cases, models, steps, and the settings of every run."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from fedloom.reproduce.paper import Setup, Setups

HFL, HHFL = "hierfedavg", "hhfl"
NAMES = {HFL: "HFL", HHFL: "HHFL"}
CASES = (1, 2, 3, 4, 5, 6)
ALIKE, APART = (1, 2, 3), (4, 5, 6)  # edge servers with the same labels, with different ones
TOTAL_STEPS = {"laptop": 1500, "paper": 3000}
SWEEP = {"laptop": (0, 3, 9, 15, 27, 57), "paper": (0, 3, 6, 9, 12, 15, 21, 27, 33, 39, 45, 51, 57)}
SWEEP_CASES = {"laptop": (1, 5), "paper": (1, 2, 3, 4, 5)}
PERIODS = (2, 5, 10, 20)
PERIOD_CASES = {"laptop": (5,), "paper": APART}
PERIOD_STEPS = {"laptop": 2400, "paper": 3000}  # whole numbers of cloud rounds for all periods
SAMPLES = {  # of each client, by case
    "mnist": {1: 950, 2: 984, 3: 902, 4: 902, 5: 974, 6: 974},
    "cifar10": {1: 870, 2: 828, 3: 832, 4: 832, 5: 832, 6: 832},
}
MODELS: dict[str, dict[str, Any]] = {
    "softmax": {"dataset": "mnist", "model": {"kind": "softmax"}, "lr": 0.1, "ratio": 0.992},
    "cnn": {"dataset": "mnist", "model": {"kind": "cnn"}, "lr": 0.02, "ratio": 0.992},
    "vgg": {"dataset": "cifar10", "model": {"kind": "vgg"}, "lr": 0.07, "ratio": 0.9},
}

RIVALS = {"msfedavg": "MS-FedAvg", "fedmes": "FedMes"}


def setup(
    case: int,
    method: str,
    total_steps: int,
    *,
    local_steps: int = 5,
    edge_rounds: int = 5,
    overlap: int | None = None,
    model: str = "softmax",
    width: float | None = None,
) -> Setup:
    """One of the paper's experiments. overlap: clients in overlaps, by default those of the case."""
    kind = MODELS[model]
    dataset = kind["dataset"]
    if overlap is None:
        overlap = 21 if case == 6 else 15
    network = kind["model"] | ({} if width is None else {"width": width})
    big = {"momentum": 0.9, "weight_decay": 5e-4} if model == "vgg" else {}
    scenario = {
        "name": "hhfl",
        "fleet": {
            "n_devices": 57,
            "cells": {"kind": "grid", "shape": "triangle"},
            "placement": {"kind": "three-cells", "overlap": overlap},
            "device_edge": {"up": {"kind": "fixed", "seconds": 5}, "down": {"kind": "fixed", "seconds": 5}},
            "edge_cloud": {"up": {"kind": "fixed", "seconds": 0.5}, "down": {"kind": "fixed", "seconds": 0.5}},
            "compute": {"law": {"kind": "fixed", "value": 0.2}},
        },
        "task": {
            "dataset": dataset,
            "standardise": model == "vgg",
            "partition": {"kind": "edge-case", "case": case},
            "model": network,
        },
        "training": {
            "batch_size": 20,
            "drop_last": True,
            "local_steps": local_steps,
            "edge_rounds": edge_rounds,
            "cloud_rounds": total_steps // (local_steps * edge_rounds),
            "lr": kind["lr"],
            "lr_decay": {
                "kind": "exponential",
                "ratio": kind["ratio"],
                "every_steps": math.ceil(SAMPLES[dataset][case] / 20),
            },
            **big,
        },
        "evaluation": {"local_samples": 0} | ({} if model == "softmax" else {"models": "global"}),
    }
    return Setup(scenario=scenario, method=method)


def both(cases: Iterable[int], total_steps: int, **options: Any) -> Setups:
    """HFL and HHFL for every case, by label (case, method)."""
    return {(c, m): setup(c, m, total_steps, **options) for c in cases for m in (HFL, HHFL)}


def sweep_setups(scale: str) -> Setups:
    """HFL, and HHFL with so many clients in overlaps, by label (case, clients)."""
    total = TOTAL_STEPS[scale]
    return {
        **{(c, 0): setup(c, HFL, total) for c in SWEEP_CASES[scale]},  # the same at every proportion
        **{(c, m): setup(c, HHFL, total, overlap=m) for c in SWEEP_CASES[scale] for m in SWEEP[scale] if m},
    }


def period_setups(scale: str, name: str) -> Setups:
    """Both methods with other local steps or edge rounds (`name`), by label (case, method, period)."""

    def at(case: int, method: str, n: int) -> Setup:
        options: dict[str, Any] = {name: n}
        return setup(case, method, PERIOD_STEPS[scale], **options)

    return {(c, m, n): at(c, m, n) for c in PERIOD_CASES[scale] for m in (HFL, HHFL) for n in PERIODS}


def others_setups(scale: str) -> Setups:
    """Both methods, HHFL with two links a client, and rivals, by label (case, method)."""
    total = TOTAL_STEPS[scale]
    methods = (HFL, HHFL, "hhfl:max_links=2", *RIVALS)
    return {(c, m): setup(c, m, total) for c in APART for m in methods}


def network_setups(
    model: str, steps: Mapping[str, int], cases: Mapping[str, Sequence[int]], width: float | None = None
) -> Callable[[str], Setups]:
    """Setups by scale of a larger model, at laptop scale of this width."""
    return lambda scale: both(cases[scale], steps[scale], model=model, width=width if scale == "laptop" else None)

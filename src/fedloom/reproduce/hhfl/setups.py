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
HOME, SHARED, RANDOM = "home", "shared", "random"
LAYOUTS = {  # who holds what: classes of clients in overlaps, and who is there
    HOME: APART,
    SHARED: APART,
    RANDOM: (4, 5),  # case 6 is case 5 with more clients in overlaps; here their number is left to chance
}
RADIUS_M = 665.0  # with which 15 of 57 clients are in overlaps on average, if they are drawn
THEORY_CASE = 5
GROWING = "growing"
STAGES = ((0, 2, 2), (400, 5, 5), (1600, 10, 10))  # from which step on, E, G
FIXED = ((2, 2), (5, 5), (10, 10))

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
    layout: str = HOME,
) -> Setup:
    """One of the paper's experiments. overlap: clients in overlaps, by default those of the case. layout: see LAYOUTS."""
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
            "cells": {"kind": "grid", "shape": "triangle"} | ({"radius_m": RADIUS_M} if layout == RANDOM else {}),
            "placement": {"kind": "cells"} if layout == RANDOM else {"kind": "three-cells", "overlap": overlap},
            "device_edge": {"up": {"kind": "fixed", "seconds": 5}, "down": {"kind": "fixed", "seconds": 5}},
            "edge_cloud": {"up": {"kind": "fixed", "seconds": 0.5}, "down": {"kind": "fixed", "seconds": 0.5}},
            "compute": {"law": {"kind": "fixed", "value": 0.2}},
        },
        "task": {
            "dataset": dataset,
            "standardise": model == "vgg",
            "partition": {"kind": "edge-case", "case": case} | ({"overlap_data": "shared"} if layout == SHARED else {}),
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


def period_setups(scale: str, name: str, model: str = "softmax") -> Setups:
    """Both methods with other local steps or edge rounds (`name`), by label (case, method, period)."""

    def at(case: int, method: str, n: int) -> Setup:
        options: dict[str, Any] = {name: n}
        return setup(case, method, PERIOD_STEPS[scale], model=model, **options)

    return {(c, m, n): at(c, m, n) for c in PERIOD_CASES[scale] for m in (HFL, HHFL) for n in PERIODS}


def drift_setups(scale: str) -> Setups:
    """Runs of Figures 12 and 13, by label (symbol, case, method, period)."""
    named = {"E": period_setups(scale, "local_steps"), "G": period_setups(scale, "edge_rounds")}
    return {(symbol, *label): s for symbol, setups in named.items() for label, s in setups.items()}


def theory_setups(scale: str) -> Setups:
    """Runs with what bounds are made of, by label (symbol, method, period)."""
    made = {}
    for symbol, name in (("E", "local_steps"), ("G", "edge_rounds")):
        for n in PERIODS:
            for m in (HFL, HHFL):
                options: dict[str, Any] = {name: n}
                made[symbol, m, n] = setup(THEORY_CASE, m, PERIOD_STEPS[scale], **options).with_theory()
    return made


def growing_setups(scale: str) -> Setups:
    """HHFL with fixed periods and with growing ones, by label (case, name of the periods)."""
    total = TOTAL_STEPS[scale]
    stages = "hhfl:stages=" + str([list(stage) for stage in STAGES]).replace(" ", "")
    return {
        **{
            (c, f"E = {e}, G = {g}"): setup(c, HHFL, total, local_steps=e, edge_rounds=g)
            for c in APART
            for e, g in FIXED
        },
        **{(c, GROWING): _to_the_end(setup(c, stages, total), total) for c in APART},
    }


def _to_the_end(made: Setup, total_steps: int) -> Setup:
    """For so many local steps, whatever the periods are."""
    training = dict(made.scenario["training"]) | {"total_steps": total_steps}
    return Setup(scenario=dict(made.scenario) | {"training": training}, method=made.method)


def layout_setups(scale: str) -> Setups:
    """Both methods with other layouts, by label (layout, case, method)."""
    total = TOTAL_STEPS[scale]
    return {
        (layout, c, m): setup(c, m, total, layout=layout)
        for layout, cases in LAYOUTS.items()
        for c in cases
        for m in (HFL, HHFL)
    }


def criterion_setups(scale: str) -> Setups:
    """Both methods with both models, by label (model, case, method)."""
    total = TOTAL_STEPS[scale]
    return {(model, *label): s for model in ("softmax", "cnn") for label, s in both(APART, total, model=model).items()}


def others_setups(scale: str) -> Setups:
    """Both methods, HHFL with two links a client, and rivals, by label (case, method)."""
    total = TOTAL_STEPS[scale]
    methods = (HFL, HHFL, "hhfl:max_links=2", *RIVALS)
    return {(c, m): setup(c, m, total) for c in APART for m in methods}


def network_setups(
    model: str,
    steps: Mapping[str, int],
    cases: Mapping[str, Sequence[int]],
    width: Mapping[str, float] | None = None,
) -> Callable[[str], Setups]:
    """Setups by scale of a larger model, of these widths."""
    return lambda scale: both(cases[scale], steps[scale], model=model, width=(width or {}).get(scale))

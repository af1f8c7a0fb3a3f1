"""The experiments of CSAHFL: the settings of every run."""

import math
from collections.abc import Sequence

import numpy as np

from fedloom.reproduce.csahfl.published import (
    ABLATIONS,
    CIFAR,
    EDGE_SHARE,
    FASHION,
    FEDAT,
    FEDAVG,
    FLAT,
    FULL,
    HALF,
    HIER,
    METHODS,
    MOBILE,
    NO_SA,
    STATIC,
    SVHN,
)
from fedloom.reproduce.paper import Setup, Setups

ALPHAS = (0.25, 0.5, 1.0, 1.5, 2.0)
ALL = "all"  # instead of alpha: edges wait for everybody
EPOCHS = {"laptop": (2, 5, 10), "paper": (5, 10, 20, 30)}  # the second is that of the other experiments
SWEEP_EPOCHS = {"laptop": EPOCHS["laptop"], "paper": (5, 10, 20)}
SWEEP_ALPHAS = {"laptop": ALPHAS, "paper": (0.5, 1.5, 2.0)}
BETAS = {"laptop": (1, 2, 5, 10, 15, 20, 30, 90), "paper": (1, 5, 20, 90)}
CORE = (FEDAVG, HIER, FULL)
BEST_OTHER = "HiFlash_r"  # the original is the best of the others on CIFAR-10 and SVHN
READ_AS = {  # options of CSAHFL, and clients of an edge in a round
    "as kept": ("", 10),
    "5 clients of an edge": ("", 5),
    "all 40 clients of an edge": ("", 40),
    "clusters go on with their own models": (":after_cloud=cluster", 10),
    "angles pairwise": (":metric=pairwise_abs", 10),
    "average linkage": (":linkage=average", 10),
    "angles pairwise, average linkage": (":metric=pairwise_abs:linkage=average", 10),
    "own models, all 40 clients": (":after_cloud=cluster", 40),
}
CLOCKS = {"literal clock": 0.0, "jitter": 0.3}
STALE = ("delta", "renorm", "literal")
SAMPLES = {FASHION: 110, CIFAR: 90, SVHN: 85}
BETA = {FASHION: "", CIFAR: ":beta=4", SVHN: ":beta=2"}  # where clients are that much closer to each other
FEDAT_ROUNDS = 2.5  # times those of the others, so that it is not over before HierFedAVG


def setup(
    name: str,
    scale: str,
    *,
    place: str = STATIC,
    setting: str = HALF,
    data: str = FASHION,
    options: str = "",
    epochs: int | None = None,
    jitter: float = 0.0,
    clients: int = 10,
) -> Setup:
    """One of the paper's experiments. epochs: of full local work, by default the scale's, for which delays are drawn. clients: of
    an edge in a round."""
    small = scale == "laptop"
    session = EPOCHS[scale][1]
    rounds = 12 if small else 50
    model = {"kind": "mlp", "hidden": [64]} if small and data == FASHION else {"kind": "lenet5"}
    compute = {
        "law": {"kind": "normal", "mean": 63.0, "std": 40.0, "low": 2.0, "high": 128.0},
        "unit": "seconds-per-session",
        "session_epochs": session,
    }
    corners = [(1000 * math.cos(a), 1000 * math.sin(a)) for a in 2 * math.pi * np.arange(5) / 5]
    fleet = {
        "n_devices": 50 if small else 200,
        "cells": {"kind": "explicit", "centres_m": [(round(x), round(y)) for x, y in corners], "radius_m": 500.0},
        "placement": {"kind": "cells"},
        "device_edge": {"up": {"kind": "rate", "bit_s": 1e7}, "down": {"kind": "free"}},
        "compute": compute | ({"jitter_sigma": jitter} if jitter else {}),
    }
    if place == MOBILE:
        fleet["mobility"] = {"p_stay": 0.5, "neighbours": "ring", "every": "edge-round"}
    partition = {
        "kind": "dual-layer",
        "edge_share": EDGE_SHARE[setting],
        "classes_per_client": 2,
        "samples_per_class": 60 if small else SAMPLES[data],
    }
    scenario = {
        "name": "csahfl",
        "fleet": fleet,
        "task": {"dataset": data, "standardise": True, "partition": partition, "model": model},
        "training": {
            "batch_size": 10,
            "local_epochs": epochs or session,
            "edge_rounds": 3,
            "cloud_rounds": math.ceil(FEDAT_ROUNDS * rounds) if name == FEDAT else rounds,
            "clients_per_round": clients,
            "lr": 0.05 if small else 0.01,
        },
        "evaluation": {"local_samples": 0} | ({"every": 5} if not small and data != FASHION else {}),
    }
    return Setup(scenario=scenario, method=(METHODS | ABLATIONS)[name] + options)


def methods_setups(
    scale: str,
    places: Sequence[str] = (STATIC, MOBILE),
    settings: Sequence[str] = tuple(EDGE_SHARE),
    methods: Sequence[str] = tuple(METHODS),
    data: str = FASHION,
    clients: int = 10,
) -> Setups:
    """By label (place, setting, method); without edges only static ones."""
    return {
        (place, setting, m): setup(
            m, scale, place=place, setting=setting, data=data, options=BETA[data] if m == FULL else "", clients=clients
        )
        for place in places
        for setting in settings
        for m in methods
        if not (place == MOBILE and m in FLAT)
    }


def table_setups(scale: str, clients: int = 10) -> Setups:
    """Tables 1 and 2: all methods, at paper scale the three that say most."""
    return methods_setups(scale, methods=CORE if scale == "paper" else tuple(METHODS), clients=clients)


def one_setting(scale: str, data: str) -> Setups:
    """All methods, at paper scale some, on other data: ENIID50%, static."""
    methods = (*CORE[:-1], BEST_OTHER, FULL) if scale == "paper" else tuple(METHODS)
    return methods_setups(scale, (STATIC,), (HALF,), methods, data)


def table_3_setups(scale: str) -> Setups:
    """CSAHFL and itself without a part, at paper scale for ENIID50%, by label (place, setting, method)."""
    return {
        (place, setting, m): setup(m, scale, place=place, setting=setting)
        for place in (STATIC, MOBILE)
        for setting in ((HALF,) if scale == "paper" else EDGE_SHARE)
        for m in (FULL, *ABLATIONS)
    }


def readings_setups(scale: str) -> Setups:
    """CSAHFL read in one way after the other, static, by label (reading, setting)."""
    return {
        (name, setting): setup(FULL, scale, setting=setting, options=options, clients=clients)
        for name, (options, clients) in READ_AS.items()
        for setting in EDGE_SHARE
    }


def fig_4a_setups(scale: str) -> Setups:
    """CSAHFL by label (alpha, epochs)."""
    labelled: dict[tuple[float | str, int], Setup] = {}
    for epochs in SWEEP_EPOCHS[scale]:
        for alpha in SWEEP_ALPHAS[scale]:
            options = "" if alpha == 1.5 else f":alpha={alpha:g}"
            labelled[alpha, epochs] = setup(FULL, scale, epochs=epochs, options=options)
        if scale == "laptop" or epochs == EPOCHS[scale][1]:
            labelled[ALL, epochs] = setup(NO_SA, scale, epochs=epochs)
    return labelled


def fig_4b_setups(scale: str) -> Setups:
    """CSAHFL by label ("beta", degrees)."""
    return {("beta", b): setup(FULL, scale, options="" if b == 20 else f":beta={b}") for b in BETAS[scale]}


def stale_setups(scale: str) -> Setups:
    """CSAHFL by label (clock, how late updates count)."""
    return {
        (clock, mode): setup(FULL, scale, jitter=sigma, options="" if mode == STALE[0] else f":stale_mode={mode}")
        for clock, sigma in CLOCKS.items()
        for mode in STALE
    }

"""The experiments of DDC: the settings of every run."""

from collections.abc import Sequence
from typing import Any

from fedloom.reproduce.ddc.published import (
    ALPHAS,
    CAPACITIES,
    CIFAR,
    CLUSTERED,
    DATASETS,
    FASHION,
    METHODS,
    PROPOSED,
    ROUNDS,
    SELDOM,
    TAU,
)
from fedloom.reproduce.paper import Setup, Setups

HARD_TAU, HARD_ROUNDS = (1, 10), 40
HARD_AT = (10, 20, 40)
THEORY_LR = 0.01
THEORY: dict[str, dict[str, Any]] = {  # settings in which the bound is looked at
    "as published": {"tau": TAU},
    "few classes, seldom": {"tau": HARD_TAU, "concentration": 0.1, "least": 10},
}
LONG = 400  # local rounds, if the published 200 are global ones
FACTORS = (1.0, 0.3, 3.0, 10.0)  # of D_ref
FULL_S = 900.0  # of the full search on 100 devices, by extrapolation from 22 s on 40
NETWORK: dict[tuple[str, str], dict[str, Any]] = {
    (FASHION, "laptop"): {"kind": "mlp", "hidden": [34], "pool": 2},
    (FASHION, "paper"): {"kind": "cnn-small"},
    (CIFAR, "laptop"): {"kind": "cnn-small", "channels": [8, 16]},
    (CIFAR, "paper"): {"kind": "cnn-small", "channels": [8, 16]},
}
POWER_W, BAND_HZ = 0.01, 1e6
LINK = {"kind": "radio", "power_w": POWER_W, "bandwidth_hz": BAND_HZ, "noise_dbm_hz": -173.0}


def setup(
    name: str,
    scale: str,
    *,
    data: str = FASHION,
    n: int = 100,
    options: str = "",
    rounds: int | None = None,
    limit: int | None = None,
    tau: tuple[int, int] = TAU,
    concentration: float = 0.5,
    least: int = 32,
    local_steps: int | None = None,
    lr: float = 0.01,
    every: int = 1,
    models: str | None = None,
    beside_s: float = 0.0,
) -> Setup:
    """One of the paper's experiments: a method by its name there, with further options.

    rounds, limit: by default those of the scale. least: samples of a device, fewer in proportion if data are limited.
    local_steps: mini-batches of a round, by default an epoch. models: whose are evaluated, by default heads' beside the server's.
    beside_s: seconds of a run beside training, for what it may take.
    """
    if scale == "laptop" and data == CIFAR:
        rounds, limit = rounds or 40, limit or 5000
    rounds = rounds or (100 if scale == "laptop" else ROUNDS)
    work, averages = (tau[1], 1) if name == SELDOM else (tau[0], tau[1] // tau[0])
    unit = {"local_epochs": work} if local_steps is None else {"local_steps": work * local_steps}
    scenario = {
        "name": "ddc",
        "model_bits": 224_000,
        "fleet": {
            "n_devices": n,
            "placement": {"kind": "disc", "radius_m": 100.0},
            "server_m": [1000.0, 0.0],
            "device_device": LINK,
            "head_broadcast": "free",
            "device_cloud": {"via": "direct", "up": LINK, "down": {"kind": "free"}},
        },
        "task": {
            "dataset": DATASETS[data],
            **({"data_limit": limit} if limit else {}),
            "partition": {
                "kind": "dirichlet",
                "concentration": concentration,
                "min_samples": least if limit is None else max(1, least * limit // 60_000),
            },
            "model": NETWORK[data, scale],
        },
        "training": {
            "batch_size": 32,
            **unit,
            "edge_rounds": averages,
            "cloud_rounds": rounds // tau[1],
            "lr": lr,
        },
        "evaluation": {"local_samples": 0, "every": every} | ({} if models is None else {"models": models}),
    }
    return Setup(scenario=scenario, method=METHODS[name] + options, beside_s=beside_s)


def priced(name: str, scale: str, **settings: Any) -> Setup:
    """A single cloud round: enough for who clusters with whom and what it costs."""
    limit = 10_000 if scale == "laptop" else None
    return setup(name, scale, rounds=TAU[1], limit=limit, **settings)


def trained(name: str, scale: str, data: str = FASHION, options: str = "", rounds: int = LONG) -> Setup:
    """All rounds. At paper scale with the accuracy of all models that somebody holds, by default for 400 rounds, which are 200
    as well: nothing in a run depends on when it ends."""
    if scale == "paper":
        return setup(name, scale, data=data, options=options, rounds=rounds, every=20, models="devices")
    if data == CIFAR:  # few steps on few images, so larger ones
        return setup(name, scale, data=data, options=options, every=2, lr=0.1)
    return setup(name, scale, data=data, options=options, every=5)


def methods_setups(scale: str, data: Sequence[str]) -> Setups:
    """All methods on these data, by label (data, method); at paper scale only the paper's own."""
    return {(d, m): trained(m, scale, d) for d in data for m in METHODS if m != SELDOM or scale != "paper"}


def table_2_setups(scale: str) -> Setups:
    """Capacity 20 is trained, 10 and the other weighting of c(C) are priced; at paper scale alpha 0.5 is Table 1's run."""
    labelled: dict[tuple[int, str, float], Setup] = {}
    for capacity in CAPACITIES:
        of_capacity = f":capacity={capacity}" if capacity != CAPACITIES[0] else ""
        for alpha in ALPHAS:
            options = of_capacity + (f":alpha={alpha:g}" if alpha != 0.5 else "")
            labelled[capacity, "cluster", alpha] = (
                priced(PROPOSED, scale, options=options)
                if of_capacity
                else trained(PROPOSED, scale, options=options, rounds=LONG if alpha == 0.5 else ROUNDS)
            )
        options = f"{of_capacity}:weighting=size"
        labelled[capacity, "size", 0.5] = priced(PROPOSED, scale, options=options)
    return labelled


def same_as_alpha(alpha: float, factor: float) -> float:
    """The alpha that does with our D_ref what `alpha` does with D_ref times a factor: only (1 - alpha) / (alpha D_ref) counts.

    >>> same_as_alpha(0.5, 1.0), round(same_as_alpha(0.3, 10.0), 6), same_as_alpha(0.0, 3.0), same_as_alpha(1.0, 3.0)
    (0.5, 0.810811, 0.0, 1.0)
    """
    return factor * alpha / (1 - alpha + factor * alpha)


def joules_setups(scale: str) -> Setups:
    """Clusters for several D_ref, priced, by label (capacity, factor of D_ref, alpha); at alpha 0 and 1 D_ref changes nothing."""
    labelled = {}
    for capacity in CAPACITIES:
        of_capacity = f":capacity={capacity}" if capacity != CAPACITIES[0] else ""
        for factor in FACTORS:
            for alpha in ALPHAS if factor == 1 else ALPHAS[1:-1]:
                same = same_as_alpha(alpha, factor)
                options = of_capacity + (f":alpha={same:g}" if same != 0.5 else "")
                labelled[capacity, factor, alpha] = priced(PROPOSED, scale, options=options)
    return labelled


def search_setups(scale: str) -> Setups:
    """Heads by Algorithm 1 as published and by our faster search, priced, by label (search, alpha)."""
    return {
        (search, alpha): priced(
            PROPOSED,
            scale,
            options=f":search={search}" * (search != "fast") + f":alpha={alpha:g}" * (alpha != 0.5),
            beside_s=FULL_S if search == "full" else 0.0,
        )
        for search in ("full", "fast")
        for alpha in ALPHAS[1:-1]
    }


def hard_setups(scale: str) -> Setups:
    """Few classes per device, rare global averages, 19 mini-batches a round, learning rate 0.05."""
    settings: dict[str, Any] = {"concentration": 0.1, "least": 10, "local_steps": 19, "lr": 0.05}
    return {("hard", m): setup(m, scale, rounds=HARD_ROUNDS, tau=HARD_TAU, **settings) for m in METHODS}


def theory_setups(scale: str) -> Setups:
    """Rounds of single mini-batches, with what bounds are made of, by label (setting, method)."""
    return {
        (setting, m): setup(
            m, scale, local_steps=1, lr=THEORY_LR, rounds=ROUNDS, models="global", **settings
        ).with_theory()
        for setting, settings in THEORY.items()
        for m in CLUSTERED
    }
